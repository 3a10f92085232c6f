"""Halfspaces: exact minimisation, and their labelings in up to three dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses.base import (
    Minimum,
    ProgrammedClass,
    Projection,
    refuse_long_list,
)
from reticent.hypotheses.dimensions import cover_count
from reticent.hypotheses.oracles.costs import Costs, signed_costs
from reticent.hypotheses.oracles.halfspace_cells import (
    cells,
    evaluate,
    record_type,
    with_coordinates,
)
from reticent.hypotheses.oracles.integer_programs import (
    coarse_costs,
)
from reticent.hypotheses.oracles.labelings import first_of_each, pack
from reticent.hypotheses.oracles.points import distinct_rows, point_matrix
from reticent.hypotheses.oracles.separation import (
    Halfspace,
    best_halfspace,
    positive_side,
)

# Up to this many sides of points are enumerated, which takes some seconds; beyond that,
# an integer program is used.
_ENUMERATED = 300_000_000


@dataclass(frozen=True, slots=True)
class LayeredHalfspace:
    """A halfspace whose boundary is itself cut into two, down to a single point.

    Points off the hyperplane through the first anchors get the label of their side;
    points on it the label of the next layer, and so on; on the last line, `below` or
    `above` a cut in lexicographic order. On any finite set this is the labeling of an
    ordinary halfspace, without moving its boundary by a very small amount. Sides are
    decided exactly.
    """

    #: From the top: `d` points and the label of the positive side, then one point less.
    layers: tuple[tuple[tuple[tuple[float, ...], ...], int], ...]
    #: The axis along which the points of the first of three layers are projected.
    axis: int
    #: The last layer.
    cut: tuple[float, ...]
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class Halfspaces(ProgrammedClass["LayeredHalfspace | Halfspace"]):
    r"""Sides of hyperplanes, in any dimension, through the origin or not.

    Parameters
    ----------
    n_features : int, optional
        Dimension :math:`d` of the points. If left out, every call takes it from its
        points; the VC dimension and the growth function need it (see :meth:`on`).
    method : {"auto", "enumerate", "milp"}, default="auto"
        How `minimise` works: by trying all hyperplanes on :math:`d` of the points (at
        most three dimensions), or by an integer program with a proven gap of zero.
        ``"auto"`` enumerates if that takes seconds.
    time_limit : float, default=inf
        Seconds for the integer program; without a proof by then, SolverError.

    Notes
    -----
    `project` needs at most three dimensions. Enumeration decides sides exactly, also
    for points that are almost or exactly in special position. Its representatives are
    in the order of the anchors. The integer program returns an ordinary
    :class:`Halfspace` and breaks ties in its own way, deterministically, as a function
    of the point set and the cost of each point. Its lower bound is HiGHS's, in floating
    point; whole-number costs leave it a slack of half a unit.

    VC dimension :math:`d + 1`; :math:`2 \sum_{i \le d} \binom{m-1}{i}` labelings of
    :math:`m` points in general position.

    Examples
    --------
    >>> X = [[0, 0], [1, 0], [0, 1], [1, 1]]
    >>> Halfspaces().minimise(X, [0, 1, 1, 0]).value
    1
    >>> Halfspaces().growth(points=X)
    14
    """

    @property
    def vc_dimension(self) -> int:
        """One more than the number of features."""
        return self._declared() + 1

    def project(self, X: ArrayLike) -> HalfspaceProjection:
        """Return one representative for each labeling of the points in `X`."""
        points, _ = distinct_rows(point_matrix(X, self.n_features))
        d = points.shape[1]
        if d > 3:
            raise InvalidParameterError(
                f"n_features={d}: labelings by halfspaces are listed in at most three "
                "dimensions. Select features, or use a FiniteClass."
            )
        refuse_long_list(cover_count(len(points), d), "project fewer points.")
        parts = [(part.records, pack(part.labels())) for part in cells(points)]
        packed = np.concatenate([labels for _, labels in parts])
        records = np.concatenate([found for found, _ in parts])
        kept = records[first_of_each(packed)]
        return HalfspaceProjection(points, with_coordinates(kept, points))

    def predict(
        self, hypothesis: LayeredHalfspace | Halfspace, X: ArrayLike
    ) -> NDArray[np.uint8]:
        """Return 1 for the rows in the halfspace."""
        if isinstance(hypothesis, Halfspace):
            rows = point_matrix(X, len(hypothesis.normal))
            return positive_side(hypothesis, rows).astype(np.uint8)
        rows = point_matrix(X, len(hypothesis.cut))
        return next(evaluate(_as_record(hypothesis), rows)).labels()[0]

    def minimise(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
    ) -> Minimum[LayeredHalfspace | Halfspace]:
        """Minimise weighted mistakes by enumeration or by integer programming."""
        rows = point_matrix(X, self.n_features)
        costs = signed_costs(y, weights, len(rows))
        points, where = distinct_rows(rows)
        ones = costs.gathered(where, len(points))
        if self._enumerates(*points.shape):
            record, value = _cheapest_cell(points, ones)
            return Minimum(_as_hypothesis(record), costs.value(value), costs.exact)
        cost, exact = coarse_costs(ones)
        weighty = np.flatnonzero(cost)
        if len(weighty) == 0:
            found = Halfspace((0.0,) * points.shape[1], 1.0)
        else:
            found = best_halfspace(points[weighty], cost[weighty], self.time_limit)
        value = int(ones @ positive_side(found, points))
        return Minimum(found, costs.value(value), costs.exact and exact)

    def _enumerates(self, n_points: int, d: int) -> bool:
        if self.method == "auto":
            return d <= 3 and math.comb(n_points, d) * n_points <= _ENUMERATED
        if self.method == "enumerate" and d > 3:
            raise InvalidParameterError(
                f"method='enumerate' works in at most three dimensions; got "
                f"n_features={d}. Use method='milp'."
            )
        return self.method == "enumerate"

    def _count(self, points: ArrayLike) -> int:
        distinct, _ = distinct_rows(point_matrix(points, self.n_features))
        if distinct.shape[1] > 3:
            # Cover's formula for general position: never too small.
            return cover_count(len(distinct), distinct.shape[1])
        return len(self.project(distinct))

    def _growth(self, m: int) -> int:
        return cover_count(m, self._declared())


class HalfspaceProjection(Projection["LayeredHalfspace | Halfspace"]):
    """One layered halfspace per labeling of a point set."""

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        parts = evaluate(self.hypotheses, self._rows(X))
        return np.concatenate([part.labels() for part in parts])

    def _rows(self, X: Any) -> Floats:
        return point_matrix(X, self.points.shape[1])

    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        distinct, where = distinct_rows(rows)
        ones = costs.gathered(where, len(distinct))
        parts = evaluate(self.hypotheses, distinct)
        return np.concatenate([part.costs(ones) for part in parts])

    def _hypothesis(self, record: Any) -> LayeredHalfspace:
        return _as_hypothesis(record)


def _cheapest_cell(points: Floats, ones: Ints) -> tuple[Any, int]:
    """Return the first record of least cost, in the order of `project`."""
    best: tuple[Any, int] | None = None
    for part in cells(points):
        values = part.costs(ones)
        where = int(np.argmin(values))
        if best is None or values[where] < best[1]:
            best = part.records[where : where + 1], int(values[where])
    if best is None:
        raise InvalidDataError("X has no points.")
    return with_coordinates(best[0], points)[0], best[1]


def _as_hypothesis(record: Any) -> LayeredHalfspace:
    layers = []
    for name in ("plane", "line"):
        if name in record.dtype.names:
            anchors = tuple(tuple(point) for point in record[name].tolist())
            layers.append((anchors, int(record[f"{name}_label"])))
    axis = int(record["axis"]) if "axis" in record.dtype.names else 0
    cut = tuple(record["cut"].tolist())
    return LayeredHalfspace(
        tuple(layers), axis, cut, int(record["below"]), int(record["above"])
    )


def _as_record(hypothesis: LayeredHalfspace) -> NDArray[Any]:
    d = len(hypothesis.cut)
    record = np.zeros(1, dtype=record_type(d))
    names = ("plane", "line")[3 - d :] if d > 1 else ()
    for name, (anchors, label) in zip(names, hypothesis.layers, strict=True):
        record[name], record[f"{name}_label"] = anchors, label
    if d == 3:
        record["axis"] = hypothesis.axis
    record["cut"] = hypothesis.cut
    record["below"], record["above"] = hypothesis.below, hypothesis.above
    return record
