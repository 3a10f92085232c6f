"""A leaderboard that cannot be climbed by overfitting to it (R3)."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._numbers import probability, whole
from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    InvalidParameterError,
)
from reticent.generalization.averages import GRID_BITS, unit_values, values_or_zero
from reticent.generalization.caller_code import is_plain_data, without_frames
from reticent.generalization.confidence import failure_of
from reticent.generalization.guarded_rows import GuardedRows
from reticent.generalization.holdout.rules import (
    AnswerAccuracy,
    answers_to_truth,
    ladder_transcripts,
)
from reticent.generalization.shared_state import SharedState, State, open_state_log
from reticent.generalization.single_process import SingleProcessObject
from reticent.guarantees import Certificate
from reticent.ledger import Ledger

_STEPS = 2.0**GRID_BITS
# The largest number of units whose values fit into one answer of a ledger.
_MOST_KEPT = 150_000


def correct(y: NDArray[Any], predictions: NDArray[Any]) -> NDArray[Any]:
    """Return 1 where a prediction is the label, so that the average is accuracy."""
    return np.asarray(predictions == y, dtype=np.float64)


class Ladder(SingleProcessObject):
    """A leaderboard that shows the best score so far, rounded, when it rose by a step.

    A submission that does not beat the score shown by a step changes nothing, and its
    author learns nothing else. So there are few possible transcripts, which bounds
    overfitting.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Hidden labels of the test set.
    metric : callable, default=accuracy
        ``metric(y, predictions)`` returns one value in [0, 1] per row, the larger the
        better; their average is the score. A row on which it fails counts as 0.
    step : float or None, default=0.01
        How much better a submission must be. Scores shown are multiples of it. None is
        the parameter-free variant: a submission must be better by one standard error of
        its difference from the leader, and scores are shown to ``1/n``.
    submissions : int, default=1000
        The largest number of submissions.
    improvements : int or None, default=None
        The largest number of improvements that are shown. None is as many as there are
        steps, or 30 for the parameter-free variant.
    units : array-like of shape (n_rows,), default=None
        The independent unit of each row.
    confidence : float, default=0.95
        Probability that all scores shown are within `error_at_most` of the truth.
    ledger, name : Ledger and str, default=None
        Where the state is stored, and under which name. All objects, processes and
        restarts that give the same name are one board.

    Attributes
    ----------
    best : float
        The score shown: 0 before the first submission that earns a step.
    leader : int or None
        Number of the submission that earned it, from 1.
    certificate : Certificate
        How many transcripts are possible (R3-ladder).
    accuracy : Certificate
        How far the score shown may be from the truth, at any time.

    Guarantee
    ---------
    With probability `confidence`, the score shown differs at every time by at most
    `error_at_most` from the expected score of the best submission so far, on the
    distribution of the test set (rules R3-ladder, G12 and R3-accuracy, where the proof
    is). In the parameter-free variant the step depends on the data. This does not
    change the count of transcripts, which needs only that shown values rise on a fixed
    grid at most `improvements` times. When these are used up, the board closes. The
    certificate states what is assumed of a `metric` that you pass.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 4000)
    >>> board = Ladder(y, step=0.05, submissions=500)
    >>> board.submit(rng.integers(0, 2, 4000)), board.submit(rng.integers(0, 2, 4000))
    (0.5, 0.5)
    >>> board.submit(np.where(rng.random(4000) < 0.8, y, 1 - y))
    0.8
    >>> print(board.accuracy.guarantee)
    answers within 0.15372 of the truth except with probability 0.05
    """

    def __init__(
        self,
        y: ArrayLike,
        *,
        metric: Callable[[NDArray[Any], NDArray[Any]], ArrayLike] = correct,
        step: float | None = 0.01,
        submissions: int = 1000,
        improvements: int | None = None,
        units: ArrayLike | None = None,
        confidence: float = 0.95,
        ledger: Ledger | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        labels = np.asarray(y)
        self._table = GuardedRows(labels, labels, units)
        self._metric = metric
        self._failure = failure_of(confidence)
        n = self._table.n_units
        self.submissions = whole("Ladder", "submissions", submissions)
        self._fixed = step is not None
        if step is None:
            self._values, self._margin = n, n**-0.5
        else:
            self._values = max(1, round(1 / probability("Ladder", "step", step)))
            self._margin = 1 / self._values
        if improvements is None:
            improvements = self._values if self._fixed else 30
        self.improvements = min(
            whole("Ladder", "improvements", improvements), self._values
        )
        self.certificate: Certificate[Any] = ladder_transcripts(
            n=n,
            submissions=self.submissions,
            values=self._values,
            improvements=self.improvements,
            own_metric=metric is not correct,
        )
        log = None
        if ledger is not None or name is not None:
            if not (self._fixed or n <= _MOST_KEPT):
                raise InvalidParameterError(
                    f"a board without a step stores its leader's values in the ledger, "
                    f"at most {_MOST_KEPT} units; got n_units={n}. Give a step."
                )
            log = open_state_log(ledger, name, self._opening(), seeded=False)
        start = {"seen": 0, "rises": 0, "shown": 0, "leader": None, "leading": ""}
        self._state = SharedState(start, log)

    def submit(self, predictions: ArrayLike) -> float:
        """Submit predictions for all rows; return the score shown afterwards.

        Raises
        ------
        BudgetExhaustedError
            If all submissions or all improvements are used up.
        InvalidDataError
            If there is not one prediction per row.
        """
        given = np.asarray(predictions)
        if given.shape[:1] != (self._table.n_rows,):
            raise InvalidDataError(
                f"a submission needs one prediction for each of "
                f"n_rows={self._table.n_rows} rows; got shape {given.shape}."
            )
        if self._metric is correct and given.ndim != 1:
            raise InvalidDataError(
                f"accuracy needs one label per row; got shape {given.shape}."
            )
        if not is_plain_data(given):
            raise InvalidDataError(
                "a submission must hold plain numbers or texts; other objects could "
                "read the labels that they are compared with."
            )
        return self._submitted(given)

    @without_frames
    def _submitted(self, given: NDArray[Any]) -> float:
        with self._exclusively():
            self._admit(self._state.read())
            values = self._values_of(given)
            return self._state.change(
                lambda state: self._after_submission(state, values)
            )

    @property
    def best(self) -> float:
        """The score shown."""
        return int(self._state.read()["shown"]) / self._values

    @property
    def leader(self) -> int | None:
        """Which submission earned the score shown, counted from 1."""
        leader: int | None = self._state.read()["leader"]
        return leader

    @property
    def accuracy(self) -> Certificate[AnswerAccuracy]:
        """How far the score shown may be from the truth."""
        return answers_to_truth(
            self.certificate,
            beta=self._failure,
            threshold=self._margin,
        )

    @property
    def error_at_most(self) -> float:
        """How far the score shown may be from the truth."""
        return self.accuracy.guarantee.error

    @property
    def submissions_left(self) -> int:
        """How many submissions are still accepted."""
        state = self._state.read()
        return 0 if self._closed(state) else self.submissions - int(state["seen"])

    @property
    def closed(self) -> bool:
        """Whether all improvements are used up, though a better score is possible."""
        return self._closed(self._state.read())

    def _closed(self, state: State) -> bool:
        rises, shown = int(state["rises"]), int(state["shown"])
        return rises >= self.improvements and shown < self._values

    def _values_of(self, predictions: NDArray[Any]) -> NDArray[np.int64]:
        """Return the score of each unit, in grid steps."""
        table, labels = self._table, np.asarray(self._table.y)
        rows = values_or_zero(
            lambda rows: self._metric(labels[rows], predictions[rows]),
            table.n_rows,
            (),
        )
        return unit_values(rows, table.positions, table.n_units)

    def _after_submission(
        self, state: State, values: NDArray[np.int64]
    ) -> tuple[State, float]:
        """Return the state after a submission with these values, and what it shows."""
        self._admit(state)
        n, seen, before = self._table.n_units, int(state["seen"]) + 1, state["shown"]
        score = int(values.sum())
        margin = self._margin
        if not self._fixed:
            # One standard error of the paired difference, at most 1/sqrt(n).
            leading = _unpacked(state["leading"], n)
            spread = float(np.std((values - leading) / _STEPS))
            margin = min(margin, spread / math.sqrt(n))
        shown = min(self._values, round(score * self._values / (n * _STEPS)))
        best = before * n * _STEPS / self._values
        new = {**state, "seen": seen}
        if score > best + margin * n * _STEPS and shown > before:
            new |= {"shown": shown, "leader": seen, "rises": int(state["rises"]) + 1}
            new["leading"] = "" if self._fixed else _packed(values)
        return new, new["shown"] / self._values

    def _admit(self, state: State) -> None:
        """Refuse before the labels are used, for public reasons alone."""
        if self._closed(state):
            raise BudgetExhaustedError(
                f"the board is closed: it rose {state['rises']} times, as often as "
                f"improvements={self.improvements} allows."
            )
        if not state["seen"] < self.submissions:
            raise BudgetExhaustedError(
                f"all submissions={self.submissions} were made; the board is final."
            )

    def _opening(self) -> dict[str, Any]:
        return {
            "kind": "ladder",
            "data": self._table.fingerprint(),
            "certificate": self.certificate.id,
            "margin": self._margin,
            "failure": self._failure,
        }


def _packed(values: NDArray[np.int64]) -> str:
    """Return values below 2^31 as text."""
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes())).decode()


def _unpacked(text: str, n: int) -> NDArray[np.int64]:
    """Undo `_packed`; an empty text means no values yet, all zero."""
    if not text:
        return np.zeros(n, dtype=np.int64)
    packed = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(packed, dtype="<i4").astype(np.int64)
