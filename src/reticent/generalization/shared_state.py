"""A small state in a ledger that any number of handles share.

Each version of the state is a ledger entry without a loss, under its own key. A key is
charged once, so of all handles that read version k and want to write version k + 1 one
wins, and the others read again: compare-and-swap. An entry is written completely or not
at all, so a crash loses only what nobody has seen.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from reticent._text import checked_name
from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    LedgerError,
    NotDeployableError,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    Outcome,
    Request,
)

T = TypeVar("T")
State: TypeAlias = dict[str, Any]

_RELATION = "notes"
_MANY = 1e9


class StateLog:
    """Numbered records under one name, each written once and never changed.

    They hold what a holdout or session has spent, and no noise. A leaderboard without
    a step also stores its leader's values, one per unit, so the ledger must be
    protected like the data.

    Parameters
    ----------
    ledger : Ledger
        Where records are stored.
    name : str
        Name of the session or holdout.
    """

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._name = checked_name(f"name={name!r}", name, longest=80)
        self._account = AccountId(AccountScope.DATASET, f"{name} notes")
        ledger.open_account(self._account, Cap.basic(epsilon=_MANY, relation=_RELATION))

    def __len__(self) -> int:
        spent = self._ledger.balance(self._account).spent
        if spent.epsilon:
            raise BudgetExhaustedError(
                f"the ledger was written off, so what {self._name!r} spent is no "
                "longer known. Use another name, and data that nobody has used."
            )
        return spent.answers

    def write(self, index: int, record: State) -> bool:
        """Write the record with this number; return whether this writer was the first.

        Two writers may want to write equal records, so each gets a random mark by which
        its writer recognises it.
        """
        marked = {**record, "mark": secrets.token_hex(16)}
        text = json.dumps(marked, sort_keys=True, allow_nan=False).encode()
        return self._ledger.post(self._request(index), [text]).answers == (text,)

    def read(self, index: int) -> State:
        """Return the record with this number, which must exist."""
        # A key that was charged before returns the answer stored with it.
        receipt = self._ledger.charge(self._request(index))
        (text,) = receipt.answers
        if receipt.outcome is not Outcome.ANSWERED or text is None:
            raise LedgerError(
                f"record {index} of {self._name!r} has no text, so its state is "
                "unknown. Use another name."
            )
        record = dict(json.loads(text))
        record.pop("mark", None)
        return record

    def _request(self, index: int) -> Request:
        return Request(
            key=f"{self._name}/note/{index}",
            accounts=(self._account,),
            charge=Charge.loss(epsilon=0.0, certificate="note", relation=_RELATION),
            queries=(b"note",),
        )


class SharedState:
    """The state of one handle, or of all handles that share a log.

    Parameters
    ----------
    start : dict
        The state before anything happened.
    log : StateLog or None, default=None
        Where the state is shared; None stores it in this object.
    """

    def __init__(self, start: State, log: StateLog | None = None) -> None:
        self._log = log
        self._known = (1, start)  # record 0 is the opening
        self._lock = threading.Lock()

    def read(self) -> State:
        """Return the latest state."""
        return self.latest()[1]

    def latest(self) -> tuple[int, State]:
        """Return the latest state and its version."""
        if self._log is None:
            return self._known
        version, state = self._known
        newest = len(self._log)
        if newest != version:
            version, state = newest, self._log.read(newest - 1)
            self._known = version, state
        return version, state

    def swap(self, version: int, state: State) -> bool:
        """Replace the state of this version, unless another handle did so first."""
        if self._log is not None:
            won = self._log.write(version, state)
            if won:
                self._known = version + 1, state
            return won
        with self._lock:
            if self._known[0] != version:
                return False
            self._known = version + 1, state
            return True

    def change(self, step: Callable[[State], tuple[State, T]]) -> T:
        """Apply a step to the latest state, and return its result once it is stored.

        `step` maps a state to a new one and a result. If another handle was quicker,
        the result is discarded unseen, and the step is repeated from the newer state.
        """
        while True:
            version, state = self.latest()
            new, result = step(state)
            if self.swap(version, new):
                return result


def open_state_log(
    ledger: Ledger | None, name: str | None, opening: State, *, seeded: bool
) -> StateLog:
    """Open a log, or continue one that was opened in the same way.

    Parameters
    ----------
    ledger, name
        Where, and under which name.
    opening : dict
        Public parameters and a fingerprint of the data. They must be the same each
        time, because the promise was made for them.
    seeded : bool
        Whether the noise comes from a seed. This is refused: the same noise would be
        drawn again after a restart and by another handle.
    """
    if ledger is None or name is None:
        raise InvalidParameterError("give both ledger=... and name=..., or neither.")
    if seeded:
        raise NotDeployableError(
            "a state that is stored in a ledger needs random_state=None: a seed would "
            "draw the same noise again after a restart."
        )
    log = StateLog(ledger, name)
    if not len(log):
        log.write(0, opening)
    if log.read(0) != json.loads(json.dumps(opening)):
        raise LedgerError(
            f"name={name!r} was opened with other data or parameters; a promise cannot "
            "change after the first use of the data. Use another name."
        )
    return log
