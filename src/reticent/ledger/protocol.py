"""What every ledger promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.entries import Entry
from reticent.ledger.operations import Draw
from reticent.ledger.requests import Receipt, Request
from reticent.ledger.verification import ChainVerification

# Entries that `newest_first` reads at a time.
_BLOCK = 200


@runtime_checkable
class Ledger(Protocol):
    """Accounts under caps, charged before anything is answered.

    The order of a request::

        receipt = ledger.charge(request)            # durable when this returns
        if receipt.outcome is Outcome.DRAW:
            answers = [compute(i) for i in receipt.draw]
            receipt = ledger.settle(receipt, answers)   # durable when this returns
        reply(receipt)

    Guarantee
    ---------
    The sum of all charges to an account never exceeds its cap, whoever asks, in
    whatever order, from however many threads or processes. All accounts of a request
    are charged, or none. A key is charged once; its answer is drawn at most once.
    Nothing is refunded. Whether a request is refused depends on accounts and charges
    alone, never on data.
    """

    def open_account(self, account: AccountId, cap: Cap) -> Balance:
        """Open an account under a cap; opening it again changes nothing."""
        ...

    def set_cap(self, account: AccountId, cap: Cap) -> Balance:
        """Change the limits of an open account, not its method."""
        ...

    def record(self, act: str, by: str, facts: Mapping[str, Any]) -> Entry:
        """Write an administrative act into the chain, durably; it costs nothing.

        It is written before the act takes effect: an act without an entry cannot be.

        Parameters
        ----------
        act : str
            What is done.
        by : str
            Who does it.
        facts : mapping
            What it is done to, as plain data; nothing about records.
        """
        ...

    def balance(self, account: AccountId) -> Balance:
        """Return what an account has spent and may spend."""
        ...

    def balances(self) -> list[Balance]:
        """Return all accounts, sorted by name."""
        ...

    def charge(self, request: Request) -> Receipt:
        """Charge all accounts of a request, or return what became of it before.

        Raises
        ------
        BudgetExhaustedError
            If an account cannot pay; nothing is charged to any.
        IdempotencyKeyReusedError
            If the key was used for another request.
        AccountNotOpenError
            If an account is not open.
        InvalidParameterError
            If the charge cannot be counted by an account.
        LedgerError
            If the ledger cannot vouch for its state; nothing may be answered.
        """
        ...

    async def acharge(self, request: Request) -> Receipt:
        """`charge` for asynchronous callers."""
        ...

    def charged(self, key: str) -> bool:
        """Return whether a request with this key was charged."""
        ...

    def settle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """Store the answers drawn for a receipt; reply with what this returns."""
        ...

    async def asettle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """`settle` for asynchronous callers."""
        ...

    def post(self, request: Request, answers: Iterable[bytes]) -> Receipt:
        """Charge a request and store answers that are known already, in one commit.

        The charge is never visible without its answers. If the key was used before,
        nothing changes, and the receipt has the answers stored then: a
        compare-and-swap on the key.
        """
        ...

    async def aanswer(self, request: Request, draw: Draw, about: Any) -> Receipt:
        """Charge a request, have its answers drawn, and settle them.

        Returns a receipt with answers, or one that says "spent, no result".

        Parameters
        ----------
        request : Request
            As for `charge`.
        draw : callable
            Called when charges are durable, with a list of pairs: what a request is
            about, and its receipt. Returns the answers of each.
        about : object
            What `draw` is told about this request.
        """
        ...

    def answer_then(
        self, request: Request, draw: Draw, about: Any, then: Callable[[Any], None]
    ) -> None:
        """Do what `aanswer` does, for callers on an event loop that do not wait.

        Parameters
        ----------
        request, draw, about
            As for `aanswer`.
        then : callable
            Called on that loop with the receipt, or with the error; perhaps before
            this returns.
        """
        ...

    def answer_all(
        self,
        asked: Sequence[tuple[Request, Any]],
        draw: Draw,
        then: Callable[[Any, Any], None],
    ) -> None:
        """Do what `answer_then` does, for requests that came together.

        Parameters
        ----------
        asked : sequence of (Request, object)
            The requests, and what `draw` is told about each.
        draw : Draw
            As for `aanswer`.
        then : callable
            Called with what a request is about and its receipt, or the error.
        """
        ...

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries that follow sequence `after`, in order."""
        ...

    def length(self) -> int:
        """Return the sequence of the newest entry, without reading the others."""
        ...

    def verify(self) -> ChainVerification:
        """Recompute every hash and every total, and compare.

        Raises
        ------
        LedgerError
            Naming the first entry or account that does not agree.
        """
        ...

    def close(self) -> None:
        """Finish what is pending and let go of files and threads."""
        ...


def newest_first(ledger: Ledger, *, before: int | None = None) -> Iterator[Entry]:
    """Yield entries from the newest to the oldest, read block by block.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    before : int or None, default=None
        Only entries before this sequence.
    """
    end = ledger.length() + 1
    end = end if before is None else min(before, end)
    while end > 1:
        start = max(0, end - 1 - _BLOCK)
        block = list(islice(ledger.entries(after=start), end - 1 - start))
        yield from reversed(block)
        end = start + 1
