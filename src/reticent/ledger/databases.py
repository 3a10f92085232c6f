"""The ledger's database, for other durable tables that live in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from reticent.ledger.damage import refusing_damage

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
        from reticent.ledger.sql.store import Store

        # It makes the tables, or refuses those of somebody else.
        with refusing_damage():
            self._store = Store(url)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one durable transaction, alone among all writers."""
        with refusing_damage():
            return self._store.write(work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which only reads."""
        with refusing_damage(), self._store.reading() as connection:
            return work(connection)

    def close(self) -> None:
        """Close all connections."""
        self._store.close()
