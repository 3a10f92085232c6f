"""A small state in a ledger that any number of handles share.

Each version of the state is a record of a `RecordLog`. Of all handles that read
version k and want to write version k + 1 one wins, and the others read again:
compare-and-swap.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from reticent.errors import InvalidParameterError, LedgerError, NotDeployableError
from reticent.ledger import AccountId, AccountScope, Ledger, RecordLog

T = TypeVar("T")
State: TypeAlias = dict[str, Any]


class StateLog(RecordLog):
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
        super().__init__(ledger, name, AccountId(AccountScope.DATASET, f"{name} notes"))

    def write(self, index: int, state: State) -> bool:
        """Write the state with this number; return whether this writer was the first.

        Two writers may want to write equal states, so each gets a random mark by which
        its writer recognises it.
        """
        marked = {**state, "mark": secrets.token_hex(16)}
        text = json.dumps(marked, sort_keys=True, allow_nan=False).encode()
        return self.post(index, text) == text

    def state(self, index: int) -> State:
        """Return the state with this number, which must exist."""
        state = dict(json.loads(self.read(index)))
        state.pop("mark", None)
        return state


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
            version, state = newest, self._log.state(newest - 1)
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

    The `opening` holds public parameters and a fingerprint of the data. It must be the
    same each time, because the promise was made for it. `seeded` noise is refused: the
    same noise would be drawn again after a restart and by another handle.
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
    if log.state(0) != json.loads(json.dumps(opening)):
        raise LedgerError(
            f"name={name!r} was opened with other data or parameters; a promise cannot "
            "change after the first use of the data. Use another name."
        )
    return log
