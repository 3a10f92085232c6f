"""Exact laws of fair bits, private votes on them, and the best simulator."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.stats import binom

from reticent.guarantees.convert import sigmoid


def tilted_tail(units, tilt, error):
    """Overfitting by more than `error` when a bit's log-odds are moved by `tilt`."""
    p = sigmoid(tilt)
    low = math.ceil(units * (0.5 - error) - 1e-9) - 1
    high = math.floor(units * (0.5 + error) + 1e-9)
    return binom.cdf(low, units, p) + binom.sf(high, units, p)


def two_sided(units, error):
    """Chance that a fair bit's average is more than `error` off."""
    return tilted_tail(units, 0.0, error)


def soft_vote(units, epsilon):
    """Return Pr[1 | k ones] of the soft vote of `units` bits, epsilon-DP."""
    return np.array([sigmoid(epsilon * (k - units / 2)) for k in range(units + 1)])


def geometric_vote(units, epsilon):
    """Return Pr[1 | k ones] of the optimal pure vote of an even number of bits."""
    margin = np.arange(units + 1) - units / 2
    minority = np.exp(-epsilon * np.abs(margin)) / 2
    return np.where(margin > 0, 1 - minority, minority)


def simulated_loss(chance, weights, beta):
    """Return the least epsilon of any simulator, but for `beta` of the samples.

    The chance of a one grows with the ones, so the samples left out are at the ends.
    Two laws within epsilon of one simulator are within 2 epsilon of each other.
    """
    best = math.inf
    edges = np.concatenate([[0.0], np.cumsum(weights)])
    for low, high in itertools.combinations_with_replacement(range(len(chance)), 2):
        if edges[high + 1] - edges[low] >= 1 - beta:
            ones = math.log(chance[high] / chance[low])
            zeros = math.log((1 - chance[low]) / (1 - chance[high]))
            best = min(best, max(ones, zeros) / 2)
    return best
