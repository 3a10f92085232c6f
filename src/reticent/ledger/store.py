"""Pages of the book, out of a database and back into it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from reticent.errors import LedgerError, ReticentError
from reticent.ledger import statements
from reticent.ledger.accounts import Balance
from reticent.ledger.checkpoints import Checkpoint
from reticent.ledger.decisions import Needs, Operation, Page
from reticent.ledger.engines import WRITES, fault_of, open_engine, passing
from reticent.ledger.entries import CHARGE, Entry, Mark
from reticent.ledger.schema import (
    account_row,
    accounts,
    balance_of,
    entries,
    identity,
    marks,
    meta,
    migrate,
)

T = TypeVar("T")

# Entries in one reading, few enough to stay in a processor's cache.
_READING = 1_000
# Charges that wait for their answers, kept at hand; and marks that one may have.
_MOST_RECENT = 4_096
_MOST_MARKS = 16


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's results, the new head, new entries, and a checkpoint if due."""

    results: list[Any]
    sequence: int
    hash: str
    written: list[Entry]
    checkpoint: Checkpoint | None


@dataclass(slots=True)
class _Fate:
    """Whether a commit was sent: if all is silence then, nobody knows its fate."""

    open: bool = False


class Store:
    """A database with the ledger's tables.

    Parameters
    ----------
    url : str
        SQLite or PostgreSQL, see `reticent.ledger.engines`.
    """

    def __init__(self, url: str) -> None:
        self._engine: Engine = open_engine(url)
        self._head = (0, "")
        self._recent: dict[int, Entry] = {}
        self._kept: Connection | None = None
        try:
            self.write(migrate)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of all connections."""
        self._let_go()
        self._engine.dispose()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one durable transaction, alone among all writers."""

        def in_turn(connection: Connection) -> T:
            if connection.dialect.name != "sqlite":
                statements.together(connection, [statements.TURN])
            return work(connection)

        try:
            with self._engine.connect() as connection:
                return self._transact(_writing(connection), in_turn, _Fate())
        except DBAPIError as error:
            failure = _judged(error)
        except TimeoutError as error:
            failure = error
        if isinstance(failure, TimeoutError):
            failure = LedgerError(f"{failure} Nothing was written; try again.")
        raise failure from None

    def _transact(
        self, connection: Connection, work: Callable[[Connection], T], fate: _Fate
    ) -> T:
        """Run `work` and commit.

        A `TimeoutError` means that nothing was written, and that it may work later.
        """
        try:
            with connection.begin() as transaction:
                done = work(connection)
                fate.open = True
                transaction.commit()
        except DBAPIError as error:
            raise _judged(error, committing=fate.open) from None
        return done

    def commit(
        self, operations: Sequence[Operation], *, checkpoint_at: int | None = None
    ) -> Committed:
        """Decide operations in order and write what follows, in one transaction.

        With `checkpoint_at`, a checkpoint is read once the head reaches that sequence.
        """
        fate = _Fate()

        def work(connection: Connection) -> Committed:
            needs = Needs()
            for operation in operations:
                needs.add(operation.needs)
            page = load(connection, needs, self._recent, lock=True)
            self._check_head(page)
            before = dict(page.accounts)
            results = [_attempt(operation, page) for operation in operations]
            due = checkpoint_at is not None and page.sequence >= checkpoint_at
            fate.open = not due  # from here on, because the commit goes along
            flush(connection, page, before, commit=not due)
            return Committed(
                results,
                page.sequence,
                page.hash,
                page.written,
                checkpoint_of(connection) if due else None,
            )

        done = self._transact_kept(work, fate)
        self._head = (done.sequence, done.hash)
        self._keep_recent(done.written)
        return done

    def _transact_kept(self, work: Callable[[Connection], T], fate: _Fate) -> T:
        """Run `work` on the connection that is kept from one commit to the next."""
        used = self._kept is not None
        try:
            if self._kept is None:
                self._kept = _writing(self._engine.connect())
            return self._transact(self._kept, work, fate)
        except DBAPIError as error:
            raise _judged(error) from None
        except TimeoutError:
            died = used and _is_dead(self._kept)
            self._let_go()
            if not died:
                raise
            # It died since it was last used, and nothing was written.
            return self._transact_kept(work, fate)
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        """Close the kept connection, in whatever state it is."""
        kept, self._kept = self._kept, None
        if kept is not None:
            with contextlib.suppress(DBAPIError):
                kept.invalidate()
            kept.close()

    def _keep_recent(self, written: Iterable[Entry]) -> None:
        """Keep charges at hand until their answers come."""
        for entry in written:
            if entry.settles is not None:
                self._recent.pop(entry.settles, None)
            elif entry.kind == CHARGE and len(entry.marks) <= _MOST_MARKS:
                self._recent[entry.sequence] = entry
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]

    def _check_head(self, page: Page) -> None:
        """Refuse a database that was put back under a running process."""
        sequence, sealed = self._head
        if page.sequence < sequence or (
            page.sequence == sequence and page.hash != sealed
        ):
            raise LedgerError(
                f"the ledger went back from sequence={sequence} to {page.sequence} "
                "while in use."
            )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one moment."""
        try:
            with self._engine.connect() as connection:
                if connection.dialect.name != "sqlite":
                    connection = connection.execution_options(
                        isolation_level="REPEATABLE READ"
                    )
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            raise LedgerError(f"the ledger cannot be read: {fault_of(error)}") from None

    def balances(self, names: Iterable[str] | None = None) -> dict[str, Balance]:
        """Return the named accounts that exist, or all."""
        with self.reading() as connection:
            if names is None:
                return all_accounts(connection)
            return _accounts(connection, names)

    @staticmethod
    def rows(connection: Connection, after: int) -> list[tuple[Any, ...]]:
        """Return the next rows with their marks: small readings block no writer."""
        found = statements.entries_after(connection, after, _READING)
        if not found:
            return []
        inside = statements.marks_between(connection, after, found[-1][0])
        marked = _by_entry(inside).get
        return [(*row, marked(row[0], ())) for row in found]


def _writing(connection: Connection) -> Connection:
    return connection.execution_options(**{WRITES: True})


def _is_dead(connection: Connection | None) -> bool:
    """Return whether a connection to PostgreSQL broke."""
    if connection is None or connection.invalidated:
        return True
    return bool(getattr(connection.connection.driver_connection, "closed", False))


def _judged(error: DBAPIError, *, committing: bool = False) -> Exception:
    """Return what an error means, a `TimeoutError` if it passes."""
    if passing(error, committing=committing):
        return TimeoutError(
            f"the ledger's database is busy or away ({fault_of(error)})"
        )
    return LedgerError(f"the database failed with {fault_of(error)}")


def _attempt(operation: Operation, page: Page) -> Any:
    """Return the operation's result, or the refusal that is its result."""
    try:
        return operation.apply(page)
    except ReticentError as refusal:
        return refusal


