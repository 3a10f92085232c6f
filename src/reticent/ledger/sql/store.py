"""The database of a ledger: its connections, transactions and commits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from reticent.errors import LedgerError
from reticent.ledger.accounts import Balance
from reticent.ledger.checkpoints import Head
from reticent.ledger.entries import ANSWER, CHARGE, Entry
from reticent.ledger.operations import Operation, decide, goes_on
from reticent.ledger.sql import statements, transactions
from reticent.ledger.sql.engines import (
    describe_database_error,
    is_transient,
    open_engine,
    with_write_lock,
)
from reticent.ledger.sql.schema import entries, migrate
from reticent.ledger.sql.state import (
    accounts_named,
    all_accounts,
    flush,
    load,
)
from reticent.ledger.state import LedgerState, Needs

T = TypeVar("T")
Rows: TypeAlias = list[tuple[Any, ...]]

# Entries read at once, few enough to stay in a processor's cache.
_READING = 2_000
# Charges that wait for their answers and are kept in memory; and most marks of one.
_MOST_RECENT = 4_096
_MOST_MARKS = 16
# Entries that SQLite's log may hold; copying them into the file takes milliseconds.
_MOST_IN_LOG = 1_024


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's results, the new head, new entries, and what to sign if due."""

    results: list[Any]
    sequence: int
    hash: str
    written: list[Entry]
    signed: Head | None


@dataclass(slots=True)
class _CommitProgress:
    """Whether a commit was sent; without a reply its outcome is then unknown."""

    sent: bool = False


