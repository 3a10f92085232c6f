"""All ways in which a halfspace can label a few points in at most three dimensions.

Move a separating hyperplane until it touches as many points as possible. The points off
it keep their labels; those on it are labelled by a halfspace of one dimension less, and
so on down to a line, where a cut remains. Such a *layered* halfspace labels any finite
set as some ordinary halfspace does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats, Ints
from reticent.hypotheses.oracles.labelings import first_of_each, pack
from reticent.hypotheses.oracles.orientation import paired_sides, sides

Index = NDArray[np.intp]

# Hyperplanes are handled in blocks of this many sides: some 40 MB of work space.
_SIDES_AT_ONCE = 4_000_000


def record_type(d: int, *, coordinates: bool = True) -> np.dtype[Any]:
    """Return the fields of a layered halfspace in `d` dimensions, top layer first.

    Layer 3 is a plane through three anchors; `axis` is a direction along which it can
    be flattened. Layer 2 is the line through two anchors, layer 1 the cut, by
    lexicographic order. Anchors are positions in a list of points, or coordinates.
    """
    kind, point = (np.float64, (d,)) if coordinates else (np.intp, ())
    fields: list[Any] = []
    if d == 3:
        fields += [("plane", kind, (3, *point)), ("plane_label", np.uint8)]
        fields += [("axis", np.uint8)]
    if d >= 2:
        fields += [("line", kind, (2, *point)), ("line_label", np.uint8)]
    fields += [("cut", kind, point), ("below", np.uint8), ("above", np.uint8)]
    return np.dtype(fields)


def with_coordinates(records: NDArray[Any], points: Floats) -> NDArray[Any]:
    """Replace positions in a list of points by the points."""
    d = points.shape[1]
    found = np.empty(len(records), dtype=record_type(d))
    for name in found.dtype.names or ():
        anchored = name in ("plane", "line", "cut")
        found[name] = points[records[name]] if anchored else records[name]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Layered halfspaces on a set of points."""

    records: NDArray[Any]  # one layered halfspace each
    sides: NDArray[np.int8]  # where the points lie for each top layer
    parent: Index  # the row of `sides` that belongs to each record
    # The labels of the points on the top layer.
    entry: tuple[Index, Index, NDArray[np.uint8]]

    def labels(self) -> NDArray[np.uint8]:
        """Return records by points."""
        top = _top_label(self.records)[:, np.newaxis]
        found = np.where(self.sides[self.parent] > 0, top, 1 - top).astype(np.uint8)
        record, point, label = self.entry
        found[record, point] = label
        return found

    def costs(self, ones: Ints) -> Ints:
        """Add up the costs where each record is 1."""
        # Whole numbers below 2**53: exact as floats, in any order of summation.
        weight = ones.astype(np.float64)
        left = (self.sides > 0).astype(np.float64) @ weight
        right = (self.sides < 0).astype(np.float64) @ weight
        record, point, label = self.entry
        resting = np.bincount(
            record, weights=weight[point] * label, minlength=len(self.records)
        )
        top = _top_label(self.records)
        chosen = np.where(top == 1, left[self.parent], right[self.parent])
        return (chosen + resting).astype(np.int64)


def cells(points: Floats) -> Iterator[Cells]:
    """Yield every labeling of distinct, sorted points at least once, block by block."""
    n_points, d = points.shape
    found = False
    if d > 1:
        flat = chain.from_iterable(combinations(range(n_points), d))
        chosen = np.fromiter(flat, dtype=np.intp).reshape(-1, d)
        for block in _blocks(chosen, n_points):
            some = _resting_on(points, block)
            if some is not None:
                found = True
                yield some
    if not found:  # all points on one line, or fewer than two
        yield _on_one_line(points)


