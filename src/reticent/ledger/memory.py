"""A ledger in memory: for experiments, tests and one process without restarts."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from reticent.errors import LedgerError
from reticent.ledger import decisions, posts
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.entries import LEDGER, Entry
from reticent.ledger.operations import Draw
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.state import LedgerState
from reticent.ledger.verification import ChainReplay, ChainVerification


class MemoryLedger:
    """Accounts, caps and charges that last as long as the process.

    Guarantee
    ---------
    Everything that `Ledger` promises, except durability: what was spent is forgotten
    at the end of the process, and a forked process is refused. Use `SQLLedger` where a
    budget must survive.

    Examples
    --------
    >>> from reticent.ledger import AccountId, AccountScope, Cap, Charge, Request
    >>> ledger = MemoryLedger()
    >>> client = AccountId(AccountScope.CLIENT, "a")
    >>> _ = ledger.open_account(client, Cap.basic(epsilon=1.0))
    >>> receipt = ledger.charge(
    ...     Request(
    ...         key="request-1",
    ...         accounts=(client,),
    ...         charge=Charge.loss(epsilon=0.1, certificate="example"),
    ...         queries=(b"age=41",),
    ...     )
    ... )
    >>> receipt.outcome.value, ledger.settle(receipt, [b"yes"]).answers
    ('draw', (b'yes',))
    >>> print(ledger.balance(client))
    client:a: epsilon 0.1 of 1, delta 0 of 0
    """

    def __init__(self) -> None:
        self._state = LedgerState()
        self._state.append(LEDGER, {"format": 1, "ledger": secrets.token_hex(16)})
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()

    def __enter__(self) -> MemoryLedger:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise LedgerError(
            "a ledger is not copied: two copies would each spend the whole budget. "
            "Pass the ledger itself, or use SQLLedger to share one between processes."
        )

    def open_account(self, account: AccountId, cap: Cap) -> Balance:
        """Open an account under a cap; opening it again changes nothing."""
        with self._locked_state() as state:
            return decisions.open_account(state, account, cap)

    def set_cap(self, account: AccountId, cap: Cap) -> Balance:
        """Change the limits of an open account, not its method."""
        with self._locked_state() as state:
            return decisions.set_cap(state, account, cap)

    def record(self, act: str, by: str, facts: Mapping[str, Any]) -> Entry:
        """Write an administrative act into the chain; it costs nothing."""
        with self._locked_state() as state:
            return decisions.record(state, act, by, facts)

    def balance(self, account: AccountId) -> Balance:
        """Return what an account has spent and may spend."""
        with self._locked_state() as state:
            return state.balance(account)

    def balances(self) -> list[Balance]:
        """Return all accounts, sorted by name."""
        with self._locked_state() as state:
            return [state.accounts[name] for name in sorted(state.accounts)]

    def charge(self, request: Request) -> Receipt:
        """Charge all accounts of a request, or return what became of it before."""
        with self._locked_state() as state:
            return decisions.charge(state, request)

    async def acharge(self, request: Request) -> Receipt:
        """`charge` for asynchronous callers."""
        return self.charge(request)

    def charged(self, key: str) -> bool:
        """Return whether a request with this key was charged."""
        with self._locked_state() as state:
            return key in state.requests

    def settle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """Store the answers drawn for a receipt; reply with what this returns."""
        given = decisions.check_answers(receipt, answers)
        with self._locked_state() as state:
            return decisions.settle(state, receipt, given)

    async def asettle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """`settle` for asynchronous callers."""
        return self.settle(receipt, answers)

    def post(self, request: Request, answers: Iterable[bytes]) -> Receipt:
        """Charge a request and store answers that are known already, in one commit."""
        given = posts.checked_post(request, answers)
        with self._locked_state() as state:
            return posts.post(state, request, given)

    async def aanswer(self, request: Request, draw: Draw, about: Any) -> Receipt:
        """Charge a request, have its answers drawn, and settle them."""
        return self._answer(request, draw, about)

    def answer_then(
        self, request: Request, draw: Draw, about: Any, then: Callable[[Any], None]
    ) -> None:
        """`aanswer` for callers on an event loop that do not wait."""
        try:
            found: Any = self._answer(request, draw, about)
        except Exception as error:  # noqa: BLE001 - handed on to the caller
            found = error
        then(found)

    def answer_all(
        self,
        asked: Sequence[tuple[Request, Any]],
        draw: Draw,
        then: Callable[[Any, Any], None],
    ) -> None:
        """`answer_then` for requests that came together."""
        for request, about in asked:
            self.answer_then(request, draw, about, partial(then, about))

    def _answer(self, request: Request, draw: Draw, about: Any) -> Receipt:
        receipt = self.charge(request)
        if receipt.outcome is not Outcome.DRAW:
            return receipt
        (answers,) = draw([(about, receipt)])
        return self.settle(receipt, answers)

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries that follow sequence `after`, in order."""
        with self._locked_state() as state:
            return iter(state.written[after:])

    def length(self) -> int:
        """Return the sequence of the newest entry."""
        with self._locked_state() as state:
            return len(state.written)

    def verify(self) -> ChainVerification:
        """Recompute every hash and every total, and compare."""
        with self._locked_state() as state:
            replay = ChainReplay()
            replay.read_entries(state.written)
            replay.compare(state.accounts)
            return replay.result()

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    @contextmanager
    def _locked_state(self) -> Iterator[LedgerState]:
        if self._closed:
            raise LedgerError("this ledger is closed.")
        if os.getpid() != self._process:
            raise LedgerError(
                "this process was forked from the one that opened this ledger in "
                "memory, and a copy of it would spend the whole budget again. Share an "
                "SQLLedger instead."
            )
        with self._lock:
            yield self._state
