"""Concentrated DP: into it from pure steps and Gaussian noise, and out of it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from reticent.errors import InvalidGuaranteeError
from reticent.guarantees import (
    ZCDP,
    BoundedRange,
    PureDP,
    Sensitivity,
    bounded_range_to_zcdp,
    gaussian_noise,
    pure_to_zcdp,
    rho_within,
    zcdp_epsilon,
    zcdp_to_approx,
)
from reticent.guarantees.convert import sigmoid
from tests.guarantees.cases import HOSTILE_NUMBERS, answer, given
from tests.guarantees.exact_losses import conversion

ORDERS = [1.0001, 1.1, 1.5, 2, 3, 5, 10, 30, 100, 1000]


def renyi(law, other, order):
    """Return the Renyi divergence of two laws, in logarithms."""
    terms = order * np.log(law) - (order - 1) * np.log(other)
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def randomized_response(epsilon):
    p = np.array([sigmoid(epsilon), sigmoid(-epsilon)])
    return p, p[::-1]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
def test_pure_privacy_is_half_epsilon_squared(epsilon):
    rho = pure_to_zcdp(given(PureDP(epsilon))).guarantee.rho
    reached = max(renyi(*randomized_response(epsilon), a) / a for a in ORDERS)
    assert rho == pytest.approx(epsilon**2 / 2, rel=1e-14)
    assert reached <= rho
    if epsilon <= 0.1:
        assert reached >= 0.99 * rho  # tight for small steps


def bounded_range_pairs(epsilon, seed):
    """Yield pairs of laws of bounded range: two-point ones, and exponential ones."""
    for top in np.linspace(0.02, 0.98, 13) * epsilon:
        low = math.exp(top - epsilon)
        q = (1 - low) / (math.exp(top) - low)
        yield (
            np.array([math.exp(top) * q, low * (1 - q)]),
            np.array([q, 1 - q]),
        )
    rng = np.random.default_rng(seed)
    for _ in range(100):
        scores = rng.normal(scale=4, size=5)
        moved = scores + rng.choice([-0.5, 0.5], size=5)
        laws = np.exp(epsilon * np.array([scores, moved]))
        yield tuple(laws / laws.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
def test_bounded_range_is_an_eighth_of_epsilon_squared(epsilon, seed):
    rho = bounded_range_to_zcdp(given(BoundedRange(epsilon))).guarantee.rho
    reached = max(
        renyi(law, other, a) / a
        for law, other in bounded_range_pairs(epsilon, seed)
        for a in ORDERS
    )
    assert rho == pytest.approx(epsilon**2 / 8, rel=1e-14)
    assert reached <= rho * (1 + 1e-9)
    if epsilon <= 0.1:
        assert reached >= 0.99 * rho
    # The control: pure privacy alone does not promise it.
    assert max(renyi(*randomized_response(epsilon), a) / a for a in ORDERS) > 1.3 * rho


@pytest.mark.parametrize(("moved", "scale"), [(1.0, 2.0), (0.3, 0.1)])
def test_gaussian_noise_has_exactly_this_divergence(moved, scale):
    rho = gaussian_noise(answer(Sensitivity(9.0, moved)), scale=scale).guarantee.rho
    grid = np.linspace(-40 * scale, 40 * scale + 9 * moved, 400_001)
    for order in (1.5, 3.0):
        log_first = -((grid - moved) ** 2) / (2 * scale**2)
        log_second = -(grid**2) / (2 * scale**2)
        mass = np.exp(order * log_first + (1 - order) * log_second).sum()
        mass *= (grid[1] - grid[0]) / (scale * math.sqrt(2 * math.pi))
        assert math.log(mass) / (order - 1) == pytest.approx(order * rho, rel=1e-9)
    assert gaussian_noise(answer(Sensitivity(0.0)), scale=1.0).guarantee == ZCDP(0.0)


# ---------------------------------------------------------- to approximate DP


def test_conversion_is_the_minimum_and_never_below(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        rho = float(10 ** rng.uniform(-12, 4))
        delta = float(10 ** rng.uniform(-15, -0.1))
        ours, best = zcdp_epsilon(rho, delta), conversion(rho, delta)
        assert ours >= best
        assert ours <= best * (1 + mpmath.mpf("1e-12")) + mpmath.mpf("1e-14")


def gaussian_delta(rho, epsilon):
    """Return the true delta of Gaussian noise with this rho, in 40 digits."""
    with mpmath.workdps(40):
        mu = mpmath.sqrt(2 * mpmath.mpf(rho))
        e = mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(
            -mu / 2 - e / mu
        )


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_conversion_is_never_below_true_gaussian_noise(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert gaussian_delta(rho, epsilon) <= delta
    # The control: a third less would be too little, so the check can fail.
    assert gaussian_delta(rho, 0.67 * epsilon) > delta


def test_conversion_of_votes_on_the_sheet():
    assert zcdp_epsilon(200 * 0.2**2 / 8, 1e-6) == pytest.approx(7.77, abs=0.005)


@pytest.mark.parametrize("rho", [0.0, 5e-324, 1e-310, 1e-30, 1.0, 1e10, 1e300])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-6, 0.5, 1 - 1e-16])
def test_conversion_at_the_ends_is_finite_and_monotone(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert 0 <= epsilon < math.inf
    assert zcdp_epsilon(2 * rho, delta) >= epsilon
    assert zcdp_epsilon(rho, delta / 2 or delta) >= epsilon


def test_rho_within_is_the_largest_that_fits(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        epsilon = float(10 ** rng.uniform(-4, 3))
        delta = float(10 ** rng.uniform(-12, -0.01))
        rho = rho_within(epsilon, delta)
        assert zcdp_epsilon(rho, delta) <= epsilon
        assert zcdp_epsilon(rho * (1 + 1e-9), delta) > epsilon


@pytest.mark.parametrize("value", HOSTILE_NUMBERS, ids=lambda v: type(v).__name__)
def test_hostile_numbers_are_refused(value):
    for act in (
        lambda: zcdp_epsilon(value, 0.1),
        lambda: zcdp_epsilon(0.1, value),
        lambda: rho_within(value, 0.1),
        lambda: rho_within(0.1, value),
        lambda: zcdp_to_approx(given(ZCDP(0.1)), delta=value),
    ):
        with pytest.raises(InvalidGuaranteeError):
            act()


def test_certificates_convert_as_the_numbers_do():
    made = zcdp_to_approx(given(ZCDP(0.5)), delta=1e-6).guarantee
    assert made.epsilon == zcdp_epsilon(0.5, 1e-6)
    assert made.delta == 1e-6
