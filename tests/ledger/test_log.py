"""SQLite's write-ahead log: nobody commits while it is copied, and copies are whole.

In versions 3.7.0 to 3.51.2 of SQLite a commit that restarts the log while another
connection copies it into the file can corrupt the database.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from reticent.home.on_disk.ledger_copies import copy_ledger
from reticent.ledger import SQLLedger
from reticent.ledger.sql import store as stores
from reticent.ledger.sql import transactions
from reticent.ledger.sql.engines import open_engine
from reticent.ledger.sql.statements import Statement
from reticent.ledger.sql.transactions import fold_log
from tests.ledger.accounts_and_requests import MEMORY, asking, opened


def ask(ledger, key):
    receipt = ledger.charge(asking(key, memory=MEMORY))
    return ledger.settle(receipt, [b"a"])


def can_commit(path):
    """Return whether somebody else could begin to write now."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            return False
        other.execute("ROLLBACK")
        return True


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """Whether somebody could commit, each time that the log was about to be copied."""
    found, given = [], Engine.raw_connection

    def raw_connection(engine):
        if sys._getframe(1).f_code is fold_log.__code__:
            found.append(can_commit(tmp_path / "ledger.db"))
        return given(engine)

    monkeypatch.setattr(Engine, "raw_connection", raw_connection)
    return found


def test_nobody_can_commit_while_the_log_is_copied(
    sqlite_url, open_ledger, monkeypatch, seen
):
    monkeypatch.setattr(stores, "_MOST_IN_LOG", 4)
    ledger = opened(open_ledger(sqlite_url), epsilon=100.0)
    for number in range(12):
        ask(ledger, f"k{number}")
    assert len(seen) >= 3
    assert not any(seen)
    assert ledger.verify().answers == 12


def test_without_the_lock_somebody_could(sqlite_url, open_ledger, seen, monkeypatch):
    """The control: the same copy, but the connection takes no lock."""
    opened(open_ledger(sqlite_url))
    engine = open_engine(sqlite_url)
    with closing(engine.connect()) as connection:
        fold_log(connection)
        monkeypatch.setattr(transactions, "_BEGIN", Statement("BEGIN"))
        fold_log(connection)
    engine.dispose()
    assert seen == [False, True]


def test_no_connection_copies_by_itself(sqlite_url, open_ledger, tmp_path, monkeypatch):
    """The file stays as it is until the writer folds the log, however long that is."""
    monkeypatch.setattr(stores, "_MOST_IN_LOG", 10**9)
    path = tmp_path / "ledger.db"
    ledger = opened(open_ledger(sqlite_url), epsilon=1e6)
    before = path.stat()  # reading it here would drop this process's locks on it
    many = [b"%d" % number for number in range(30_000)]
    receipt = ledger.charge(asking("many", *many, memory=MEMORY))
    ledger.settle(receipt, [b"x"] * len(many))
    log = Path(f"{path}-wal")
    assert log.stat().st_size > 1_000 * 4_096  # where SQLite by itself would copy
    after = path.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    # The control: a connection with SQLite's own settings does copy.
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE t (x)")
        size = (tmp_path / "other.db").stat().st_size
        with other:
            other.executemany("INSERT INTO t VALUES (?)", [("x" * 4_000,)] * 1_500)
        assert (tmp_path / "other.db").stat().st_size > size


def test_a_copy_made_under_load_is_whole(
    sqlite_url, open_ledger, tmp_path, monkeypatch
):
    """It has every answer that anybody had when it began, and verifies alone."""
    monkeypatch.setattr(stores, "_MOST_IN_LOG", 16)
    ledger = opened(open_ledger(sqlite_url), epsilon=1e6)
    done, stop = [], threading.Event()

    def work(name):
        number = 0
        while not stop.is_set():
            done.append(ask(ledger, f"{name}/{number}").key)
            number += 1

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    try:
        for number in range(4):
            while len(done) < 30 * (number + 1):
                stop.wait(0.001)
            answered = list(done)
            copy = tmp_path / f"copy-{number}.db"
            entries = copy_ledger(tmp_path / "ledger.db", copy)
            # One file is all of it.
            assert not Path(f"{copy}-wal").exists()
            alone = tmp_path / f"alone-{number}.db"
            alone.touch(0o600)
            alone.write_bytes(copy.read_bytes())
            with SQLLedger(f"sqlite:///{alone}") as restored:
                assert restored.verify().entries == entries
                assert all(restored.charged(key) for key in answered[-40:])
                keys = {entry.request for entry in restored.entries()}
                assert set(answered) <= keys
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert ledger.verify().answers == len(done)
