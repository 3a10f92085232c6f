"""The ledger's database, for other durable tables that live in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from reticent.errors import LedgerError

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")


class LedgerDatabase:
    """Transactions in a ledger's database whose commits are as durable as charges.

    Parameters
    ----------
    url : str
        As for `SQLLedger`.
    """

    def __init__(self, url: str) -> None:
        from reticent.ledger.sql.engines import open_engine

        self._engine = open_engine(url)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one durable transaction, alone among all writers of SQLite."""
        return self._transact(work, writes=True)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which only reads."""
        return self._transact(work, writes=False)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _transact(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        from sqlalchemy.exc import DBAPIError

        from reticent.ledger.sql.engines import describe_database_error, with_write_lock

        try:
            with self._engine.connect() as connection:
                used = with_write_lock(connection) if writes else connection
                with used.begin():
                    return work(used)
        except DBAPIError as error:
            done = "written" if writes else "read"
            raise LedgerError(
                f"the database cannot be {done}: {describe_database_error(error)}"
            ) from None
