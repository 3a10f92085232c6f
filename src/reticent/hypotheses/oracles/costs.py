r"""Signed weights as exact integers: the cost of labelling a point 1.

The weighted number of mistakes of a hypothesis is affine in its labels,

.. math:: \sum_i w_i [h(x_i) \ne y_i]
          = \sum_i w_i y_i + \sum_{i : h(x_i) = 1} w_i (1 - 2 y_i),

so every oracle minimises the cost of a set of points, and a negative weight is a
flipped label. Costs are integers times a power of two and add up to at most
:math:`2^{52}` in absolute value. Then every partial sum is exact, in integers and in
floats, in any order: no oracle depends on the order of its rows through rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidDataError

# Integers up to 2**53 are exact as floats; one bit is left for adding the base.
COST_TOTAL_BITS = 52


@dataclass(frozen=True, slots=True)
class Costs:
    """What each point costs when labelled 1, relative to labelling it 0."""

    ones: Ints  #: cost of label 1 at each point, in units of ``2**exponent``
    base: int  #: weighted mistakes of the constant 0, in the same unit
    exponent: int = 0  #: the unit; 0 for integer weights
    #: Whether the weights were integers, so that results are integers.
    integral: bool = True
    #: Whether the unit divides every weight. If not, each was rounded to the nearest
    #: multiple, by at most :math:`2^{-51}` of the sum of absolute weights.
    exact: bool = True

    def value(self, cost_of_ones: float) -> int | float:
        """Return the weighted mistakes of a labelling, given the cost of its ones."""
        total = self.base + int(cost_of_ones)
        return total if self.integral else math.ldexp(total, self.exponent)

    def values(self, cost_of_ones: NDArray[Any]) -> NDArray[Any]:
        """Return the weighted mistakes for many labelings at once."""
        totals = np.asarray(cost_of_ones).astype(np.int64) + self.base
        if self.integral:
            return totals
        return np.ldexp(totals.astype(np.float64), self.exponent)

    def gathered(self, where: NDArray[np.intp], n_points: int) -> Ints:
        """Return the cost of each distinct point; row i lies at point ``where[i]``."""
        # Exact although bincount adds floats: all sums stay below 2**53.
        summed = np.bincount(where, weights=self.ones, minlength=n_points)
        return summed.astype(np.int64)


def signed_costs(y: ArrayLike, weights: ArrayLike | None, n_points: int) -> Costs:
    """Turn labels in {0, 1} and weights of either sign into exact costs."""
    labels = labels_01(y, n_points)
    if weights is None:
        units = np.ones(n_points, dtype=np.int64)
        return _split(units, labels)
    given = np.asarray(weights)
    if given.shape != (n_points,) or given.dtype.kind not in "biuf":
        raise InvalidDataError(
            f"weights has shape {given.shape} and dtype {given.dtype}; one number for "
            f"each of the {n_points} rows is needed."
        )
    if given.dtype.kind != "f":
        return _split(_checked_integers(given), labels)
    units, exponent, exact = _fixed_point(given.astype(np.float64))
    return _split(units, labels, exponent=exponent, integral=False, exact=exact)


def labels_01(y: ArrayLike, n_points: int) -> Ints:
    """Return labels as integers; anything but 0 and 1 is refused."""
    labels = np.asarray(y)
    if labels.shape != (n_points,):
        raise InvalidDataError(
            f"y has shape {labels.shape}; one label for each of the {n_points} rows is "
            "needed."
        )
    if labels.dtype.kind not in "biuf" or not ((labels == 0) | (labels == 1)).all():
        raise InvalidDataError("y must hold only 0 and 1; encode the classes first.")
    return labels.astype(np.int64)


def _split(units: Ints, labels: Ints, **facts: Any) -> Costs:
    return Costs(ones=units * (1 - 2 * labels), base=int(units @ labels), **facts)


def _checked_integers(weights: NDArray[Any]) -> Ints:
    # Sum as floats: an integer sum could wrap around and pass the test.
    if not np.abs(weights.astype(np.float64)).sum() <= 2.0**COST_TOTAL_BITS:
        raise InvalidDataError(
            f"integer weights must add up to at most 2**{COST_TOTAL_BITS} in absolute "
            "value; divide them by a common factor or pass floats."
        )
    return weights.astype(np.int64)


def _fixed_point(weights: Floats) -> tuple[Ints, int, bool]:
    """Return integers, the exponent of their unit, and whether nothing was rounded."""
    with np.errstate(over="ignore"):  # an infinite sum is refused below
        total = float(np.abs(weights).sum())
    if not total < math.inf:
        raise InvalidDataError("weights must be finite and have a finite sum.")
    if total == 0.0:
        return np.zeros(len(weights), dtype=np.int64), 0, True
    # One bit of headroom: rounding adds at most half a unit per point, and the float
    # sum above may be too small by a few units in its last place.
    exponent = math.frexp(total)[1] - COST_TOTAL_BITS + 1
    scaled = np.ldexp(weights, -exponent)
    units = np.rint(scaled)
    return units.astype(np.int64), exponent, bool((units == scaled).all())