def evaluate(records: NDArray[Any], X: Floats) -> Iterator[Cells]:
    """Yield the labels of records, sorted by top layer, at any points."""
    d = X.shape[1]
    if d == 1:
        top = np.zeros((len(records), 0))
    else:
        top = records["plane" if d == 3 else "line"].reshape(len(records), -1)
    fresh = np.ones(len(records), dtype=bool)
    fresh[1:] = (top[1:] != top[:-1]).any(axis=1)
    starts = np.append(np.flatnonzero(fresh), len(records))
    for block in _blocks(np.arange(len(starts) - 1), len(X)):
        mine = records[starts[block[0]] : starts[block[-1] + 1]]
        counts = np.diff(starts[block[0] : block[-1] + 2])
        parent = np.repeat(np.arange(len(block)), counts)
        if d == 1:
            side = np.zeros((1, len(X)), dtype=np.int8)
        else:
            anchors = top[starts[block]].reshape(-1, d, d)
            side = sides(anchors, X)
        plane, point = np.nonzero(side == 0)
        repeat = counts[plane]
        first = np.concatenate([[0], np.cumsum(counts)])[plane]
        record = _ranges(first, repeat)
        point = np.repeat(point, repeat)
        label = _resting_labels(mine[record], X[point])
        yield Cells(mine, side, parent, (record, point, label))


def _resting_on(points: Floats, chosen: Index) -> Cells | None:
    """Return the cells whose top layer goes through chosen points, if any span one."""
    d = points.shape[1]
    axis = np.zeros(len(chosen), dtype=np.uint8)
    if d == 3:
        axis, flat = _flattening_axis(points[chosen])
        chosen, axis = chosen[~flat], axis[~flat]
    if len(chosen) == 0:
        return None
    side = sides(points[chosen], points)
    own = _first_to_span(points, chosen, side == 0)
    chosen, side, axis = chosen[own], side[own], axis[own]
    if len(chosen) == 0:
        return None
    plane, point = np.nonzero(side == 0)
    counts = np.bincount(plane, minlength=len(chosen))
    if d == 2:
        return _lines(chosen, side, point, counts)
    return _planes(points, chosen, axis, side, point, counts)


def _lines(chosen: Index, side: NDArray[np.int8], on: Index, counts: Index) -> Cells:
    """Cut every line between its points, or nowhere; either label on either side."""
    parent, top, cut, below, above, entry = _cuts(on, counts)
    records = np.empty(len(parent), dtype=record_type(2, coordinates=False))
    records["line"], records["line_label"] = chosen[parent], top
    records["cut"], records["below"], records["above"] = cut, below, above
    return Cells(records, side, parent, entry)


def _planes(
    points: Floats,
    chosen: Index,
    axis: NDArray[np.uint8],
    side: NDArray[np.int8],
    on: Index,
    counts: Index,
) -> Cells:
    """Label the points on every plane by the halfspaces of that plane."""
    start = np.cumsum(counts) - counts
    parts = [_triangles(points, chosen, axis, np.flatnonzero(counts == 3))]
    for plane in np.flatnonzero(counts > 3):
        members = on[start[plane] : start[plane] + counts[plane]]
        parts.append(
            _many_on_plane(points, chosen[plane], axis[plane], int(plane), members)
        )
    lengths = np.array([len(records) for records, _, _ in parts])
    parent = np.concatenate([owner for _, owner, _ in parts])
    records = np.concatenate([found for found, _, _ in parts])
    first = np.repeat(
        np.cumsum(lengths) - lengths, [len(entry[0]) for _, _, entry in parts]
    )
    record, point, label = (
        np.concatenate([entry[i] for _, _, entry in parts]) for i in range(3)
    )
    order = np.argsort(parent, kind="stable")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    entry = place[record + first], point, label
    return Cells(records[order], side, parent[order], entry)


