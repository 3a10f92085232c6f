"""Random Fourier features: kernels for linear models, without looking at data (L5)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._arrays import Floats, rows_times
from reticent._numbers import positive, whole
from reticent._sklearn import Interval, MatrixLike, fit_context
from reticent.mechanisms import noise_source


@dataclass(eq=False, repr=False)
class FourierFeatures(TransformerMixin, BaseEstimator):
    r"""Pairs :math:`\cos(\omega_k \cdot x), \sin(\omega_k \cdot x)` of random waves.

    Their inner products approximate the Gaussian kernel
    :math:`e^{-|x - x'|^2/(2\,\mathrm{bandwidth}^2)}`, so that a released linear model
    on them is a released kernel model.

    Parameters
    ----------
    n_waves : int, default=50
        Number of waves; there are twice as many features.
    bandwidth : float, default=1.0
        Width of the kernel. Chosen without looking at the data.
    random_state : int, RandomState instance or None, default=None
        Where the waves come from. They are public and independent of the data, so a
        seed here costs nothing.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features, n_waves)
        The waves; public.

    Guarantee
    ---------
    `fit` looks at the number of columns alone. The features of a row depend on that row
    alone, to the last bit, so they may come before any private learner. Every row has a
    Euclidean norm of one, up to rounding, so a learner takes ``norm_bound=1``.

    Examples
    --------
    >>> FourierFeatures(3).fit_transform([[0.0], [1.0]]).shape
    (2, 6)
    """

    n_waves: int = 50
    _: KW_ONLY
    bandwidth: float = 1.0
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_waves": [Interval(Integral, 1, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Draw the waves; of `X` only the number of columns is used."""
        width = positive("FourierFeatures", "bandwidth", self.bandwidth)
        waves = whole("FourierFeatures", "n_waves", self.n_waves)
        X = validate_data(self, X, dtype=np.float64)
        source = noise_source(self.random_state)
        rng = np.random.default_rng(int.from_bytes(source.bytes(16), "big"))
        self.frequencies_ = rng.normal(size=(X.shape[1], waves)) / width
        return self

    def transform(self, X: MatrixLike) -> Floats:
        """Return the features of each row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        # Not one matrix product: its rounding would show how many rows there are.
        angles = rows_times(X, self.frequencies_)
        pairs = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.asarray(pairs / np.sqrt(angles.shape[1]))
