"""Checks that trust no index: the file is sound, and every key is there once."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from reticent.errors import LedgerError

#: Seconds that a quick look at SQLite's file may take at a start.
QUICK_SECONDS = 2.0
_REMEDY = "Restore a good copy and write the budget off."
# Steps of SQLite's machine from one look at the clock to the next.
_STEPS = 100_000
# Kibibytes of pages that SQLite keeps while it looks for each row in each index. The
# hashes of queries are in random order there, so by default it reads a page for each.
_CACHE = 65_536
_BY_TABLE = (
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL enable_indexscan = off",
    "SET LOCAL enable_indexonlyscan = off",
    "SET LOCAL enable_bitmapscan = off",
)


def check_file(connection: Connection, *, seconds: float | None = None) -> None:
    """Refuse a file of SQLite with damaged pages, or indexes that disagree with tables.

    PostgreSQL checks its pages itself, if it was set up with checksums.

    Parameters
    ----------
    connection : Connection
        To the database.
    seconds : float or None, default=None
        Look quickly: skip the content of indexes, and stop after this time.
    """
    if connection.dialect.name != "sqlite":
        return
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise TypeError("the driver of SQLite is not the standard library's.")
    check = "integrity_check" if seconds is None else "quick_check"
    late = False
    if seconds is not None:
        until = time.monotonic() + seconds

        def stop() -> bool:
            nonlocal late
            late = time.monotonic() > until
            return late

        driver.set_progress_handler(stop, _STEPS)
    try:
        with _roomy(connection) if seconds is None else nullcontext():
            found = connection.exec_driver_sql(f"PRAGMA {check}(1)").scalar()
    except DBAPIError:
        if not late:
            raise
        return  # too long to read in this time, and sound so far
    finally:
        driver.set_progress_handler(None, 0)
    if found != "ok":
        raise LedgerError(
            f"the ledger's file is damaged: SQLite's {check} fails. {_REMEDY}"
        )


@contextmanager
def _roomy(connection: Connection) -> Iterator[None]:
    """Let SQLite keep more pages in memory for a while."""
    usual = connection.exec_driver_sql("PRAGMA cache_size").scalar()
    connection.exec_driver_sql(f"PRAGMA cache_size=-{_CACHE}")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA cache_size={usual}")


def read_by_table(connection: Connection) -> None:
    """Have the rest of the transaction read tables themselves, not their indexes."""
    if connection.dialect.name != "sqlite":
        for setting in _BY_TABLE:
            connection.exec_driver_sql(setting)


def check_keys(
    connection: Connection,
    *,
    entries: int,
    marks: int,
    doubtful: Iterable[str] = ("request", "settles"),
) -> None:
    """Refuse a ledger in which a row is hidden or a key occurs twice.

    Call `read_by_table` before.

    Parameters
    ----------
    connection : Connection
        To the database.
    entries, marks : int
        How many of them a replay of the chain has found.
    doubtful : iterable of str
        Columns of entries in which that replay may have found a value twice. If it
        found every row, no other column has one.
    """
    plain = " NOT INDEXED" if connection.dialect.name == "sqlite" else ""
    for table, expected in (("ledger_entries", entries), ("ledger_marks", marks)):
        # A table WITHOUT ROWID is its own index.
        source = table + (plain if table == "ledger_entries" else "")
        counting = f"SELECT count(*) FROM {source}"  # noqa: S608
        count = connection.exec_driver_sql(counting).scalar()
        if count != expected:
            raise LedgerError(
                f"{table} has {count} rows, and its index leads to {expected}; it was "
                f"changed. {_REMEDY}"
            )
    for column in doubtful:
        twice = connection.exec_driver_sql(
            f"SELECT 1 FROM ledger_entries{plain} WHERE {column} IS NOT NULL "  # noqa: S608
            f"GROUP BY {column} HAVING count(*) > 1 LIMIT 1"
        ).first()
        if twice is not None:
            raise LedgerError(
                f"two entries have the same {column}, which is charged or settled "
                f"once; the ledger was changed. {_REMEDY}"
            )
