"""G2: bounded range, permute-and-flip, and millions of candidates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from reticent.guarantees import BoundedRange, PureDP, Scope, recheck
from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    exponential_mechanism,
    exponential_mechanism_certificate,
    permute_and_flip,
    permute_and_flip_certificate,
)
from tests.mechanisms.neighbours import assert_loses_at_most, worst_loss, worst_range
from tests.stats import assert_follows, mutant, rejects


def score_pairs(n_candidates, bound, sensitivity):
    """Every score vector with every move of each score by at most the sensitivity."""
    every = list(product(range(bound + 1), repeat=n_candidates))
    return [
        (a, b)
        for a in every
        for b in every
        if a != b and max(abs(x - y) for x, y in zip(a, b, strict=True)) <= sensitivity
    ]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_exponential_mechanism_moves_odds_by_epsilon(epsilon, sensitivity):
    bounds = worst_range(
        lambda s: exponential_mechanism(s, epsilon, bound=3, sensitivity=sensitivity),
        score_pairs(3, 3, sensitivity),
    )
    assert_loses_at_most(bounds, epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_permute_and_flip_loses_epsilon(epsilon, sensitivity):
    bounds = worst_loss(
        lambda s: permute_and_flip(s, epsilon, bound=4, sensitivity=sensitivity),
        score_pairs(2, 4, sensitivity),
    )
    assert_loses_at_most(bounds, epsilon)


def test_wrong_sensitivity_is_caught():
    bounds = worst_range(
        lambda s: exponential_mechanism(s, 1.0, bound=3, sensitivity=1),
        score_pairs(3, 3, 2),
    )
    assert rejects(assert_loses_at_most, bounds, 1.0)


def test_permute_and_flip_scores_no_worse(seed):
    scores = np.random.default_rng(seed).integers(-20, 20, (50, 8))
    for epsilon in (0.1, 1.0, 5.0):
        soft = exponential_mechanism(scores, epsilon, bound=20).probabilities
        flip = permute_and_flip(scores, epsilon, bound=20).probabilities
        assert ((flip * scores).sum(axis=1) >= (soft * scores).sum(axis=1) - 1e-9).all()


@pytest.mark.parametrize("law", [exponential_mechanism, permute_and_flip])
def test_draws_follow_the_law(law, seed):
    scores = [3, -1, 0, 2, 2]
    response = law(np.tile(scores, (1_000_000, 1)), 1.5, bound=3)
    expected = law(scores, 1.5, bound=3).probabilities[0]
    counts = np.bincount(response.draw(SeededSource(seed)), minlength=5)
    assert_follows(counts, expected)
    assert rejects(assert_follows, counts, mutant(expected))


@pytest.mark.parametrize("law", [exponential_mechanism, permute_and_flip])
def test_ten_million_candidates(law):
    scores = np.zeros(10_000_000, dtype=np.int64)
    scores[7_654_321] = 1_000
    response = law(scores, 1.0, bound=1_000)
    assert response.draw(SystemSource())[0] == 7_654_321  # but for 1e7 exp(-500)


def test_many_equal_candidates_are_drawn_uniformly(seed):
    # 20,000 selections from 5,000 candidates in four tiers of scores.
    scores = np.repeat([0, 1, 2, 3], 1_250)
    tiers = np.exp(np.arange(4.0)) / np.exp(np.arange(4.0)).sum()
    response = exponential_mechanism(np.tile(scores, (2_000, 1)), 2.0, bound=3)
    labels = response.draw(SeededSource(seed))
    assert_follows(np.bincount(labels // 1_250, minlength=4), tiers)


def test_law_of_one_row_and_of_many_agree():
    scores = np.array([[1, 5, -3], [0, 0, 2]])
    both = exponential_mechanism(scores, 0.7, bound=5).log_probabilities
    one = exponential_mechanism(scores[1], 0.7, bound=5).log_probabilities
    assert (both[1] == one[0]).all()


def test_scores_far_apart_are_never_impossible():
    response = exponential_mechanism([0, 10**12], 10.0, bound=10**12)
    assert response.log_probabilities[0, 0] == pytest.approx(-5e12, rel=1e-3)


@pytest.mark.parametrize(
    ("certify", "guarantee"),
    [
        (exponential_mechanism_certificate, BoundedRange(2.0)),
        (permute_and_flip_certificate, PureDP(2.0)),
    ],
)
def test_certificates_recheck(certify, guarantee):
    certificate = certify(n=10, epsilon=2.0, scope="model")
    assert certificate.guarantee == guarantee
    assert certificate.scope is Scope.MODEL
    recheck(certificate)
    with pytest.raises(ValueError, match="scope"):
        certify(n=10, epsilon=2.0, scope="everything")
