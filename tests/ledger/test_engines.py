"""Databases are opened so that a commit that returned is on the disk."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from reticent.errors import InvalidParameterError, LedgerError
from reticent.ledger import LedgerDatabase, Outcome, SQLLedger
from reticent.ledger.sql import engines, store, transactions
from reticent.ledger.sql.engines import open_engine, sqlite_settings
from tests.ledger.accounts_and_requests import asking, opened
from tests.postgres import PostgresServer


def test_every_sqlite_connection_is_durable(sqlite_url):
    engine = open_engine(sqlite_url)
    journal, synchronous = sqlite_settings()
    with engine.connect() as one, engine.connect() as two:
        for connection in (one, two):
            levels = {"FULL": 2, "EXTRA": 3}
            found = connection.exec_driver_sql("PRAGMA synchronous").scalar()
            assert found == levels[synchronous]
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == journal
    engine.dispose()


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_both_journals_work(sqlite_url, open_ledger, monkeypatch, journal):
    level = "FULL" if journal == "wal" else "EXTRA"
    monkeypatch.setattr(engines, "sqlite_settings", lambda: (journal, level))
    ledger = opened(open_ledger(sqlite_url))
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW
    ledger.close()
    # A file left by one version is taken over by another.
    other = ("delete", "EXTRA") if journal == "wal" else ("wal", "FULL")
    monkeypatch.setattr(engines, "sqlite_settings", lambda: other)
    assert open_ledger(sqlite_url).verify().charges == 1


def test_nobody_commits_while_the_log_is_copied(sqlite_url, open_ledger, monkeypatch):
    """SQLite before 3.51.3 can lose a commit that comes then."""
    ledger = opened(open_ledger(sqlite_url))
    ledger.charge(asking("k"))
    store, found = ledger._store, []
    raw = store._engine.raw_connection

    def copying():
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
            found.append("committed")
        except sqlite3.OperationalError as error:
            found.append(str(error))
        finally:
            other.close()
        return raw()

    monkeypatch.setattr(store._engine, "raw_connection", copying)
    transactions.fold_log(store._kept)
    assert found == ["database is locked"]
    # And no connection copies the log by itself.
    with store.reading() as connection:
        asked = connection.exec_driver_sql("PRAGMA wal_autocheckpoint")
        assert asked.scalar() == 0


LOOKING = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1])
print(held.execute("SELECT count(*) FROM ledger_entries").fetchone()[0])
held.close()
"""


def test_somebody_who_looks_does_not_remove_the_log(sqlite_url, open_ledger):
    """A second store in a process once made it lose its locks on the file.

    The next one who closed the database then removed the log, and what was charged
    afterwards was lost.
    """
    path = sqlite_url.removeprefix("sqlite:///")

    def entries():
        command = [sys.executable, "-c", LOOKING, path]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout)

    ledger = opened(open_ledger(sqlite_url))
    with contextlib.closing(LedgerDatabase(sqlite_url)):
        before = entries()
        assert Path(path + "-wal").exists()
        ledger.charge(asking("k"))
        assert entries() == before + 1


def test_the_log_stays_short(sqlite_url, open_ledger, monkeypatch):
    monkeypatch.setattr(store, "_MOST_IN_LOG", 10)
    ledger = opened(open_ledger(sqlite_url), epsilon=1000.0)
    log = Path(sqlite_url.removeprefix("sqlite:///") + "-wal")
    for number in range(40):
        ledger.charge(asking(f"k{number}"))
    size = log.stat().st_size
    for number in range(200):
        ledger.charge(asking(f"l{number}"))
    assert log.stat().st_size <= 2 * size
    assert ledger.verify().charges == 240


def test_journal_that_cannot_be_changed_is_refused(
    sqlite_url, open_ledger, monkeypatch
):
    monkeypatch.setattr(engines, "sqlite_settings", lambda: ("wal", "FULL"))
    ledger = opened(open_ledger(sqlite_url))
    monkeypatch.setattr(engines, "LOCK_TIMEOUT", 0.1)
    with ledger._store.reading():  # somebody needs the log
        ledger.charge(asking("k"))
        monkeypatch.setattr(engines, "sqlite_settings", lambda: ("delete", "EXTRA"))
        with pytest.raises(LedgerError, match="SQLITE_BUSY"):
            SQLLedger(sqlite_url)
    ledger.close()
    # SQLite answers a mode that it cannot have with the one that stays.
    monkeypatch.setattr(engines, "sqlite_settings", lambda: ("none", "EXTRA"))
    with pytest.raises(LedgerError, match="keeps journal_mode='wal'"):
        SQLLedger(sqlite_url)