class Store:
    """A database with the ledger's tables.

    Parameters
    ----------
    url : str
        SQLite or PostgreSQL, see `reticent.ledger.sql.engines`.
    """

    def __init__(self, url: str) -> None:
        self._engine: Engine = open_engine(url)
        self._head = (0, "")
        self._recent: dict[int, Entry] = {}
        self._kept: Connection | None = None
        self._in_log = 0
        try:
            self.write(migrate)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._drop_kept()
        self._engine.dispose()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one durable transaction, alone among all writers."""

        def in_turn(connection: Connection) -> T:
            if connection.dialect.name != "sqlite":
                statements.run(connection, [statements.TAKE_LOCK])
            return work(connection)

        try:
            with self._engine.connect() as connection:
                locked = with_write_lock(connection)
                return self._transact(locked, in_turn, _CommitProgress())
        except DBAPIError as error:
            failure = _translated(error)
        except TimeoutError as error:
            failure = error
        if isinstance(failure, TimeoutError):
            failure = LedgerError(f"{failure} Nothing was written; try again.")
        raise failure from None

    def _transact(
        self,
        connection: Connection,
        work: Callable[[Connection], T],
        progress: _CommitProgress,
    ) -> T:
        """Run `work` and commit.

        A `TimeoutError` means that nothing was written and a later attempt may succeed.
        """
        try:
            with connection.begin() as transaction:
                done = work(connection)
                progress.sent = True
                transaction.commit()
        except DBAPIError as error:
            raise _translated(error, committing=progress.sent) from None
        return done

    def commit(
        self,
        operations: Sequence[Operation],
        *,
        checkpoint_at: int | None = None,
        whole: bool = True,
    ) -> Committed:
        """Decide operations in order and write what follows, in one transaction.

        With `checkpoint_at`, there is something to sign once the head reaches that
        sequence, unless all that happened is about to be followed by a draw: a
        checkpoint if `whole` or if caps changed, else the head.
        """
        progress = _CommitProgress()

        def work(connection: Connection) -> Committed:
            needs = Needs.union(operation.needs for operation in operations)
            state = load(connection, needs, self._recent, lock=True)
            self._check_head(state)
            before = dict(state.accounts)
            results = decide(state, operations)
            # While answers are drawn nobody has seen anything: the commit that stores
            # them is soon enough.
            due = (
                checkpoint_at is not None
                and state.sequence >= checkpoint_at
                and not all(map(goes_on, operations, results))
            )
            every_account = due and (whole or not _only_charges(state.written))
            # `flush` sends the commit with the last statement, if it has any.
            progress.sent = bool(state.written) or not every_account
            signed: Head | None = flush(
                connection, state, before, commit=True, checkpoint=every_account
            )
            if due and signed is None:
                signed = Head(state.ledger, state.epoch, state.sequence, state.hash)
            return Committed(results, state.sequence, state.hash, state.written, signed)

        done = self._transact_kept(work, progress)
        self._head = (done.sequence, done.hash)
        self._keep_recent(done.written)
        self._in_log += len(done.written)
        return done

    def tidy(self) -> None:
        """Keep SQLite's log short; call it when nobody waits."""
        if self._in_log < _MOST_IN_LOG or self._kept is None:
            return
        self._in_log = 0
        if self._kept.dialect.name != "sqlite":
            return
        try:
            transactions.fold_log(self._kept)
        except DBAPIError as error:
            self._drop_kept()
            if not is_transient(error, committing=False):
                raise _translated(error) from None

    def _transact_kept(
        self, work: Callable[[Connection], T], progress: _CommitProgress
    ) -> T:
        """Run `work` on the connection that is kept from one commit to the next."""
        used = self._kept is not None
        try:
            if self._kept is None:
                self._kept = with_write_lock(self._engine.connect())
                transactions.prepare(self._kept)
            return self._run_alone(self._kept, work, progress)
        except DBAPIError as error:
            raise _translated(error) from None
        except TimeoutError:
            died = used and _is_dead(self._kept)
            self._drop_kept()
            if not died:
                raise
            # The connection died since it was last used, and nothing was written.
            return self._transact_kept(work, progress)
        except BaseException:
            self._drop_kept()
            raise

    @staticmethod
    def _run_alone(
        connection: Connection,
        work: Callable[[Connection], T],
        progress: _CommitProgress,
    ) -> T:
        """Do what `_transact` does, quicker; who calls drops the connection on failure.

        Dropping it rolls back.
        """
        try:
            transactions.begin(connection)
            done = work(connection)
            progress.sent = True
            transactions.commit(connection)
        except DBAPIError as error:
            raise _translated(error, committing=progress.sent) from None
        return done

    def _drop_kept(self) -> None:
        """Close the kept connection, whatever state it is in."""
        kept, self._kept = self._kept, None
        if kept is not None:
            with contextlib.suppress(DBAPIError):
                kept.invalidate()
            kept.close()

    def _keep_recent(self, written: Iterable[Entry]) -> None:
        """Keep charges in memory until their answers come."""
        for entry in written:
            if entry.settles is not None:
                self._recent.pop(entry.settles, None)
            elif entry.kind == CHARGE and len(entry.marks) <= _MOST_MARKS:
                self._recent[entry.sequence] = entry
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]

    def _check_head(self, state: LedgerState) -> None:
        """Refuse a database that was replaced by an older copy while in use."""
        sequence, sealed = self._head
        if state.sequence < sequence or (
            state.sequence == sequence and state.hash != sealed
        ):
            raise LedgerError(
                f"the ledger went back from sequence={sequence} to {state.sequence} "
                "while in use."
            )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that reads one consistent snapshot."""
        try:
            with self._engine.connect() as connection:
                if connection.dialect.name != "sqlite":
                    connection = connection.execution_options(
                        isolation_level="REPEATABLE READ"
                    )
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            raise LedgerError(
                f"the ledger cannot be read: {describe_database_error(error)}"
            ) from None

    def balances(self, names: Iterable[str] | None = None) -> dict[str, Balance]:
        """Return the named accounts that exist, or all."""
        with self.reading() as connection:
            if names is None:
                return all_accounts(connection)
            return accounts_named(connection, names)

    @staticmethod
    def length(connection: Connection) -> int:
        """Return the sequence of the newest entry."""
        newest = select(func.max(entries.c.sequence))
        return connection.execute(newest).scalar() or 0

    @staticmethod
    def rows(connection: Connection, after: int) -> tuple[Rows, Rows]:
        """Return the next rows and those of marks, few enough not to block writers."""
        found = statements.entries_after(connection, after, _READING)
        if not found:
            return [], []
        return found, statements.marks_between(connection, after, found[-1][0])


def _only_charges(written: Iterable[Entry]) -> bool:
    """Return whether entries charge and answer, and change no cap."""
    return all(entry.kind in (CHARGE, ANSWER) for entry in written)


def _is_dead(connection: Connection | None) -> bool:
    """Return whether a connection to PostgreSQL broke."""
    if connection is None or connection.invalidated:
        return True
    return bool(getattr(connection.connection.driver_connection, "closed", False))


def _translated(error: DBAPIError, *, committing: bool = False) -> Exception:
    """Return the error to raise: a `TimeoutError` if a later attempt may succeed."""
    if is_transient(error, committing=committing):
        return TimeoutError(
            "the ledger's database is busy or unreachable "
            f"({describe_database_error(error)})"
        )
    return LedgerError(f"the database failed with {describe_database_error(error)}")
