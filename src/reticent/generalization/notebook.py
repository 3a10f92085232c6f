"""Durable notes in a ledger: what a session or a holdout must remember."""

from __future__ import annotations

import json
import re
from typing import Any

from reticent.errors import InvalidParameterError, LedgerError, NotDeployableError
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    Outcome,
    Request,
)

_RELATION = "notes"
_MANY = 1e9
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Notebook:
    """A list of small notes under one name, each durable before `append` returns.

    The notes are entries of the ledger without a loss. They may hold secrets (a noisy
    threshold), so the ledger is to be guarded like the data.

    Parameters
    ----------
    ledger : Ledger
        Where notes are kept.
    name : str
        Name of the session or holdout.
    """

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._name = checked_name(name)
        self._account = AccountId(AccountScope.DATASET, f"{name} notes")
        ledger.open_account(self._account, Cap.basic(epsilon=_MANY, relation=_RELATION))

    def __len__(self) -> int:
        return self._ledger.balance(self._account).spent.answers

    def append(self, note: dict[str, Any]) -> None:
        """Write one note."""
        receipt = self._ledger.charge(self._request(len(self)))
        if receipt.outcome is not Outcome.DRAW:
            raise LedgerError(
                f"somebody else wrote to {self._name!r} at the same time; a session is "
                "used by one process at a time."
            )
        text = json.dumps(note, sort_keys=True, allow_nan=False)
        self._ledger.settle(receipt, [text.encode()])

    def read(self) -> list[dict[str, Any]]:
        """Return all notes; one that was lost in a crash while writing is left out."""
        found = (self._note(index) for index in range(len(self)))
        return [note for note in found if note is not None]

    def first(self) -> dict[str, Any]:
        """Return the note that the notebook was opened with."""
        found = (self._note(index) for index in range(len(self)))
        return next(note for note in found if note is not None)

    def last(self) -> dict[str, Any] | None:
        """Return the latest note that was written in full."""
        for index in reversed(range(len(self))):
            note = self._note(index)
            if note is not None:
                return note
        return None

    def _note(self, index: int) -> dict[str, Any] | None:
        # A key that was charged before is answered from the ledger's memory.
        (text,) = self._ledger.charge(self._request(index)).answers
        return None if text is None else dict(json.loads(text))

    def _request(self, index: int) -> Request:
        return Request(
            key=f"{self._name}/note/{index}",
            accounts=(self._account,),
            charge=Charge.loss(epsilon=0.0, certificate="note", relation=_RELATION),
            queries=(b"note",),
        )


def checked_name(name: Any) -> str:
    """Return the name of a session or holdout, or refuse it."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidParameterError(
            f"name={name!r} must be 1 to 80 letters, digits or ._-, and start with a "
            "letter or digit."
        )
    return name


def open_notebook(
    ledger: Ledger | None, name: str | None, opening: dict[str, Any], *, seeded: bool
) -> Notebook:
    """Open a notebook, or continue one that was opened in the same way.

    Parameters
    ----------
    ledger, name
        Where, and under which name.
    opening : dict
        Public parameters and a fingerprint of the data. They must be the same each
        time, because the promise was made for them.
    seeded : bool
        Whether the noise follows from a seed: refused, for the same noise would be
        drawn again after a restart.
    """
    if ledger is None or name is None:
        raise InvalidParameterError("give both ledger=... and name=..., or neither.")
    if seeded:
        raise NotDeployableError(
            "a state that is kept in a ledger needs random_state=None: a seed would "
            "draw the same noise again after a restart."
        )
    notes = Notebook(ledger, name)
    if not len(notes):
        notes.append(opening)
    first = notes.first()
    if first != json.loads(json.dumps(opening)):
        raise LedgerError(
            f"name={name!r} was opened with other data or parameters; a promise cannot "
            "be changed after the first look. Use another name."
        )
    return notes
