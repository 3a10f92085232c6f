"""Transactions of our own statements, without SQLAlchemy's.

What SQLAlchemy does around a transaction takes longer than most of our statements. A
statement that goes through it meanwhile joins the transaction that has begun.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from reticent.ledger.sql.engines import LOCK_TIMEOUT, is_transient
from reticent.ledger.sql.statements import Statement, run

_BEGIN, _COMMIT = Statement("BEGIN IMMEDIATE"), Statement("COMMIT")
_ROLLBACK = Statement("ROLLBACK")
_AT_ONCE = Statement("PRAGMA busy_timeout = 0")
# Seconds from one attempt to take SQLite's lock to the next: the first, and the most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.002


def prepare(connection: Connection) -> None:
    """Make a connection one that `begin` is called with, and nothing else begins.

    SQLite itself looks for its lock less and less often, up to every tenth of a second,
    and another process holds it for a few milliseconds: so `begin` looks itself.
    """
    if connection.dialect.name == "sqlite":
        run(connection, [_AT_ONCE])


def begin(connection: Connection) -> None:
    """Begin; on SQLite, take the write lock. PostgreSQL begins with a statement."""
    if connection.dialect.name != "sqlite":
        return
    until, pause = time.monotonic() + LOCK_TIMEOUT, _FIRST_PAUSE
    while True:
        try:
            run(connection, [_BEGIN])
        except DBAPIError as error:
            busy = is_transient(error, committing=False)
            if not busy or time.monotonic() > until:
                raise
        else:
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def fold_log(connection: Connection) -> None:
    """Copy SQLite's log into the database file, so that the log begins again.

    Nobody can commit meanwhile: `connection`, on which no transaction is under way,
    holds the write lock.
    """
    begin(connection)
    other = connection.engine.raw_connection()
    try:
        # What a reader still needs is left for the next time.
        other.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    finally:
        other.close()
    run(connection, [_ROLLBACK])


def commit(connection: Connection) -> None:
    """Make everything since `begin` durable."""
    if connection.in_transaction():
        connection.commit()
    elif connection.dialect.name == "sqlite" or not _is_over(connection):
        run(connection, [_COMMIT])


def _is_over(connection: Connection) -> bool:
    """Return whether the commit was sent with the writes."""
    from psycopg.pq import TransactionStatus

    driver = connection.connection.driver_connection
    # The driver's own `info` makes an object for each question.
    return driver is None or driver.pgconn.transaction_status == TransactionStatus.IDLE
