"""A ledger in SQLite or PostgreSQL: durable, shared, and checked at every start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from reticent._clock import seconds
from reticent.errors import InvalidParameterError, LedgerError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.checkpoint_file import FileCheckpoints
from reticent.ledger.checkpoints import Checkpoint, CheckpointStore, SignedCheckpoints
from reticent.ledger.damage import refusing_damage
from reticent.ledger.entries import Entry
from reticent.ledger.operations import (
    Draw,
    Operation,
    changing_cap,
    charging,
    charging_all,
    looking_up,
    opening_account,
    posting,
    recording,
    settling,
)
from reticent.ledger.requests import Receipt, Request
from reticent.ledger.sql.group_commit import GroupCommit, OnFatal
from reticent.ledger.state import LedgerState
from reticent.ledger.verification import ChainReplay, ChainVerification
from reticent.signing import HMACSigner, Signer

if TYPE_CHECKING:
    from reticent.ledger.sql.store import Store


class SQLLedger:
    """Accounts, caps and charges that survive crashes and are shared by processes.

    Parameters
    ----------
    url : str
        ``sqlite:///path/to/ledger.db`` (the file is made with mode 600) or
        ``postgresql://user@host/database``.
    checkpoints : path, CheckpointStore or None, default=None
        Where signed checkpoints are stored. It should not be on the disk, nor in the
        backup, of the ledger itself.
    signer : bytes, Signer or None, default=None
        Key for the checkpoints, at least 32 random bytes, or a signer.
    checkpoint_every : int, default=1
        Entries from one checkpoint to the next. With 1, a checkpoint covers every
        answer that anybody saw; with k, restoring a copy that lacks fewer than k
        entries goes unnoticed.
    first_checkpoint : bool, default=False
        Accept a ledger that has entries but never had a checkpoint.
    start : {"full", "tail"}, default="full"
        How much to verify now: every entry, or those after the checkpoint.
    on_fatal : callable or None, default=None
        Called with the error after a failed write, when this ledger has stopped
        permanently. A service passes `end_process`.
    largest_commit : int, default=256
        The largest number of operations that share one durable commit.

    Guarantee
    ---------
    Everything that `Ledger` promises. A charge or an answer that was returned is
    durable: it survives a kill of the process and, if the disk honours fsync, a loss of
    power. After a failed write nothing more is answered. With checkpoints, a start with
    an older copy or a changed entry is refused.
    """

    def __init__(
        self,
        url: str,
        *,
        checkpoints: str | os.PathLike[str] | CheckpointStore | None = None,
        signer: bytes | Signer | None = None,
        checkpoint_every: int = 1,
        first_checkpoint: bool = False,
        start: Literal["full", "tail"] = "full",
        on_fatal: OnFatal | None = None,
        largest_commit: int = 256,
    ) -> None:
        if not checkpoint_every >= 1 or not largest_commit >= 1:
            raise InvalidParameterError(
                f"checkpoint_every={checkpoint_every!r} and "
                f"largest_commit={largest_commit!r} must be at least 1."
            )
        if start not in {"full", "tail"}:
            raise InvalidParameterError(f"start={start!r} must be 'full' or 'tail'.")
        seconds()  # a clock that cannot be read would stop the first charge
        self._checkpoints = _signed_checkpoints_of(checkpoints, signer)
        self._every, self._largest = checkpoint_every, largest_commit
        self._store = _open(url)
        try:
            with refusing_damage():
                self._verify_start(
                    tail=start == "tail", first_checkpoint=first_checkpoint
                )
            self._commits = GroupCommit(
                self._commit, on_fatal=on_fatal, largest=largest_commit
            )
        except BaseException:
            self._store.close()
            raise

    def _verify_start(self, *, tail: bool, first_checkpoint: bool) -> None:
        from reticent.ledger.sql import opening
        from reticent.ledger.sql.state import checkpoint_of

        read = opening.start(
            self._store, self._checkpoints, tail=tail, first_checkpoint=first_checkpoint
        )
        self._signed = read.sequence
        if self._checkpoints is None:
            return
        with self._store.reading() as connection:
            reached = checkpoint_of(connection)
        try:
            self._checkpoints.keep(reached)
        except OSError as error:
            raise LedgerError(
                f"the checkpoint cannot be stored: {error.strerror}. Make its folder, "
                "or name another place."
            ) from None

    @classmethod
    def write_off(
        cls,
        url: str,
        *,
        reason: str,
        checkpoints: str | os.PathLike[str] | CheckpointStore | None = None,
        signer: bytes | Signer | None = None,
    ) -> ChainVerification:
        """Count every budget as spent, because what was spent is no longer known.

        For an operator whose ledger is refused at the start. Stop every other process
        first. All accounts of this copy and of the checkpoint become exhausted, on
        record; raising caps afterwards is a separate decision. The copy's own chain
        must be complete.

        Parameters
        ----------
        url, checkpoints, signer
            As for the ledger itself.
        reason : str
            Kept in the chain.
        """
        signed, store = _signed_checkpoints_of(checkpoints, signer), _open(url)
        from reticent.ledger.sql import opening

        try:
            with refusing_damage():
                opening.write_off(store, signed, reason)
            return opening.replay(store, ChainReplay()).result()
        finally:
            store.close()

    def __enter__(self) -> SQLLedger:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise LedgerError("a ledger is not pickled; open one in each process.")

    @property
    def pending(self) -> int:
        """How many operations wait for the next commit; a service sheds load by it."""
        return self._commits.pending

    def open_account(self, account: AccountId, cap: Cap) -> Balance:
        """Open an account under a cap; opening it again changes nothing."""
        opened: Balance = self._commits.submit(opening_account(account, cap)).result()
        return opened

    def set_cap(self, account: AccountId, cap: Cap) -> Balance:
        """Change the limits of an open account, not its method."""
        changed: Balance = self._commits.submit(changing_cap(account, cap)).result()
        return changed

    def record(self, act: str, by: str, facts: Mapping[str, Any]) -> Entry:
        """Write an administrative act into the chain, durably; it costs nothing."""
        done: Entry = self._commits.submit(recording(act, by, facts)).result()
        return done

    def balance(self, account: AccountId) -> Balance:
        """Return what an account has spent and may spend."""
        self._commits.check()
        with refusing_damage():
            found = self._store.balances([str(account)])
        return LedgerState(accounts=found).balance(account)

    def balances(self) -> list[Balance]:
        """Return all accounts, sorted by name."""
        self._commits.check()
        with refusing_damage():
            found = self._store.balances()
        return [found[name] for name in sorted(found)]

    def charge(self, request: Request) -> Receipt:
        """Charge all accounts of a request, or return what became of it before.

        Returns when the charge is durable.
        """
        charged: Receipt = self._commits.submit(charging(request)).result()
        return charged

    async def acharge(self, request: Request) -> Receipt:
        """`charge` for asynchronous callers."""
        charged: Receipt = await self._commits.submit_from_loop(charging(request))
        return charged

    def charged(self, key: str) -> bool:
        """Return whether a request with this key was charged."""
        found: bool = self._commits.submit(looking_up(key)).result()
        return found

    def settle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """Store the answers drawn for a receipt; reply with what this returns.

        Returns when the answers are durable.
        """
        settled: Receipt = self._commits.submit(settling(receipt, answers)).result()
        return settled

    async def asettle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """`settle` for asynchronous callers."""
        operation = settling(receipt, answers)
        settled: Receipt = await self._commits.submit_from_loop(operation)
        return settled

    def post(self, request: Request, answers: Iterable[bytes]) -> Receipt:
        """Charge a request and store answers that are known already, in one commit."""
        posted: Receipt = self._commits.submit(posting(request, answers)).result()
        return posted

    async def aanswer(self, request: Request, draw: Draw, about: Any) -> Receipt:
        """Charge a request, have its answers drawn, and settle them.

        What is charged together is drawn together, on the thread that commits, so
        `draw` should be quick.
        """
        operation = charging(request, draw, about)
        answered: Receipt = await self._commits.submit_from_loop(operation)
        return answered

    def answer_then(
        self, request: Request, draw: Draw, about: Any, then: Callable[[Any], None]
    ) -> None:
        """`aanswer` for callers on an event loop that do not wait."""
        self._commits.call_from_loop(charging(request, draw, about), then)

    def answer_all(
        self,
        asked: Sequence[tuple[Request, Any]],
        draw: Draw,
        then: Callable[[Any, Any], None],
    ) -> None:
        """`answer_then` for requests that came together."""
        for start in range(0, len(asked), self._largest):
            some = asked[start : start + self._largest]
            self._commits.call_all_from_loop(charging_all(some, draw), then)

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries that follow sequence `after`, in order."""
        from reticent.ledger.sql.state import by_entry

        while True:
            self._commits.check()
            with self._store.reading() as connection:
                rows, marks = self._store.rows(connection, after)
            noted = by_entry(marks)
            for row in rows:
                yield Entry.from_row(row, noted.get(row[0], ()))
            if not rows:
                return
            after = rows[-1][0]

    def length(self) -> int:
        """Return the sequence of the newest entry."""
        self._commits.check()
        with self._store.reading() as connection:
            return self._store.length(connection)

    def verify(self) -> ChainVerification:
        """Recompute every hash and every total, and compare.

        Also checks the database itself: its file, its indexes, that nobody added a
        trigger, and that no key occurs twice. Reads the chain in small steps, so that
        writers can continue meanwhile; those of SQLite wait while its file is checked.
        """
        from reticent.ledger.sql import opening

        self._commits.check()
        with refusing_damage():
            opening.check_database(self._store)
            return opening.replay(self._store, ChainReplay()).result()

    def close(self) -> None:
        """Finish what is pending, then close files and end threads."""
        self._commits.close()
        self._store.close()

    def _commit(self, operations: Sequence[Operation]) -> list[Any]:
        """Commit on the writer's thread; a due checkpoint is part of the commit."""
        self._store.tidy()  # callers of the last commit have their answers
        signed = self._checkpoints
        if signed is None:
            return self._store.commit(operations).results
        done = self._store.commit(
            operations,
            checkpoint_at=self._signed + self._every,
            whole=not signed.takes_heads,
        )
        if isinstance(done.signed, Checkpoint):
            signed.keep(done.signed)
        elif done.signed is not None:
            signed.keep_head(done.signed)
        if done.signed is not None:
            self._signed = done.sequence
        return done.results


def _open(url: str) -> Store:
    try:
        from reticent.ledger.sql.store import Store

        with refusing_damage():
            return Store(url)
    except ImportError as missing:
        raise LedgerError(
            f"this ledger needs {missing.name}: pip install 'reticent[cli]' for "
            "SQLite, 'reticent[serve]' for PostgreSQL."
        ) from None


def _signed_checkpoints_of(
    checkpoints: str | os.PathLike[str] | CheckpointStore | None,
    signer: bytes | Signer | None,
) -> SignedCheckpoints | None:
    if checkpoints is None and signer is None:
        return None
    if checkpoints is None or signer is None:
        raise InvalidParameterError(
            "checkpoints and signer go together: a place to put them and a key to "
            "sign them with."
        )
    place = (
        FileCheckpoints(checkpoints)
        if isinstance(checkpoints, (str, os.PathLike))
        else checkpoints
    )
    key = HMACSigner(signer) if isinstance(signer, bytes) else signer
    return SignedCheckpoints(place, key)
