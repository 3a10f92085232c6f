"""Unions of intervals on a line of ordered values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Bools, Ints
from reticent._text import one_of
from reticent.hypotheses.base import Minimum, refuse_long_list
from reticent.hypotheses.dimensions import alternations, checked_count
from reticent.hypotheses.lines import LineClass, LineProjection, line_blocks
from reticent.hypotheses.oracles.costs import Costs
from reticent.hypotheses.oracles.points import ordered_values, python_scalar
from reticent.hypotheses.oracles.sorted_columns import (
    ColumnBlocks,
    SortedColumns,
)

_STARTS = {"0": (0,), "1": (1,), "either": (0, 1)}


@dataclass(frozen=True, slots=True)
class IntervalUnion:
    """Label `start` at the far left; the label changes at each end, ``x >= end``."""

    start: int
    ends: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Intervals(LineClass[IntervalUnion]):
    """Sets of reals whose indicator changes at most `k` times along the line.

    Parameters
    ----------
    k : int
        Total number of ends. One bounded interval has two; a half-line has one.
    start : {"either", "0", "1"}, default="either"
        The label at the far left. ``"either"`` takes "unions of intervals with `k`
        ends" literally: half-lines on the left count as intervals too. ``"0"`` with
        even `k` is the class of unions of `k/2` bounded intervals.

    Notes
    -----
    Ends are points of the projected set; an interval contains its left end and not its
    right one, which does not restrict the class on finite sets. Representatives are
    sorted by number of ends, then by start, then by ends in lexicographic order. Any
    ordered type works.

    =========  ============  ==============================
    start      VC dimension  labelings of m >= 1 points
    =========  ============  ==============================
    "0", "1"   k             sum of C(m, i), i <= k
    "either"   k + 1         2 * sum of C(m - 1, i), i <= k
    =========  ============  ==============================

    Examples
    --------
    >>> best = Intervals(2).minimise([1, 2, 3, 4, 5], [0, 1, 1, 0, 1])
    >>> best.hypothesis, best.value
    (IntervalUnion(start=0, ends=(2,)), 1)
    """

    k: int
    start: str = "either"

    def __post_init__(self) -> None:
        checked_count("k", self.k, at_least=0)
        one_of("start", self.start, "either", "0", "1")

    @property
    def vc_dimension(self) -> int:
        """`k` with a fixed start, `k + 1` with either."""
        return self.k + (self.start == "either")

    def project(self, X: ArrayLike) -> IntervalProjection:
        """Return one representative for each labeling of the points in `X`."""
        points = np.unique(ordered_values(X))
        refuse_long_list(
            self._growth(len(points)), "project fewer points or take a smaller k."
        )
        # With a fixed start the first point may already have the other label.
        first = 1 if self.start == "either" else 0
        places = range(first, len(points))
        parts = []
        for n_ends in range(min(self.k, len(places)) + 1):
            flat = chain.from_iterable(combinations(places, n_ends))
            ends = np.fromiter(flat, dtype=np.int64).reshape(-1, max(n_ends, 1))
            if n_ends == 0:
                ends = np.zeros((1, 0), dtype=np.int64)
            parts += [_records(start, ends, self.k) for start in _STARTS[self.start]]
        return IntervalProjection(points, np.concatenate(parts))

    def predict(self, hypothesis: IntervalUnion, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label at each value: the start, flipped once per end passed."""
        values = ordered_values(X)
        label = np.full(len(values), hypothesis.start, dtype=np.uint8)
        for end in hypothesis.ends:
            label ^= (values >= end).astype(np.uint8)
        return label

    def minimise(
        self,
        X: ArrayLike | SortedColumns,
        y: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> Minimum[IntervalUnion]:
        """Minimise weighted mistakes: one sort, then `k` vectorised sweeps.

        Time O(n log n + k n), memory O(k n).
        """
        blocks, costs = line_blocks(X, y, weights)
        plan = _CostToGo(blocks, min(self.k, len(blocks.values)))
        value, start, ends = plan.best(self.start)
        union = IntervalUnion(
            start, tuple(python_scalar(blocks.values[end]) for end in ends)
        )
        return Minimum(union, costs.value(value), costs.exact)

    def _growth(self, m: int) -> int:
        return alternations(m, self.k, either_start=self.start == "either")


class _CostToGo:
    """Dynamic program over blocks of equal values, from the right.

    ``cost[r][a][i]`` is the least cost of blocks i, i+1, ... when block i has label a
    and at most r changes follow. Layer r needs only a running minimum of layer r-1, so
    each takes a few array operations.
    """

    def __init__(self, blocks: ColumnBlocks, changes: int) -> None:
        self.most = changes
        self.below = blocks.below[:-1]
        total = blocks.below[-1]
        layer = (np.zeros(len(self.below), dtype=np.int64), total - self.below)
        self.cost = [layer]
        for _ in range(changes):
            later0 = _least_after(layer[1], 0)
            later1 = _least_after(self.below + layer[0], total)
            following = (later0, later1 - self.below)
            if all(np.array_equal(a, b) for a, b in zip(layer, following, strict=True)):
                break  # more changes do not help anywhere
            self.cost.append(following)
            layer = following

    def best(self, start: str) -> tuple[int, int, list[int]]:
        """Return the least cost, its start and the blocks where the label changes.

        Fewest changes first, then start 0, then the earliest ends.
        """
        routes = [
            (changes, first)
            for changes in range(min(len(self.cost), self.most) + 1)
            for first in _STARTS[start]
        ]
        values = [self._value(changes, first, start) for changes, first in routes]
        least = int(np.argmin(values))
        changes, first = routes[least]
        return int(values[least]), first, self._ends(changes, first, start)

    def _value(self, changes: int, first: int, start: str) -> float:
        """Least cost with at most `changes` changes, the first block included."""
        stay = self.cost[changes][first][0] if changes < len(self.cost) else np.inf
        if start == "either" or changes == 0:
            return float(stay)
        return float(min(stay, self.cost[changes - 1][1 - first][0]))

    def _ends(self, changes: int, first: int, start: str) -> list[int]:
        """Follow the least cost from the left; `changes` is the fewest possible."""
        ends: list[int] = []
        label, place, left = first, 0, changes
        if start != "either" and changes > 0:
            at_once = self.cost[changes - 1][1 - first][0]
            if at_once == self._value(changes, first, start):
                ends, label, left = [0], 1 - first, changes - 1
        while left > 0:
            step = self.below if label else np.zeros_like(self.below)
            onward = step + self.cost[left - 1][1 - label]
            goal = step[place] + self.cost[left][label][place]
            place += 1 + int(np.argmax(onward[place + 1 :] == goal))
            ends.append(place)
            label, left = 1 - label, left - 1
        return ends


class IntervalProjection(LineProjection[IntervalUnion]):
    """One union of intervals per labeling of a point set.

    The records have `start`, `n_ends` and `ends`, which are positions in `points`; only
    the first `n_ends` of them count.
    """

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        # How many projected points are <= x; an end is passed from its position on.
        passed = np.searchsorted(self.points, ordered_values(X), side="right")
        label = np.repeat(self.hypotheses["start"][:, np.newaxis], len(passed), axis=1)
        for slot, used in self._slots():
            end = self.hypotheses["ends"][:, slot]
            label ^= used[:, np.newaxis] & (passed > end[:, np.newaxis])
        return label

    def _totals(self, at_or_above: NDArray[Any], costs: Costs) -> NDArray[Any]:
        """Each end swaps the label of everything at or above it."""
        start = self.hypotheses["start"].astype(np.int64)
        totals = start * int(costs.ones.sum())
        sign = 1 - 2 * start
        for slot, used in self._slots():
            totals += sign * used * at_or_above[self.hypotheses["ends"][:, slot]]
            sign = -sign
        return totals

    def _slots(self) -> list[tuple[int, Bools]]:
        n_ends = self.hypotheses["n_ends"]
        longest = int(n_ends.max())
        return [(slot, n_ends > slot) for slot in range(longest)]

    def _hypothesis(self, record: Any) -> IntervalUnion:
        ends = self.points[record["ends"][: record["n_ends"]]]
        return IntervalUnion(
            int(record["start"]), tuple(python_scalar(end) for end in ends)
        )


def _least_after(values: Ints, otherwise: Any) -> Ints:
    """Return the least of `otherwise` and all values strictly to the right."""
    padded = np.append(values[1:], otherwise)
    least: Ints = np.minimum.accumulate(padded[::-1])[::-1]
    return least


def _records(start: int, ends: Ints, k: int) -> NDArray[Any]:
    dtype = [
        ("start", np.uint8),
        ("n_ends", np.int32),
        ("ends", np.int32, (max(k, 1),)),
    ]
    records = np.zeros(len(ends), dtype=dtype)
    records["start"], records["n_ends"] = start, ends.shape[1]
    records["ends"][:, : ends.shape[1]] = ends
    return records
