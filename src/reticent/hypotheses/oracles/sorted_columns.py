"""Sorted columns: sort the data once, then look up the cost of any cut.

A cut at `c` splits a column into ``x < c`` and ``x >= c``. After one sort the cost of
the lower part is a prefix sum, so another set of cuts costs a binary search and a
gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Ints
from reticent.errors import InvalidDataError
from reticent.hypotheses.oracles.costs import Costs, signed_costs


@dataclass(frozen=True, slots=True, eq=False)
class SortedColumns:
    """Every column of a data matrix, sorted; reusable over labels and queries."""

    values: NDArray[Any]  #: each column in ascending order
    order: NDArray[Any]  #: which row each sorted value came from

    @classmethod
    def of(cls, rows: NDArray[Any]) -> SortedColumns:
        """Sort the columns of `rows`; ties may have any order."""
        # Half the memory of 64-bit indices, and half the traffic when gathering.
        index = np.int32 if len(rows) < 2**31 else np.int64
        order = np.empty(rows.shape[::-1], dtype=index)
        values = np.empty(rows.shape[::-1], dtype=rows.dtype)
        for feature, column in enumerate(np.ascontiguousarray(rows.T)):
            order[feature] = np.argsort(column)
            np.take(column, order[feature], out=values[feature])
        return cls(values, order)

    @property
    def n_points(self) -> int:
        """Number of rows."""
        return self.values.shape[1]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.values.shape[0]

    def blocks(self, feature: int, costs: Costs) -> ColumnBlocks:
        """Return one column with its prefix sums at every change of value."""
        return ColumnBlocks.of(self.values[feature], costs.ones[self.order[feature]])

    def tally(self, y: ArrayLike, weights: ArrayLike | None = None) -> Tally:
        """Add up costs along every column, ready for any number of projections."""
        costs = signed_costs(y, weights, self.n_points)
        below = np.zeros((self.n_features, self.n_points + 1), dtype=np.int64)
        for feature in range(self.n_features):
            np.cumsum(costs.ones[self.order[feature]], out=below[feature, 1:])
        return Tally(self.values, below, costs)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Sorted columns with the prefix sums of one labelled, weighted dataset.

    Pass it to `mistakes` of a projection instead of ``(X, y, weights)``.
    """

    values: NDArray[Any]
    below: Ints
    costs: Costs

    def at_or_above(self, feature: int, cuts: NDArray[Any]) -> Ints:
        """Return the cost of the points ``x >= cut`` for each cut."""
        prefix = self.below[feature]
        positions = np.searchsorted(self.values[feature], cuts, side="left")
        return prefix[-1] - prefix[positions]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlocks:
    """The distinct values of a column, and the cost of everything below each.

    `below` has one entry more than `values`: the last is the cost of all points.
    """

    values: NDArray[Any]
    below: Ints

    @classmethod
    def of(cls, ascending: NDArray[Any], ones: Ints) -> ColumnBlocks:
        """Merge equal values of a sorted column."""
        below = np.empty(len(ascending) + 1, dtype=np.int64)
        below[0] = 0
        np.cumsum(ones, out=below[1:])
        changes = ascending[1:] != ascending[:-1]
        if changes.all():
            return cls(ascending, below)
        starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
        return cls(ascending[starts], np.append(below[starts], below[-1]))


def cost_at_or_above(column: NDArray[Any], cuts: NDArray[Any], ones: Ints) -> Ints:
    """Return the cost of ``x >= cut`` for ascending distinct cuts, without a sort."""
    bins = np.searchsorted(cuts, column, side="right")
    # Exact although bincount adds floats: costs add up to at most 2**52.
    binned = np.bincount(bins, weights=ones, minlength=len(cuts) + 1)
    return np.cumsum(binned[:0:-1])[::-1].astype(np.int64)


def as_tally(X: Any, y: ArrayLike | None, weights: ArrayLike | None) -> Tally | None:
    """Return the tally behind `X` if it is presorted; plain data gives None."""
    if isinstance(X, Tally):
        if y is not None or weights is not None:
            raise InvalidDataError(
                "a Tally holds its labels and weights already; leave out y and weights."
            )
        return X
    if isinstance(X, SortedColumns):
        if y is None:
            raise InvalidDataError(
                "mistakes needs y, one label in {0, 1} per row of X."
            )
        return X.tally(y, weights)
    return None
