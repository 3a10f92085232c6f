"""Rows inside a ball, so that their norm bounds what one unit can move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent._arrays import Floats, row_products
from reticent._numbers import positive
from reticent.estimators.linear.losses import ROUND_OFF
from reticent.estimators.linear.solvers import CACHED_ROWS
from reticent.estimators.units import UnitIds, unit_positions

# The intercept's feature in released models, for rows in the unit ball. A multiple of
# 2^-17, so that it survives fixed point.
CONSTANT = 0.5
_LARGEST_NORM = 1.1180339887498950  # sqrt(1 + CONSTANT^2), rounded up
# Rows of the unit ball with their constant are shorter than this.
LONGEST_ROW = 1.12
# The root of two, rounded up: a unit row with a constant feature of size one.
_ROOT_OF_TWO = 1.4142135623730952


def row_bound(fit_intercept: Any) -> float:
    """Return the bound on the norm of rows that `rows_in_ball` returns."""
    return _ROOT_OF_TWO if fit_intercept else 1.0


def rows_in_ball(X: Floats, norm_bound: Any, fit_intercept: Any) -> Floats:
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
    for start in range(0, n_rows, CACHED_ROWS):
        some = X[start : start + CACHED_ROWS]
        # Divided by the largest entry first, so that no square overflows; a row beyond
        # all bounds still has a direction.
        largest = np.abs(some).max(axis=1, keepdims=True)
        shape = some / np.where(largest > 0, largest, 1.0)
        norms = np.sqrt(row_products(shape, shape))[:, None]
        with np.errstate(over="ignore", divide="ignore"):
            shape *= np.minimum(largest / bound, inside / norms)
        rows[start : start + CACHED_ROWS, :d] = shape
        rows[start : start + CACHED_ROWS, d:] = 1.0
    return rows


def bounded_rows(
    X: Floats, norm_bound: Any, l1_bound: float | None, fit_intercept: Any
) -> tuple[Floats, float, float]:
    """Scale rows into their bounds; return them and bounds on their l1 and l2 norm.

    Rows are divided by `norm_bound`, and longer ones scaled down, in l1 too if there
    is a bound; the constant comes last.
    """
    rows = rows_in_ball(X, norm_bound, False)
    largest = math.sqrt(rows.shape[1]) * (1 + 4 * ROUND_OFF)
    if l1_bound is not None:
        largest = min(largest, l1_bound / norm_bound)
        sizes = np.abs(rows).sum(axis=1, keepdims=True)
        inside = largest * (1 - 4 * (rows.shape[1] + 16) * ROUND_OFF)
        rows = rows * np.minimum(1.0, inside / np.maximum(sizes, inside))
    if not fit_intercept:
        return rows, largest, 1.0
    return with_constant(rows), largest + CONSTANT, _LARGEST_NORM


def with_constant(rows: Floats) -> Floats:
    """Add the intercept's feature as the last column."""
    return np.concatenate([rows, np.full((len(rows), 1), CONSTANT)], axis=1)


def unit_weights(units: UnitIds, n_rows: int) -> tuple[Floats, int]:
    """Return one weight per row and the number of units, which all weigh the same.

    The weights sum to 1.
    """
    positions, n_units = unit_positions(units, n_rows)
    sizes = np.bincount(positions, minlength=n_units)
    return np.asarray(1.0 / (sizes[positions] * float(n_units))), n_units
