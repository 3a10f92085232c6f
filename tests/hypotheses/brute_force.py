"""The obvious way: every labeling from the definition of a class, and checks against
it.

Nothing here knows how the oracles work. Points are small whole numbers (or halves), so
that the linear program that decides separability has room to spare.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, pairwise, product

import numpy as np
from scipy.optimize import linprog


def distinct_points(X):
    rows = np.asarray(X).reshape(len(X), -1).tolist()
    return sorted({tuple(row) for row in rows})


def all_labelings(n_points):
    return set(product((0, 1), repeat=n_points))


def subsets(items):
    return chain.from_iterable(combinations(items, r) for r in range(len(items) + 1))


def threshold_labelings(X, direction):
    values = [point[0] for point in distinct_points(X)]
    found = set()
    for cut in [*values, None]:
        up = tuple(int(cut is not None and value >= cut) for value in values)
        if direction in ("up", "either"):
            found.add(up)
        if direction in ("down", "either"):
            found.add(tuple(1 - label for label in up))
    return found


def interval_labelings(X, k, start):
    n_points = len(distinct_points(X))

    def changes(labels):
        line = labels if start == "either" else (int(start), *labels)
        return sum(a != b for a, b in pairwise(line))

    return {labels for labels in all_labelings(n_points) if changes(labels) <= k}


def stump_labelings(X):
    points = distinct_points(X)
    found = {(0,) * len(points), (1,) * len(points)}
    for column in zip(*points, strict=True):
        for cut in column:
            labels = tuple(int(value >= cut) for value in column)
            found |= {labels, tuple(1 - label for label in labels)}
    return found


def rectangle_labelings(X):
    points = distinct_points(X)
    found = {(0,) * len(points)}
    for ones in subsets(points):
        if ones:
            sides = [(min(axis), max(axis)) for axis in zip(*ones, strict=True)]
            inside = [
                all(low <= c <= high for c, (low, high) in zip(p, sides, strict=True))
                for p in points
            ]
            found.add(tuple(map(int, inside)))
    return found


def kernel(rows):
    """Return a basis of the vectors v with rows @ v == 0, in fractions."""
    rows, n_columns, pivots = [list(row) for row in rows], len(rows[0]), []
    for column in range(n_columns):
        rest = range(len(pivots), len(rows))
        pivot = next((r for r in rest if rows[r][column] != 0), None)
        if pivot is not None:
            place = len(pivots)
            rows[place], rows[pivot] = rows[pivot], rows[place]
            rows[place] = [entry / rows[place][column] for entry in rows[place]]
            for r in range(len(rows)):
                if r != place:
                    factor = rows[r][column]
                    rows[r] = [
                        a - factor * b
                        for a, b in zip(rows[r], rows[place], strict=True)
                    ]
            pivots.append(column)
    basis = []
    for free in set(range(n_columns)) - set(pivots):
        vector = [Fraction(0)] * n_columns
        vector[free] = Fraction(1)
        for place, column in enumerate(pivots):
            vector[column] = -rows[place][free]
        basis.append(vector)
    return basis


def circuits(points):
    """Return the smallest sets that split into two parts with meeting hulls.

    Radon partitions of minimal affinely dependent sets, as (positions, signs).
    """
    d = len(points[0])
    found = []
    for size in range(2, d + 3):
        for chosen in combinations(range(len(points)), size):
            columns = [(1, *map(Fraction, points[i])) for i in chosen]
            basis = kernel(
                [list(map(Fraction, row)) for row in zip(*columns, strict=True)]
            )
            if len(basis) == 1 and all(basis[0]):
                found.append((chosen, tuple(int(entry > 0) for entry in basis[0])))
    return found


def halfspace_labelings(X):
    """Labels that agree with no circuit: those, and only those, can be separated."""
    points = distinct_points(X)
    impossible = []
    for chosen, signs in circuits(points):
        impossible += [(chosen, signs), (chosen, tuple(1 - s for s in signs))]
    return {
        labels
        for labels in all_labelings(len(points))
        if not any(
            tuple(labels[i] for i in chosen) == signs for chosen, signs in impossible
        )
    }


def is_separable(points, labels):
    """Whether some hyperplane strictly separates ones from zeros; small points only."""
    points, sign = np.asarray(points, dtype=float), np.where(labels, -1.0, 1.0)
    n_points, d = points.shape
    table = np.hstack([sign[:, None] * points, -sign[:, None]])
    free = [(None, None)] * (d + 1)
    result = linprog(np.zeros(d + 1), table, -np.ones(n_points), bounds=free)
    assert result.status in (0, 2)
    return result.status == 0


def conjunction_labelings(X, negations):
    points = distinct_points(X)
    d = len(points[0])
    literals = [(j, 1) for j in range(d)] + [(j, 0) for j in range(d) if negations]
    return {
        tuple(int(all(p[j] == value for j, value in chosen)) for p in points)
        for chosen in subsets(literals)
    }


def weighted_mistakes(predicted, y, weights):
    """The definition, in exact arithmetic."""
    pairs = zip(predicted, y, weights, strict=True)
    return sum(Fraction(w) for label, target, w in pairs if label != target)


def assert_projection(family, X, expected):
    """Fail unless `project` lists exactly the labelings of the set of points."""
    projection = family.project(X)
    points = distinct_points(X)
    assert [tuple(np.atleast_1d(p).tolist()) for p in projection.points] == points
    listed = [tuple(map(int, labels)) for labels in projection.labels]
    assert len(listed) == len(set(listed)) == len(projection)
    assert set(listed) == set(expected)
    assert family.growth(points=X) == len(listed)
    one_by_one = [tuple(map(int, family.predict(h, points))) for h in projection]
    assert one_by_one == listed


def assert_set_only(family, X, rng):
    """Fail if the representatives depend on the order or multiplicity of points."""
    X = np.asarray(X)
    again = X[np.concatenate([rng.permutation(len(X)), rng.integers(len(X), size=3)])]
    before, after = family.project(X), family.project(again)
    assert before.hypotheses.tobytes() == after.hypotheses.tobytes()
    assert list(before) == list(after)


def assert_mistakes(family, X, Z, y, weights):
    """Fail unless all representatives of X's labelings are counted right on Z."""
    projection = family.project(X)
    counted = projection.mistakes(Z, y, weights)
    labels = projection.predict(Z)
    assert labels.shape == (len(projection), len(Z))
    for total, row in zip(counted.tolist(), labels.tolist(), strict=True):
        assert Fraction(total) == weighted_mistakes(row, y, weights)
    one_by_one = [family.predict(h, Z).tolist() for h in projection]
    assert one_by_one == labels.tolist()


def assert_minimum(family, X, y, weights, expected, *, first=True):
    """Fail unless `minimise` is exact, says the truth and breaks ties as promised."""
    found = family.minimise(X, y, weights)
    predicted = family.predict(found.hypothesis, X).tolist()
    assert weighted_mistakes(predicted, y, weights) == Fraction(found.value)
    place = {point: i for i, point in enumerate(distinct_points(X))}
    rows = [place[tuple(row)] for row in np.asarray(X).reshape(len(X), -1).tolist()]
    values = {
        labels: weighted_mistakes([labels[i] for i in rows], y, weights)
        for labels in expected
    }
    assert Fraction(found.value) == min(values.values())
    assert found.exact
    if first:
        projection = family.project(X)
        listed = [values.get(tuple(map(int, labels))) for labels in projection.labels]
        assert None not in listed
        assert found.hypothesis == projection[listed.index(min(listed))]
