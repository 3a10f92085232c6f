r"""The best halfspace by integer programming, with a proof.

A master program chooses labels and a hyperplane that has every 1 on its closed positive
side and every 0 on its closed negative side, normalised by :math:`|w|_\infty = 1`.
Every labeling by a halfspace satisfies this, and the solver's tolerances only allow
more, so its bound is a lower bound for the class. It may also allow labels that no
halfspace has, on points that the hyperplane touches. Those are found by a linear
program, proved impossible in rational arithmetic (two convex hulls meet), and cut off;
then the master runs again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from reticent._arrays import Bools, Floats, Ints
from reticent.errors import SolverError
from reticent.hypotheses.oracles.integer_programs import (
    ConstraintRows,
    require_proof,
    solve,
)
from reticent.hypotheses.oracles.solver_output import without_solver_output

# The largest number of impossible sets found in one labeling before the master runs
# again.
_CUTS_AT_ONCE = 20
# Multipliers below this are noise of the linear program; the proof is exact anyway.
_NOISE = 1e-9


@dataclass(frozen=True, slots=True)
class Halfspace:
    """Label 1 where ``x @ normal >= offset``, in a fixed order of summation."""

    normal: tuple[float, ...]
    offset: float


def positive_side(halfspace: Halfspace, X: Floats) -> Bools:
    """Return which rows are labelled 1.

    Summed feature by feature: a matrix product may round differently from batch to
    batch, and then the label of a point would depend on the other points of the batch.
    """
    value = np.zeros(len(X))
    for weight, column in zip(halfspace.normal, X.T, strict=True):
        value += weight * column
    side: Bools = value >= halfspace.offset
    return side


def best_halfspace(points: Floats, cost: Ints, time_limit: float) -> Halfspace:
    """Return a halfspace of least cost over distinct points with non-zero costs."""
    deadline = time.monotonic() + time_limit
    scaled, middle, half = _to_unit_box(points)
    # The cheapest label of every point: if some halfspace has them, it is optimal.
    labels, bound = cost < 0, float(np.minimum(cost, 0).sum())
    master: _Master | None = None
    while True:
        found = _separate(scaled, labels)
        if found is not None:
            halfspace = _unscaled(found, middle, half)
            if (positive_side(halfspace, points) == labels).all():
                require_proof(int(cost @ labels), bound)
                return halfspace
        if master is None:
            master = _Master(scaled, cost)
        impossible = _impossible_sets(scaled, points, labels)
        if not impossible:
            raise SolverError(
                "the solver found labels that can neither be realised in floating "
                "point nor be proved impossible; the points are too close to "
                "degenerate. Rescale or round the features."
            )
        for members in impossible:
            master.forbid(members, labels[members])
        labels, bound = master.solve(max(deadline - time.monotonic(), 1e-3))


class _Master:
    """The master program; its columns are normal, offset, faces and labels."""

    def __init__(self, scaled: Floats, cost: Ints) -> None:
        self.n_points, self.d = scaled.shape
        self.first_label = 3 * self.d + 1
        n_columns = self.first_label + self.n_points
        self.rows = ConstraintRows(n_columns)
        self.cost = np.concatenate([np.zeros(self.first_label), cost])
        self.integrality = (np.arange(n_columns) > self.d).astype(int)
        self.low = np.concatenate(
            [-np.ones(self.d), [-self.d], np.zeros(n_columns - self.d - 1)]
        )
        self.high = np.ones(n_columns)
        self.high[self.d] = self.d
        self._normalise()
        self._take_sides(scaled, cost)

    def _normalise(self) -> None:
        """Make one of the 2 d faces of the unit box hold the normal."""
        faces = self.d + 1 + np.arange(2 * self.d)
        self.rows.add(0, faces, -1.0, -1.0)
        for j in range(self.d):
            for sign, face in ((1.0, faces[j]), (-1.0, faces[self.d + j])):
                # sign * w_j >= 1 on the chosen face, >= -1 otherwise
                self.rows.add([0, 0], [j, face], [-sign, 2.0], 1.0)

    def _take_sides(self, scaled: Floats, cost: Ints) -> None:
        """Tie labels to sides, where the sign of the cost pushes against it."""
        reach = 2.0 * self.d  # no point of the box is further from the hyperplane
        for i, point in enumerate(scaled):
            sign = 1.0 if cost[i] > 0 else -1.0
            at = np.append(np.arange(self.d + 1), self.first_label + i)
            # cost > 0: w.x - b <= reach * z;  cost < 0: b - w.x <= reach * (1 - z)
            entries = np.concatenate([sign * point, [-sign, -sign * reach]])
            self.rows.add(0, at, entries, 0.0 if sign > 0 else reach)

    def forbid(self, members: NDArray[np.intp], labels: Bools) -> None:
        """Exclude these labels on these points together."""
        sign = np.where(labels, 1.0, -1.0)
        limit = float(labels.sum()) - 1.0
        self.rows.add(0, self.first_label + members, sign, limit)

    def solve(self, time_limit: float) -> tuple[Bools, float]:
        """Return labels, and a bound on the cost of every halfspace."""
        box = self.low, self.high
        solution = solve(self.cost, self.rows, self.integrality, box, time_limit)
        return solution.x[self.first_label :] > 0.5, solution.bound


def _to_unit_box(points: Floats) -> tuple[Floats, Floats, Floats]:
    low, high = points.min(axis=0), points.max(axis=0)
    # Halve first: the sum and the difference of large floats can overflow.
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    half = np.where(half > 0, half, 1.0)
    return np.clip((points - middle) / half, -1.0, 1.0), middle, half


def _unscaled(found: tuple[Floats, float], middle: Floats, half: Floats) -> Halfspace:
    normal = found[0] / half
    return Halfspace(
        tuple(float(w) for w in normal), float(found[1] + (normal * middle).sum())
    )


def _widest(scaled: Floats, labels: Bools) -> tuple[Floats, float, float, Floats]:
    """Return the widest gap: normal, offset, width, and the weight of each point."""
    n_points, d = scaled.shape
    sign = np.where(labels, -1.0, 1.0)[:, np.newaxis]
    # width + sign * (w.x - b) <= 0
    table = np.hstack([sign * scaled, -sign, np.ones((n_points, 1))])
    bounds = [(-1, 1)] * d + [(-2 * d, 2 * d), (None, 1)]
    with without_solver_output():
        result = linprog(
            np.append(np.zeros(d + 1), -1.0), table, np.zeros(n_points), bounds=bounds
        )
    if result.status != 0:
        raise SolverError(f"a linear program failed (solver status {result.status}).")
    multiplier = -np.asarray(result.ineqlin.marginals)
    return result.x[:d], float(result.x[d]), float(result.x[d + 1]), multiplier


def _separate(scaled: Floats, labels: Bools) -> tuple[Floats, float] | None:
    normal, offset, width, _ = _widest(scaled, labels)
    return (normal, offset) if width > 0 else None


def _impossible_sets(
    scaled: Floats, points: Floats, labels: Bools
) -> list[NDArray[np.intp]]:
    """Return small sets of points whose labels no halfspace has, each proved so."""
    left = np.arange(len(points))
    found: list[NDArray[np.intp]] = []
    while len(found) < _CUTS_AT_ONCE and len(left) > 0:
        multiplier = _widest(scaled[left], labels[left])[3]
        members = left[multiplier > _NOISE]
        if not _hulls_meet(points[members], labels[members]):
            break
        found.append(members)
        left = np.setdiff1d(left, members)
    return found


def _hulls_meet(points: Floats, labels: Bools) -> bool:
    """Prove in rational arithmetic that ones and zeros have hulls with a common point.

    Looks for weights of one sign with ``sum(+-weight * (1, x)) == 0``; the points come
    from a basic solution, so there is only one candidate up to scaling.
    """
    if labels.all() or not labels.any():
        return False
    signs = [1 if label else -1 for label in labels]
    rows = [[Fraction(sign) for sign in signs]] + [
        [sign * Fraction(float(x)) for sign, x in zip(signs, column, strict=True)]
        for column in points.T
    ]
    weights = _only_solution(rows)
    return weights is not None and all(weight > 0 for weight in weights)


def _only_solution(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """Solve ``rows @ v == 0`` with last entry 1, if the solutions form a line."""
    n_columns = len(rows[0])
    pivots: list[int] = []
    for column in range(n_columns):
        place = len(pivots)
        pivot = next((r for r in range(place, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[place], rows[pivot] = rows[pivot], rows[place]
        scale = rows[place][column]
        rows[place] = [entry / scale for entry in rows[place]]
        for r, row in enumerate(rows):
            if r != place and row[column]:
                factor = row[column]
                rows[r] = [
                    a - factor * b for a, b in zip(row, rows[place], strict=True)
                ]
        pivots.append(column)
    if pivots != list(range(n_columns - 1)):
        return None
    return [-rows[i][n_columns - 1] for i in range(n_columns - 1)] + [Fraction(1)]
