"""Every class with its reference and small points to try it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from tests.hypotheses import brute_force


@dataclass(frozen=True)
class Case:
    """A class, its labelings by definition, and how to draw points for it."""

    name: str
    family: Any
    labelings: Callable[[Any], set[tuple[int, ...]]]
    draw: Callable[[np.random.Generator], Any]
    trials: int
    first: bool = True  # ties go to the first representative

    def points(self, rng):
        """Draw rows with ties and duplicates."""
        rows = self.draw(rng)
        return rows[rng.integers(len(rows), size=len(rows))]


def grid(most, values, d=None):
    """Draw up to `most` points with few distinct coordinates."""

    def draw(rng):
        n_points = rng.integers(1, most + 1)
        shape = n_points if d is None else (n_points, d)
        return rng.choice(values, size=shape)

    return draw


LINE = grid(9, np.arange(7))
HALVES = np.arange(-3, 4) / 2
# Tenths are not what they seem: 0.3 != 3 * 0.1, so lines are almost but not quite met.
TENTHS = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
TABLE = np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 1]])


def table_labelings(X):
    columns = [int(point[0]) for point in brute_force.distinct_points(X)]
    return {tuple(row) for row in TABLE[:, columns].tolist()}


def _cases():
    bf = brute_force
    for direction in ("up", "down", "either"):
        yield Case(
            f"thresholds-{direction}",
            Thresholds(direction),
            lambda X, direction=direction: bf.threshold_labelings(X, direction),
            LINE,
            300,
        )
    for k in (0, 1, 2, 3, 5):
        for start in ("either", "0", "1"):
            yield Case(
                f"intervals-{k}-{start}",
                Intervals(k, start),
                lambda X, k=k, start=start: bf.interval_labelings(X, k, start),
                LINE,
                120,
            )
    for d in (1, 2, 3):
        draw = grid(8, HALVES, d)
        yield Case(f"stumps-{d}", Stumps(d), bf.stump_labelings, draw, 300)
    draw = grid(7, HALVES, 2)
    yield Case("rectangles", Rectangles(), bf.rectangle_labelings, draw, 300)
    for d, most, trials in ((1, 7, 60), (2, 7, 160), (3, 7, 80)):
        for name, values in (("halves", HALVES[:4]), ("tenths", TENTHS)):
            draw = grid(most, values, d)
            family = Halfspaces(d, method="enumerate")
            yield Case(
                f"halfspaces-{d}-{name}",
                family,
                bf.halfspace_labelings,
                draw,
                trials,
            )
    for d in (1, 2, 3):
        family = Halfspaces(d, method="milp")
        draw = grid(6, HALVES[:4], d)
        yield Case(
            f"halfspaces-milp-{d}",
            family,
            bf.halfspace_labelings,
            draw,
            60,
            first=False,
        )
    for method, trials in (("enumerate", 200), ("milp", 60)):
        for negations in (True, False):
            yield Case(
                f"conjunctions-{method}-{negations}",
                Conjunctions(3, negations=negations, method=method),
                lambda X, negations=negations: bf.conjunction_labelings(X, negations),
                grid(7, [0, 1], 3),
                trials,
                first=method == "enumerate",
            )
    domain = np.arange(4.0)
    family = FiniteClass.from_table(domain, TABLE)
    yield Case("table", family, table_labelings, grid(6, domain), 200)
    functions = FiniteClass(
        [lambda X, row=row: row[X[:, 0].astype(int)] for row in TABLE]
    )
    yield Case("functions", functions, table_labelings, grid(6, domain), 200)


CASES = list(_cases())
