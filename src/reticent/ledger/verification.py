"""Replay the chain of entries, recompute the totals, and compare with those stored."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from reticent.errors import LedgerError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.cap_changes import successor
from reticent.ledger.caps import Cap
from reticent.ledger.entries import (
    ACCOUNT,
    ACT,
    ANSWER,
    BETWEEN_FIELDS,
    CAP,
    CHARGE,
    FIELD,
    GENESIS,
    IN_MARK,
    LEDGER,
    MARK,
    WRITE_OFF,
    Entry,
    costs_of,
    mark_text,
    sealed_text,
)
from reticent.ledger.units import Spend

# Different charges kept before they are added up; bounds the memory of a long replay.
_MOST_PENDING = 10_000
# Hashes of keys kept, in 16 MiB; of a longer ledger the database must answer.
_MOST_KEYS = 2**21


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


class Repeats:
    """Notes the hashes of values and tells whether two may be the same.

    Equal values have equal hashes, so different hashes prove that no value occurred
    twice. Two equal hashes prove nothing; then somebody must compare the values.
    """

    def __init__(self) -> None:
        self._hashes = array("q")
        self._too_many = False

    @property
    def note(self) -> Callable[[int], None]:
        """Takes the hash of the next value."""
        return self._hashes.append

    def trim(self) -> None:
        """Give up if there are too many values to keep; call it now and then."""
        if len(self._hashes) > _MOST_KEYS:
            self._too_many = True
        if self._too_many:
            del self._hashes[:]

    def possible(self) -> bool:
        """Return whether any two of the values may be the same."""
        ordered = np.sort(np.asarray(self._hashes, dtype=np.int64))
        return self._too_many or bool((ordered[1:] == ordered[:-1]).any())


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
        self._repeats = {"request": Repeats(), "settles": Repeats()}

    def read(
        self, rows: Iterable[Sequence[Any]], marks: Iterable[Sequence[Any]]
    ) -> None:
        """Take rows of sequence, kind, request, settles, charges, body and hash.

        Rows of `marks` are sequence, position, query, account and release. Both are in
        order. A long chain is read at every start, and most of that time is spent in
        this loop, so it makes no objects and looks up no attributes.
        """
        head, last, pending = self.head, self.sequence, self._pending
        texts, rows_of_marks = _mark_texts(marks)
        marked, n_marks, n_charges, n_answers = texts.pop, 0, 0, 0
        note_request, note_settled = (each.note for each in self._repeats.values())
        for sequence, kind, request, settles, charges, body, sealed in rows:
            if sequence != last + 1:
                raise LedgerError(
                    f"sequence={last + 1} is missing from the ledger; it was cut or "
                    "reordered. Restore a good copy and write the budget off."
                )
            noted = marked(sequence, "")
            text = sealed_text(
                head, sequence, kind, request, settles, charges, body, noted
            )
            head = sha256(text.encode()).hexdigest()
            count = noted.count(MARK)
            # Other fields may have the same text: with a mark in the body, with the
            # price where an answer says what it settles, or with "-" for nothing.
            if (
                head != sealed
                or text.count(FIELD) != BETWEEN_FIELDS + IN_MARK * count
                or not (settles is None or type(settles) is int)
            ):
                raise LedgerError(
                    f"sequence={sequence} does not match its hash; the ledger was "
                    "changed. Restore a good copy and write the budget off."
                )
            last = sequence
            if request is not None:
                note_request(hash(request))
            if settles is not None:
                note_settled(hash(settles))
            n_marks += count
            if kind == CHARGE:
                n_charges += 1
                pending[charges] += 1
                if len(pending) >= _MOST_PENDING:
                    self._add_up()
            elif kind == ANSWER:
                n_answers += 1
            elif kind == ACT:
                pass  # it changes no account
            else:
                self.sequence = sequence
                self._apply(kind, json.loads(body))
        if texts or n_marks != rows_of_marks:
            raise LedgerError(
                f"queries remembered before sequence={last + 1} belong to no entry or "
                "stand in one row; the ledger was changed. Restore a good copy and "
                "write the budget off."
            )
        self.head, self.sequence = head, last
        self.marks += n_marks
        self._charges += n_charges
        self._answers += n_answers
        for each in self._repeats.values():
            each.trim()

    def read_entries(self, entries: Sequence[Entry]) -> None:
        """Take entries as objects."""
        marks = (
            (entry.sequence, position, *mark)
            for entry in entries
            for position, mark in enumerate(entry.marks)
        )
        self.read((entry[:-1] for entry in entries), marks)

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

    def doubtful(self) -> list[str]:
        """Return the columns in which two entries may have the same value.

        All others have no value twice in the entries that were read.
        """
        return [name for name, seen in self._repeats.items() if seen.possible()]

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


def _mark_texts(rows: Iterable[Sequence[Any]]) -> tuple[dict[int, str], int]:
    """Return what hashes cover of the marks of each entry, and the number of rows."""
    texts: dict[int, str] = {}
    last, place, count = None, 0, 0
    for sequence, position, query, account, release in rows:
        place = place + 1 if sequence == last else 0
        if position != place or (not place and sequence in texts):
            raise misplaced_mark(sequence)
        text = mark_text(query, account, release)
        texts[sequence] = texts.get(sequence, "") + text
        last = sequence
        count += 1
    return texts, count


def misplaced_mark(sequence: int) -> LedgerError:
    """Return the error for marks whose places have gaps."""
    return LedgerError(
        f"sequence={sequence} remembers a query in the wrong place; the ledger was "
        "changed. Restore a good copy and write the budget off."
    )
