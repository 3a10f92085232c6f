"""Exact laws of the labels that win under whole-number noise, on tiny classes.

A class is a table: one row a hypothesis, first its labels on the public points, then
its values on the private points. Noise is discrete Laplace with a rational
``q = exp(-1/scale)``, so that every probability is a whole number over a common
denominator.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np


@dataclass(frozen=True)
class TinyClass:
    """Labelings of `m` public points with the private values each can have."""

    table: np.ndarray
    m: int

    @property
    def labelings(self):
        return np.unique(self.table[:, : self.m], axis=0)

    def costs(self, data):
        """Return the fewest mistakes on `data` of each labeling."""
        wrong = sum((self.table[:, self.m + x] != y).astype(np.int64) for x, y in data)
        rows = self.table[:, : self.m]
        return np.array([wrong[(rows == v).all(axis=1)].min() for v in self.labelings])

    def datasets(self, n):
        units = list(product(range(self.table.shape[1] - self.m), (0, 1)))
        return list(combinations_with_replacement(units, n))


def cube(m):
    return np.array(list(product((0, 1), repeat=m)))


def shattered(m, *values):
    """All labelings of `m` points; each private value is a function of them."""
    rows = cube(m)
    return TinyClass(np.column_stack([rows, *(value(rows) for value in values)]), m)


def parity(rows):
    return rows.sum(axis=1) % 2


def every(rows):
    return rows.min(axis=1)


def first(rows):
    return rows[:, 0]


def free(tiny):
    """Add a private point that takes both values under every labeling."""
    both = [np.column_stack([tiny.table, np.full(len(tiny.table), v)]) for v in (0, 1)]
    return TinyClass(np.concatenate(both), tiny.m)


def thresholds(m, *, both=False):
    """Cuts at `m` public points, private points between them."""
    places = np.arange(2 * m + 1)  # public ones are odd
    rising = (places[None, :] >= np.arange(2 * m + 2)[:, None]).astype(int)
    table = np.concatenate([rising, 1 - rising]) if both else rising
    return TinyClass(np.column_stack([table[:, 1::2], table[:, [0, m, 2 * m]]]), m)


class Noise:
    """All noise vectors up to `reach`, with whole-number weights.

    Weights count in units of ``denominator ** -m``. With `lumped` noise at the reach
    stands for all beyond it.
    """

    def __init__(self, m, q, reach, *, lumped):
        self.q = Fraction(q)
        sizes = np.abs(np.arange(-reach, reach + 1))
        top, bottom = self.q.numerator, self.q.denominator
        # Pr[c] = (1 - q) q^|c| / (1 + q) and Pr[c >= r] = q^r / (1 + q).
        weights = [
            (top**s * bottom ** (reach - s)) * (bottom - top) for s in sizes.tolist()
        ]
        if lumped:
            weights[0] = weights[-1] = top**reach * bottom
        self.denominator = bottom**reach * (bottom + top)
        if not self.denominator**m < 2**63:
            raise ValueError("weights do not fit into 64 bits")
        one = np.array(weights, dtype=np.int64)
        grid = np.meshgrid(*[np.arange(-reach, reach + 1)] * m, indexing="ij")
        self.vectors = np.stack([axis.ravel() for axis in grid])
        self.weights = np.prod(
            [one[axis + reach] for axis in self.vectors], axis=0, dtype=np.int64
        )
        self.missed = self.denominator**m - int(self.weights.sum())

    def bounds(self, tiny, data, steps, slack=0):
        """Return how often each labeling may win, and how often it surely does.

        In units of probability, whichever labeling within `slack` of the best the
        oracle returns.
        """
        values = steps * tiny.costs(data)[:, None] + tiny.labelings @ self.vectors
        ties = values <= values.min(axis=0) + slack
        alone = ties.sum(axis=0) == 1
        upper = [int(self.weights[row].sum()) + self.missed for row in ties]
        lower = [int(self.weights[row & alone].sum()) for row in ties]
        return upper, lower


def worst_violation(tiny, noise, n, steps, shift, slack=0):
    """Return the greatest ``upper * q^shift / lower`` over neighbours and labelings.

    Private at ``epsilon = shift / scale``, whatever the ties, if this is at most 1.
    """
    known, laws = {}, {}
    for data in tiny.datasets(n):
        costs = tuple(tiny.costs(data))  # all that the law depends on
        if costs not in known:
            known[costs] = noise.bounds(tiny, data, steps, slack)
        laws[data] = known[costs]
    units = list(product(range(tiny.table.shape[1] - tiny.m), (0, 1)))
    worst = Fraction(0)
    for data, (upper, _) in laws.items():
        for position, unit in product(range(n), units):
            other = tuple(sorted((*data[:position], unit, *data[position + 1 :])))
            for most, least in zip(upper, laws[other][1], strict=True):
                if least == 0:
                    return Fraction(2**64)
                worst = max(worst, Fraction(most, least))
    return worst * noise.q**shift
