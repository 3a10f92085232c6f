"""Opening a ledger: its chain, its totals and its checkpoint must agree."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from reticent.errors import LedgerError
from reticent.ledger import decisions
from reticent.ledger.accounts import Balance
from reticent.ledger.checkpoints import Checkpoint, Head, SignedCheckpoints
from reticent.ledger.sql import statements
from reticent.ledger.sql.integrity import (
    QUICK_SECONDS,
    check_file,
    check_keys,
    read_by_table,
)
from reticent.ledger.sql.schema import (
    account_row,
    accounts,
    check_tables,
    entries,
    identity,
)
from reticent.ledger.sql.state import (
    all_accounts,
    checkpoint_of,
    has_stray_marks,
    load,
    set_epoch,
)
from reticent.ledger.sql.store import Store
from reticent.ledger.state import Needs
from reticent.ledger.verification import ChainReplay

_REMEDY = (
    "If the newest copy is lost, run 'reticent ledger "
    "write-off': it counts every budget as spent."
)


def replay(store: Store, start: ChainReplay, *, totals: bool = True) -> ChainReplay:
    """Read the chain from where `start` stands to its end, then compare the totals.

    If `start` stands at the beginning, every row is counted, without an index.
    """
    whole = start.sequence == 0
    while True:
        with store.reading() as connection:
            rows, marks = store.rows(connection, start.sequence)
            start.read(rows, marks)
            if rows:
                continue
            if start.sequence == 0:
                raise LedgerError("the ledger has lost its entries. " + _REMEDY)
            read_by_table(connection)
            if whole:
                check_keys(
                    connection,
                    entries=start.sequence,
                    marks=start.marks,
                    doubtful=start.doubtful(),
                )
            if totals:
                _compare(connection, start)
            return start


def _compare(connection: Connection, read: ChainReplay) -> None:
    read.compare(all_accounts(connection))
    known = identity(connection)
    if (known.ledger, known.epoch) != (read.ledger, read.epoch):
        raise LedgerError(
            "the ledger's description of itself does not agree with its entries; it "
            "was changed. Restore a good copy and write the budget off."
        )
    if has_stray_marks(connection, read.sequence):
        raise LedgerError(
            "the ledger remembers queries that no entry charged for; it was changed. "
            "Restore a good copy and write the budget off."
        )


def check_database(store: Store, *, seconds: float | None = None) -> None:
    """Refuse foreign objects and a damaged file; within `seconds`, look quickly."""
    with store.reading() as connection:
        check_tables(connection)
        check_file(connection, seconds=seconds)


def start(
    store: Store,
    signed: SignedCheckpoints | None,
    *,
    tail: bool,
    first_checkpoint: bool,
) -> ChainReplay:
    """Verify a ledger against itself and its checkpoint, or refuse it."""
    # The checkpoint is read first: other processes can only move the ledger ahead.
    checkpoint = None if signed is None else signed.read()
    quickly = tail and checkpoint is not None
    check_database(store, seconds=QUICK_SECONDS if quickly else None)
    if tail and checkpoint is not None:
        _check_point(store, checkpoint)
        return replay(store, _from(checkpoint))
    read = replay(store, ChainReplay())
    if signed is None:
        return read
    if checkpoint is None and read.sequence > 1 and not first_checkpoint:
        # Another process may have written the first checkpoint since.
        checkpoint = signed.read()
        if checkpoint is None:
            raise LedgerError(
                f"the ledger has {read.sequence} entries, but its checkpoint is "
                "missing. Put the checkpoint back; if there never was one, start once "
                "with first_checkpoint=True. " + _REMEDY
            )
        read = replay(store, read)
    if checkpoint is not None:
        _check_point(store, checkpoint)
    return read


def _from(checkpoint: Checkpoint) -> ChainReplay:
    return ChainReplay(
        ledger=checkpoint.ledger,
        sequence=checkpoint.sequence,
        head=checkpoint.head,
        epoch=checkpoint.epoch,
        accounts=checkpoint.accounts,
    )


def _check_point(store: Store, checkpoint: Checkpoint) -> None:
    """Refuse a ledger that is not a continuation of its checkpoint."""
    _check_reached(store, checkpoint.reached)
    if checkpoint.latest is not None and checkpoint.epoch == checkpoint.latest.epoch:
        _check_reached(store, checkpoint)


def _check_reached(store: Store, checkpoint: Head) -> None:
    with store.reading() as connection:
        known = identity(connection)
        found = connection.execute(
            select(entries.c.hash).where(entries.c.sequence == checkpoint.sequence)
        ).scalar()
    if known.ledger != checkpoint.ledger:
        raise LedgerError(
            f"the checkpoint is of ledger {checkpoint.ledger}, this is "
            f"{known.ledger}. Use the checkpoint of this ledger. {_REMEDY}"
        )
    if known.epoch > checkpoint.epoch:
        return  # written off, and stopped before the new checkpoint was stored
    if known.epoch < checkpoint.epoch or found is None:
        raise LedgerError(
            f"the ledger is behind its checkpoint (sequence={checkpoint.sequence}): "
            f"an older copy was put in its place. Restore the newest copy. {_REMEDY}"
        )
    if found != checkpoint.head:
        raise LedgerError(
            f"sequence={checkpoint.sequence} is not what the checkpoint signed: the "
            f"ledger's history was changed. Restore a good copy. {_REMEDY}"
        )


def write_off(store: Store, signed: SignedCheckpoints | None, reason: str) -> None:
    """Count every budget as spent, in this ledger and in its checkpoint."""
    check_database(store)
    read = replay(store, ChainReplay(), totals=False)
    try:
        checkpoint = None if signed is None else signed.read()
    except LedgerError:
        checkpoint = None  # damaged; every budget is written off anyway
    known: dict[str, Balance] = dict(checkpoint.accounts) if checkpoint else {}
    known.update(read.accounts())
    caps = {name: balance.cap for name, balance in known.items()}
    epoch = 1 + max(read.epoch, checkpoint.reached.epoch if checkpoint else 0)

    def work(connection: Connection) -> Checkpoint:
        state = load(connection, Needs())
        decisions.write_off(state, caps, epoch, reason)
        statements.write(connection, state.written, [])
        connection.execute(delete(accounts))
        if state.accounts:
            rows = [account_row(balance) for balance in state.accounts.values()]
            connection.execute(insert(accounts), rows)
        set_epoch(connection, epoch, read.ledger)
        return checkpoint_of(connection)

    done = store.write(work)
    if signed is not None:
        signed.keep(done, force=True)
