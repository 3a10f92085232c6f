"""Adaptive analysis of one dataset under a bound that was promised in advance (R2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from reticent._arrays import Ints
from reticent._numbers import whole
from reticent._sklearn import safe_indexing
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import as_table, unshared_copy
from reticent.generalization.averages import (
    GRID,
    GRID_BITS,
    checked_shape,
    row_values,
    unit_totals,
)
from reticent.generalization.caller_code import without_frames
from reticent.generalization.compression.classifier import CompressionClassifier
from reticent.generalization.compression.kept_examples import KeptExamples
from reticent.generalization.session.core import SessionCore
from reticent.generalization.session.costs import SessionCost, subset_bits
from reticent.generalization.session.rules import unit_sum
from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
)
from reticent.mechanisms import calibrate_laplace

T = TypeVar("T")


class AdaptiveSession(SessionCore):
    """One dataset, analysed adaptively in many steps, with one bound on all of them.

    Steps of three kinds may be mixed in any order, each chosen after seeing what the
    earlier ones returned: *private* steps (models and predictors of reticent, noisy
    means), *compression* steps (models decoded from a few examples, or the examples
    themselves) and *few-bit* answers (one of few outcomes). Budgets are fixed at the
    start. A step that does not fit is refused before it touches the data.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, ...)
        The rows.
    y : array-like of shape (n_rows,) or None, default=None
        Labels.
    epsilon, delta : float, default=0.0
        Budget for private steps. With ``delta = 0`` steps must be purely private and
        the bound is much better.
    kept : int, default=0
        Budget of examples that compression steps may keep, all together.
    bits : float, default=0.0
        Budget of few-bit answers and side information.
    confidence : float, default=0.95
        Probability that all stated bounds hold.
    units : array-like of shape (n_rows,), default=None
        The independent unit of each row.
    random_state : None, int, RandomState or Generator, default=None
        For noisy means. A seed makes the certificate conditional.
    ledger, name : Ledger and str, default=None
        Where the session's state is stored, and under which name. All objects,
        processes and restarts that give the same name, with the same data and budgets,
        spend one budget.

    Attributes
    ----------
    promise : Certificate
        The bound for the whole budget; it holds from the first step to the last.
    certificate : Certificate
        The bound for what has been spent so far; never worse than the promise.
    bound : float
        The number in `certificate`.
    spent, budget : SessionCost
        What was spent, and what may be spent.

    Guarantee
    ---------
    With probability `confidence` over the sample and the noise, every function ``h``
    with values in [0, 1] that is chosen from everything the session returned satisfies
    ``|h(S) - h(D)| <= bound``, for the bound stated after any step (rule R2, where the
    proof is). The number of kept examples of a step may depend on the data; the
    announced limit is paid, so the guess in R2's proof has a price fixed in advance. A
    step that fails on the data reveals something: the failure is charged as an answer
    (see `reticent.generalization.session.failures`), its message is withheld, and if
    the bits do not cover it the session closes, for every object with its ledger and
    name. If the ledger fails just then, the charge is not stored, and only the object
    that ran the step is closed. The others cannot know of it: their bounds do not
    count this one failure, so use none of them further. Rows must be independent draws
    that nobody has used before. Steps are code that sees all rows; the certificate
    states what is assumed of it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(4000, 3)), rng.integers(0, 2, 4000)
    >>> session = AdaptiveSession(X, y, epsilon=0.1, kept=2, bits=40)
    >>> round(session.promise.guarantee.epsilon, 3)
    0.103
    >>> model = session.fit(CompressionClassifier("interval", report_error=False,
    ...                                           classes=[0, 1]))
    >>> 0.45 < session.score(model, levels=20) < 0.6
    True
    >>> print(session.spent)
    epsilon 0, 2 kept examples, 4.32193 bits
    """

    @without_frames
    def fit(self, estimator: Any, **fit_params: Any) -> Any:
        """Fit a clone of an estimator on the session's data and return it.

        Parameters
        ----------
        estimator : CompressionClassifier, or an estimator with a `certificate_`
            A compression learner pays for as many examples as it may keep; give it a
            `max_kept`. A private model pays its certificate. A private predictor is
            returned as a `SessionPredictor`, which pays for each answer.
        **fit_params
            Further arguments of `fit`, such as public data.
        """
        cost = SessionCost()
        if isinstance(estimator, CompressionClassifier):
            cost = self._compression_cost(estimator)
        if self._units is not None:
            fit_params = {**fit_params, "units": self._units}
        model = self._paid(
            cost,
            lambda: clone(estimator).fit(*self._table.rows(), **fit_params),
        )
        certificate = getattr(model, "certificate_", None)
        if not isinstance(certificate, Certificate):
            # Whether there is one may depend on the data, so this is an answer, too.
            self._failed(self._pay(SessionCost()))
            raise InvalidParameterError(
                f"estimator={type(estimator).__name__} has no certificate_; a session "
                "runs reticent's private estimators and compression learners. Use "
                "choose() or score() for anything else. Bits were charged, because it "
                "was fitted."
            )
        if isinstance(estimator, CompressionClassifier):
            self._assume(certificate)
            return model
        if certificate.scope is Scope.ANSWER:
            return SessionPredictor(self, model)
        if certificate.scope is Scope.CHOICE:  # each answer costs, too
            self._pay(self._private_cost(certificate, 1))
            self._assume(certificate)
            return SessionPredictor(self, model.best_estimator_)
        self._pay(self._private_cost(certificate, 1))
        self._assume(certificate)
        return model

    @without_frames
    def mean(
        self,
        query: Callable[[Any, Any], ArrayLike],
        *,
        epsilon: float,
        queries: int | None = None,
    ) -> Any:
        """Return the noisy average of a function with values in [0, 1].

        Parameters
        ----------
        query : callable
            ``query(X, y)`` returns one value per row, which depends on that row alone.
            It is also called with random halves of the rows to check this.
        epsilon : float
            Privacy loss of each average; its noise has scale ``1 / (n epsilon)``.
        queries : int, default=None
            If given, `query` returns a table with this many columns, one per query.

        Returns
        -------
        float or ndarray
        """
        n = self._table.n_units
        shape = () if queries is None else (whole("mean", "queries", queries),)
        noise = calibrate_laplace(
            unit_sum(n=n),
            epsilon=epsilon,
            grid=GRID,
            on_grid=True,
            seeded=self._source.seeded,
        )

        def totals() -> Ints:
            n_rows = self._table.n_rows
            values = row_values(
                lambda rows: query(*self._table.rows(rows)), n_rows, self._source
            )
            table = checked_shape(values, n_rows, shape)
            return unit_totals(table, self._table.positions, n)

        cost = self._private_cost(noise.certificate, math.prod(shape))
        exact = self._paid(cost, totals) * GRID
        self._assume(noise.certificate)
        noisy = np.clip(noise.response(exact).draw(self._source) / n, 0.0, 1.0)
        return float(noisy) if queries is None else noisy

    @without_frames
    def choose(self, function: Callable[[Any, Any], Any], outcomes: Sequence[T]) -> T:
        """Return the outcome that a function of the data chooses.

        Parameters
        ----------
        function : callable
            ``function(X, y)`` returns one of `outcomes`. It may compute anything.
        outcomes : sequence
            What may be returned. Costs ``log2(len(outcomes))`` bits.
        """
        listed: Any = outcomes if isinstance(outcomes, range) else list(outcomes)
        if not listed:
            raise InvalidParameterError("choose needs at least one outcome.")
        place = self._paid(
            SessionCost(bits=_log2(len(listed))),
            lambda: listed.index(function(*self._table.rows())),
        )
        chosen: T = listed[place]
        return chosen

    @without_frames
    def score(self, estimator: Any, *, levels: int = 100) -> float:
        """Return the accuracy of a fitted estimator on the data, rounded.

        Parameters
        ----------
        estimator : estimator
            Anything with `predict`, made from whatever the session returned.
        levels : int, default=100
            Number of possible answers: the midpoints of `levels` equal parts of [0, 1].
            Costs ``log2(levels)`` bits.
        """
        levels = whole("score", "levels", levels)
        if self._table.y is None:
            raise InvalidParameterError("score needs a session with labels, y=...")

        def level(X: Any, y: Any) -> int:
            right = np.asarray(estimator.predict(X) == y)
            n = self._table.n_units
            total = unit_totals(right, self._table.positions, n)
            return min(int(total) * levels // (n << GRID_BITS), levels - 1)

        return (self.choose(level, range(levels)) + 0.5) / levels

    @without_frames
    def keep(
        self, function: Callable[[Any, Any], ArrayLike], *, at_most: int
    ) -> KeptExamples:
        """Return examples that a function of the data chooses.

        Parameters
        ----------
        function : callable
            ``function(X, y)`` returns positions of rows, at least one, in any order.
        at_most : int
            The largest number of rows that may be returned. This number is paid for.
        """
        at_most = whole("keep", "at_most", at_most)
        rows = self._table.n_rows

        def chosen() -> Ints:
            places = np.unique(np.asarray(function(*self._table.rows())))
            if not 1 <= places.size <= at_most or places.dtype.kind not in "iu":
                raise InvalidDataError("too many positions, or no positions")
            if not 0 <= places[0] <= places[-1] < rows:
                raise InvalidDataError("positions of rows that do not exist")
            return places.astype(np.int64)

        extra = subset_bits(self._table.n_units, rows, at_most)
        places = self._paid(SessionCost(kept=at_most, bits=extra), chosen)
        labels = self._table.y
        return KeptExamples(
            np.asarray(safe_indexing(self._table.X, places)),
            np.zeros(len(places)) if labels is None else labels[places],
            indices=places,
        )

    def _compression_cost(self, estimator: CompressionClassifier) -> SessionCost:
        n_rows, n_features = self._table.X.shape
        most = estimator.most_kept(n_rows, n_features)
        extra = subset_bits(self._table.n_units, n_rows, most)
        bits = estimator.most_bits(n_rows, n_features, self._table.n_units)
        return SessionCost(kept=most, bits=bits + extra)

    def _private_cost(self, certificate: Certificate[Any], answers: int) -> SessionCost:
        guarantee, relation = certificate.guarantee, certificate.relation
        if relation != ReplaceOne(self._table.n_units):
            raise InvalidParameterError(
                f"a step of this session must be about replacing one of "
                f"n={self._table.n_units} units; its certificate is about '{relation}'."
            )
        if not isinstance(guarantee, (PureDP, BoundedRange, ApproxDP)):
            raise InvalidParameterError(
                f"a session adds up epsilons and deltas; the step promises "
                f"{guarantee}. Use a step that is epsilon-DP or (epsilon, delta)-DP."
            )
        delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
        total = ApproxDP(guarantee.epsilon, delta).times(answers)
        return SessionCost(epsilon=total.epsilon, delta=total.delta)


class SessionPredictor:
    """A private predictor inside a session: each answer is paid for.

    Made by `AdaptiveSession.fit`.
    """

    def __init__(self, session: AdaptiveSession, model: Any) -> None:
        self._session = session
        self._model = model

    @property
    def certificate(self) -> Certificate[Any]:
        """What one answer promises."""
        certificate: Certificate[Any] = self._model.certificate_
        return certificate

    @without_frames
    def predict(self, X: Any) -> NDArray[Any]:
        """Return one private answer per row, or raise and answer nothing."""
        # Counted on a copy, which is what the model gets: an object of the caller may
        # say one number of rows and be another table when it is read.
        queries = unshared_copy(as_table(X))
        rows = int(queries.shape[0])
        session = self._session
        cost = session._private_cost(self.certificate, rows)

        def answers() -> NDArray[Any]:
            found = np.asarray(self._model.predict(queries))
            if found.shape[:1] != (rows,):
                raise InvalidDataError("another number of answers than of rows")
            return found

        paid: NDArray[Any] = session._paid(cost, answers)
        session._assume(self.certificate)
        return paid


def _log2(count: int) -> float:
    """Return ``log2(count)`` rounded up to a billionth."""
    return (
        count.bit_length() - 1 if count & (count - 1) == 0 else math.log2(count) + 1e-9
    )
