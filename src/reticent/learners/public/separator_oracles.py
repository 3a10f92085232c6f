"""Oracles that minimise noisy mistakes: exact ones, and classifiers as heuristics.

They return only the labels of the public points. The released model is made from these
labels and the public points alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from reticent._arrays import Floats, Ints
from reticent._sklearn import MatrixLike, UnweightedEstimator
from reticent.ensembles import keeps_what_it_learned
from reticent.errors import InvalidParameterError
from reticent.hypotheses import (
    COST_TOTAL_BITS,
    Conjunctions,
    FiniteClass,
    Halfspaces,
    HypothesisClass,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    runs_own_functions,
)
from reticent.learners.public.teaching_sets import most_labelings, teaching_size

# Classes whose `minimise` is exact in whole numbers up to 2^52.
_EXACT = (FiniteClass, Intervals, Rectangles, Stumps, Thresholds)
# Integer programs take whole costs up to this total.
_PROGRAM_ROOM = 1 << 30


class SeparatorOracle(Protocol):
    """Minimises weighted mistakes, and releases labels as a model."""

    @property
    def name(self) -> str:
        """Its name in the certificate."""

    @property
    def exact(self) -> bool:
        """Whether its minimiser is proved."""

    @property
    def own_functions(self) -> bool:
        """Whether it labels rows by functions of the caller."""

    @property
    def frozen(self) -> bool:
        """Whether parts of it came already fitted."""

    @property
    def room(self) -> int:
        """The largest sum of costs."""

    def taught(self, points: Floats) -> int:
        """Return how many points teach any labeling."""

    def labelings(self, points: Floats) -> int:
        """Count the labelings of the points, or bound their number from above."""

    def labels(
        self, X: Floats, y: Ints, weights: Ints, points: Floats, steps: int
    ) -> Ints:
        """Minimise weighted mistakes on `X`; return the labels of `points`.

        A mistake on a whole unit weighs `steps`.
        """

    def release(self, points: Floats, labels: Ints) -> Any:
        """Return a hypothesis for these labels; it depends on nothing else."""

    def predict(self, hypothesis: Any, X: Floats) -> Ints:
        """Return labels 0 and 1."""


@dataclass(frozen=True)
class ClassOracle:
    """The oracle of a hypothesis class.

    Integer programs prove a gap of zero in floating point, so they count as exact
    only by assumption.
    """

    family: HypothesisClass[Any]

    frozen = False

    @property
    def own_functions(self) -> bool:
        """Whether the class is not one of the library's own."""
        return runs_own_functions(self.family)

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self.family).__name__

    @property
    def exact(self) -> bool:
        """Whether minimisers are found in whole numbers alone."""
        # Not isinstance: a subclass may minimise differently.
        if type(self.family) in (Halfspaces, Conjunctions):
            return bool(self.family.method == "enumerate")  # type: ignore[attr-defined]
        return type(self.family) in _EXACT

    @property
    def room(self) -> int:
        """The largest sum of costs for which sums are exact."""
        return 1 << COST_TOTAL_BITS if self.exact else _PROGRAM_ROOM

    def taught(self, points: Floats) -> int:
        """Return how many points teach any labeling."""
        return teaching_size(self.family, points)

    def labelings(self, points: Floats) -> int:
        """Count the labelings of the points, or bound their number if it is large."""
        most = most_labelings(self.family, len(points))
        if isinstance(self.family, Thresholds | Stumps) or most <= 1 << 20:
            return self.family.growth(points=points)
        return most

    def labels(
        self, X: Floats, y: Ints, weights: Ints, points: Floats, steps: int
    ) -> Ints:
        """Return the minimiser's labels of the public points."""
        found = self.family.minimise(X, y, weights)
        return self.family.predict(found.hypothesis, points).astype(np.int64)

    def release(self, points: Floats, labels: Ints) -> Any:
        """Return the class's representative of these labels."""
        return self.family.consistent(points, labels)

    def predict(self, hypothesis: Any, X: Floats) -> Ints:
        """Return labels 0 and 1."""
        return self.family.predict(hypothesis, X).astype(np.int64)


@dataclass(frozen=True)
class HeuristicOracle:
    """A scikit-learn classifier instead of an oracle.

    Negative weights become flipped labels. Nothing is known about its labelings, so
    all points are needed to teach one, and there may be all :math:`2^m` of them.
    """

    estimator: Any

    exact = False
    own_functions = False  # how it labels rows is in the assumption of an exact oracle
    room = 1 << COST_TOTAL_BITS

    def __post_init__(self) -> None:
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise InvalidParameterError(
                f"hypotheses={type(self.estimator).__name__} must accept sample_weight "
                "in fit: the noise is in the weights. Use a classifier that does, or a "
                "class of reticent.hypotheses."
            )

    @property
    def frozen(self) -> bool:
        """Whether a clone of the estimator, or of a part, keeps what it learned."""
        return keeps_what_it_learned(self.estimator)

    @property
    def name(self) -> str:
        """The estimator's name."""
        return type(self.estimator).__name__

    def taught(self, points: Floats) -> int:
        """Return the number of points."""
        return len(points)

    def labelings(self, points: Floats) -> int:
        """Return the number of all labelings."""
        return int(1 << len(points))

    def labels(
        self, X: Floats, y: Ints, weights: Ints, points: Floats, steps: int
    ) -> Ints:
        """Fit with flipped labels and absolute weights, and predict the points."""
        kept = weights != 0
        flipped = np.where(weights < 0, 1 - y, y)
        # Relative to a mistake's weight, so that a regulariser keeps its strength.
        sizes = np.abs(weights[kept]) / steps
        model = _fitted(self.estimator, X[kept], flipped[kept], sizes)
        return np.asarray(model.predict(points), dtype=np.int64)

    def release(self, points: Floats, labels: Ints) -> Any:
        """Fit a new copy on the public points with these labels."""
        return _fitted(self.estimator, points, labels, None)

    def predict(self, hypothesis: Any, X: Floats) -> Ints:
        """Return labels 0 and 1."""
        return np.asarray(hypothesis.predict(X), dtype=np.int64)


def oracle_for(hypotheses: Any, n_features: int) -> SeparatorOracle:
    """Return the oracle that a `hypotheses` parameter asks for."""
    if isinstance(hypotheses, HypothesisClass):
        return ClassOracle(hypotheses.on(n_features))
    if hasattr(hypotheses, "fit") and is_classifier(hypotheses):
        return HeuristicOracle(hypotheses)
    raise InvalidParameterError(
        f"hypotheses={hypotheses!r} must be a class of reticent.hypotheses, such as "
        "Thresholds(), or a scikit-learn classifier."
    )


class OracleClassifier(ClassifierMixin, UnweightedEstimator):
    """The base of classifiers that release a hypothesis of an oracle."""

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the released hypothesis' label of each row; costs nothing more."""
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        oracle = oracle_for(self._family, rows.shape[1])
        return np.asarray(self.classes_[oracle.predict(self.hypothesis_, rows)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags


def _fitted(estimator: Any, X: Floats, y: Ints, sizes: Floats | None) -> Any:
    labels = np.unique(y)
    if len(labels) == 1:  # many classifiers refuse to learn a constant
        constant = DummyClassifier(strategy="constant", constant=int(labels[0]))
        return constant.fit(X, y)
    model = clone(estimator)
    return model.fit(X, y) if sizes is None else model.fit(X, y, sample_weight=sizes)
