"""R3: intervals for the truth behind single answers of a holdout."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from reticent.generalization import ReusableHoldout
from reticent.generalization.holdout.intervals import (
    divergence,
    truth_interval,
    weighted_prefixes,
)


@pytest.mark.parametrize("value", [0.0, 0.02, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("distance", [0.0, 0.01])
def test_the_ends_solve_the_equation(value, distance):
    n, transcripts, beta = 2000, 10**5, 0.05
    low, high = truth_interval(value, distance, n=n, prefixes=transcripts, beta=beta)
    limit = math.log(2 * transcripts / beta) / n
    least, most = max(0, value - distance), min(1, value + distance)
    if least > 0:
        assert divergence(least, low) == pytest.approx(limit, rel=1e-6)
    else:
        assert low == 0.0
    if most < 1:
        assert divergence(most, high) == pytest.approx(limit, rel=1e-6)
    else:
        assert high == 1.0
    # Never wider than by Hoeffding's inequality (Pinsker).
    error = math.sqrt(limit / 2)
    assert low >= least - error - 1e-9
    assert high <= most + error + 1e-9


@pytest.mark.parametrize("truth", [0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("n", [20, 200])
def test_averages_of_fixed_queries_miss_no_more_than_is_said(truth, n):
    """One transcript: the exact chance that an interval misses, by all averages."""
    beta = 0.05
    missed = 0.0
    for ones in range(n + 1):
        low, high = truth_interval(ones / n, 0.0, n=n, prefixes=1, beta=beta)
        if not low <= truth <= high:
            missed += float(binom.pmf(ones, n, truth))
    assert missed <= beta
    # A control: intervals at twenty times the failure would miss more often than that.
    narrow = 0.0
    for ones in range(n + 1):
        low, high = truth_interval(ones / n, 0.0, n=n, prefixes=1, beta=0.99)
        if not low <= truth <= high:
            narrow += float(binom.pmf(ones, n, truth))
    assert narrow > missed


@pytest.mark.parametrize(("queries", "kinds", "overfits"), [(4, 2, 2), (5, 3, 3)])
def test_histories_are_counted(queries, kinds, overfits):
    """List all histories; their shares of beta add up to at most one."""
    number = dict.fromkeys(range(overfits + 1), 0)
    for length in range(queries):
        for history in product(range(kinds + 1), repeat=length):
            values = sum(answer > 0 for answer in history)
            if values <= overfits:
                number[values] += 1
    total = 0.0
    for before, histories in number.items():
        weighted = weighted_prefixes(queries, kinds, before)
        assert weighted == histories * (before + 1) * (before + 2)
        total += histories / weighted
    assert total <= 1


def test_an_adaptive_search_stays_within_the_intervals():
    """Pick the best of many coin-flip columns by its answers; then look at it."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, size=(1000, 60))
    holdout = ReusableHoldout(X, queries=61, overfits=5, method="rounding")
    answers = [
        holdout.query(lambda X, y, j=j: X[:, j], guess=0.5)
        for j in range(60)
        if not holdout.stopped
    ]
    for answer in answers:
        low, high = holdout.interval(answer)
        assert low <= 0.5 <= high
    assert high - low <= 2 * holdout.error_at_most


def test_intervals_near_the_ends_are_narrower():
    rows = np.zeros((4000, 1))
    holdout = ReusableHoldout(rows, queries=100, overfits=2, method="rounding")
    answer = holdout.query(lambda X, y: np.full(len(X), 1.0), guess=0.0)
    assert answer.overfit
    low, high = holdout.interval(answer)
    assert high == 1.0
    assert 1 - low < 0.5 * holdout.error_at_most
    noisy = ReusableHoldout(rows, queries=9, method="laplace", scale=0.01)
    said = noisy.query(lambda X, y: np.full(len(X), 0.5), guess=0.5)
    assert noisy.interval(said) == (
        max(0.0, 0.5 - noisy.error_at_most),
        min(1.0, 0.5 + noisy.error_at_most),
    )
