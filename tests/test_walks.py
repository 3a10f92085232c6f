"""The walks on the map: they are counted rightly, and the page prints the counts."""

from __future__ import annotations

import importlib
import sys
import textwrap
import threading

import pytest

from tests.stats import rejects
from tests.walks import PAGE, TABLE, Tracer, all_walks, library, read, table

HOUSE = {
    "__init__.py": "",
    "_floor.py": "def step(): return 1",
    "hall/__init__.py": "",
    "hall/door.py": """
        from toy_house.kitchen import stove

        def enter(visits):
            from toy_house.hall import late  # what runs on import does not count
            leave()
            for _ in range(visits):
                list(stove.stir())
                leave()

        def leave(): pass
        """,
    "hall/late.py": """
        from toy_house.kitchen import stove

        class Late:
            cooked = stove.cook()
        """,
    "kitchen/__init__.py": "",
    "kitchen/stove.py": """
        from toy_house import _floor

        def cook(): return sum([_floor.step() for _ in range(3)])

        def stir():
            yield cook()
            yield (lambda: 2)()

        def wash():
            from toy_house.hall import door
            door.leave()
        """,
}


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package of two rooms and a ground, to walk through."""
    for name, text in HOUSE.items():
        path = tmp_path / "toy_house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "toy_house"
    for name in [name for name in sys.modules if name.startswith("toy_house")]:
        del sys.modules[name]


def walk(house, *, visits, helper):
    door = importlib.import_module("toy_house.hall.door")
    stove = importlib.import_module("toy_house.kitchen.stove")
    tracer = Tracer(house)
    with tracer.installed(), tracer.recording():
        door.enter(visits)
        if helper:
            thread = threading.Thread(target=stove.wash)
            thread.start()
            thread.join()
    door.enter(1)  # nobody records it
    return tracer


def test_a_walk_is_counted(house):
    tracer = walk(house, visits=1, helper=True)
    hall, kitchen, ground = ["hall"], ["kitchen"], ["ground"]
    assert tracer.rooms() == [
        # enter, leave; stir, cook; three steps; the lambda; leave
        hall * 2 + kitchen * 2 + ground * 3 + kitchen + hall,
        kitchen + hall,
    ]
    assert tracer.counts() == {
        "functions": 7,
        "files": 3,
        "rooms": 2,
        "changes": 2 + 1,
        "threads": 2,
    }


def test_every_visit_to_another_room_is_noticed(house):
    few, many = (walk(house, visits=n, helper=False).counts() for n in (1, 3))
    assert many["changes"] == few["changes"] + 2 * 2
    assert many["functions"] == few["functions"]
    none = walk(house, visits=0, helper=False).counts()
    assert none["changes"] == 0
    assert none["threads"] == none["rooms"] == 1


def close(found, stored):
    """Assert that counts are about what is stored."""
    for name, counts in found.items():
        for what, number in counts.items():
            slack = max(3, stored[name][what] / 10)
            assert abs(number - stored[name][what]) <= slack, (name, what, number)


def test_the_library_walk_is_about_what_the_map_says():
    # If not, run scripts/walks --write, which stores the counts that the map prints.
    found = {name: counts for name, (counts, _) in all_walks((library,)).items()}
    assert set(found) == {"fit", "predict"}
    close(found, read()["after"])
    more = {**found["fit"], "changes": 2 * found["fit"]["changes"]}
    assert rejects(close, {"fit": more}, read()["after"])


def test_the_map_prints_the_stored_walks():
    stored = read()
    assert set(stored["before"]) == set(stored["after"])
    assert TABLE.findall(PAGE.read_text(encoding="utf-8")) == [table(stored)]