def test_ledger_files_are_for_their_owner(sqlite_url, open_ledger, tmp_path):
    ledger = opened(open_ledger(sqlite_url))
    ledger.charge(asking("k"))
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_that_others_can_read_is_refused(sqlite_url, open_ledger, tmp_path):
    open_ledger(sqlite_url).close()
    (tmp_path / "ledger.db").chmod(0o640)
    with pytest.raises(LedgerError, match="mode=640"):
        SQLLedger(sqlite_url)


def test_file_in_no_folder_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="No such file"):
        SQLLedger(f"sqlite:///{tmp_path}/nowhere/ledger.db")


def test_file_that_is_no_database_is_refused(sqlite_url, tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"not a database, but long enough to look at" * 100)
    path.chmod(0o600)
    with pytest.raises(LedgerError, match="NOTADB"):
        SQLLedger(sqlite_url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x.db?uri=true",
        "mysql://localhost/x",
        "ledger.db",
        "",
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(InvalidParameterError, match="url"):
        SQLLedger(url)


def test_locked_sqlite_file_is_waited_for_and_then_let_be(
    sqlite_url, open_ledger, monkeypatch
):
    monkeypatch.setattr(engines, "LOCK_TIMEOUT", 0.2)
    monkeypatch.setattr(transactions, "LOCK_TIMEOUT", 0.2)
    ledger = opened(open_ledger(sqlite_url))
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"SQLITE_BUSY.* Nothing was charged"):
        ledger.charge(asking("k"))
    other.rollback()
    other.close()
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW


def test_reader_in_the_way_of_a_commit_is_waited_for(sqlite_url, open_ledger):
    ledger = opened(open_ledger(sqlite_url))
    other = sqlite3.connect(
        sqlite_url.removeprefix("sqlite:///"), check_same_thread=False
    )
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM ledger_entries").fetchone()
    leave = threading.Timer(0.3, other.rollback)
    leave.start()
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW
    leave.join()
    other.close()


def test_locked_postgres_is_waited_for_and_then_let_be(
    postgres_url, open_ledger, monkeypatch
):
    monkeypatch.setattr(engines, "LOCK_TIMEOUT", 1)
    ledger = opened(open_ledger(postgres_url))
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('reticent.ledger'))")
        with pytest.raises(LedgerError, match=r"55P03.* Nothing was charged"):
            ledger.charge(asking("k"))
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW


def test_postgres_commits_are_synchronous_whatever_the_database_says(
    postgres_database, open_ledger
):
    name = postgres_database.partition("@/")[2].partition("?")[0]
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    ledger = opened(open_ledger(postgres_database))
    with ledger._store.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        # Compiling a plan takes longer than any statement of ours.
        assert connection.exec_driver_sql("SHOW jit").scalar() == "off"


def test_postgres_address_keeps_its_options_but_for_one(postgres_server, open_ledger):
    with postgres_server.schema() as url:
        opened(open_ledger(url)).close()
        with psycopg.connect(url) as admin:  # found by the search path in the address
            count = admin.execute("SELECT count(*) FROM ledger_entries").fetchone()
        assert count == (5,)
        with pytest.raises(LedgerError, match="synchronous_commit"):
            SQLLedger(f"{url}%20-csynchronous_commit%3Doff")


def test_postgres_that_does_not_sync_is_refused(postgres_server):
    careless = PostgresServer(settings=("fsync=off",))
    try:
        with pytest.raises(LedgerError, match="fsync=off"):
            SQLLedger(careless.url("postgres"))
    finally:
        careless.close()


def test_postgres_that_is_not_there_is_an_error_of_ours(tmp_path: Path):
    with pytest.raises(LedgerError, match="busy or unreachable"):
        SQLLedger(f"postgresql://postgres@/x?host={tmp_path}")


def test_postgres_gone_during_a_commit_is_fatal(
    postgres_server, postgres_url, open_ledger, monkeypatch
):
    # Whether that commit took place, nobody knows: nothing more is answered.
    ledger = opened(open_ledger(postgres_url))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            """CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"""
        )
        admin.execute(
            """CREATE CONSTRAINT TRIGGER leaving AFTER INSERT ON ledger_entries
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION leave()"""
        )
    with pytest.raises(LedgerError, match="may or may not be charged"):
        ledger.charge(asking("k"))
    with pytest.raises(LedgerError, match="answers nothing more"):
        ledger.charge(asking("k2"))
