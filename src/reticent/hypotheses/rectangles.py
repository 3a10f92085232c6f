"""Axis-aligned rectangles in the plane."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats
from reticent.errors import InvalidDataError
from reticent.hypotheses.base import (
    HypothesisClass,
    Minimum,
    Projection,
    refuse_long_list,
)
from reticent.hypotheses.oracles.cheapest_box import cheapest_box
from reticent.hypotheses.oracles.costs import Costs, signed_costs
from reticent.hypotheses.oracles.points import distinct_rows, point_matrix

_FIELDS = [(name, np.float64) for name in ("left", "right", "bottom", "top")]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Label 1 for ``left <= x[0] <= right`` and ``bottom <= x[1] <= top``, else 0.

    The empty rectangle has ``left > right`` and ``bottom > top``.
    """

    left: float
    right: float
    bottom: float
    top: float

    @property
    def is_empty(self) -> bool:
        """Whether no point lies inside."""
        return not (self.left <= self.right and self.bottom <= self.top)


_EMPTY = Rectangle(left=1.0, right=0.0, bottom=1.0, top=0.0)


@dataclass(frozen=True, slots=True)
class Rectangles(HypothesisClass[Rectangle]):
    """Closed axis-aligned rectangles in the plane, the empty one included.

    Notes
    -----
    The representative of a labeling is the smallest rectangle around its ones. The
    empty one comes first; the others are sorted by descending bottom, ascending top,
    descending left, ascending right. VC dimension 4.

    Examples
    --------
    >>> X = [[0, 0], [1, 1], [2, 2], [1, 3]]
    >>> Rectangles().minimise(X, [0, 1, 1, 0]).hypothesis
    Rectangle(left=1.0, right=2.0, bottom=1.0, top=2.0)
    """

    @property
    def vc_dimension(self) -> int:
        """Four: one point per side."""
        return 4

    def on(self, n_features: int) -> Self:
        """Return this class; refuse anything but the plane."""
        if n_features != 2:
            raise InvalidDataError(
                f"Rectangles need two features; got n_features={n_features}. Select "
                "two first."
            )
        return self

    def project(self, X: ArrayLike) -> RectangleProjection:
        """Return one representative for each labeling of the points in `X`."""
        points, _ = distinct_rows(point_matrix(X, 2))
        xs, column = np.unique(points[:, 0], return_inverse=True)
        ys, row = np.unique(points[:, 1], return_inverse=True)
        boxes = _tight_boxes(column, row, len(ys))
        return RectangleProjection(points, xs, ys, boxes)

    def predict(self, hypothesis: Rectangle, X: ArrayLike) -> NDArray[np.uint8]:
        """Return 1 for the rows inside the rectangle."""
        x, y = point_matrix(X, 2).T
        inside = (hypothesis.left <= x) & (x <= hypothesis.right)
        inside &= (hypothesis.bottom <= y) & (y <= hypothesis.top)
        return inside.astype(np.uint8)

    def minimise(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
    ) -> Minimum[Rectangle]:
        """Minimise weighted mistakes in O(u^2 log u) for u distinct points."""
        rows = point_matrix(X, 2)
        costs = signed_costs(y, weights, len(rows))
        points, where = distinct_rows(rows)
        ones = costs.gathered(where, len(points))
        xs, column = np.unique(points[:, 0], return_inverse=True)
        ys, row = np.unique(points[:, 1], return_inverse=True)
        found = cheapest_box(column, row, ones)
        if found is None:
            return Minimum(_EMPTY, costs.value(0), costs.exact)
        value, (left, right, bottom, top) = found
        box = Rectangle(
            float(xs[left]), float(xs[right]), float(ys[bottom]), float(ys[top])
        )
        return Minimum(box, costs.value(value), costs.exact)


class RectangleProjection(Projection[Rectangle]):
    """One rectangle per labeling of a point set.

    The records have `left`, `right`, `bottom` and `top`.
    """

    def __init__(
        self, points: Floats, xs: Floats, ys: Floats, boxes: NDArray[np.intp]
    ) -> None:
        self.points = points
        self._xs, self._ys, self._boxes = xs, ys, boxes
        self.hypotheses = np.empty(len(boxes) + 1, dtype=_FIELDS)
        for field, value in _EMPTY_SIDES.items():
            self.hypotheses[field][0] = value
        for side, (field, lines) in enumerate(
            (("left", xs), ("right", xs), ("bottom", ys), ("top", ys))
        ):
            self.hypotheses[field][1:] = lines[boxes[:, side]]

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        x, y = self._rows(X).T
        box = {name: self.hypotheses[name][:, np.newaxis] for name, _ in _FIELDS}
        inside = (box["left"] <= x) & (x <= box["right"])
        inside &= (box["bottom"] <= y) & (y <= box["top"])
        return inside.astype(np.uint8)

    def _rows(self, X: Any) -> Floats:
        return point_matrix(X, 2)

    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        """Add up costs over a grid once; each rectangle then reads four corners."""
        x_bin = _bins(self._xs, rows[:, 0])
        y_bin = _bins(self._ys, rows[:, 1])
        shape = 2 * len(self._xs) + 1, 2 * len(self._ys) + 1
        flat = np.bincount(
            x_bin * shape[1] + y_bin, weights=costs.ones, minlength=shape[0] * shape[1]
        )
        corner = np.zeros((shape[0] + 1, shape[1] + 1))
        corner[1:, 1:] = flat.reshape(shape).cumsum(axis=0).cumsum(axis=1)
        # Line i of the grid is bin 2i + 1; the sum up to and with it ends at 2i + 2.
        left, right, bottom, top = (2 * self._boxes + [1, 2, 1, 2]).T
        inside = corner[right, top] - corner[left, top]
        inside -= corner[right, bottom] - corner[left, bottom]
        return np.append(0.0, inside)

    def _hypothesis(self, record: Any) -> Rectangle:
        return Rectangle(*record.item())


_EMPTY_SIDES = asdict(_EMPTY)


def _bins(lines: Floats, values: Floats) -> NDArray[np.intp]:
    """Return odd numbers for values on a line, even ones for values in between."""
    return np.searchsorted(lines, values, "left") + np.searchsorted(
        lines, values, "right"
    )


def _tight_boxes(
    column: NDArray[np.intp], row: NDArray[np.intp], n_rows: int
) -> NDArray[np.intp]:
    """List boxes with a point on every side, as positions left, right, bottom, top."""
    boxes, listed = [], 0
    for bottom in range(n_rows - 1, -1, -1):
        for top in range(bottom, n_rows):
            strip = (row >= bottom) & (row <= top)
            places = np.unique(column[strip])
            sides = [
                np.concatenate([[0], np.cumsum(np.isin(places, column[row == edge]))])
                for edge in (bottom, top)
            ]
            left, right = np.triu_indices(len(places))
            tight = np.ones(len(left), dtype=bool)
            for on_edge in sides:
                tight &= on_edge[right + 1] > on_edge[left]
            left, right = left[tight], right[tight]
            order = np.lexsort((right, -left))
            edges = np.broadcast_to([bottom, top], (len(left), 2))
            boxes.append(
                np.column_stack([places[left[order]], places[right[order]], edges])
            )
            listed += len(left)
            refuse_long_list(listed, "project fewer points.")
    return np.concatenate(boxes)
