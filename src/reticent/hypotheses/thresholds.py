"""Thresholds on a line of ordered values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._text import one_of
from reticent.hypotheses.base import Minimum
from reticent.hypotheses.dimensions import alternations
from reticent.hypotheses.lines import LineClass, LineProjection, line_blocks
from reticent.hypotheses.oracles.costs import Costs
from reticent.hypotheses.oracles.points import ordered_values, python_scalar
from reticent.hypotheses.oracles.sorted_columns import SortedColumns

_STARTS = {"up": (0,), "down": (1,), "either": (0, 1)}


@dataclass(frozen=True, slots=True)
class Threshold:
    """Label `below` for ``x < cut``, label `above` for ``x >= cut``.

    Constants have ``below == above``; their cut has no effect.
    """

    cut: Any
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class Thresholds(LineClass[Threshold]):
    """Thresholds on any ordered type: numbers, dates, strings.

    Parameters
    ----------
    direction : {"up", "down", "either"}, default="up"
        ``"up"``: 1 from the cut on, ``1[x >= c]``; ``"down"``: 1 before it,
        ``1[x < c]``; ``"either"``: both. The limits ``c = -inf`` and ``c = inf``
        belong to the class.

    Notes
    -----
    Cuts are points of the projected set, never midpoints, so nothing is rounded and
    any ordered type works. The constants come first; the other representatives are
    sorted by label below the cut, then by ascending cut.

    ===========  ============  ======================
    direction    VC dimension  labelings of m >= 1 points
    ===========  ============  ======================
    up, down     1             m + 1
    either       2             2 m
    ===========  ============  ======================

    Examples
    --------
    >>> best = Thresholds().minimise([1, 2, 3, 4], [0, 1, 0, 1], [1, 5, 1, 1])
    >>> best.hypothesis, best.value
    (Threshold(cut=2, below=0, above=1), 1)
    """

    direction: str = "up"

    def __post_init__(self) -> None:
        one_of("direction", self.direction, *_STARTS)

    @property
    def vc_dimension(self) -> int:
        """1 for one direction, 2 for both."""
        return len(_STARTS[self.direction])

    def project(self, X: ArrayLike) -> ThresholdProjection:
        """Return one representative for each labeling of the points in `X`."""
        points = np.unique(ordered_values(X))
        records = []
        if self.direction == "either":
            records += [_records(points[:1], 0, 0), _records(points[:1], 1, 1)]
            cuts = points[1:]
        else:
            start = _STARTS[self.direction][0]
            records += [_records(points[:1], start, start)]
            cuts = points
        records += [_records(cuts, s, 1 - s) for s in _STARTS[self.direction]]
        return ThresholdProjection(points, np.concatenate(records))

    def predict(self, hypothesis: Threshold, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label on each side of the cut."""
        above = (ordered_values(X) >= hypothesis.cut).astype(bool)
        return np.where(above, hypothesis.above, hypothesis.below).astype(np.uint8)

    def minimise(
        self,
        X: ArrayLike | SortedColumns,
        y: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> Minimum[Threshold]:
        """Minimise weighted mistakes by one sort and one scan."""
        blocks, costs = line_blocks(X, y, weights)
        total = int(blocks.below[-1])
        # A constant's cut has no effect; the smallest point makes it a function of X.
        smallest = python_scalar(blocks.values[0])
        starts = _STARTS[self.direction]
        best = Threshold(smallest, starts[0], starts[0]), starts[0] * total
        if self.direction == "either" and total < best[1]:
            best = Threshold(smallest, 1, 1), total
        first = 1 if self.direction == "either" else 0
        for start in starts:
            below = blocks.below[first:-1]
            if len(below) == 0:
                continue
            above_cost = (below if start else total - below).astype(np.int64)
            where = int(np.argmin(above_cost))
            if above_cost[where] < best[1]:
                cut = python_scalar(blocks.values[first + where])
                best = Threshold(cut, start, 1 - start), int(above_cost[where])
        return Minimum(best[0], costs.value(best[1]), costs.exact)

    def _growth(self, m: int) -> int:
        return alternations(m, 1, either_start=self.direction == "either")


class ThresholdProjection(LineProjection[Threshold]):
    """One threshold per labeling of a point set; fields `cut`, `below`, `above`."""

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        cuts, below, above = (
            self.hypotheses[name] for name in ("cut", "below", "above")
        )
        upper = (ordered_values(X)[np.newaxis, :] >= cuts[:, np.newaxis]).astype(bool)
        return np.where(upper, above[:, np.newaxis], below[:, np.newaxis])

    def _totals(self, at_or_above: NDArray[Any], costs: Costs) -> NDArray[Any]:
        """Combine the cost of ``x >= point`` into the cost of each representative."""
        total = int(costs.ones.sum())
        position = np.searchsorted(self.points, self.hypotheses["cut"])
        upper = at_or_above[position]
        return self.hypotheses["above"] * upper + self.hypotheses["below"] * (
            total - upper
        )

    def _hypothesis(self, record: Any) -> Threshold:
        return Threshold(
            python_scalar(record["cut"]), int(record["below"]), int(record["above"])
        )


def _records(cuts: NDArray[Any], below: int, above: int) -> NDArray[Any]:
    dtype = [("cut", cuts.dtype), ("below", np.uint8), ("above", np.uint8)]
    records = np.empty(len(cuts), dtype=dtype)
    records["cut"], records["below"], records["above"] = cuts, below, above
    return records