def _on_one_line(points: Floats) -> Cells:
    """Cut points that all lie on one line; anchors that coincide decide nothing."""
    n_points, d = points.shape
    members = np.arange(n_points)
    _, top, cut, below, above, entry = _cuts(members, np.array([n_points]))
    keep = np.flatnonzero(top == 0)  # the first half
    records = np.zeros(len(keep), dtype=record_type(d, coordinates=False))
    records["cut"], records["below"] = cut[keep], below[keep]
    records["above"] = above[keep]
    kept = entry[0] < len(keep)
    side = np.zeros((1, n_points), dtype=np.int8)
    parent = np.zeros(len(keep), dtype=np.intp)
    return Cells(
        records, side, parent, (entry[0][kept], entry[1][kept], entry[2][kept])
    )


def _cuts(on: Index, counts: Index) -> tuple[Any, ...]:
    """Label the points on each line by a cut, for both labels of the layer above.

    `on` lists the points on each line in turn, in order; `counts` says how many they
    are. With m points there are 2 m cuts: constant 0, constant 1, then rising, then
    falling.
    """
    start = np.cumsum(counts) - counts
    parent = np.repeat(np.arange(len(counts)), 4 * counts)
    m = counts[parent]
    local = _ranges(np.zeros_like(counts), 4 * counts)
    top, local = np.divmod(local, 2 * m)
    below = ((local == 1) | (local > m)).astype(np.uint8)
    above = ((local == 1) | ((local >= 2) & (local <= m))).astype(np.uint8)
    place = np.where(local < 2, 0, np.where(local <= m, local - 1, local - m))
    record = np.repeat(np.arange(len(parent)), m)
    position = _ranges(np.zeros_like(parent), m)
    label = np.where(position >= place[record], above[record], below[record])
    entry = record, on[start[parent[record]] + position], label.astype(np.uint8)
    return parent, top.astype(np.uint8), on[start[parent] + place], below, above, entry


def _triangles(
    points: Floats, chosen: Index, axis: NDArray[np.uint8], planes: Index
) -> tuple[NDArray[Any], Index, tuple[Index, Index, NDArray[np.uint8]]]:
    """Label three points on a plane in all eight ways, for both labels of the plane.

    The line goes through the first two; the third lies on one side of it.
    """
    corners = chosen[planes]
    third = _flattened_sides(
        axis[planes], points[corners[:, :2]], points[corners[:, 2]]
    )
    parent = np.repeat(planes, 16)
    row = np.repeat(np.arange(len(planes)), 16)
    plane_label, local = np.divmod(np.tile(np.arange(16), len(planes)), 8)
    line_label, local = np.divmod(local, 4)
    records = np.empty(len(parent), dtype=record_type(3, coordinates=False))
    records["plane"], records["plane_label"] = corners[row], plane_label
    records["axis"] = axis[parent]
    records["line"], records["line_label"] = corners[row, :2], line_label
    records["below"] = (local == 1) | (local == 3)
    records["above"] = (local == 1) | (local == 2)
    records["cut"] = np.where(local < 2, corners[row, 0], corners[row, 1])
    labels = np.empty((len(parent), 3), dtype=np.uint8)
    # Constants cut at the first point, the others between the two.
    labels[:, 0] = records["below"]
    labels[:, 1] = records["above"]
    labels[:, 2] = np.where(third[row] > 0, line_label, 1 - line_label)
    entry_record = np.repeat(np.arange(len(parent)), 3)
    return records, parent, (entry_record, corners[row].ravel(), labels.ravel())


