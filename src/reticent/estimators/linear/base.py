"""What every linear model shares: parameters, checked data, and the loss by name.

`LinearClassifier` and `LinearRegressor` turn what a caller passes to `fit` into
`LinearExamples`. From these `reticent.estimators.linear.released` learns coefficients
that may be shown, and `reticent.prediction` a model whose answers are noisy.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_consistent_length, validate_data

from reticent._arrays import Floats
from reticent._sklearn import (
    Interval,
    MatrixLike,
    StrOptions,
    UnweightedEstimator,
    fit_context,
)
from reticent.estimators.inputs import checked_labels, checked_targets, two_labels
from reticent.estimators.linear.losses import (
    BoundedLoss,
    classification_loss,
    regression_loss,
)
from reticent.estimators.linear.targets import TargetRange, check_bounds
from reticent.estimators.units import UnitIds

POSITIVE = Interval(Real, 0, None, closed="neither")
POSITIVE_OR_AUTO = [StrOptions({"auto"}), POSITIVE]


def is_auto(value: Any) -> bool:
    """Whether a parameter is to be set from public quantities."""
    return isinstance(value, str) and value == "auto"


@dataclass(frozen=True, eq=False)
class LinearExamples:
    """The checked data of one fit."""

    X: Floats  #: shape (n_rows, n_features); finite numbers, not yet scaled
    #: Shape (n_rows,); the place of each row's label in `classes`, or a number in [-1,
    #: 1].
    targets: Floats
    units: UnitIds  #: the unit of each row; None if every row is a unit
    classes: NDArray[Any] | None = None  #: the public labels; None for regressors
    #: The public bounds that were mapped to -1 and 1; of no use to classifiers.
    bounds: tuple[float, float] = (-1.0, 1.0)
    #: Whether `classes` were read from the data, which the certificate must say.
    labels_from_data: bool = False


class LinearModel(UnweightedEstimator):
    """A linear model of labels or of numbers."""

    # Constraints of parameters that a subclass does not have are ignored. The loss is
    # checked where it is looked up.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [POSITIVE],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "bounds": ["array-like"],
        "width": [POSITIVE],
        "norm_bound": [POSITIVE],
        "radius": [POSITIVE],
        "regularization": POSITIVE_OR_AUTO,
        "tolerance": [POSITIVE],
        "fit_intercept": ["boolean"],
        "classes": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Train the model and issue its certificate.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers; rows beyond the declared bounds are scaled down.
        y : array-like of shape (n_rows,)
            Labels, or numbers; numbers outside the declared bounds are clipped.
        units : array-like of shape (n_rows,), default=None
            The person, or other unit, that each row belongs to. A unit counts as the
            mean over its rows. None makes every row a unit.

        Raises
        ------
        SolverError
            If a preset tolerance is not reached; nothing is kept or released then.
        """
        self._learn(self._examples(X, y, units))
        return self

    @abstractmethod
    def _examples(self, X: MatrixLike, y: MatrixLike, units: UnitIds) -> LinearExamples:
        """Check the data."""

    @abstractmethod
    def _learn(self, examples: LinearExamples) -> None:
        """Train, and keep the model with its certificate."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit, or every answer, draws fresh noise
        return tags


class LinearClassifier(ClassifierMixin, LinearModel):
    """A linear model of public labels: two of them, unless a subclass takes more."""

    _multi_class: ClassVar[bool] = False

    def _examples(self, X: MatrixLike, y: MatrixLike, units: UnitIds) -> LinearExamples:
        X = validate_data(self, X, dtype=np.float64)
        if self._multi_class:
            labels, y = checked_labels(self.classes, y)
            check_consistent_length(X, y)
        else:
            labels, y = two_labels(
                type(self).__name__,
                self.classes,
                X,
                y,
                "; use NoisyGradientClassifier or PrivateVotingClassifier for more",
            )
        return LinearExamples(
            X=X,
            targets=labels.indices(y).astype(np.float64),
            units=units,
            classes=labels.classes,
            labels_from_data=self.classes is None,
        )

    def _loss(self, reach: float) -> BoundedLoss:
        """Return the loss; its slope does not depend on the `reach` of predictions."""
        return classification_loss(self.loss, self.width)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._multi_class
        return tags


class LinearRegressor(RegressorMixin, LinearModel):
    """A linear model of a number within public bounds."""

    def _examples(self, X: MatrixLike, y: MatrixLike, units: UnitIds) -> LinearExamples:
        bounds = check_bounds(self.bounds)
        X = validate_data(self, X, dtype=np.float64)
        y = checked_targets(y)
        check_consistent_length(X, y)
        centred = TargetRange(*bounds).centred(y)
        return LinearExamples(X=X, targets=centred, units=units, bounds=bounds)

    def _loss(self, reach: float) -> BoundedLoss:
        """Return the loss of targets in [-1, 1] and predictions up to `reach`."""
        return regression_loss(self.loss, self.width, reach)
