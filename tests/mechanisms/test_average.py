"""The noisy average as a label: closed form, exact cost, exact draws (P2)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate

from reticent.guarantees import PureDP, Sensitivity, recheck
from reticent.mechanisms import (
    SeededSource,
    average_vote,
    average_vote_certificate,
    average_vote_epsilon,
    mean_sensitivity,
    probability_sensitivity,
)
from tests.mechanisms.neighbours import assert_loses_at_most, worst_loss
from tests.mechanisms.scripted import ScriptedSource, bits_of
from tests.stats import assert_follows, mutant, rejects


def pairs(voters):
    rows = [(voters - k, k) for k in range(voters + 1)]
    up = list(pairwise(rows))
    return up + [(b, a) for a, b in up]


@pytest.mark.parametrize("voters", [1, 2, 5, 10, 23])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0])
def test_answer_costs_what_the_certificate_says(voters, epsilon):
    cost = average_vote_epsilon(voters, epsilon)
    assert cost <= epsilon
    bounds = worst_loss(lambda v: average_vote(v, epsilon), pairs(voters))
    assert_loses_at_most(bounds, cost)


def test_half_noise_is_caught():
    bounds = worst_loss(lambda v: average_vote(v, 2.0), pairs(10))
    assert rejects(assert_loses_at_most, bounds, average_vote_epsilon(10, 1.0))


def test_cost_at_nominal_two():
    # ln(2 eps + e^-eps) for many voters, from no votes to one.
    assert average_vote_epsilon(1000, 2.0) == pytest.approx(1.4196, abs=1e-4)


@pytest.mark.parametrize("k", [0, 1, 3, 7, 10])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_probability_is_the_mean_of_the_clipped_noisy_average(k, epsilon):
    v, s = k / 10, 1 / (10 * epsilon)

    def term(x):
        return min(max(x, 0.0), 1.0) * np.exp(-abs(x - v) / s) / (2 * s)

    cuts = sorted({-60 * s, 0.0, v, 1.0, 1 + 60 * s})
    parts = [integrate.quad(term, a, b)[0] for a, b in pairwise(cuts)]
    law = average_vote([[10 - k, k]], epsilon).probabilities[0]
    assert law[1] == pytest.approx(sum(parts), abs=1e-8)


@pytest.mark.parametrize("epsilon", [1e-100, 1e-9, 0.3, 10.0])
def test_law_agrees_with_intervals(epsilon):
    for voters in (7, 1000):
        response = average_vote(
            [[voters - k, k] for k in (0, 1, 3, 4, voters)], epsilon
        )
        for row in range(5):
            for (low, high), log in zip(
                response.exact(row), response.log_probabilities[row], strict=True
            ):
                assert high - low <= Fraction(1, 2**64)
                assert float(low) == pytest.approx(log, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize(
    ("k", "voters", "epsilon"), [(0, 9, 1.0), (3, 9, 0.01), (2, 4, 1.0)]
)
def test_draw_decides_at_its_boundary(k, voters, epsilon, n_words):
    mp = mpmath.MPContext()
    mp.prec = 600
    response = average_vote([[voters - k, k]], epsilon)
    rate = mp.mpf(response.rate)
    near, far = mp.exp(-k * rate), mp.exp(-(voters - k) * rate)
    chance = mp.mpf(k) / voters + (near - far) / (2 * voters * rate)
    depth = 53 + 64 * n_words
    at = int(mp.floor(mp.ldexp(chance, depth)))
    for value, expected in ((at - 2, 1), (at + 2, 0)):
        source = ScriptedSource(bits_of(value, n_words))
        assert response.draw(source)[0] == expected
        assert not source.left


def test_draws_follow_the_law(seed):
    response = average_vote(np.tile([4, 1], (1_000_000, 1)), 1.3)
    law = average_vote([[4, 1]], 1.3).probabilities[0]
    counts = np.bincount(response.draw(SeededSource(seed)), minlength=2)
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


def test_certificates_recheck():
    certificate = average_vote_certificate(n=100, voters=10, epsilon=2.0)
    assert isinstance(certificate.guarantee, PureDP)
    assert certificate.guarantee.epsilon == pytest.approx(1.42, abs=0.01)
    recheck(certificate)


def test_means_move_by_their_share():
    mean = mean_sensitivity(n=100, voters=10, low=-1.0, high=3.0).guarantee
    assert mean.l1 == mean.l2 == pytest.approx(0.4)
    assert mean.l1 >= 0.4
    vector = probability_sensitivity(n=100, voters=10).guarantee
    assert vector == Sensitivity(vector.l1, vector.l2)
    # Worst case: one model moves all its mass from one class to another.
    before, after = np.zeros((10, 4)), np.zeros((10, 4))
    before[:, 0], after[:, 0] = 1, 1
    after[3] = [0, 1, 0, 0]
    moved = before.mean(axis=0) - after.mean(axis=0)
    assert 0.999 * vector.l1 <= np.abs(moved).sum() <= vector.l1
    assert 0.999 * vector.l2 <= np.linalg.norm(moved) <= vector.l2
