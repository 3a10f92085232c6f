"""Finding all rows within a distance: exact, by cells of a released grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reticent.estimators import STEPS, CodedColumns, Codes

Int = NDArray[np.int64]

_BINS = 16
_FEWEST_AXES, _MOST_AXES = 3, 5
# This many of the widest columns outside the grid come first: what the cells of other
# clusters still hold is mostly far away there. Then those of the grid, then the rest.
_AHEAD = 2
# Rows that are too far are dropped after each of the first columns, and then after
# every second one.
_EACH = _AHEAD + 1


@dataclass(frozen=True, eq=False)
class Axis:
    """A column that cells are cut along.

    Attributes
    ----------
    column : int
        Which column.
    bin_of_code : ndarray of int
        The bin of each of its codes.
    """

    column: int
    bin_of_code: Int

    @cached_property
    def n_bins(self) -> int:
        """Number of bins."""
        return int(self.bin_of_code.max()) + 1

    def nearest(self, table: NDArray[np.int32]) -> Int:
        """Return the least square of a distance in each bin."""
        order, starts, bins = self._by_bin
        least = np.minimum.reduceat(table.take(order), starts)
        if len(bins) == self.n_bins:
            return least.astype(np.int64)
        found = np.full(self.n_bins, np.iinfo(np.int32).max, dtype=np.int64)
        found[bins] = least
        return found

    @cached_property
    def _by_bin(self) -> tuple[Int, Int, Int]:
        """Codes in the order of their bins, where each bin begins, and its number."""
        order = np.argsort(self.bin_of_code, kind="stable")
        bins, starts = np.unique(self.bin_of_code[order], return_index=True)
        return order, starts, bins


def grid_axes(
    columns: CodedColumns,
    shares: tuple[NDArray[np.float64] | None, ...],
    spread: NDArray[np.float64],
    n_units: int,
) -> tuple[Axis, ...]:
    """Return the axes of a grid: the columns that tell rows apart best.

    There are about as many cells as units, and a few thousand if there are few units.

    What is given is public or released, so the grid does not depend on single rows.
    """
    axes = []
    most = int(math.log(2 * n_units) / math.log(_BINS))
    most = min(max(most, _FEWEST_AXES), _MOST_AXES)
    for place in np.argsort(-np.asarray(spread), kind="stable")[:most]:
        column, share = columns.columns[place], shares[place]
        codes = np.arange(column.n_codes)
        if not column.numeric:
            bins = np.minimum(codes, _BINS - 1)
        elif share is None:
            bins = np.minimum(codes * _BINS // STEPS, _BINS - 1)
        else:
            inner = np.minimum((share * _BINS).astype(np.int64), _BINS - 1)
            bins = np.append(inner, _BINS - 1)
        axes.append(Axis(int(place), bins.astype(np.int64)))
    return tuple(axes)


class BallIndex:
    """All rows, sorted by the cells of a grid.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        The rows.
    axes : tuple of Axis
        The grid.

    Guarantee
    ---------
    `within` returns exactly the rows whose distance is at most the radius. Only its
    time depends on the grid and on where rows are.
    """

    def __init__(self, codes: Codes, axes: tuple[Axis, ...]) -> None:
        self.axes = axes
        cell = np.zeros(len(codes), dtype=np.int64)
        self._n_cells = 1
        for axis in self.axes:
            cell = cell * axis.n_bins + axis.bin_of_code[codes[:, axis.column]]
            self._n_cells *= axis.n_bins
        self._order = np.argsort(cell, kind="stable")
        sizes = np.bincount(cell, minlength=self._n_cells)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._columns = np.ascontiguousarray(codes[self._order].T)

    def within(self, tables: list[NDArray[np.int32]], radius: int) -> tuple[Int, Int]:
        """Return the rows within a radius and the squares of their distances.

        Parameters
        ----------
        tables : list of ndarray
            The square of the distance by column and code, from `Metric.tables`.
        radius : int
            Square of the radius; rows at this distance are within.
        """
        places = self._candidates(tables, radius)
        order = self._by_width(tables)
        total = np.zeros(len(places), dtype=np.int32)
        for done, column in enumerate(order, start=1):
            total += tables[column].take(self._columns[column].take(places))
            if done <= _EACH or done % 2 == 0 or done == len(order):
                inside = (total <= radius).nonzero()[0]
                places, total = places.take(inside), total.take(inside)
        return self._order.take(places), total.astype(np.int64)

    def _by_width(self, tables: list[NDArray[np.int32]]) -> list[int]:
        """Return the columns, first those by which most rows can be left out.

        Rows that are far along an axis of the grid were left out with their cells.
        """
        grid = [axis.column for axis in self.axes]
        # The farthest code is an end of a range or any other level.
        widths = [
            max(int(table[0]), int(table[-1]), int(table[-2])) for table in tables
        ]
        rest = [column for column in range(len(tables)) if column not in grid]
        rest.sort(key=lambda column: -widths[column])
        return rest[:_AHEAD] + grid + rest[_AHEAD:]

    def _candidates(self, tables: list[NDArray[np.int32]], radius: int) -> Int:
        """Return where rows are that may be within the radius, by their cells."""
        cells = nearest = np.zeros(1, dtype=np.int64)
        for axis in self.axes[:-1]:
            own = axis.nearest(tables[axis.column])
            bound = (nearest[:, None] + own).ravel()
            # Cells that are too far along some axes are divided no further.
            kept = (bound <= radius).nonzero()[0]
            outer, inner = np.divmod(kept, axis.n_bins)
            nearest = bound.take(kept)
            cells = cells.take(outer) * axis.n_bins + inner
        firsts, ends = self._runs(tables, cells, radius - nearest)
        sizes = ends - firsts
        some = sizes.nonzero()[0]
        if not len(some):
            return np.zeros(0, dtype=np.int64)
        firsts, sizes = firsts.take(some), sizes.take(some)
        before = sizes.cumsum() - sizes
        total = int(before[-1] + sizes[-1])
        return np.repeat(firsts - before, sizes) + np.arange(total)

    def _runs(
        self, tables: list[NDArray[np.int32]], cells: Int, left: Int
    ) -> tuple[Int, Int]:
        """Return where the rows of cells begin and end, as far as the last axis allows.

        Cells that differ in their bin of the last axis alone lie next to each other.
        One run goes from the first bin that is near enough to the last one; there may
        be others between them.

        Parameters
        ----------
        tables : list of ndarray
            As for `within`.
        cells : ndarray of int
            Cells of all axes but the last.
        left : ndarray of int
            What the last axis may add to the square of each cell's distance.
        """
        if not self.axes:
            return self._starts.take(cells), self._starts.take(cells + 1)
        axis = self.axes[-1]
        own = axis.nearest(tables[axis.column])
        # Least distances up to each bin fall, and from each bin on they grow.
        upwards = np.minimum.accumulate(own)[::-1]
        downwards = np.minimum.accumulate(own[::-1])[::-1]
        first = axis.n_bins - np.searchsorted(upwards, left, side="right")
        end = np.searchsorted(downwards, left, side="right")
        begin = cells * axis.n_bins
        firsts = self._starts.take(begin + first)
        return firsts, np.maximum(self._starts.take(begin + end), firsts)
