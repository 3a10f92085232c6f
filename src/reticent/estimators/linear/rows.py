"""Rows inside a ball, so that their norm bounds what one unit can move."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent._numbers import positive
from reticent.estimators.linear.losses import ROUND_OFF
from reticent.estimators.linear.solvers import Float

# Rows whose intermediate results stay in a processor's cache.
_CACHED_ROWS = 4096
# The root of two, rounded up: a unit row with a constant feature of size one.
_ROOT_OF_TWO = 1.4142135623730952


def row_bound(fit_intercept: Any) -> float:
    """Return the bound on the norm of rows that `rows_in_ball` returns."""
    return _ROOT_OF_TWO if fit_intercept else 1.0


def rows_in_ball(X: Float, norm_bound: Any, fit_intercept: Any) -> Float:
    """Divide rows by the norm bound, scale longer ones down, and add the constant.

    Guarantee
    ---------
    Every row has at most the norm `row_bound`, in exact arithmetic: longer rows are
    brought a little inside, by more than what rounding can undo.
    """
    bound = positive("rows", "norm_bound", norm_bound)
    n_rows, d = X.shape
    rows = np.empty((n_rows, d + 1 if fit_intercept else d))
    inside = 1 - 4 * (d + 16) * ROUND_OFF
    for start in range(0, n_rows, _CACHED_ROWS):
        some = X[start : start + _CACHED_ROWS]
        # By way of the largest entry, so that no square overflows; a row beyond all
        # bounds still has a direction.
        largest = np.abs(some).max(axis=1, keepdims=True)
        shape = some / np.where(largest > 0, largest, 1.0)
        norms = np.sqrt(np.einsum("ij,ij->i", shape, shape))[:, None]
        with np.errstate(over="ignore", divide="ignore"):
            shape *= np.minimum(largest / bound, inside / norms)
        rows[start : start + _CACHED_ROWS, :d] = shape
        rows[start : start + _CACHED_ROWS, d:] = 1.0
    return rows
