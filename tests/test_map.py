"""The map and the theorem table say what the tree says."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from reticent.guarantees import rules
from tests import map as pages
from tests.map import MAP, PAGES, THEOREMS, Tree, named, rows, rules_of
from tests.test_layout import MODULES, PACKAGE, ROOT

TREE = Tree()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_says_what_the_tree_says(page):
    filled, faults = PAGES[page]
    text = page.read_text(encoding="utf-8")
    assert faults(text, TREE) == []
    assert filled(text, TREE) == text, "run scripts/map"


def test_every_registered_rule_is_found_in_its_module():
    for room in MODULES:
        importlib.import_module(room)  # rooms register their rules
    found = {
        name: path for path, tree in TREE.sources.items() for name in rules_of(tree)
    }
    for name, known in rules.items():
        path = Path(inspect.unwrap(known.apply).__code__.co_filename)
        if path.is_relative_to(PACKAGE):  # tests register rules of their own
            assert found[name] == path.relative_to(PACKAGE).as_posix()


def test_every_theorem_has_a_module_and_a_test_and_both_name_it():
    listed = rows(THEOREMS.read_text(encoding="utf-8"), "theorems")
    assert len(listed) >= 50
    for name, statement, modules, tests in listed:
        assert len(statement) > 20
        for folder, cell in (("src/reticent", modules), ("tests", tests)):
            for path in re.findall(r"`([^`]+)`", cell):
                text = (ROOT / folder / path).read_text(encoding="utf-8")
                assert name in named(text), path
        assert modules
        assert tests


def test_every_trap_that_is_cited_is_listed():
    text = THEOREMS.read_text(encoding="utf-8").partition("## Seven traps")[2]
    listed = set(re.findall(r"^(\d)\. \*\*", text, re.MULTILINE))
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    cited = {
        number
        for path in sources
        for number in re.findall(r"THEOREMS trap (\d)", path.read_text("utf-8"))
    }
    assert cited
    assert cited <= listed


def test_every_page_that_should_leads_to_the_map():
    for page in ("README.md", "CONTRIBUTING.md"):
        assert "(docs/explain/architecture.md)" in (ROOT / page).read_text("utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert "\nexplain/architecture\n" in index


# What a newcomer looks for, by the words of its row, and what its files must hold.
SOUGHT = {
    "P4": ("class ProjectedWalkClassifier", "ProjectedWalkClassifier("),
    "G16": ("def resample_perfect", "resample_perfect("),
    "the durable charge": ("class GroupCommit", "kill"),
    "the CSV reader": ("class CsvFile", "read_table("),
    "the dashboard's budget card": ("macro bar", "budget"),
}


def reached(sought: str, readme: str, root: Path = ROOT) -> dict[str, str]:
    """Follow each link of the README once; return the files in rows about `sought`."""
    found = {}
    for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", readme):
        page = (root / link).read_text(encoding="utf-8")
        for row in re.findall(r"^\| (.*) \|$", page, re.MULTILINE):
            name, *cells = row.split(" | ")
            if name.partition(":")[0] == sought:
                for folder, cell in zip(
                    ("src/reticent", "tests"), cells[-2:], strict=True
                ):
                    for path in re.findall(r"`([^`]+)`", cell):
                        text = (root / folder / path).read_text(encoding="utf-8")
                        found[f"{folder}/{path}"] = text
    return found


@pytest.mark.parametrize("sought", SOUGHT)
def test_a_newcomer_gets_from_the_readme_to_code_and_test_by_one_link(sought):
    found = reached(sought, (ROOT / "README.md").read_text(encoding="utf-8"))
    for folder, sign in zip(("src/", "tests/"), SOUGHT[sought], strict=True):
        files = [path for path, text in found.items() if path.startswith(folder)]
        assert 1 <= len(files) <= 6  # more than that nobody opens in a minute
        assert any(sign in found[path] for path in files)


@pytest.mark.parametrize("sought", SOUGHT)
def test_without_the_links_a_newcomer_is_lost(sought):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (MAP, THEOREMS):
        link = rf"\({re.escape(page.relative_to(ROOT).as_posix())}(?:#[^)]*)?\)"
        text, links = re.subn(link, "(docs/explain/limits.md)", text)
        assert links
    assert not reached(sought, text)


def test_ids_are_recognised():
    assert named("G6 to G9 and disjoint parts (P4)") == {"G6", "G7", "G8", "G9", "P4"}
    assert named("R1-R3, G3k, `M8[us]`, `P0`, G22-basic") == {
        *("R1", "R2", "R3", "G3", "G22")
    }


# A small tree in which everything is right, and ways to make it wrong.
SOUND = {
    "pyproject.toml": """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["(reticent.hall)", "reticent.cellar | reticent.attic", "reticent.errors"]
