"""Linear models that are released: one fit, plain coefficients, free predictions."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._arrays import Floats, rows_times
from reticent._numbers import positive
from reticent._sklearn import MatrixLike
from reticent.estimators.expectation import LINEAR, PURE_LINEAR, ReleaseExpectation
from reticent.estimators.linear.base import (
    LinearClassifier,
    LinearExamples,
    LinearModel,
    LinearRegressor,
)
from reticent.estimators.linear.rows import CONSTANT, bounded_rows, unit_weights
from reticent.estimators.linear.targets import TargetRange
from reticent.estimators.units import unit_positions
from reticent.guarantees import Certificate, gaussian_ratio
from reticent.mechanisms import RandomSource, noise_source

#: Coefficients for rows in the unit ball, constant last, and what they promise.
CertifiedCoefficients: TypeAlias = tuple[Floats, Certificate[Any]]


@dataclass(frozen=True)
class LinearFacts:
    """All that a plan may know about the data: neighbours agree on it."""

    n_units: int  #: number of units
    dimension: int  #: number of coefficients, that of the constant included
    #: Bounds on the l1 and the Euclidean norm of a row, constant included.
    l1_bound: float
    feature_bound: float
    #: What the certificate must assume.
    labels_from_data: bool
    seeded: bool


@dataclass(frozen=True, eq=False)
class BallExamples:
    """Examples in the unit ball, constant last, and what is public about them."""

    #: The data. Weights sum to 1, and every unit weighs the same.
    rows: Floats
    targets: Floats
    weights: Floats
    facts: LinearFacts  #: what is public
    source: RandomSource  #: where the noise of the fit comes from


class ReleasedLinear(LinearModel):
    """A released model: `coef_` and `intercept_`, and scores from them.

    A subclass gives the plan: from examples to private coefficients and what they
    promise.
    """

    coef_: Floats
    intercept_: Any
    certificate_: Certificate[Any]
    n_units_: int

    @abstractmethod
    def _private_coefficients(self, examples: LinearExamples) -> CertifiedCoefficients:
        """Return coefficients of shape (dimension,) or (dimension, n_scores)."""

    #: Whether what to expect follows from the number of units and the budget.
    _expects: ClassVar[bool] = False

    def _learn(self, examples: LinearExamples) -> None:
        if self._expects:
            self.expectation_ = self._expected(examples)
            self.expectation_.warn(float(self.epsilon))
        self._release(examples, *self._private_coefficients(examples))

    def _expected(self, examples: LinearExamples) -> ReleaseExpectation:
        """Return what a release can be worth, by public facts."""
        n_rows, columns = examples.X.shape
        _, n_units = unit_positions(examples.units, n_rows)
        epsilon = positive(type(self).__name__, "epsilon", self.epsilon)
        delta = float(getattr(self, "delta", 0.0))
        if 0 < delta < 1:
            clearness = n_units * gaussian_ratio(epsilon, delta) / LINEAR
        else:
            clearness = n_units * epsilon / (PURE_LINEAR * math.sqrt(columns))
        labels = 1 if examples.classes is None else len(examples.classes)
        return ReleaseExpectation.of(
            clearness, labels=labels, units=n_units, columns=columns
        )

    def _in_ball(
        self, examples: LinearExamples, *, l1_bound: float | None = None
    ) -> BallExamples:
        """Scale rows into the unit ball, and weigh them."""
        rows, sum_bound, feature_bound = bounded_rows(
            examples.X, self._row_scale, l1_bound, self.fit_intercept
        )
        weights, n_units = unit_weights(examples.units, len(rows))
        source = noise_source(self.random_state)
        facts = LinearFacts(
            n_units=n_units,
            dimension=rows.shape[1],
            l1_bound=sum_bound,
            feature_bound=feature_bound,
            labels_from_data=examples.labels_from_data,
            seeded=source.seeded,
        )
        return BallExamples(rows, examples.targets, weights, facts, source)

    @property
    def _row_scale(self) -> Any:
        """What rows are divided by."""
        return self.norm_bound

    def _checked_radius(self) -> float:
        return positive(type(self).__name__, "radius", self.radius)

    def _release(
        self, examples: LinearExamples, found: Floats, certificate: Certificate[Any]
    ) -> None:
        """Keep the coefficients, for rows as they are given."""
        relation: Any = certificate.relation
        found = np.reshape(found, (len(found), -1))
        if self.fit_intercept:
            slopes, self.intercept_ = found[:-1], CONSTANT * found[-1]
        else:
            slopes, self.intercept_ = found, np.zeros(found.shape[1])
        self.coef_ = np.ascontiguousarray(slopes.T / self._row_scale)
        self.certificate_, self.n_units_ = certificate, relation.n
        # Another fit is another release, even of the same numbers: storage names it.
        self.__dict__.pop("identity_", None)
        self._keep_targets(examples)

    @abstractmethod
    def _keep_targets(self, examples: LinearExamples) -> None:
        """Keep what scores stand for."""

    def _scores(self, X: MatrixLike) -> Floats:
        check_is_fitted(self, "coef_")
        rows = self._features_of(validate_data(self, X, dtype=np.float64, reset=False))
        # A search scores models on private rows, so no row may move another's score.
        return rows_times(rows, np.atleast_2d(self.coef_).T) + self.intercept_

    def _features_of(self, rows: Floats) -> Floats:
        """Return the columns that the coefficients belong to."""
        return rows


class ReleasedLinearClassifier(LinearClassifier, ReleasedLinear):
    """A released linear classifier; predictions cost no privacy."""

    classes_: NDArray[Any]

    def _keep_targets(self, examples: LinearExamples) -> None:
        self.classes_ = np.asarray(examples.classes)

    def decision_function(self, X: MatrixLike) -> Floats:
        """Return scores, of shape (n,) for two classes and (n, n_classes) for more."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the most likely class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Return the model's probability of each class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return np.asarray(softmax(scores, axis=1))


class ReleasedLinearRegressor(LinearRegressor, ReleasedLinear):
    """A released linear regressor; predictions lie within the public bounds."""

    bounds_: tuple[float, float]

    def _keep_targets(self, examples: LinearExamples) -> None:
        """Express the model in the units of the target."""
        scale = TargetRange(*examples.bounds)
        self.coef_ = scale.half * self.coef_[0]
        self.intercept_ = scale.restored(self.intercept_[0])
        self.bounds_ = examples.bounds

    def predict(self, X: MatrixLike) -> Floats:
        """Return the predicted number of each row, clipped to the bounds."""
        scores = self._scores(X)[:, 0]
        return np.asarray(np.clip(scores, *self.bounds_))
