"""Processes killed at random, power lost at every write: nothing charged is lost."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from reticent.errors import LedgerError
from reticent.ledger import Cap, Outcome
from tests.ledger.accounts_and_requests import DATASET, asking, nano, opened
from tests.ledger.crashes import KILLED, nursery
from tests.ledger.faulty_disk import sqlite_library
from tests.stats import rejects

needs_library = pytest.mark.skipif(
    sqlite_library() is None, reason="SQLite is linked into Python: no faulty disk"
)


def assert_sound(report: dict[str, Any]) -> None:
    found = dict(report["findings"])
    assert found.pop("charges") > 0
    assert found.pop("replies") > 0
    assert not any(found.values()), found


# 2 x 250 kills, so that two cores share them.
@pytest.mark.parametrize("round_", range(2))
def test_kills_at_random_lose_nothing_on_sqlite(sqlite_url, tmp_path, round_, seed):
    report = nursery(
        act="kill",
        url=sqlite_url,
        diary=tmp_path / "diary",
        kills=250,
        seed=seed * 1000 + round_,
    )
    assert report["done"] == 250
    assert_sound(report)


def test_kills_at_random_lose_nothing_on_postgres(postgres_url, tmp_path, seed):
    report = nursery(
        act="kill", url=postgres_url, diary=tmp_path / "diary", kills=40, seed=seed
    )
    assert report["done"] == 40
    assert_sound(report)


@pytest.mark.long
@pytest.mark.parametrize("round_", range(50))
def test_five_thousand_kills(sqlite_url, tmp_path, round_, seed):
    report = nursery(
        act="kill",
        url=sqlite_url,
        diary=tmp_path / "diary",
        kills=100,
        seed=10**6 + seed * 1000 + round_,
    )
    assert report["done"] == 100
    assert_sound(report)


@pytest.mark.parametrize(
    ("how", "finding"),
    [
        ("reply first", "answers nobody drew"),
        ("acknowledge first", "lost charges"),
        ("draw again", "double draws"),
    ],
)
def test_broken_service_is_found_out(sqlite_url, tmp_path, how, finding):
    report = nursery(act="broken", url=sqlite_url, diary=tmp_path / "diary", how=how)
    assert report["findings"][finding] > 0


@needs_library
@pytest.mark.parametrize("fault", ["torn", "power"])
def test_process_or_power_lost_at_every_write(sqlite_url, tmp_path, fault):
    report = nursery(act="fail", url=sqlite_url, diary=tmp_path / "diary", fault=fault)
    # Two commits, each with pages and a sync of the log, and the log's removal; step by
    # step, and at once.
    assert report["done"]["boundaries"] > 2 * 25
    # A torn last boundary, after the reply, has nothing to tear.
    assert report["done"]["ended"] >= report["done"]["boundaries"] - 2
    assert_sound(report)


@needs_library
@pytest.mark.parametrize(
    ("settings", "sound"),
    [
        ("wal FULL", True),
        # Without a sync a commit is not on the disk.
        ("wal NORMAL", False),
    ],
)
def test_power_lost_after_the_reply(sqlite_url, tmp_path, monkeypatch, settings, sound):
    # The control for the test above, and the reason for the settings.
    monkeypatch.setenv("RETICENT_TEST_SYNCHRONOUS", settings)
    report = nursery(act="power", url=sqlite_url, diary=tmp_path / "diary")
    assert report["done"] == KILLED
    assert rejects(assert_sound, report) is not sound


@needs_library
def test_nothing_is_answered_after_a_failed_write(sqlite_url, tmp_path):
    report = nursery(
        act="fail", url=sqlite_url, diary=tmp_path / "diary", fault="error"
    )
    assert report["done"]["boundaries"] > 2 * 25
    # Every boundary before the reply fails the request; the others are at the close.
    assert report["done"]["failed"] > 2 * 15
    done = report["done"]
    assert done["failed"] + done["after"] == done["boundaries"]
    assert report["done"]["late"] == 0
    assert_sound(report)


def test_process_ended_between_any_two_statements(sql_url, tmp_path):
    report = nursery(
        act="fail", url=sql_url, diary=tmp_path / "diary", fault="statement"
    )
    assert report["done"]["boundaries"] > 2 * 20
    assert report["done"]["ended"] == report["done"]["boundaries"]
    assert_sound(report)


def test_postgres_crash_keeps_what_was_acknowledged(
    postgres_server, postgres_url, open_ledger
):
    ledger = opened(open_ledger(postgres_url), epsilon=100.0)
    receipt = ledger.charge(asking("k1"))
    ledger.settle(receipt, [b"yes"])
    ledger.charge(asking("k2"))
    postgres_server.stop(signal.SIGQUIT)
    try:
        for number in range(2):
            with pytest.raises(LedgerError, match="Nothing was charged"):
                ledger.charge(asking(f"lost{number}"))
    finally:
        postgres_server.start()
    # The server is back, nothing was in doubt, so the same ledger goes on.
    assert ledger.charge(asking("k1")).answers == (b"yes",)
    assert ledger.charge(asking("k2")).outcome is Outcome.SPENT
    assert ledger.charge(asking("lost0")).outcome is Outcome.DRAW
    assert nano(ledger, DATASET) == 3 * 10**8
    ledger.verify()


def test_answer_outlives_a_database_that_goes_away_after_the_charge(
    postgres_server, postgres_url, open_ledger
):
    ledger = opened(open_ledger(postgres_url), epsilon=100.0)
    receipt = ledger.charge(asking("k1"))
    postgres_server.stop(signal.SIGQUIT)
    with ThreadPoolExecutor(1) as pool:
        settling = pool.submit(ledger.settle, receipt, [b"yes"])
        try:
            with pytest.raises(LedgerError, match="Nothing was charged"):
                ledger.charge(asking("other"))
            assert not settling.done()  # it waits for the server
        finally:
            postgres_server.start()
        assert settling.result().answers == (b"yes",)
    assert ledger.charge(asking("k1")).answers == (b"yes",)
    assert nano(ledger, DATASET) == 10**8
    ledger.verify()


def test_full_disk_stops_the_ledger(tmp_path: Path):
    # A real limit on the size of a file, in a process of its own.
    report = nursery(
        act="limit", url=f"sqlite:///{tmp_path / 'ledger.db'}", diary=tmp_path / "diary"
    )
    assert report["done"] == {"stopped": True, "late": 0}
    assert_sound(report)


def test_raised_cap_is_durable(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url))
    ledger.set_cap(DATASET, Cap.basic(epsilon=7.0))
    ledger.close()
    assert open_ledger(sql_url).balance(DATASET).cap == Cap.basic(epsilon=7.0)


def test_a_connection_that_was_cut_is_replaced(postgres_url, open_ledger):
    ledger = opened(open_ledger(postgres_url), epsilon=100.0)
    ledger.charge(asking("k1"))
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    others = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with engine.connect() as connection:
        cut = connection.execute(others).scalars().all()
    engine.dispose()
    assert cut
    assert all(cut)
    assert ledger.charge(asking("k2")).outcome is Outcome.DRAW
    assert nano(ledger, DATASET) == 2 * 10**8
    ledger.verify()
