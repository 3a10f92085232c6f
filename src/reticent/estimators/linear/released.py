"""Linear models that were released: plain coefficients, unlimited predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._sklearn import MatrixLike

Float = NDArray[np.float64]


class ReleasedLinear(BaseEstimator):
    """A released model: `coef_` and `intercept_`, and scores from them."""

    coef_: Float
    intercept_: Any

    def _release(
        self,
        coefficients: Float,
        constant: float | None,
        norm_bound: float,
        classes: NDArray[Any] | None = None,
    ) -> None:
        """Store coefficients of rows divided by `norm_bound`, constant last if any."""
        if constant is None:
            slopes, intercept = coefficients, np.zeros(coefficients.shape[1])
        else:
            slopes, intercept = coefficients[:-1], constant * coefficients[-1]
        self.coef_ = np.ascontiguousarray(slopes.T / norm_bound)
        self.intercept_ = intercept
        if classes is not None:
            self.classes_ = classes

    def _scores(self, X: MatrixLike) -> Float:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ np.atleast_2d(self.coef_).T + self.intercept_)


class ReleasedLinearClassifier(ClassifierMixin, ReleasedLinear):
    """Predictions of a released linear classifier: they cost nothing any more."""

    classes_: NDArray[Any]

    def decision_function(self, X: MatrixLike) -> Float:
        """Return scores, of shape (n,) for two classes and (n, n_classes) for more."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the most likely class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: MatrixLike) -> Float:
        """Return the model's probability of each class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return np.asarray(softmax(scores, axis=1))


class ReleasedLinearRegressor(RegressorMixin, ReleasedLinear):
    """Predictions of a released linear regressor, within the public bounds."""

    bounds_: tuple[float, float]

    def _release_numbers(
        self,
        coefficients: Float,
        constant: float | None,
        norm_bound: float,
        bounds: tuple[float, float],
    ) -> None:
        """Store coefficients for targets whose bounds were mapped to -1 and 1."""
        self._release(coefficients[:, None], constant, norm_bound)
        low, high = bounds
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        self.coef_ = half * self.coef_[0]
        self.intercept_ = middle + half * self.intercept_[0]
        self.bounds_ = bounds

    def predict(self, X: MatrixLike) -> Float:
        """Return the predicted number of each row, clipped to the bounds."""
        scores = self._scores(X)[:, 0]
        return np.asarray(np.clip(scores, *self.bounds_))


def centred(targets: Float, bounds: tuple[float, float]) -> Float:
    """Clip targets to their bounds and map these to -1 and 1."""
    low, high = bounds
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return np.clip((np.clip(targets, low, high) - middle) / half, -1.0, 1.0)
