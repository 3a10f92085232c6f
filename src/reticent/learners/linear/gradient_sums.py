"""Sums of clipped gradients in whole numbers, so that one unit moves them as proved.

Rows, coefficients and residuals are multiples of powers of two with so few bits that
every product and every sum below is a float without rounding. A sum is then exactly the
sum over units of what each unit contributes, in any order and on any machine, and no
other unit's contribution can change in its last digit when one is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reticent._arrays import Floats, Ints, row_products
from reticent.errors import InvalidParameterError

#: Derivative of the loss in the scores, row by row: scores in, residuals out.
Residual = Callable[[Floats], Floats]

_FLOAT_BITS = 53
_ROW_BITS = 17
_MOST_RESIDUAL_BITS, _LEAST_RESIDUAL_BITS = 20, 4
# Coefficients beyond this size no longer change a label; they are cut off there.
_LARGEST_COEFFICIENT_BITS = 10
# Noise of more grid steps than this could leave 64 bits, with little probability.
_NOISE_BITS = 44
# Far more than a norm, a root and a quotient in floating point can be off.
_SLACK = 2.0**-40


def fixed_point(rows: Floats) -> Floats:
    """Return rows with entries cut, towards zero, to multiples of 2^-17."""
    return np.asarray(np.trunc(rows * 2.0**_ROW_BITS) * 2.0**-_ROW_BITS)


def coefficient_grid(n_features: int) -> float:
    """Return the step to which coefficients are rounded before rows meet them."""
    bits = _FLOAT_BITS - _ROW_BITS - _LARGEST_COEFFICIENT_BITS
    return 2.0 ** -(bits - n_features.bit_length())


def on_coefficient_grid(coefficients: Floats) -> Floats:
    """Cut coefficients to a size, and round them, such that scores are exact."""
    grid = coefficient_grid(len(coefficients))
    largest = 2.0**_LARGEST_COEFFICIENT_BITS
    return np.asarray(np.rint(np.clip(coefficients, -largest, largest) / grid) * grid)


def sum_grid(n_units: int, clip: float, scale: float) -> float:
    """Return the public grid of sums: fine, but such that sums and noise are exact.

    `clip` bounds the norm of one unit's contribution; `scale` is that of the noise.
    """
    room = _FLOAT_BITS - _ROW_BITS - math.ceil(math.log2(max(n_units * clip, 1.0)))
    quiet = _NOISE_BITS - _ROW_BITS - math.ceil(math.log2(max(scale, 1.0)))
    bits = min(_MOST_RESIDUAL_BITS, room, quiet)
    if bits < _LEAST_RESIDUAL_BITS:
        raise InvalidParameterError(
            f"clipped sums over n_units={n_units} with a noise scale of {scale:.3g} "
            "are beyond exact arithmetic. Raise epsilon, or use fewer units."
        )
    return 2.0 ** -(_ROW_BITS + bits)


@dataclass(frozen=True, eq=False)
class ClippedSums:
    r"""The sum over units of gradients, each clipped to a norm.

    Guarantee
    ---------
    `__call__` returns :math:`\sum_u v_u` where :math:`v_u` is a function of unit `u`
    and of the coefficients alone, a multiple of the grid, of norm at most `clip`. So
    replacing one unit moves the sum by at most twice `clip`, exactly.
    """

    # Shape (n_rows, n_features); rows from `fixed_point`, unit after unit if `starts`
    # is given.
    rows: Floats
    clip: float  # bound on the Euclidean norm of one unit's contribution
    grid: float  # step of the grid that sums lie on, from `sum_grid`
    # Where the rows of each unit start. None if every row is a unit.
    starts: Ints | None = None

    def __call__(self, coefficients: Floats, residual: Residual) -> Floats:
        """Return the sum at `coefficients`, of shape (n_features, n_scores)."""
        scores = self.rows @ on_coefficient_grid(coefficients)
        slopes = residual(scores)
        if self.starts is None:
            return self._one_row_a_unit(slopes)
        return self._many_rows_a_unit(slopes, self.starts)

    @cached_property
    def _row_norms(self) -> Floats:
        return _norms(self.rows)

    def _one_row_a_unit(self, slopes: Floats) -> Floats:
        # A gradient is an outer product here, so its norm is a product of norms and
        # clipping the slope clips it. Cutting towards zero only shortens it.
        lengths = self._row_norms * _norms(slopes)
        clipped = slopes * _shrinking(lengths, self.clip)[:, None]
        step = self.grid * 2.0**_ROW_BITS
        return np.asarray(self.rows.T @ (np.trunc(clipped / step) * step))

    def _many_rows_a_unit(self, slopes: Floats, starts: Ints) -> Floats:
        ends = np.append(starts[1:], len(self.rows))
        total = np.zeros((self.rows.shape[1], slopes.shape[1]))
        width = total.size
        # Some units at a time: all the gradients at once may not fit in memory.
        block = max(1, (1 << 22) // max(1, width))
        for first in range(0, len(starts), block):
            own = slice(first, first + block)
            low, high = int(starts[own][0]), int(ends[own][-1])
            outer = self.rows[low:high, :, None] * slopes[low:high, None, :]
            sums = np.add.reduceat(
                outer.reshape(high - low, width), starts[own] - low, axis=0
            )
            means = sums / (ends[own] - starts[own])[:, None]
            clipped = means * _shrinking(_norms(means), self.clip)[:, None]
            cut = np.trunc(clipped / self.grid) * self.grid
            total += cut.sum(axis=0).reshape(total.shape)
        return total


def _norms(vectors: Floats) -> Floats:
    """Return norms of rows, rounded up."""
    return np.asarray(np.sqrt(row_products(vectors, vectors)) * (1 + _SLACK))


def _shrinking(lengths: Floats, clip: float) -> Floats:
    """Return factors that certainly bring vectors of these lengths within `clip`."""
    # The clip is far from the smallest floats; so is whatever it divides by.
    return np.asarray(np.minimum(1.0, clip * (1 - _SLACK) / np.maximum(lengths, clip)))
