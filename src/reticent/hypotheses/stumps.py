"""Decision stumps: a threshold on one of several features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidDataError
from reticent.hypotheses.base import (
    ClassOfFeatures,
    Minimum,
    Projection,
    refuse_long_list,
)
from reticent.hypotheses.dimensions import sauer_shelah, stump_vc
from reticent.hypotheses.oracles.costs import Costs, signed_costs
from reticent.hypotheses.oracles.partitions import Splits, distinct_splits
from reticent.hypotheses.oracles.points import distinct_rows, point_matrix
from reticent.hypotheses.oracles.sorted_columns import (
    ColumnBlocks,
    SortedColumns,
    Tally,
    as_tally,
    cost_at_or_above,
)

_FIELDS = [
    ("feature", np.int32),
    ("cut", np.float64),
    ("below", np.uint8),
    ("above", np.uint8),
]


@dataclass(frozen=True, slots=True)
class Stump:
    """Label `below` where ``x[feature] < cut``, label `above` elsewhere.

    Constants have ``below == above``; their feature and cut say nothing.
    """

    feature: int
    cut: float
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class Stumps(ClassOfFeatures[Stump]):
    r"""Thresholds of both directions on any one of the features.

    Parameters
    ----------
    n_features : int, optional
        How many features the points have. If left out, every call takes it from its
        points; the VC dimension and the growth function need it (see :meth:`on`).

    Notes
    -----
    The order of representatives is: constant 0, constant 1, then by feature, then 0
    below the cut before 1 below it, then by ascending cut. Cuts are values of the
    projected points. The VC dimension is the largest :math:`m` with
    :math:`\binom{m}{\lfloor m/2 \rfloor} \le 2d`.

    Examples
    --------
    >>> X = [[0.0, 5.0], [1.0, 3.0], [2.0, 4.0]]
    >>> Stumps().minimise(X, [0, 1, 0]).hypothesis
    Stump(feature=1, cut=4.0, below=1, above=0)
    >>> Stumps(n_features=2).vc_dimension
    3
    """

    @property
    def vc_dimension(self) -> int:
        """Exact; grows like the logarithm of the number of features."""
        return stump_vc(self._declared())

    def presort(self, X: ArrayLike) -> SortedColumns:
        """Sort every feature once, for many calls of `minimise` and `mistakes`."""
        return SortedColumns.of(point_matrix(X, self.n_features))

    def project(self, X: ArrayLike) -> StumpProjection:
        """Return one representative for each labeling of the points in `X`."""
        points, _ = distinct_rows(point_matrix(X, self.n_features))
        most = self.on(points.shape[1])._growth(len(points))
        refuse_long_list(most, "project fewer points.")
        return StumpProjection(points, distinct_splits(points))

    def predict(self, hypothesis: Stump, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label on each side of the cut."""
        upper = (
            point_matrix(X, self.n_features)[:, hypothesis.feature] >= hypothesis.cut
        )
        return np.where(upper, hypothesis.above, hypothesis.below).astype(np.uint8)

    def minimise(
        self,
        X: ArrayLike | SortedColumns,
        y: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> Minimum[Stump]:
        """Minimise weighted mistakes: one sort and one scan per feature."""
        if isinstance(X, SortedColumns):
            costs = signed_costs(y, weights, X.n_points)
            columns: Iterator[ColumnBlocks] = (
                X.blocks(feature, costs) for feature in range(X.n_features)
            )
        else:
            rows = point_matrix(X, self.n_features)
            costs = signed_costs(y, weights, len(rows))
            columns = _sorted_blocks(rows, costs)
        best, value = _best_stump(columns, int(costs.ones.sum()))
        return Minimum(best, costs.value(value), costs.exact)

    def _count(self, points: ArrayLike) -> int:
        distinct, _ = distinct_rows(point_matrix(points, self.n_features))
        return 2 * (len(distinct_splits(distinct)) + 1)

    def _growth(self, m: int) -> int:
        if m == 0:
            return 1
        # Each feature splits m points in at most m - 1 ways, and each split has two
        # signs.
        listed = 2 + 2 * self._declared() * (m - 1)
        return min(listed, sauer_shelah(m, self.vc_dimension))


class StumpProjection(Projection[Stump]):
    """One stump per labeling of a point set.

    The records have `feature`, `cut`, `below` and `above`.
    """

    def __init__(self, points: Floats, splits: Splits) -> None:
        self.points = points
        self._splits = splits
        # Splits are sorted by feature; these are the ends of each feature's run.
        edges = np.arange(points.shape[1] + 1)
        self._runs = np.searchsorted(splits.feature, edges)
        self.hypotheses = self._records()

    def mistakes(
        self,
        X: ArrayLike | SortedColumns | Tally,
        y: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Count weighted mistakes; also takes presorted data or a tally as `X`.

        With a tally this takes one binary search per representative, independent of the
        size of the data: prepare one with ``stumps.presort(X).tally(y)`` and keep it.
        """
        tally = as_tally(X, y, weights)
        if tally is None:
            return super().mistakes(X, y, weights)
        self._check_features(len(tally.values))
        above = self._per_feature(tally.at_or_above)
        return tally.costs.values(self._totals(above, tally.costs))

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        columns = self._rows(X).T
        record = self.hypotheses
        upper = columns[record["feature"]] >= record["cut"][:, np.newaxis]
        return np.where(
            upper, record["above"][:, np.newaxis], record["below"][:, np.newaxis]
        )

    def _rows(self, X: Any) -> Floats:
        return point_matrix(X, self.points.shape[1])

    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        columns = np.ascontiguousarray(rows.T)
        above = self._per_feature(
            lambda feature, cuts: cost_at_or_above(columns[feature], cuts, costs.ones)
        )
        return self._totals(above, costs)

    def _per_feature(self, cost: Callable[[int, Floats], Ints]) -> Ints:
        """Return the cost of the upper part of every split."""
        above = np.empty(len(self._splits), dtype=np.int64)
        for feature, (start, stop) in enumerate(
            zip(self._runs[:-1], self._runs[1:], strict=True)
        ):
            if start < stop:
                above[start:stop] = cost(feature, self._splits.cut[start:stop])
        return above

    def _totals(self, above: Ints, costs: Costs) -> Ints:
        """Lay the costs out in the order of the records."""
        total = int(costs.ones.sum())
        totals = np.empty(len(self.hypotheses), dtype=np.int64)
        totals[:2] = 0, total
        rising, falling = self._places()
        totals[rising], totals[falling] = above, total - above
        return totals

    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Say which records are a split's rising (0 below) and falling stump."""
        index = np.arange(len(self._splits))
        start = self._runs[self._splits.feature]
        length = self._runs[self._splits.feature + 1] - start
        rising = 2 + start + index
        return rising, rising + length

    def _records(self) -> NDArray[Any]:
        records = np.zeros(2 + 2 * len(self._splits), dtype=_FIELDS)
        records["cut"][:2] = self.points[0, 0]
        records["below"][1] = records["above"][1] = 1
        for below, places in enumerate(self._places()):
            records["feature"][places] = self._splits.feature
            records["cut"][places] = self._splits.cut
            records["below"][places] = below
            records["above"][places] = 1 - below
        return records

    def _check_features(self, n_features: int) -> None:
        if n_features != self.points.shape[1]:
            raise InvalidDataError(
                f"the data have {n_features} features, the projected points "
                f"{self.points.shape[1]}."
            )

    def _hypothesis(self, record: Any) -> Stump:
        feature, cut, below, above = record.item()
        return Stump(feature, cut, below, above)


def _sorted_blocks(rows: Floats, costs: Costs) -> Iterator[ColumnBlocks]:
    for column in rows.T:
        values = np.ascontiguousarray(column)
        order = np.argsort(values)
        yield ColumnBlocks.of(values[order], costs.ones[order])


def _best_stump(columns: Iterator[ColumnBlocks], total: int) -> tuple[Stump, int]:
    """Return the first cheapest stump in the order of `project`, and its cost."""
    best, value = Stump(0, 0.0, 0, 0), 0
    for feature, blocks in enumerate(columns):
        if feature == 0:
            best = Stump(0, float(blocks.values[0]), 0, 0)
            if total < 0:
                best, value = Stump(0, best.cut, 1, 1), total
        below = blocks.below[1:-1]
        if len(below) == 0:
            continue
        # Rising: everything above the cut is 1, so the costliest lower part is best.
        for label, where in ((0, np.argmax(below)), (1, np.argmin(below))):
            cost = int(below[where]) if label else total - int(below[where])
            if cost < value:
                cut = float(blocks.values[where + 1])
                best, value = Stump(feature, cut, label, 1 - label), cost
    return best, value
