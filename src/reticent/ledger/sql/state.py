"""Reads the state that operations need from the database, and writes it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from sqlalchemy import Connection, insert, or_, select, update

from reticent.errors import LedgerError
from reticent.ledger.accounts import Balance
from reticent.ledger.checkpoints import Checkpoint
from reticent.ledger.entries import Entry, Mark
from reticent.ledger.sql import lookups, statements
from reticent.ledger.sql.schema import (
    account_row,
    accounts,
    balance_of,
    entries,
    identity,
    marks,
    meta,
)
from reticent.ledger.state import LedgerState, Needs
from reticent.ledger.verification import misplaced_mark


def load(
    connection: Connection,
    needs: Needs,
    recent: Mapping[int, Entry] | None = None,
    *,
    lock: bool = False,
) -> LedgerState:
    """Read the part of the ledger that operations need; `lock` waits for our turn.

    A charge in `recent` with the same hash as in the database is not read again: the
    hash stands for the whole entry.
    """
    known = recent or {}
    found = lookups.read_rows(
        connection,
        needs.accounts,
        needs.requests,
        needs.queries,
        needs.charges if known else (),
        lock=lock,
    )
    state = LedgerState(*(found.head or _lost()))
    state.ledger, state.epoch = found.identity
    state.accounts = {row[0]: balance_of(row) for row in found.accounts}
    whole = {*needs.charges, *_remember(state, found.traces)}
    drawn = {place[0] for place in state.releases.values()}
    for sequence, sealed in found.unanswered.items():
        at_hand = known.get(sequence)
        if at_hand is not None and at_hand.hash == sealed:
            state.index(at_hand)
            whole.discard(sequence)
    answers = []
    for chunk in statements.chunks(whole | drawn):
        for entry in _entries(connection, entries.c.sequence.in_(chunk), whole):
            state.index(entry)
        answers += _entries(connection, entries.c.settles.in_(chunk), set())
    for entry in sorted(answers, key=lambda answer: answer.sequence):
        state.index(entry)
    return state


def _remember(state: LedgerState, traces: Iterable[lookups.Trace]) -> set[int]:
    """Note who paid to see needed queries and under which charge each was drawn.

    Return the charges of needed requests.
    """
    drawn, charged = [], set()
    for trace in traces:
        query, account, release, sequence, position, settled = trace
        if query is None or account is None or release is None or position is None:
            charged.add(sequence)
        elif account:
            state.seen.add(Mark(query, account, release))
        elif settled is not None:
            drawn.append((settled, query, (sequence, position)))
    for _, query, place in sorted(drawn):
        state.releases.setdefault(query, place)
    return charged


def flush(
    connection: Connection,
    state: LedgerState,
    before: dict[str, Balance],
    *,
    commit: bool = False,
    checkpoint: bool = False,
) -> Checkpoint | None:
    """Write what was decided: entries, marks and totals.

    With `checkpoint`, return how far the ledger has come then. With `commit`, nothing
    else happens in the transaction afterwards.
    """
    spends = []
    for name in sorted(state.touched):
        now, known = state.accounts[name], before.get(name)
        if known is None:
            connection.execute(insert(accounts), [account_row(now)])
        elif known.cap != now.cap:
            values = account_row(now)
            connection.execute(
                update(accounts).where(accounts.c.name == name).values(values)
            )
        elif now.spent != known.spent:
            spends.append((name, now.spent.minus(known.spent)))
    if not state.written:
        return checkpoint_of(connection) if checkpoint else None
    found = statements.write(
        connection, state.written, spends, commit=commit, snapshot=checkpoint
    )
    if not checkpoint:
        return None
    ((ledger, epoch),), rows = found
    balances = {row[0]: balance_of(row) for row in rows}
    return Checkpoint(ledger, epoch, state.sequence, state.hash, balances)


def checkpoint_of(connection: Connection) -> Checkpoint:
    """Read the head and every account."""
    known = identity(connection)
    sequence, sealed = lookups.read_rows(connection).head or _lost()
    return Checkpoint(
        known.ledger, known.epoch, sequence, sealed, all_accounts(connection)
    )


def _lost() -> NoReturn:
    raise LedgerError("the ledger has lost its entries; restore a good copy.")


def set_epoch(connection: Connection, epoch: int, ledger: str) -> None:
    """Record that the budget was written off once more."""
    connection.execute(update(meta).values(epoch=epoch, ledger=ledger))


def has_stray_marks(connection: Connection, last: int) -> bool:
    """Return whether marks belong to no entry."""
    outside = or_(marks.c.sequence > last, marks.c.sequence < 1)
    return (
        connection.execute(select(marks.c.sequence).where(outside)).first() is not None
    )


def all_accounts(connection: Connection) -> dict[str, Balance]:
    """Return every account; refuse two of one name."""
    rows = connection.execute(select(accounts)).all()
    found = {row.name: balance_of(row) for row in rows}
    if len(found) != len(rows):
        raise LedgerError(
            "two accounts have one name; the ledger was changed. Restore a good copy "
            "and write the budget off."
        )
    return found


def accounts_named(connection: Connection, names: Iterable[str]) -> dict[str, Balance]:
    """Return the named accounts that exist."""
    rows = lookups.read_rows(connection, names).accounts
    return {row[0]: balance_of(row) for row in rows}


def _entries(connection: Connection, condition: Any, whole: set[int]) -> list[Entry]:
    """Return entries, those in `whole` with their marks."""
    found = connection.execute(select(entries).where(condition)).all()
    charged = [row.sequence for row in found if row.sequence in whole]
    inside = select(marks).where(marks.c.sequence.in_(charged))
    ordered = inside.order_by(marks.c.sequence, marks.c.position)
    noted = by_entry(connection.execute(ordered).all() if charged else ())
    return [Entry.from_row(row, noted.get(row.sequence, ())) for row in found]


def by_entry(found: Iterable[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    """Return marks by entry, given in order; their places must have no gaps."""
    noted: dict[int, list[Sequence[Any]]] = {}
    for row in found:
        known = noted.get(row[0])
        if known is None:
            known = noted[row[0]] = []
        if row[1] != len(known):
            raise misplaced_mark(row[0])
        known.append(row[2:])
    return noted
