"""Every vote profile and every move of one vote, with losses in interval arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import numpy as np

from reticent._numbers import exact

# Losses are differences of two (four, for odds) log-probabilities known to 2^-80.
WIDTH = Fraction(4, 2**80)


def profiles(n_labels, voters):
    return [v for v in product(range(voters + 1), repeat=n_labels) if sum(v) == voters]


def moves(votes):
    """Yield every profile after one voter changed its mind."""
    for source, target in permutations(range(len(votes)), 2):
        if votes[source]:
            moved = list(votes)
            moved[source] -= 1
            moved[target] += 1
            yield tuple(moved)


def vote_pairs(n_labels, voters):
    return [(v, w) for v in profiles(n_labels, voters) for w in moves(v)]


def losses(response, index):
    """Return, for each label, an interval of the log-probability, as rationals."""
    return response.exact(index, bits=80)


def worst_loss(law, pairs):
    """Return rational bounds on the largest log-ratio over pairs of inputs.

    `law` maps a list of inputs to one Response.
    """
    low, high = _extremes(law, pairs)
    return max(max(row) for row in low), max(max(row) for row in high)


def worst_range(law, pairs):
    """Return rational bounds on how far the odds of any event move, in logarithms.

    For a move of probabilities with log-ratios L, that is max L - min L.
    """
    low, high = _extremes(law, pairs)
    return (
        max(max(a) - min(b) for a, b in zip(low, high, strict=True)),
        max(max(b) - min(a) for a, b in zip(low, high, strict=True)),
    )


def _extremes(law, pairs):
    inputs = sorted({item for pair in pairs for item in pair})
    response = law(inputs)
    logs = {item: losses(response, i) for i, item in enumerate(inputs)}
    low, high = [], []
    for first, second in pairs:
        both = list(zip(logs[first], logs[second], strict=True))
        low.append([a[0] - b[1] for a, b in both])
        high.append([a[1] - b[0] for a, b in both])
    return low, high


def assert_loses_at_most(bounds, epsilon, *, tight=True):
    """Fail unless the loss is within epsilon and, if tight, 99 % of it.

    A loss of exactly epsilon is known to the width of its interval only.
    """
    low, high = bounds
    assert low <= exact(epsilon), f"{float(low)} exceeds {epsilon}"
    assert high <= exact(epsilon) + WIDTH, f"{float(high)} exceeds {epsilon}"
    if tight:
        assert low >= Fraction(99, 100) * exact(epsilon), f"{float(low)} is vacuous"


def hockey_stick(first, second, epsilon):
    """Return the delta at epsilon between two laws given as probabilities."""
    return float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum())
