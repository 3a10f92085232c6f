"""A ledger in memory: for experiments, tests and one process without restarts."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from reticent.errors import LedgerError
from reticent.ledger import decisions, posts
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.decisions import Page
from reticent.ledger.entries import LEDGER, Entry
from reticent.ledger.operations import Draw
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.verification import Replay, Verification


class MemoryLedger:
    """Accounts, caps and charges that last as long as the process.

    Guarantee
    ---------
    Everything that `Ledger` promises, except durability: what was spent is forgotten
    at the end of the process, and a copied or forked ledger counts apart. Use
    `SQLLedger` where a budget must survive.

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
        self._page = Page()
        self._page.append(LEDGER, {"format": 1, "ledger": secrets.token_hex(16)})
        self._lock = threading.Lock()
        self._closed = False

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
        """Open an account under a cap; the same again changes nothing."""
        with self._held() as page:
            return decisions.open_account(page, account, cap)

    def set_cap(self, account: AccountId, cap: Cap) -> Balance:
        """Change the limits of an open account, not its method."""
        with self._held() as page:
            return decisions.set_cap(page, account, cap)

    def balance(self, account: AccountId) -> Balance:
        """Return what an account has spent and may spend."""
        with self._held() as page:
            return page.balance(account)

    def balances(self) -> list[Balance]:
        """Return all accounts, sorted by name."""
        with self._held() as page:
            return [page.accounts[name] for name in sorted(page.accounts)]

    def charge(self, request: Request) -> Receipt:
        """Charge all accounts of a request, or say what became of it before."""
        with self._held() as page:
            return decisions.charge(page, request)

    async def acharge(self, request: Request) -> Receipt:
        """`charge` for asynchronous callers."""
        return self.charge(request)

    def charged(self, key: str) -> bool:
        """Return whether a request with this key was charged."""
        with self._held() as page:
            return key in page.requests

    def settle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """Store the answers drawn for a receipt; reply with what this returns."""
        given = decisions.check_answers(receipt, answers)
        with self._held() as page:
            return decisions.settle(page, receipt, given)

    async def asettle(self, receipt: Receipt, answers: Iterable[bytes]) -> Receipt:
        """`settle` for asynchronous callers."""
        return self.settle(receipt, answers)

    def post(self, request: Request, answers: Iterable[bytes]) -> Receipt:
        """Charge a request and store answers that are known already, in one commit."""
        given = posts.checked_post(request, answers)
        with self._held() as page:
            return posts.post(page, request, given)

    async def aanswer(self, request: Request, draw: Draw, about: Any) -> Receipt:
        """Charge a request, have its answers drawn, and settle them."""
        receipt = self.charge(request)
        if receipt.outcome is not Outcome.DRAW:
            return receipt
        (answers,) = draw([(about, receipt)])
        return self.settle(receipt, answers)

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries that follow sequence `after`, in order."""
        with self._held() as page:
            return iter(page.written[after:])

    def verify(self) -> Verification:
        """Recompute every hash and every total, and compare."""
        with self._held() as page:
            replay = Replay()
            replay.read_entries(page.written)
            replay.compare(page.accounts)
            return replay.result()

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _held(self) -> _Held:
        if self._closed:
            raise LedgerError("this ledger is closed.")
        return _Held(self._lock, self._page)


class _Held:
    """The page, for as long as nobody else has it."""

    def __init__(self, lock: threading.Lock, page: Page) -> None:
        self._lock, self._page = lock, page

    def __enter__(self) -> Page:
        self._lock.acquire()
        return self._page

    def __exit__(self, *failure: object) -> None:
        self._lock.release()
