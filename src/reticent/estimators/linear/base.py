"""What every linear model shares: parameters, checked data, and the loss by name.

`LinearClassifier` and `LinearRegressor` turn what a caller passes to `fit` into
`LinearExamples`. `reticent.estimators.linear.released` adds a fit that releases
coefficients; `reticent.prediction` adds one that answers with noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_consistent_length, validate_data

from reticent._sklearn import Interval, MatrixLike, StrOptions
from reticent.estimators.inputs import checked_labels, checked_targets, two_labels
from reticent.estimators.linear.losses import (
    BoundedLoss,
    classification_loss,
    regression_loss,
)
from reticent.estimators.linear.solvers import Float
from reticent.estimators.linear.targets import TargetRange, check_bounds

POSITIVE = Interval(Real, 0, None, closed="neither")
POSITIVE_OR_AUTO = [StrOptions({"auto"}), POSITIVE]


def is_auto(value: Any) -> bool:
    """Whether a parameter is to be set from public quantities."""
    return isinstance(value, str) and value == "auto"


@dataclass(frozen=True, eq=False)
class LinearExamples:
    """The checked data of one fit.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Finite numbers, not yet scaled.
    targets : ndarray of shape (n_rows,)
        The place of each row's label in `classes`, or a number in [-1, 1].
    units : array-like or None
        The unit of each row; None if every row is a unit.
    classes : ndarray or None
        The public labels; None for regressors.
    bounds : (float, float)
        The public bounds that were mapped to -1 and 1; of no use to classifiers.
    labels_from_data : bool
        Whether `classes` were read from the data, which the certificate must say.
    """

    X: Float
    targets: Float
    units: Any
    classes: NDArray[Any] | None = None
    bounds: tuple[float, float] = (-1.0, 1.0)
    labels_from_data: bool = False


class LinearModel(BaseEstimator):
    """A linear model of either kind; a subclass makes `LinearExamples` and a fit."""

    # Constraints of parameters that a subclass does not have are not looked at.
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit, or every answer, draws fresh noise
        return tags


class LinearClassifier(ClassifierMixin, LinearModel):
    """A linear model of public labels, two of them if a subclass does not say more."""

    _multi_class: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "loss": [StrOptions({"logistic", "hinge"})],
    }

    def _examples(self, X: MatrixLike, y: MatrixLike, units: Any) -> LinearExamples:
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "loss": [StrOptions({"huber", "squared"})],
    }

    def _examples(self, X: MatrixLike, y: MatrixLike, units: Any) -> LinearExamples:
        bounds = check_bounds(self.bounds)
        X = validate_data(self, X, dtype=np.float64)
        y = checked_targets(y)
        check_consistent_length(X, y)
        centred = TargetRange(*bounds).centred(y)
        return LinearExamples(X=X, targets=centred, units=units, bounds=bounds)

    def _loss(self, reach: float) -> BoundedLoss:
        """Return the loss of targets in [-1, 1] and predictions up to `reach`."""
        return regression_loss(self.loss, self.width, reach)
