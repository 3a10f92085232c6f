"""The part of a ledger that operations read, and what they add to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from reticent.errors import AccountNotOpenError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.charges import Charge
from reticent.ledger.entries import (
    ANSWER,
    CHARGE,
    GENESIS,
    Entry,
    Mark,
    canonical,
    seal,
)
from reticent.ledger.units import Spend

_new = tuple.__new__  # of a named tuple, in a third of the time


class Needs(NamedTuple):
    """Which part of the ledger an operation reads."""

    accounts: Collection[str] = ()
    requests: Collection[str] = ()
    queries: Collection[str] = ()
    charges: Collection[int] = ()

    @classmethod
    def union(cls, parts: Iterable[Needs]) -> Needs:
        """Return what several operations read together."""
        accounts: set[str] = set()
        requests: set[str] = set()
        queries: set[str] = set()
        charges: set[int] = set()
        for part in parts:
            accounts.update(part.accounts)
            requests.update(part.requests)
            queries.update(part.queries)
            charges.update(part.charges)
        return cls(accounts, requests, queries, charges)


_Price: TypeAlias = tuple[Cap, Charge, Spend]


@dataclass(slots=True)
class LedgerState:
    """The part of the ledger that operations read, and what they add to it.

    `answers` and `charges` are indexed by the sequence of the charge; `releases` maps
    a query to the charge under which its remembered answer was drawn, and its place
    there; `seen` holds which accounts paid later to see which release.
    """

    sequence: int = 0
    hash: str = GENESIS
    ledger: str = ""
    epoch: int = 0
    accounts: dict[str, Balance] = field(default_factory=dict)
    requests: dict[str, Entry] = field(default_factory=dict)
    charges: dict[int, Entry] = field(default_factory=dict)
    answers: dict[int, Entry] = field(default_factory=dict)
    releases: dict[str, tuple[int, int]] = field(default_factory=dict)
    seen: set[Mark] = field(default_factory=set)
    written: list[Entry] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    prices: dict[tuple[str, int], _Price] = field(default_factory=dict)

    def price(self, balance: Balance, name: str, charge: Charge, count: int) -> Spend:
        """Return what a number of answers cost an account.

        Requests that share a commit mostly ask for the same, so the result is cached
        for the same cap and charge objects, which do not change.
        """
        known = self.prices.get((name, count))
        if known is None or known[0] is not balance.cap or known[1] is not charge:
            cost = balance.cap.cost(charge, count)
            known = self.prices[name, count] = balance.cap, charge, cost
        return known[2]

    def append(
        self,
        kind: str,
        content: Mapping[str, Any] | str,
        *,
        request: str | None = None,
        settles: int | None = None,
        charges: str = "",
        marks: tuple[Mark, ...] = (),
    ) -> Entry:
        """Add an entry to the chain; its content may be in canonical form already."""
        body = content if isinstance(content, str) else canonical(content)
        sequence = self.sequence + 1
        sealed = seal(self.hash, sequence, kind, request, settles, charges, body, marks)
        entry = _new(
            Entry, (sequence, kind, request, settles, charges, body, sealed, marks)
        )
        self.sequence, self.hash = sequence, sealed
        self.written.append(entry)
        self.index(entry)
        return entry

    def index(self, entry: Entry) -> None:
        """Make a charge or an answer findable; answers are in order of sequence."""
        if entry.kind == CHARGE and entry.request is not None:
            self.requests[entry.request] = entry
            self.charges[entry.sequence] = entry
            for mark in entry.marks:
                if mark[1]:
                    self.seen.add(mark)
        elif entry.kind == ANSWER and entry.settles is not None:
            self.answers[entry.settles] = entry
            drawn = self.charges[entry.settles].marks
            for place, (query, account, _) in enumerate(drawn):
                if not account:
                    # The first answer stored is the one that is remembered.
                    self.releases.setdefault(query, (entry.settles, place))

    def balance(self, account: AccountId) -> Balance:
        """Return an open account."""
        try:
            return self.accounts[str(account)]
        except KeyError:
            raise AccountNotOpenError(
                f"account={str(account)!r} is not open; open it with a cap first."
            ) from None
