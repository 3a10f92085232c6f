"""Replay the chain of entries, recompute the totals, and compare with those stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.errors import LedgerError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.cap_changes import successor
from reticent.ledger.caps import Cap
from reticent.ledger.entries import (
    ACCOUNT,
    ACT,
    ANSWER,
    CAP,
    CHARGE,
    GENESIS,
    LEDGER,
    WRITE_OFF,
    Entry,
    costs_of,
    seal,
)
from reticent.ledger.units import Spend

# Different charges kept before they are added up; bounds the memory of a long replay.
_MOST_PENDING = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """What a replay of the whole chain found; everything in it agreed."""

    ledger: str  #: the ledger's random name
    epoch: int  #: how often its budget was written off
    #: Numbers of each; `charges` and `answers` count only what this replay read.
    entries: int
    charges: int
    answers: int
    head: str  #: hash of the last entry


class ChainReplay:
    """Rederives the ledger's name, epoch, caps and spends from its entries, in order.

    Parameters
    ----------
    ledger, sequence, head, epoch, accounts
        Where to start: at the beginning, or at the state of a signed checkpoint.
    """

    def __init__(
        self,
        *,
        ledger: str = "",
        sequence: int = 0,
        head: str = GENESIS,
        epoch: int = 0,
        accounts: Mapping[str, Balance] | None = None,
    ) -> None:
        self.ledger = ledger
        self.sequence = sequence
        self.head = head
        self.epoch = epoch
        self._accounts = dict(accounts or {})
        self._pending: Counter[str] = Counter()
        self.marks = 0
        self._charges = 0
        self._answers = 0

    def read(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take rows of sequence, kind, request, settles, charges, body, hash, marks."""
        for sequence, kind, request, settles, charges, body, sealed, marks in rows:
            if sequence != self.sequence + 1:
                raise LedgerError(
                    f"sequence={self.sequence + 1} is missing from the ledger; it was "
                    "cut or reordered. Restore a good copy and write the budget off."
                )
            self.head = seal(
                self.head, sequence, kind, request, settles, charges, body, marks
            )
            if self.head != sealed:
                raise LedgerError(
                    f"sequence={sequence} does not match its hash; the ledger was "
                    "changed. Restore a good copy and write the budget off."
                )
            self.sequence = sequence
            if kind == CHARGE:
                self._charges += 1
                self.marks += len(marks)
                self._pending[charges] += 1
                if len(self._pending) >= _MOST_PENDING:
                    self._add_up()
            elif kind == ANSWER:
                self._answers += 1
            elif kind == ACT:
                pass  # it changes no account
            else:
                self._apply(kind, json.loads(body))

    def read_entries(self, entries: Iterable[Entry]) -> None:
        """Take entries as objects."""
        self.read(
            (
                e.sequence,
                e.kind,
                e.request,
                e.settles,
                e.charges,
                e.body,
                e.hash,
                e.marks,
            )
            for e in entries
        )

    def _add_up(self) -> None:
        for charges, count in self._pending.items():
            for name, cost in costs_of(charges).items():
                known = self._accounts[name]
                spent = known.cap.after(known.spent, cost.times(count))
                self._accounts[name] = Balance(known.account, known.cap, spent)
        self._pending.clear()

    def _apply(self, kind: str, content: Mapping[str, Any]) -> None:
        """Apply an entry that changes more than sums. Such entries are rare."""
        self._add_up()
        if kind == LEDGER:
            self.ledger = str(content["ledger"])
        elif kind in {ACCOUNT, CAP}:
            name, cap = content["account"], Cap.from_json(content["cap"])
            known = self._accounts.get(name)
            spent = Spend()
            if known is not None:
                following = successor(cap, known.cap, known.spent)
                if following is None:
                    raise LedgerError(
                        f"sequence={self.sequence} changes a cap in a way that is not "
                        "allowed. Restore a good copy and write the budget off."
                    )
                cap, spent = following
            self._accounts[name] = Balance(AccountId.parse(name), cap, spent)
        elif kind == WRITE_OFF:
            self.epoch = int(content["epoch"])
            for name, text in content["accounts"].items():
                cap = Cap.from_json(text)
                self._accounts[name] = Balance(
                    AccountId.parse(name), cap, cap.exhausted
                )
        else:
            raise LedgerError(
                f"sequence={self.sequence} is of kind={kind!r}, which this version "
                "does not know; use the version that wrote it."
            )

    def accounts(self) -> dict[str, Balance]:
        """Return the accounts that the entries add up to."""
        self._add_up()
        return self._accounts

    def compare(self, accounts: Mapping[str, Balance]) -> None:
        """Refuse account rows that are not the sums of the chain."""
        derived = self.accounts()
        if derived == accounts:
            return
        names = sorted(
            name
            for name in derived.keys() | accounts.keys()
            if derived.get(name) != accounts.get(name)
        )
        raise LedgerError(
            f"account={names[0]!r} does not agree with the entries of the ledger; its "
            "row was changed. Restore a good copy and write the budget off."
        )

    def result(self) -> ChainVerification:
        """Return what was read."""
        return ChainVerification(
            ledger=self.ledger,
            epoch=self.epoch,
            entries=self.sequence,
            charges=self._charges,
            answers=self._answers,
            head=self.head,
        )