def load(
    connection: Connection,
    needs: Needs,
    recent: Mapping[int, Entry] | None = None,
    *,
    lock: bool = False,
) -> Page:
    """Read the part of the book that operations need, with `lock` at our turn.

    With `recent`, charges found there under the hash that the database has are not
    read again: the hash stands for all of an entry.
    """
    known = recent or {}
    found = statements.look(
        connection,
        needs.accounts,
        needs.requests,
        needs.queries,
        needs.charges if known else (),
        lock=lock,
    )
    page = Page(*(found.head or _lost()))
    page.accounts = {row[0]: balance_of(row) for row in found.accounts}
    whole = needs.charges | _remember(page, found.traces)
    drawn = {place[0] for place in page.releases.values()}
    for sequence, sealed in found.unanswered.items():
        at_hand = known.get(sequence)
        if at_hand is not None and at_hand.hash == sealed:
            page.index(at_hand)
            whole.discard(sequence)
    answers = []
    for chunk in statements.chunks(whole | drawn):
        for entry in _entries(connection, entries.c.sequence.in_(chunk), whole):
            page.index(entry)
        answers += _entries(connection, entries.c.settles.in_(chunk), set())
    for entry in sorted(answers, key=lambda answer: answer.sequence):
        page.index(entry)
    return page


