"""Killed workers forget nothing that a lasting model has answered."""

import pytest

from tests.postgres import postgres_database, postgres_server, postgres_url
from tests.prediction.lasting_crashes import nursery

__all__ = ["postgres_database", "postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("postgres_url")


def check(report, *, workers, kills):
    found = report["findings"]
    counted = {name: found.pop(name) for name in ("told", "questions", "records")}
    assert (report["together"], report["died"]) == (workers, kills)
    assert counted["told"] >= workers * 80
    assert not any(found.values()), found


def test_workers_answer_as_one_and_leave_units_charged_when_killed(url, tmp_path, seed):
    order = {"act": "kill", "url": url, "folder": tmp_path, "seed": seed}
    check(nursery(**order, workers=3, kills=20), workers=3, kills=20)


@pytest.mark.long
@pytest.mark.parametrize("round_", range(5))
def test_five_hundred_kills(url, tmp_path, round_, seed):
    order = {"act": "kill", "url": url, "folder": tmp_path, "seed": f"{round_}/{seed}"}
    check(nursery(**order, workers=2, kills=100), workers=2, kills=100)


def test_broken_workers_are_found_out(tmp_path):
    url, ways = f"sqlite:///{tmp_path / 'ledger.db'}", ["reply first", "forget"]
    report = nursery(act="broken", how=ways, url=url, folder=tmp_path)
    for how in ways:
        assert report[how]["told"] > 0
        assert report[how]["answers not in the log"] > 0
