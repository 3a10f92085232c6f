"""Worst cases over all mechanisms, by linear programs."""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array


def largest(
    objective: ArrayLike,
    below: Any,
    limits: ArrayLike,
    *,
    equal: Any = None,
    values: ArrayLike | None = None,
) -> tuple[float, NDArray[np.float64]]:
    """Maximise a linear form of numbers in [0, 1]; return the maximum and where."""
    cost = -np.asarray(objective, dtype=float)
    found = linprog(
        cost, A_ub=below, b_ub=limits, A_eq=equal, b_eq=values, bounds=(0, 1)
    )
    assert found.status == 0, found.message
    return -float(found.fun), found.x


def events(outcomes: int) -> list[tuple[int, ...]]:
    """Return every set of outcomes but the empty one and all."""
    return list(
        chain.from_iterable(
            combinations(range(outcomes), size) for size in range(1, outcomes)
        )
    )


def private_pair(
    outcomes: int, epsilon: float, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows of ``P(E) <= e^epsilon Q(E) + delta``, and back, for (P, Q)."""
    rows, limits = [], []
    for event in events(outcomes):
        inside = np.zeros(outcomes)
        inside[list(event)] = 1
        rows.append(np.concatenate([inside, -math.exp(epsilon) * inside]))
        rows.append(np.concatenate([-math.exp(epsilon) * inside, inside]))
        limits += [delta, delta]
    return np.array(rows), np.array(limits)


def two_laws(outcomes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the equations that make (P, Q) two laws."""
    sums = np.zeros((2, 2 * outcomes))
    sums[0, :outcomes] = 1
    sums[1, outcomes:] = 1
    return sums, np.ones(2)


def worst_move(loss: ArrayLike, epsilon: float, delta: float) -> float:
    """Return how far (epsilon, delta)-DP lets an expected loss move."""
    loss = np.asarray(loss, dtype=float)
    below, limits = private_pair(len(loss), epsilon, delta)
    equal, values = two_laws(len(loss))
    return largest(
        np.concatenate([loss, -loss]), below, limits, equal=equal, values=values
    )[0]


def private_bits(
    pairs: list[tuple[int, int]], size: int, epsilon: float, delta: float = 0.0
) -> tuple[csr_array, NDArray[np.float64]]:
    """Return what (epsilon, delta)-DP of one bit demands of Pr[1 | dataset].

    `pairs` are neighbouring datasets by number, each pair once.
    """
    factor = math.exp(epsilon)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    limits: list[float] = []
    for first, second in pairs:
        for one, other in ((first, second), (second, first)):
            # p <= e^eps p' + delta, and 1 - p <= e^eps (1 - p') + delta.
            row = len(limits)
            rows += [row, row, row + 1, row + 1]
            columns += [one, other, one, other]
            values += [1.0, -factor, -1.0, factor]
            limits += [delta, factor - 1 + delta]
    shape = (len(limits), size)
    return csr_array((values, (rows, columns)), shape=shape), np.array(limits)
