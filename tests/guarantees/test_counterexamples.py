"""Conversions that must not exist, each with the mechanism that rules it out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from reticent.errors import NoDerivationError, RuleError
from reticent.guarantees import (
    PerfectGeneralization,
    PureDP,
    RobustGeneralization,
    compose,
    finite_range,
    finite_range_to_robust,
    pure_to_perfect,
    repeat,
    rules,
)
from tests.guarantees.cases import given, sampled
from tests.guarantees.fair_bits import (
    geometric_vote,
    simulated_loss,
    soft_vote,
    two_sided,
)

BITS = (0, 1)


# ---------------------------------------- robust, but neither private nor perfect


def majority(sample):
    return int(2 * sum(sample) > len(sample))


@pytest.mark.parametrize("units", [5, 9])
def test_the_majority_bit_is_robust(units):
    """Two outputs: whatever is computed from the bit overfits like a fixed query.

    With values in {0, 1} there are four queries, and the adversary picks one for each
    output; the worst choice stays within the certificate.
    """
    premise = finite_range(size=2, n=units, scope="model")
    for beta in (0.3, 0.05):
        made = finite_range_to_robust(premise, beta=beta).guarantee
        for chance in (0.1, 0.5, 0.8):
            weights = binom.pmf(np.arange(units + 1), units, chance)
            off = np.abs(np.arange(units + 1) / units - chance) > made.epsilon
            # The constant queries never overfit; the other two are off by the same.
            assert weights[off].sum() <= beta
    assert two_sided(units, 0.05) > 0.3  # the control: no such luck at 0.05


@pytest.mark.parametrize("units", [5, 8])
def test_the_majority_bit_is_not_private_at_all(units):
    """S3 Lemma 37: on some neighbours the output is surely different."""
    edge = [1] * (units // 2 + 1) + [0] * (units - units // 2 - 1)
    flipped = [0, *edge[1:]]
    assert majority(edge) == 1
    assert majority(flipped) == 0
    # Pr[1] goes from one to zero: no finite epsilon, no delta below one.


@pytest.mark.parametrize("units", [9, 101])
def test_the_majority_bit_is_not_perfect(units):
    """Fair bits give either output half the time: any simulator is wrong on one.

    For a simulator with Pr[1] = p, samples of majority 1 need 1 - p <= delta and
    those of majority 0 need p <= delta, so below delta = 1/2 half of all samples are
    bad, whatever epsilon.
    """
    ones = float(binom.sf(units // 2, units, 0.5))
    for p in np.linspace(0, 1, 21):
        for delta in (0.0, 0.25, 0.49):
            good = ones * (1 - p <= delta) + (1 - ones) * (p <= delta)
            assert 1 - good >= min(ones, 1 - ones) - 1e-12
    assert min(ones, 1 - ones) > 0.49


def test_no_rule_leads_from_robust_to_private_or_perfect():
    robust = sampled(RobustGeneralization(0.1, 0.05))
    for name, known in rules.items():
        if RobustGeneralization in known.takes:
            assert {
                to for source, to in known.leads() if source is RobustGeneralization
            } == {RobustGeneralization}, name
    with pytest.raises(RuleError, match="rule G16 needs PerfectGeneralization"):
        rules["G16"].apply(robust)


# ------------------------------------------- perfect, but private only by resampling


def strange(sample):
    """S3 Thm 38: "Strange" on one balanced string, "Normal" on all others."""
    half = len(sample) // 2
    return sample == (1,) * half + (0,) * (len(sample) - half)


@pytest.mark.parametrize("units", [4, 7, 10])
def test_strange_is_perfect_and_not_private(units):
    samples = list(itertools.product(BITS, repeat=units))
    for chance in (Fraction(1, 10), Fraction(1, 2), Fraction(2, 3)):
        # The simulator says "Normal": wrong exactly on the strange sample.
        bad = sum(
            chance ** sum(s) * (1 - chance) ** (units - sum(s))
            for s in samples
            if strange(s)
        )
        assert bad <= Fraction(1, 2**units)
    odd = next(s for s in samples if strange(s))
    neighbours = [(*odd[:i], 1 - odd[i], *odd[i + 1 :]) for i in range(units)]
    assert not any(strange(s) for s in neighbours)  # surely told apart
    with pytest.raises(RuleError, match="rule G22-basic needs"):
        rules["G22-basic"].apply(
            sampled(PerfectGeneralization(0.5**units, 0.0, 0.0), n=units), counts=[1]
        )


# ------------------------------------------------- private, but not better than sqrt n


@pytest.mark.parametrize("vote", [soft_vote, geometric_vote])
def test_private_votes_are_not_perfect_beyond_the_root_of_n(vote):
    """S3 Thm 40: the least loss of any simulator grows like eps sqrt(n ln 1/beta)."""
    ratios = []
    for units, beta in [(100, 0.1), (400, 0.1), (1600, 0.1), (400, 1e-3), (1600, 1e-4)]:
        epsilon = 2 / math.sqrt(units)
        weights = binom.pmf(np.arange(units + 1), units, 0.5)
        keep = weights > 1e-9
        chance = vote(units, epsilon)
        least = simulated_loss(chance[keep], weights[keep] / weights[keep].sum(), beta)
        ratios.append(least / (epsilon * math.sqrt(units * math.log(1 / beta))))
        certified = pure_to_perfect(
            given(PureDP(epsilon), n=units), outputs=2, beta=beta
        )
        assert least <= certified.guarantee.epsilon
    assert min(ratios) > 0.1
    assert max(ratios) < 3 * min(ratios)  # the order is right: a constant factor


# ---------------------------------------------- robust generalization does not compose


def orders_of(sample):
    """Return the orders of positions that sort a sample; ties allow several."""
    return [
        order
        for order in itertools.permutations(range(len(sample)))
        if all(sample[a] <= sample[b] for a, b in itertools.pairwise(order))
    ]


def test_robust_mechanisms_fail_together():
    """First publish the order of the sample, then the sample if it has a given order.

    The order (ties broken at random) says nothing about the values, and a given order
    is rare: each is robust, for every distribution. The second mechanism, asked about
    the order that the first returned, gives every sample without ties away.
    """
    kinds, units, error = 8, 4, 0.45
    samples = list(itertools.product(range(kinds), repeat=units))
    queries = np.array(list(itertools.product(BITS, repeat=kinds)))
    seen = np.array([[s.count(z) for z in range(kinds)] for s in samples])
    inside = queries @ seen.T / units
    off = np.abs(inside - queries.mean(axis=1, keepdims=True)) > error
    fixed = off.mean(axis=1).max()

    orders = list(itertools.permutations(range(units)))
    chance = np.zeros((len(orders), len(samples)))
    for column, sample in enumerate(samples):
        fitting = orders_of(sample)
        for order in fitting:
            chance[orders.index(order), column] = 1 / len(fitting) / len(samples)
    # First: for each order the adversary picks the best query, and gains nothing.
    first = sum((off @ row).max() for row in chance)
    assert first == pytest.approx(fixed)
    # Second, for any one order: the sample is seen with probability below 1/4!, and
    # what remains hidden overfits like a fixed query.
    distinct = seen.max(axis=1) == 1
    for order in (0, 7):
        shown = distinct & (chance[order] > 0)
        second = shown.mean() + (off & ~shown).mean(axis=1).max()
        assert shown.mean() <= 1 / math.factorial(units)
        assert second <= fixed + 1 / math.factorial(units)
    # Together: the query that is the sample itself.
    itself = np.array([[int(z in s) for z in range(kinds)] for s in samples])
    gap = np.abs((itself * seen).sum(axis=1) / units - itself.mean(axis=1))
    together = (distinct & (gap > error)).mean()
    assert together == distinct.mean()
    assert together > 1.5 * (first + second)


def test_robust_generalization_refuses_to_compose():
    robust = sampled(RobustGeneralization(0.1, 0.05))
    with pytest.raises(NoDerivationError, match="does not compose by itself"):
        robust.guarantee.times(2)
    for act in (
        lambda: compose([robust, robust]),
        lambda: repeat(robust, 2),
        lambda: compose([robust], delta=0.1),
    ):
        with pytest.raises(RuleError, match="RobustGeneralization"):
            act()


# ------------------------------- perfect generalization does not add up adaptively


@pytest.mark.parametrize("units", [4, 6, 8])
def test_perfect_mechanisms_fail_together(units):
    """A random balanced string, then "is the sample that string?".

    The first ignores the sample; the second, for any one string, is perfect but for
    2^-n. Together they are not perfect for any balanced sample, about 1/sqrt(n) of
    them, at any finite epsilon.
    """
    strings = [s for s in itertools.product(BITS, repeat=units) if 2 * sum(s) == units]
    each = Fraction(1, len(strings))

    def law(sample):
        return {(r, r == sample): each for r in strings}

    # One string by itself: wrong on at most 2^-n of the samples, for every coin.
    for chance in (Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)):
        hit = chance ** (units // 2) * (1 - chance) ** (units // 2)
        assert hit <= Fraction(1, 2**units)
    # Together: the laws of two balanced samples are singular where it matters, so no
    # simulator is within a finite epsilon of both.
    for one, other in itertools.islice(itertools.combinations(strings, 2), 200):
        assert law(one).get((one, True), 0) > 0
        assert law(other).get((one, True), 0) == 0
    balanced = len(strings) / 2**units
    sum_of_betas = 0 + 2.0**-units
    # A simulator may serve all unbalanced samples, or those and nothing else.
    assert balanced > 4 * sum_of_betas
    assert balanced > 0.25


def test_perfect_generalization_has_no_adaptive_rule():
    perfect = sampled(PerfectGeneralization(0.01, 0.1, 0.0))
    with pytest.raises(NoDerivationError, match="does not compose by itself"):
        perfect.guarantee.then(perfect.guarantee)
    with pytest.raises(RuleError, match="PerfectGeneralization"):
        compose([perfect, perfect])
    joined = rules["G18"].apply(perfect, perfect)
    assert not joined.proved
    assert "INDEPENDENT_RUNS" in {a.code for a in joined.assumptions}
