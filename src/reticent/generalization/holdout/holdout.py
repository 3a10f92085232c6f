"""A holdout set that stays valid when it is used many times (R3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    SolverError,
)
from reticent.generalization.averages import (
    GRID_BITS,
    Call,
    checked_shape,
    row_values,
    unit_totals,
    values_or_zero,
)
from reticent.generalization.caller_code import (
    Failed,
    run_withholding_errors,
    without_frames,
)
from reticent.generalization.confidence import failure_of
from reticent.generalization.guarded_rows import GuardedRows
from reticent.generalization.holdout.answers import HoldoutAnswer, checked_guesses
from reticent.generalization.holdout.comparisons import Comparison, first_comparison
from reticent.generalization.holdout.design import HoldoutDesign, design_holdout
from reticent.generalization.holdout.rules import AnswerAccuracy
from reticent.generalization.holdout.scoring import UnitScorer
from reticent.generalization.shared_state import SharedState, State, open_state_log
from reticent.generalization.single_process import SingleProcessObject
from reticent.guarantees import Certificate
from reticent.ledger import Ledger
from reticent.mechanisms import RandomSource, draw_discrete_laplace, noise_source, reach

_STEPS = 2.0**GRID_BITS


class ReusableHoldout(SingleProcessObject):
    """A holdout set that can be asked adaptively, thousands of times.

    Each query comes with a *guess*, found on the training data or in any other way
    without the holdout. If the holdout agrees up to a threshold, the guess is returned,
    which reveals almost nothing about the holdout. If not, the holdout's own value is
    returned, with noise or rounded; this may happen `overfits` times.

    Parameters
    ----------
    X : array-like of shape (n_rows, ...), data frame or sparse matrix
        Rows of the holdout. They are never returned.
    y : array-like of shape (n_rows,) or None, default=None
        Labels.
    queries : int, default=1000
        The largest number of queries in total.
    overfits : int, default=10
        The largest number of answers that contradict their guess; the holdout stops
        after the last.
    threshold : float or None, default=None
        Distance from the guess that counts as agreement. None is the distance that
        honest guesses rarely reach in this number of queries.
    guess_units : int or None, default=None
        Number of units behind a guess, for example the rows of a validation part. None
        is the number of units of the holdout.
    method : {"auto", "rounding", "laplace"}, default="auto"
        "laplace" is Thresholdout: noise makes all answers together pure DP (R3), if
        queries behave as the certificate assumes.
        "rounding" uses no noise: answers take few values, so there are few transcripts
        (R3-rounding); it is more accurate but not private. "auto" takes the one with
        the smaller `error_at_most`.
    scale : float or None, default=None
        Noise scale of an answer. None balances noise against privacy loss.
    scoring : str or callable, default="accuracy"
        What `score` computes: a scikit-learn scorer with values in [0, 1]. Accuracy is
        an average over rows. Metrics that are not, such as the area under the curve,
        are averaged over units of several rows; see `rows_per_unit`.
    rows_per_unit : int, default=1
        Rows that are scored together, drawn at random. The truth is then the expected
        score on this many new rows, and there are fewer units.
    units : array-like of shape (n_rows,), default=None
        The independent unit of each row, instead of `rows_per_unit`.
    confidence : float, default=0.95
        Probability that all answers are within `error_at_most` of the truth.
    random_state : None, int, RandomState or Generator, default=None
        A seed makes the certificate conditional: for experiments.
    ledger, name : Ledger and str, default=None
        Where the state is stored, and under which name. All objects, processes and
        restarts that give the same name spend one budget. Without a ledger this object
        holds the state.

    Attributes
    ----------
    certificate : Certificate
        What all answers together promise: pure privacy, or few transcripts.
    accuracy : Certificate
        How far any answer may be from the truth.
    error_at_most : float
        The number in `accuracy`.
    design : HoldoutDesign
        The public parameters with everything filled in.

    Guarantee
    ---------
    With probability `confidence`, every value that was ever returned is within
    `error_at_most` of the query's expectation on the distribution that the holdout was
    drawn from, however queries depend on earlier answers: rules R3 or R3-rounding, and
    R3-accuracy. The holdout's rows must be independent draws, and neither guesses nor
    models may have been made from them. Models and guesses may depend on a training
    set: given the training set they are queries like any other. Queries are code that
    sees all rows. The certificate states what is assumed of them: that the value at a
    row depends on that row alone, and that nothing else gets out. Errors and warnings
    are withheld. With "laplace" a row on which a query fails silently counts as 0; with
    "rounding" a query that fails is an answer that contradicts its guess. Copies share
    one state, so that no budget is spent twice.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(5000, 3)), rng.integers(0, 2, 5000)
    >>> holdout = ReusableHoldout(X, y, queries=100, overfits=2)
    >>> holdout.query(lambda X, y: (X[:, 0] > 0) == y, guess=0.5)
    HoldoutAnswer(value=0.5, overfit=False)
    >>> holdout.query(lambda X, y: (X[:, 0] > 0) == y, guess=0.9).overfit
    True
    >>> print(holdout.accuracy.guarantee)
    answers within 0.0855189 of the truth except with probability 0.05
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        queries: int = 1000,
        overfits: int = 10,
        threshold: float | None = None,
        guess_units: int | None = None,
        method: str = "auto",
        scale: float | None = None,
        scoring: Any = "accuracy",
        rows_per_unit: int = 1,
        units: ArrayLike | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
        ledger: Ledger | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._source: RandomSource = noise_source(random_state)
        self._table = GuardedRows(X, y, units, rows_per_unit)
        self._failure = failure_of(confidence)
        self._scorer = UnitScorer(scoring)
        self.rows_per_unit = self._table.rows_per_unit
        self.design: HoldoutDesign = design_holdout(
            n=self._table.n_units,
            queries=queries,
            overfits=overfits,
            threshold=threshold,
            guess_units=guess_units,
            method=method,
            scale=scale,
            beta=self._failure,
            seeded=self._source.seeded,
        )
        self._line: Comparison = first_comparison(self.design)
        log = None
        if ledger is not None or name is not None:
            log = open_state_log(
                ledger, name, self._opening(), seeded=self._source.seeded
            )
        self._state = SharedState({"asked": 0, "left": self.design.overfits}, log)

    def query(
        self,
        function: Callable[[Any, Any], ArrayLike],
        *,
        guess: ArrayLike,
    ) -> HoldoutAnswer:
        """Ask for the average of a function with values in [0, 1].

        Parameters
        ----------
        function : callable
            ``function(X, y)`` returns one value per row, which depends on that row
            alone, or a table with one column for each of several queries. Values
            outside [0, 1] are clipped. It gets copies of all rows, of two random halves
            to check that it looks at no other rows, and with "laplace" of fewer rows
            where it fails. Try it on training rows first: its errors and warnings on
            the holdout are withheld.
        guess : float or array-like of shape (n_queries,)
            The expected average, found without the holdout.

        Raises
        ------
        BudgetExhaustedError
            If all queries are spent, or the holdout has stopped.
        SolverError
            If the function failed and the method is "rounding"; this costs one of
            `overfits`.
        """
        guesses = checked_guesses(guess)
        return self._ask(
            lambda rows: function(*self._table.rows(rows)), guesses, twice=True
        )

    @without_frames
    def _ask(
        self, call: Call, guesses: NDArray[np.float64], *, twice: bool
    ) -> HoldoutAnswer:
        """Check the budget, evaluate, compare and record in one step, then answer."""
        count = guesses.size
        with self._exclusively():
            self._admitted(self._state.read(), count)
            totals = self._totals(call, guesses.shape, self._source if twice else None)
            if isinstance(totals, Failed):
                self._state.change(lambda state: (self._failed(state, count), None))
                raise SolverError(
                    "the query failed on the holdout. Its message is withheld, "
                    "because it may describe a record, and it cost one of "
                    f"overfits={self.design.overfits}. Try the query on training rows "
                    "first."
                )
            values, overfit, self._line = self._state.change(
                lambda state: self._answered(state, totals, np.atleast_1d(guesses))
            )
        before = self.design.overfits - self._line.draws - int(overfit.sum())
        if guesses.ndim == 0:
            return HoldoutAnswer(float(values[0]), bool(overfit[0]), before)
        return HoldoutAnswer(values, overfit, before)

    def score(
        self, estimator: Any, *, guess: float | None = None, train: Any = None
    ) -> HoldoutAnswer:
        """Ask for the score of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted on anything but the holdout.
        guess : float, default=None
            The score expected, for example from cross-validation on training data.
        train : tuple of (X, y), default=None
            Rows to compute the guess from, instead of `guess`.
        """
        if (guess is None) == (train is None):
            raise InvalidParameterError("score needs either guess=... or train=(X, y).")
        if self._table.y is None:
            raise InvalidParameterError("score needs a holdout with labels, y=...")
        if train is not None:
            guess = self.average_score(estimator, *train)
        guesses = checked_guesses(0.0 if guess is None else guess)

        def call(rows: NDArray[np.int64]) -> NDArray[Any]:
            positions = self._table.positions[rows]
            X, y = self._table.rows(rows)
            return self._scorer.values(estimator, X, y, positions, forgive=True)

        return self._ask(call, guesses, twice=False)

    def scorer(self, estimator: Any, X: Any, y: Any) -> float:
        """Score like a scikit-learn scorer; the given rows supply the guess.

        ``GridSearchCV(model, grid, scoring=holdout.scorer, cv=ShuffleSplit(1))`` on
        training data asks the holdout once per candidate. Use one process (`n_jobs=1`).
        """
        return float(self.score(estimator, train=(X, y)).value)

    def average_score(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the average score over units of rows that are not the holdout's."""
        table = GuardedRows(X, y, None, min(self.rows_per_unit, len(y)))
        values = self._scorer.values(estimator, table.X, table.y, table.positions)
        total = unit_totals(values, table.positions, table.n_units)
        return float(total / (table.n_units * _STEPS))

    @property
    def certificate(self) -> Certificate[Any]:
        """What all answers together promise."""
        return self.design.certificate

    @property
    def accuracy(self) -> Certificate[AnswerAccuracy]:
        """How far answers may be from the truth, all at once."""
        return self.design.accuracy(self._failure)

    @property
    def error_at_most(self) -> float:
        """How far answers may be from the truth, all at once."""
        return self.accuracy.guarantee.error

    def interval(self, answer: HoldoutAnswer) -> tuple[float, float]:
        """Return where the truth of one answer is; all intervals hold at once."""
        return self.design.interval(answer, self._failure)

    @property
    def queries_left(self) -> int:
        """How many queries may still be asked."""
        state = self._state.read()
        left = self._latest(state).left
        return self.design.queries - int(state["asked"]) if left else 0

    @property
    def overfits_left(self) -> int:
        """How many answers of this object may still contradict their guess.

        Objects that share a noisy holdout each draw their own threshold, which is lost
        when the object ends: each costs one of `overfits`.
        """
        return self._latest(self._state.read()).left

    @property
    def stopped(self) -> bool:
        """Whether the last answer that may contradict a guess has been given."""
        return self.overfits_left == 0

    def _latest(self, state: State) -> Comparison:
        """Return this object's comparison with the number of answers that is left."""
        return replace(self._line, draws=int(state["left"]))

    def _admitted(self, state: State, count: int) -> Comparison:
        """Refuse before the data are used, for public reasons alone."""
        line, asked = self._latest(state), int(state["asked"])
        if not line.left:
            raise BudgetExhaustedError(
                f"the holdout stopped: answers have contradicted their guess as often "
                f"as overfits={self.design.overfits} allows, or other objects that "
                "share it may still give the last of them. Use a new holdout."
            )
        if not asked + count <= self.design.queries:
            raise BudgetExhaustedError(
                f"{count} more queries do not fit: {asked} of "
                f"queries={self.design.queries} were asked."
            )
        return line

    def _totals(
        self, call: Call, shape: tuple[int, ...], source: RandomSource | None
    ) -> NDArray[np.int64] | Failed:
        """Return the sum over units of each query, in grid steps."""
        table = self._table
        n_rows, units = table.n_rows, (table.positions, table.n_units)
        if self.design.method == "laplace":
            values = values_or_zero(call, n_rows, shape, source)
            return np.atleast_1d(unit_totals(values, *units))
        return run_withholding_errors(
            lambda: np.atleast_1d(
                unit_totals(
                    checked_shape(row_values(call, n_rows, source), n_rows, shape),
                    *units,
                )
            )
        )

    def _answered(
        self, state: State, totals: NDArray[np.int64], guesses: NDArray[np.float64]
    ) -> tuple[State, tuple[NDArray[np.float64], NDArray[np.bool_], Comparison]]:
        """Compare with the guesses, one after the other; return the new state too."""
        line = self._admitted(state, len(guesses))
        expected = np.rint(guesses * self.design.n * _STEPS).astype(np.int64)
        answered, line = line.answer(np.abs(totals - expected), self._source)
        overfit = np.zeros(len(guesses), dtype=np.bool_)
        overfit[: len(answered)] = answered
        values = guesses.copy()
        values[len(answered) :] = np.nan
        values[overfit] = self._released(totals[overfit])
        asked = int(state["asked"]) + len(guesses)
        return {"asked": asked, "left": line.draws}, (values, overfit, line)

    def _failed(self, state: State, count: int) -> State:
        """Return the state after queries failed together: that is one answer."""
        line = self._admitted(state, count)
        return {"asked": int(state["asked"]) + count, "left": line.draws - 1}

    def _released(self, totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return averages: rounded to the middle of a level, or with noise."""
        whole_sum = self.design.n * _STEPS
        if self.design.method == "rounding":
            levels = self.design.levels
            level = np.minimum(np.floor(totals / whole_sum * levels), levels - 1)
            return np.asarray((level + 0.5) / levels)
        scale = self.design.scale * whole_sum
        reach("holdout answer", totals[:, None], l1=_STEPS, settings=(scale,))
        noisy = draw_discrete_laplace(totals, scale, self._source)
        return np.clip(noisy / whole_sum, 0.0, 1.0)

    def _opening(self) -> dict[str, Any]:
        return {
            "kind": "holdout",
            "data": self._table.fingerprint(),
            "certificate": self.design.certificate.id,
            "threshold": self.design.threshold,
            "failure": self._failure,
        }