def _remember(page: Page, traces: Iterable[statements.Trace]) -> set[int]:
    """Note who paid to see needed queries and under which charge each was drawn.

    Return the charges of needed requests.
    """
    drawn, charged = [], set()
    for trace in traces:
        query, account, release, sequence, position, settled = trace
        if query is None or account is None or release is None or position is None:
            charged.add(sequence)
        elif account:
            page.seen.add(Mark(query, account, release))
        elif settled is not None:
            drawn.append((settled, query, (sequence, position)))
    for _, query, place in sorted(drawn):
        page.releases.setdefault(query, place)
    return charged


def flush(
    connection: Connection,
    page: Page,
    before: dict[str, Balance],
    *,
    commit: bool = False,
) -> None:
    """Write what was decided: entries, marks and totals.

    With `commit` this is the last that happens in the transaction.
    """
    spends = []
    for name in sorted(page.touched):
        now, known = page.accounts[name], before.get(name)
        if known is None:
            connection.execute(insert(accounts), [account_row(now)])
        elif known.cap != now.cap:
            values = account_row(now)
            connection.execute(
                update(accounts).where(accounts.c.name == name).values(values)
            )
        elif now.spent != known.spent:
            spends.append((name, now.spent.minus(known.spent)))
    if page.written:
        statements.write(connection, page.written, spends, commit=commit)


def checkpoint_of(connection: Connection) -> Checkpoint:
    """Read the head and every account."""
    known = identity(connection)
    sequence, sealed = statements.look(connection).head or _lost()
    return Checkpoint(
        known.ledger, known.epoch, sequence, sealed, all_accounts(connection)
    )


def _lost() -> NoReturn:
    raise LedgerError("the ledger has lost its entries; restore a good copy.")


def set_epoch(connection: Connection, epoch: int, ledger: str) -> None:
    """Record another writing-off."""
    connection.execute(update(meta).values(epoch=epoch, ledger=ledger))


def strays(connection: Connection, last: int) -> bool:
    """Return whether marks belong to no entry."""
    outside = or_(marks.c.sequence > last, marks.c.sequence < 1)
    return (
        connection.execute(select(marks.c.sequence).where(outside)).first() is not None
    )


def all_accounts(connection: Connection) -> dict[str, Balance]:
    """Return every account."""
    return {
        row.name: balance_of(row) for row in connection.execute(select(accounts)).all()
    }


def _accounts(connection: Connection, names: Iterable[str]) -> dict[str, Balance]:
    rows = statements.look(connection, names).accounts
    return {row[0]: balance_of(row) for row in rows}


def _entries(connection: Connection, condition: Any, whole: set[int]) -> list[Entry]:
    """Return entries, those in `whole` with their marks."""
    found = connection.execute(select(entries).where(condition)).all()
    charged = [row.sequence for row in found if row.sequence in whole]
    inside = select(marks).where(marks.c.sequence.in_(charged))
    ordered = inside.order_by(marks.c.sequence, marks.c.position)
    noted = _by_entry(connection.execute(ordered).all() if charged else ())
    return [Entry.from_row(row, noted.get(row.sequence, ())) for row in found]


def _by_entry(found: Iterable[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    """Return marks by entry, given in order; their places must have no gaps."""
    noted: dict[int, list[Sequence[Any]]] = {}
    for row in found:
        known = noted.get(row[0])
        if known is None:
            known = noted[row[0]] = []
        if row[1] != len(known):
            raise LedgerError(
                f"sequence={row[0]} remembers a query in the wrong place; the ledger "
                "was changed. Restore a good copy and write the budget off."
            )
        known.append(row[2:])
    return noted
