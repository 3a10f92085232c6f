"""The cheapest box in a grid of costs: a sweep over tops, all bottoms at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints

# Trees have four 64-bit numbers per node and bottom; this many nodes take 64 MB.
_NODES_AT_ONCE = 2_000_000

Box = tuple[int, int, int, int]


def cheapest_box(
    column: NDArray[np.intp], row: NDArray[np.intp], ones: Ints
) -> tuple[int, Box] | None:
    """Return the least cost and its box (left, right, bottom, top), or None.

    Points lie at grid positions ``(column, row)``. None means that the empty box, of
    cost 0, is cheapest. Ties: the highest bottom, the lowest top, the rightmost left
    side, the leftmost right side. Such a box is tight: a smaller one around the same
    points would come before it.
    """
    n_columns, n_rows = int(column.max()) + 1, int(row.max()) + 1
    width = 1 << (n_columns - 1).bit_length() if n_columns > 1 else 1
    by_row = np.argsort(row, kind="stable")
    step = max(1, _NODES_AT_ONCE // (2 * width))
    least, edges = 0, None
    for start in range(0, n_rows, step):
        bottoms = range(start, min(start + step, n_rows))
        strips = _CheapestRuns(width, len(bottoms))
        value, top = strips.sweep(bottoms, column[by_row], row[by_row], ones[by_row])
        cheapest = int(value.min())
        if cheapest < 0 and cheapest <= least:
            highest = int(np.flatnonzero(value == cheapest)[-1])
            least, edges = cheapest, (start + highest, int(top[highest]))
    if edges is None:
        return None
    inside = (row >= edges[0]) & (row <= edges[1])
    profile = np.zeros(n_columns)
    np.add.at(profile, column[inside], ones[inside])
    return least, (*_cheapest_run(profile), *edges)


class _CheapestRuns:
    """One segment tree per bottom, side by side; the root knows its cheapest run.

    A node keeps the total of its columns and the least cost of a prefix, a suffix and a
    run of them, the empty ones included. Row `width + i` is column i, row 1 the root.
    """

    def __init__(self, width: int, n_bottoms: int) -> None:
        self.width = width
        shape = (2 * width, n_bottoms)
        self.total = np.zeros(shape, dtype=np.int64)
        self.prefix = np.zeros(shape, dtype=np.int64)
        self.suffix = np.zeros(shape, dtype=np.int64)
        self.run = np.zeros(shape, dtype=np.int64)

    def sweep(
        self,
        bottoms: range,
        column: NDArray[np.intp],
        row: NDArray[np.intp],
        ones: Ints,
    ) -> tuple[Ints, NDArray[np.intp]]:
        """Return for each bottom the least cost of a box on it, and its lowest top."""
        value = np.zeros(len(bottoms), dtype=np.int64)
        top = np.array(bottoms, dtype=np.intp)
        begin = int(np.searchsorted(row, bottoms.start))
        for index in range(begin, len(row)):
            here = int(row[index])
            # Bottoms above this row do not see its points.
            active = min(here + 1, bottoms.stop) - bottoms.start
            self._add(int(column[index]), int(ones[index]), active)
            if index + 1 == len(row) or row[index + 1] != here:
                root = self.run[1, :active]
                better = root < value[:active]
                value[:active][better] = root[better]
                top[:active][better] = here
        return value, top

    def _add(self, column: int, cost: int, active: int) -> None:
        """Add a cost to one column of the first trees, and update up to the root."""
        node = self.width + column
        self.total[node, :active] += cost
        least = np.minimum(self.total[node, :active], 0)
        for table in (self.prefix, self.suffix, self.run):
            table[node, :active] = least
        while node > 1:
            node //= 2
            low, high = 2 * node, 2 * node + 1
            total_low, total_high = self.total[low, :active], self.total[high, :active]
            np.add(total_low, total_high, out=self.total[node, :active])
            through = total_low + self.prefix[high, :active]
            np.minimum(
                self.prefix[low, :active], through, out=self.prefix[node, :active]
            )
            through = total_high + self.suffix[low, :active]
            np.minimum(
                self.suffix[high, :active], through, out=self.suffix[node, :active]
            )
            across = self.suffix[low, :active] + self.prefix[high, :active]
            np.minimum(across, self.run[low, :active], out=across)
            np.minimum(across, self.run[high, :active], out=self.run[node, :active])


def _cheapest_run(profile: Floats) -> tuple[int, int]:
    """Return the cheapest non-empty run, rightmost start, then leftmost end."""
    before = np.concatenate([[0.0], np.cumsum(profile)])
    ahead = np.minimum.accumulate(before[:0:-1])[::-1]
    cost = ahead - before[:-1]
    start = int(np.flatnonzero(cost == cost.min())[-1])
    end = start + int(np.argmax(before[start + 1 :] == ahead[start]))
    return start, end
