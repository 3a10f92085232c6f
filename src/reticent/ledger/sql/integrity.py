"""Checks that trust no index: the file is sound, and every key is there once."""

from __future__ import annotations

import sqlite3
import time

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from reticent.errors import LedgerError

#: Seconds that a quick look at SQLite's file may take at a start.
QUICK_SECONDS = 2.0
_REMEDY = "Restore a good copy and write the budget off."
# Steps of SQLite's machine from one look at the clock to the next.
_STEPS = 100_000
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


def read_by_table(connection: Connection) -> None:
    """Have the rest of the transaction read tables themselves, not their indexes."""
    if connection.dialect.name != "sqlite":
        for setting in _BY_TABLE:
            connection.exec_driver_sql(setting)


def check_keys(connection: Connection, *, entries: int, marks: int) -> None:
    """Refuse a ledger in which a row is hidden or a key occurs twice.

    Call `read_by_table` before.

    Parameters
    ----------
    connection : Connection
        To the database.
    entries, marks : int
        How many of them a replay of the chain has found.
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
    for column in ("request", "settles"):
        twice = connection.exec_driver_sql(
            f"SELECT 1 FROM ledger_entries{plain} WHERE {column} IS NOT NULL "  # noqa: S608
            f"GROUP BY {column} HAVING count(*) > 1 LIMIT 1"
        ).first()
        if twice is not None:
            raise LedgerError(
                f"two entries have the same {column}, which is charged or settled "
                f"once; the ledger was changed. {_REMEDY}"
            )
