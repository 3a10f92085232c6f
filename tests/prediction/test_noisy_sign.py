"""The sign of a noisy score: its law, exactly, and draws that follow it."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from reticent.estimators.linear.stability import erm_sensitivity
from reticent.mechanisms import (
    calibrate_gaussian,
    calibrate_laplace,
    discrete_laplace_law,
    noise_source,
    normal_tail_bounds,
)
from reticent.prediction.linear.noisy_sign import GaussianSignResponse, noisy_sign
from tests.stats import assert_rate, rejects

PREMISE = erm_sensitivity(
    n=100,
    lipschitz=1.0,
    feature_bound=1.0,
    radius=2.0,
    regularization=0.1,
    tolerance=0.0,
)
LAPLACE = calibrate_laplace(PREMISE, epsilon=0.7)
GAUSSIAN = calibrate_gaussian(PREMISE, epsilon=0.7, delta=1e-6)


def normal_tail_reference(x):
    with mpmath.workprec(3000):
        root = mpmath.sqrt(2)
        return mpmath.erfc(mpmath.mpf(x.numerator) / x.denominator / root) / 2


@pytest.mark.parametrize("bits", [1, 20, 117, 400])
@pytest.mark.parametrize(
    "x", [0.0, 1e-30, 1e-3, 0.5, 1.0, 1.4142135623730951, 4.0, 12.3, 35.0]
)
def test_normal_tails_are_bracketed(x, bits):
    low, high = normal_tail_bounds(Fraction(x), bits)
    with mpmath.workprec(3000):
        scaled = normal_tail_reference(Fraction(x)) * mpmath.mpf(2) ** bits
        assert low <= scaled <= high
    assert high - low <= 2


def test_laplace_signs_have_the_law_of_discrete_noise():
    # Zero counts as a fair coin; the sum over the noise is then exp(-|k|/b)/2.
    steps, scale = np.arange(-40, 41), 6.5
    noise = np.exp(discrete_laplace_law(np.arange(-400, 401), scale))
    for k in steps:
        noisy = k + np.arange(-400, 401)
        chance = noise[noisy > 0].sum() + noise[noisy == 0].sum() / 2
        closed = np.exp(-abs(k) / scale) / 2
        assert chance == pytest.approx(closed if k <= 0 else 1 - closed, abs=1e-12)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_the_law_is_the_distribution_function(noise):
    scores = np.linspace(-1.5, 1.5, 31)
    law = noisy_sign(scores, noise, reach=2.0)
    shape = stats.laplace if noise is LAPLACE else stats.norm
    want = shape.cdf(scores / noise.scale)
    np.testing.assert_allclose(law.probabilities[:, 1], want, rtol=1e-4)
    np.testing.assert_allclose(law.probabilities.sum(axis=1), 1.0)
    assert (law.log_probabilities < 0).all()


def worst_loss(noise, moved):
    scores = np.linspace(-1.0, 1.0, 2001)
    here = noisy_sign(scores, noise, reach=2.0).log_probabilities
    there = noisy_sign(scores + moved, noise, reach=2.0).log_probabilities
    return float(np.abs(here - there).max())


def loses_at_most(noise, moved, epsilon):
    assert worst_loss(noise, moved) <= epsilon


def test_scores_that_move_as_certified_cost_epsilon():
    moved = PREMISE.guarantee.l1
    loses_at_most(LAPLACE, moved, 0.7)
    assert worst_loss(LAPLACE, moved) >= 0.699
    assert rejects(loses_at_most, LAPLACE, 2 * moved, 0.7)


def test_exact_intervals_hold_the_law():
    for noise in (LAPLACE, GAUSSIAN):
        law = noisy_sign(np.array([-0.9, 0.0, 1e-4, 1.7]), noise, reach=2.0)
        for row in range(4):
            for label, (low, high) in enumerate(law.exact(row, bits=80)):
                assert high - low <= Fraction(1, 2**80)
                value = law.log_probabilities[row, label]
                assert float(low) - 1e-9 * abs(value) <= value
                assert value <= float(high) + 1e-9 * abs(value)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("score", [-0.4, 0.05])
def test_draws_follow_the_law(noise, score):
    law = noisy_sign(np.full(40_000, score), noise, reach=2.0)
    drawn = law.draw(noise_source(3))
    assert_rate(drawn.sum(), drawn.size, law.probabilities[0, 1])


def test_gaussian_draws_settle_every_doubt_exactly(monkeypatch):
    # With no trust in floats every draw is decided in whole numbers.
    monkeypatch.setattr("reticent.prediction.linear.noisy_sign._DOUBT", 1.0)
    law = GaussianSignResponse(np.full(3000, 700), 1000.0)
    drawn = law.draw(noise_source(4))
    assert_rate(drawn.sum(), drawn.size, stats.norm.cdf(0.7))


def test_scores_beyond_all_noise_keep_a_chance_of_either_label():
    for noise in (LAPLACE, GAUSSIAN):
        law = noisy_sign(np.array([-1e300, 1e300]), noise, reach=2.0)
        assert np.isfinite(law.log_probabilities).all()
        assert law.probabilities.min() > 0
        assert law.draw(noise_source(0)).tolist() == [0, 1]
