"""Transactions of our own statements, without SQLAlchemy's.

What SQLAlchemy does around a transaction takes longer than most of our statements. A
statement that goes through it meanwhile joins the transaction that has begun.
"""

from __future__ import annotations

from sqlalchemy import Connection

from reticent.ledger.sql.statements import Statement, run

_BEGIN, _COMMIT = Statement("BEGIN IMMEDIATE"), Statement("COMMIT")


def begin(connection: Connection) -> None:
    """Begin; on SQLite, take the write lock. PostgreSQL begins with a statement."""
    if connection.dialect.name == "sqlite":
        run(connection, [_BEGIN])


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
    return driver is None or driver.info.transaction_status == TransactionStatus.IDLE
