"""A leaderboard that cannot be climbed by overfitting to it (R3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    SolverError,
)
from reticent.generalization.averages import GRID_BITS, unit_values
from reticent.generalization.confidence import failure_of
from reticent.generalization.failures import SET_ASIDE, failure_bits
from reticent.generalization.notebook import Notebook, open_notebook
from reticent.generalization.reuse_rules import (
    AnswerAccuracy,
    answers_to_truth,
    ladder_transcripts,
)
from reticent.generalization.single import SingleState
from reticent.generalization.tables import Table
from reticent.guarantees import Certificate
from reticent.guarantees.numbers import probability, whole
from reticent.ledger import Ledger

_STEPS = 2.0**GRID_BITS


def correct(y: NDArray[Any], predictions: NDArray[Any]) -> NDArray[Any]:
    """Return 1 where a prediction is the label, so that the average is accuracy."""
    return np.asarray(predictions == y, dtype=np.float64)


class Ladder(SingleState):
    """A leaderboard that shows the best score so far, rounded, when it rose by a step.

    A submission that does not beat the score shown by a step changes nothing, so its
    author learns that much and no more. There are few possible transcripts, and few
    transcripts cannot overfit.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Hidden labels of the test set.
    metric : callable, default=accuracy
        ``metric(y, predictions)`` returns one value in [0, 1] a row, the larger the
        better; their average is the score.
    step : float or None, default=0.01
        How much better a submission must be. Scores shown are multiples of it. None is
        the parameter-free variant: a submission must be better by one standard error of
        its difference from the leader, and scores are shown to ``1/n``.
    submissions : int, default=1000
        Most submissions.
    improvements : int or None, default=None
        Most improvements that are shown. None is as many as there are steps, or 30
        for the parameter-free variant.
    units : array-like of shape (n_rows,), default=None
        The independent unit of each row.
    confidence : float, default=0.95
        Probability that all scores shown are within `error_at_most` of the truth.
    ledger, name : Ledger and str, default=None
        Where the state is kept, and under which name.

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
    With probability `confidence`, at every time: the score shown differs by at most
    `error_at_most` from the expected score of the best submission so far, on the
    distribution of the test set. Rules R3-ladder, G12 and R3-accuracy, where the proof
    is. In the parameter-free variant the step depends on the data, which does not
    enter the count of transcripts: what counts is that shown values rise on a fixed
    grid at most `improvements` times. When these are used up, the board closes.

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
    answers within 0.153721 of the truth but for 0.05
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
        self._table = Table(labels, labels, units)
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
        )
        self._seen = self._rises = self._shown = 0
        self._guessed = 1 - SET_ASIDE
        self._leading: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self.leader: int | None = None
        self._notes: Notebook | None = None
        if ledger is not None or name is not None:
            self._notes = open_notebook(ledger, name, self._opening(), seeded=False)
            self._restore(self._notes)

    def submit(self, predictions: ArrayLike) -> float:
        """Hand in predictions for all rows; return the score shown afterwards.

        Raises
        ------
        BudgetExhaustedError
            If all submissions or all improvements are used up.
        InvalidDataError
            If there is not one prediction a row.
        """
        given = np.asarray(predictions)
        if given.shape[:1] != (self._table.n_rows,):
            raise InvalidDataError(
                f"a submission needs one prediction for each of "
                f"n_rows={self._table.n_rows} rows; got shape {given.shape}."
            )
        with self._alone():
            self._admit()
            self._seen += 1
            try:
                values = self._values_of(given)
            except Exception:  # noqa: BLE001 - any failure may tell about a record
                self._fail()
            self._judge(values)
            self._remember()
            return self.best

    @property
    def best(self) -> float:
        """The score shown."""
        return self._shown / self._values

    @property
    def accuracy(self) -> Certificate[AnswerAccuracy]:
        """How far the score shown may be from the truth."""
        return answers_to_truth(
            self.certificate,
            beta=self._failure,
            threshold=self._margin,
            share=self._guessed,
        )

    @property
    def error_at_most(self) -> float:
        """How far the score shown may be from the truth."""
        return self.accuracy.guarantee.error

    @property
    def submissions_left(self) -> int:
        """How many submissions are still taken."""
        return 0 if self.closed else self.submissions - self._seen

    @property
    def closed(self) -> bool:
        """Whether all improvements are used up, though a better score is possible."""
        return self._rises >= self.improvements and self._shown < self._values

    def _values_of(self, predictions: NDArray[Any]) -> NDArray[np.int64]:
        """Return the score of each unit, in grid steps."""
        table = self._table
        rows = self._metric(table.y, predictions)  # type: ignore[arg-type]
        return unit_values(rows, table.positions, table.n_units).reshape(table.n_units)

    def _judge(self, values: NDArray[np.int64]) -> None:
        n = self._table.n_units
        score = int(values.sum())
        best = self._shown * n * _STEPS / self._values
        margin = self._margin
        if not self._fixed:
            # One standard error of the paired difference, at most 1/sqrt(n).
            spread = float(np.std((values - self._leading) / _STEPS))
            margin = min(margin, spread / math.sqrt(n))
        shown = min(self._values, round(score * self._values / (n * _STEPS)))
        if score > best + margin * n * _STEPS and shown > self._shown:
            self._shown, self.leader = shown, self._seen
            self._rises += 1
            self._leading = values

    def _admit(self) -> None:
        """Refuse before the labels are touched, for public reasons alone."""
        if self.closed:
            raise BudgetExhaustedError(
                f"the board is closed: it rose {self._rises} times, as often as "
                f"improvements={self.improvements} allows."
            )
        if not self._seen < self.submissions:
            raise BudgetExhaustedError(
                f"all submissions={self.submissions} were made; the board is final."
            )

    def _fail(self) -> NoReturn:
        self._guessed *= 2.0 ** -failure_bits(self._seen)
        self._remember()
        raise SolverError(
            "the metric failed on this submission. What it said is withheld, because "
            "it may describe a record, and the bound was widened."
        ) from None

    def _opening(self) -> dict[str, Any]:
        return {
            "kind": "ladder",
            "data": self._table.fingerprint(),
            "certificate": self.certificate.id,
            "margin": self._margin,
            "failure": self._failure,
        }

    def _remember(self) -> None:
        if self._notes is not None:
            self._notes.append(
                {
                    "seen": self._seen,
                    "rises": self._rises,
                    "shown": self._shown,
                    "leader": self.leader,
                    "guessed": self._guessed,
                    "leading": [] if self._fixed else self._leading.tolist(),
                }
            )

    def _restore(self, notes: Notebook) -> None:
        last = notes.last() or {}
        if "seen" in last:
            self._seen, self._rises = int(last["seen"]), int(last["rises"])
            self._shown, self.leader = int(last["shown"]), last["leader"]
            self._guessed = float(last["guessed"])
            if not self._fixed:
                self._leading = np.array(last["leading"], dtype=np.int64)