def _many_on_plane(
    points: Floats, corners: Index, axis: int, plane: int, members: Index
) -> tuple[NDArray[Any], Index, tuple[Index, Index, NDArray[np.uint8]]]:
    """Label many points on one plane, by the cells of that plane."""
    flat = np.delete(points[members], axis, axis=1)
    parts = [(part.records, part.labels()) for part in cells(flat)]
    inner = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    first = first_of_each(pack(labels))
    inner, labels = inner[first], labels[first]
    records = np.empty(2 * len(inner), dtype=record_type(3, coordinates=False))
    records["plane"], records["axis"] = corners, axis
    records["plane_label"] = np.repeat([0, 1], len(inner))
    for name in ("line", "cut"):
        records[name] = np.concatenate([members[inner[name]]] * 2)
    for name in ("line_label", "below", "above"):
        records[name] = np.tile(inner[name], 2)
    parent = np.full(len(records), plane, dtype=np.intp)
    entry_record = np.repeat(np.arange(len(records)), len(members))
    entry_point = np.tile(members, len(records))
    return records, parent, (entry_record, entry_point, np.tile(labels, (2, 1)).ravel())


def _first_to_span(points: Floats, chosen: Index, on: Bools) -> Bools:
    """Say which choices are the first points in order that span their hyperplane."""
    seen = np.cumsum(on, axis=1, dtype=np.int32)
    rows = np.arange(len(chosen))
    own: Bools = (seen[rows, chosen[:, 0]] == 1) & (seen[rows, chosen[:, 1]] == 2)
    if points.shape[1] == 3:
        # Points between the second and the third must lie on the line of the first two.
        crowded = np.flatnonzero(own & (seen[rows, chosen[:, 2]] > 3))
        index = np.arange(len(points))
        between = on[crowded] & (index > chosen[crowded, 1:2])
        between &= index < chosen[crowded, 2:]
        row, point = np.nonzero(between)
        triple = np.column_stack([chosen[crowded[row], :2], point])
        _, on_line = _flattening_axis(points[triple])
        own[crowded[row[~on_line]]] = False
    return own


def _flattening_axis(triples: Floats) -> tuple[NDArray[np.uint8], Bools]:
    """Return an axis along which each triangle keeps its area, and which have none."""
    axis = np.zeros(len(triples), dtype=np.uint8)
    flat = np.ones(len(triples), dtype=bool)
    for candidate in range(3):
        shadow = np.delete(triples, candidate, axis=2)
        fits = flat & (paired_sides(shadow[:, :2], shadow[:, 2]) != 0)
        axis[fits] = candidate
        flat &= ~fits
    return axis, flat


def _flattened_sides(
    axis: NDArray[np.uint8], lines: Floats, X: Floats
) -> NDArray[np.int8]:
    """Return sides of lines within a plane, looking along an axis."""
    keep = np.array([[1, 2], [0, 2], [0, 1]])[axis]
    shadow = np.take_along_axis(lines, keep[:, np.newaxis, :], axis=2)
    return paired_sides(shadow, np.take_along_axis(X, keep, axis=1))


def _resting_labels(records: NDArray[Any], X: Floats) -> NDArray[np.uint8]:
    """Label points that lie on the top layer of their record by the layers below it."""
    upper = np.zeros(len(X), dtype=bool)
    tied = np.ones(len(X), dtype=bool)
    for column, cut in zip(X.T, records["cut"].T, strict=True):
        upper |= tied & (column > cut)
        tied &= column == cut
    label = np.where(upper | tied, records["above"], records["below"])
    if X.shape[1] == 3:
        side = _flattened_sides(records["axis"], records["line"], X)
        beside = np.where(side > 0, records["line_label"], 1 - records["line_label"])
        label = np.where(side == 0, label, beside)
    return label.astype(np.uint8)


def _top_label(records: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the label on the positive side of the top layer."""
    names = records.dtype.names or ()
    for name in ("plane_label", "line_label"):
        if name in names:
            return records[name]
    return np.zeros(len(records), dtype=np.uint8)


def _blocks(rows: NDArray[Any], n_points: int) -> Iterator[NDArray[Any]]:
    step = max(1, _SIDES_AT_ONCE // n_points)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _ranges(first: Index, counts: Index) -> Index:
    """Return first[0], first[0]+1, ... (counts[0] of them), first[1], ... in a row."""
    before = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) + np.repeat(first - before, counts)