""",
    "src/reticent/errors.py": "",
    "src/reticent/hall/__init__.py": "",
    "src/reticent/cellar/__init__.py": "",
    "src/reticent/cellar/wine.py": '@rule("P1-red", name="red")\ndef pour(): ...\n',
    "src/reticent/attic/__init__.py": "",
    "src/reticent/attic/trunk.py": '"""Old hats (P2)."""\nclass Hat: ...\n',
    "tests/cellar/test_wine.py": '"""P1 to P2: both."""\npour()\nHat()\n',
}
ROOMS_PAGE = """
<!-- rooms -->
| room | what |
|---|---|
| `hall` | doors |
| `cellar` | wine |
| `attic` | hats |
<!-- /rooms -->
<!-- layers -->
<!-- /layers -->
<!-- places -->
| to change | look for | code | tests |
|---|---|---|---|
| hats | `Hat` | | `cellar/test_wine.py` |
<!-- /places -->
"""
THEOREM_PAGE = """
<!-- theorems -->
| id | in one line | modules | tests |
|---|---|---|---|
| P1 | Red. | | |
| P2 | Hats. | | |
<!-- /theorems -->
"""


def planted(root: Path, **changes: str | None) -> Tree:
    """Write the sound tree, some files of it changed or left out."""
    for name, text in {**SOUND, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text, encoding="utf-8")
    return Tree(root)


def test_a_sound_tree_fills_the_pages(tmp_path):
    tree = planted(tmp_path)
    assert pages.faults_of_map(ROOMS_PAGE, tree) == []
    assert pages.faults_of_theorems(THEOREM_PAGE, tree) == []
    drawn = pages.filled_map(ROOMS_PAGE, tree)
    assert "```text\nhall\ncellar | attic\nerrors\n```\n" in drawn
    assert "| hats | `Hat` | `attic/trunk.py` | `cellar/test_wine.py` |" in drawn
    assert pages.filled_map(drawn, tree) == drawn
    table = pages.filled_theorems(THEOREM_PAGE, tree)
    assert "| P1 | Red. | `cellar/wine.py` | `cellar/test_wine.py` |" in table
    assert "| P2 | Hats. | `attic/trunk.py` | `cellar/test_wine.py` |" in table


def test_what_moves_is_found_again(tmp_path):
    trunk = SOUND["src/reticent/attic/trunk.py"]
    wine = SOUND["tests/cellar/test_wine.py"]
    tree = planted(
        tmp_path,
        **{"src/reticent/attic/trunk.py": None, "src/reticent/hall/rack.py": trunk},
        **{"tests/cellar/test_wine.py": None, "tests/hall/test_wine.py": wine},
    )
    assert "| `hall/rack.py` | `hall/test_wine.py` |" in pages.filled_map(
        ROOMS_PAGE, tree
    )
    assert pages.faults_of_map(ROOMS_PAGE, tree) == []
    assert pages.faults_of_theorems(THEOREM_PAGE, tree) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"src/reticent/loft/__init__.py": ""}, "the room loft has no line"),
        ({"src/reticent/loft/__init__.py": ""}, "loft is in no layer"),
        ({"src/reticent/hall/__init__.py": None}, "there is no room hall"),
        ({"src/reticent/attic/trunk.py": ""}, "nothing is called Hat"),
        (
            {"tests/cellar/test_wine.py": None},
            "there is no tests/cellar/test_wine.py, nor one elsewhere",
        ),
    ],
)
def test_what_is_wrong_on_the_map_is_said(tmp_path, changes, fault):
    assert fault in pages.faults_of_map(ROOMS_PAGE, planted(tmp_path, **changes))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"src/reticent/attic/new.py": "# by L3\n"}, "L3 has no row"),
        ({"src/reticent/attic/trunk.py": "# P2\n"}, "no module states P2"),
        ({"tests/cellar/test_wine.py": ""}, "no test names P1 in its docstring"),
        (
            {"tests/cellar/test_wine.py": '"""P1."""\nHat()\n'},
            "tests/cellar/test_wine.py names P1 but uses nothing that states it",
        ),
    ],
)
def test_what_is_wrong_with_a_theorem_is_said(tmp_path, changes, fault):
    tree = planted(tmp_path, **changes)
    assert fault in pages.faults_of_theorems(THEOREM_PAGE, tree)


def test_a_table_of_another_tree_is_noticed(tmp_path):
    text = MAP.read_text(encoding="utf-8")
    assert pages.filled_map(text, planted(tmp_path)) != text
