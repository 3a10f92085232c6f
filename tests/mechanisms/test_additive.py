"""Noise on numbers: certified, on a grid, never touched by NaN or infinity (G5)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from reticent.guarantees import (
    SEEDED_NOISE,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    claim,
    gaussian_delta,
    gaussian_ratio,
    recheck,
)
from reticent.mechanisms import (
    GridLaw,
    SeededSource,
    SystemSource,
    calibrate_gaussian,
    calibrate_gaussian_zcdp,
    calibrate_laplace,
    discrete_gaussian_law,
    gaussian_noise_analytic,
    mean_sensitivity,
    round_to_grid,
)
from tests.mechanisms.neighbours import hockey_stick
from tests.stats import assert_rate


def moves_by(l1, l2=None):
    guarantee = Sensitivity(l1) if l2 is None else Sensitivity(l1, l2)
    return claim(guarantee, ReplaceOne(100), Scope.ANSWER, statement="for the test")


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("sensitivity", [1e-6, 0.1, 1.0, 1e6])
def test_laplace_noise_loses_epsilon(epsilon, sensitivity):
    noise = calibrate_laplace(moves_by(sensitivity), epsilon=epsilon)
    assert noise.certificate.guarantee.epsilon <= epsilon
    recheck(noise.certificate)
    # Values anywhere between grid points, moved by as much as allowed.
    rng = np.random.default_rng(0)
    values = rng.uniform(-3, 3, 200) * sensitivity
    first = noise.response(values)
    second = noise.response(values + sensitivity)
    outputs = first.location + noise.grid * np.arange(-50, 51)[:, None]
    losses = np.abs(first.log_probability(outputs) - second.log_probability(outputs))
    assert 0.99 * epsilon <= losses.max() <= epsilon * (1 + 1e-9)


def test_half_noise_is_caught():
    noise = calibrate_laplace(moves_by(1.0), epsilon=2.0)
    first, second = noise.response([0.0]), noise.response([1.0])
    loss = first.log_probability([-5.0]) - second.log_probability([-5.0])
    assert loss > 1.9


def test_forgetting_the_grid_is_caught():
    # With a coarse grid, rounding alone moves values by a whole step.
    noise = calibrate_laplace(moves_by(0.1), epsilon=1.0, grid=1.0)
    assert noise.scale >= 1.1
    first, second = noise.response([0.45]), noise.response([0.55])
    assert (second.location - first.location)[0] == 1.0
    loss = first.log_probability([-9.0]) - second.log_probability([-9.0])
    assert 0.9 < loss <= 1.0
    naive = 0.1 / 1.0  # scale without the grid's share
    assert 1.0 / naive > 1.0


def test_vectors_pay_the_grid_in_every_coordinate():
    noise = calibrate_laplace(moves_by(1.0), epsilon=1.0, dimension=5, grid=0.25)
    assert noise.scale >= 1.0 + 5 * 0.25
    first = noise.response([0.12, 0.37, 0.12, 0.12, 0.12])
    second = noise.response([0.13, 0.38, 0.13, 0.13, 0.13])
    moved = np.abs(first.location - second.location)
    assert (moved == 0.25).all()
    far = np.full(5, -4.0)
    loss = (first.log_probability(far) - second.log_probability(far)).sum()
    assert loss <= 1.0


def test_counts_on_their_own_grid_pay_nothing():
    noise = calibrate_laplace(moves_by(1.0), epsilon=1.0, grid=1.0, on_grid=True)
    assert noise.scale == pytest.approx(1.0, rel=1e-12)
    assert noise.response([3.0, 4.0]).steps.tolist() == [3, 4]
    with pytest.raises(ValueError, match="multiples"):
        noise.response([0.5])


def line_delta(shift, scale, epsilon):
    """Sum the hockey stick of discrete Gaussian noise on one coordinate."""
    k = np.arange(-int(40 * scale) - shift, int(40 * scale) + shift)
    first = np.exp(discrete_gaussian_law(k, scale))
    second = np.exp(discrete_gaussian_law(k - shift, scale))
    return hockey_stick(first, second, epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_gaussian_noise_keeps_its_delta(epsilon, delta):
    # Whole numbers that move by 512; so coarse that the exact sum is feasible.
    noise = calibrate_gaussian(
        moves_by(512.0), epsilon=epsilon, delta=delta, grid=1.0, on_grid=True
    )
    assert noise.certificate.guarantee == ApproxDP(epsilon, delta)
    recheck(noise.certificate)
    reached = line_delta(512, noise.scale, epsilon)
    assert 0.99 * delta <= reached <= delta
    assert line_delta(512, noise.scale / 2, epsilon) > delta  # half noise is caught
    assert line_delta(10, noise.scale, epsilon) <= delta


def test_gaussian_noise_keeps_its_delta_in_the_plane():
    # A move of (20, 20): l2 is 20 sqrt 2.
    noise = calibrate_gaussian(
        moves_by(40.0, 20 * math.sqrt(2)),
        epsilon=1.0,
        delta=1e-4,
        dimension=2,
        grid=1.0,
        on_grid=True,
    )
    k = np.arange(-1_000, 1_021)
    first = np.exp(discrete_gaussian_law(k, noise.scale))
    second = np.exp(discrete_gaussian_law(k - 20, noise.scale))
    reached = hockey_stick(np.outer(first, first), np.outer(second, second), 1.0)
    assert 0.98e-4 <= reached <= 1e-4


def test_smoothing_proof_needs_its_variance():
    # The claim behind the rule, on the line: continuous noise of variance s^2 - 16,
    # randomly rounded with variance 16, is discrete noise of variance s^2.
    scale, y = 6.0, np.arange(-60, 60, 0.01)
    density = np.exp(-(y**2) / (2 * (scale**2 - 16))) / np.sqrt(
        2 * np.pi * (scale**2 - 16)
    )
    z = np.arange(-80, 81)
    rounding = np.exp(-((z[:, None] - y) ** 2) / 32)
    rounding /= rounding.sum(axis=0)
    mixed = (rounding * density).sum(axis=1) * 0.01
    middle = np.abs(z) <= 25
    exact = np.exp(discrete_gaussian_law(z, scale))
    assert mixed[middle] == pytest.approx(exact[middle], rel=1e-9)
    # Rounding to the nearest is not the same law.
    nearest = np.bincount((np.rint(y) + 80).astype(int), density * 0.01, 161)
    assert nearest[middle] != pytest.approx(exact[middle], rel=1e-2)


def textbook_scale(epsilon, delta):
    """Solve BalleWang2018, Thm. 8, in floats, for a sensitivity of one."""

    def excess(scale):
        a, b = 1 / (2 * scale), epsilon * scale
        log_lower = epsilon + stats.norm.logcdf(-a - b)
        return stats.norm.cdf(a - b) - np.exp(log_lower) - delta

    return optimize.brentq(excess, 0.05, 1e4, xtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_analytic_calibration_matches_the_textbook(epsilon, delta):
    scale = 1 / gaussian_ratio(epsilon, delta)
    assert scale == pytest.approx(textbook_scale(epsilon, delta), rel=1e-6)
    # The classical formula asks for more noise, where it holds at all.
    if epsilon <= 1:
        assert scale < math.sqrt(2 * math.log(1.25 / delta)) / epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0, 50.0])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-15])
def test_analytic_calibration_is_tight(epsilon, delta):
    ratio = gaussian_ratio(epsilon, delta)
    assert 0.999 * delta <= gaussian_delta(ratio, epsilon) <= delta


@pytest.mark.parametrize("rho", [0.001, 0.5, 10.0])
def test_zcdp_calibration_is_tight(rho):
    noise = calibrate_gaussian_zcdp(moves_by(3.0), rho=rho)
    assert 0.99 * rho <= noise.certificate.guarantee.rho <= rho
    assert noise.law is GridLaw.GAUSSIAN
    recheck(noise.certificate)


@pytest.mark.parametrize("seeded", [True, False])
def test_draws_lie_on_the_grid_around_the_value(seeded, seed):
    premise = mean_sensitivity(n=100, voters=10, low=0.0, high=1.0)
    noise = calibrate_laplace(premise, epsilon=1.0, seeded=seeded)
    response = noise.response(np.full(20_000, 0.3))
    source = SeededSource(seed) if seeded else SystemSource()
    drawn = response.draw(source)
    assert (drawn / noise.grid == np.rint(drawn / noise.grid)).all()
    # Within one scale with probability 1 - 1/e, but for the grid.
    within = np.abs(drawn - 0.3) <= noise.scale
    assert_rate(int(within.sum()), within.size, 1 - math.exp(-1))
    assert noise.certificate.proved != seeded
    assert (SEEDED_NOISE in noise.certificate.assumptions) == seeded


def test_law_is_a_law():
    noise = calibrate_laplace(moves_by(1.0), epsilon=1.0, grid=1.0, on_grid=True)
    response = noise.response([2.0])
    k = np.arange(-60.0, 65.0)
    assert np.exp(response.log_probability(k)).sum() == pytest.approx(1.0, abs=1e-12)
    assert response.log_probability([0.5]) == -np.inf
    assert response.location.tolist() == [2.0]
    assert response.scale == noise.scale


def test_huge_values_are_clipped_not_lost():
    noise = calibrate_laplace(moves_by(1.0), epsilon=1.0, grid=1.0, on_grid=True)
    steps = noise.response([1e300, -1e300, 5.0]).steps
    assert steps.tolist() == [2**53, -(2**53), 5]
    assert np.isfinite(noise.response([1e300]).draw(SystemSource())).all()


def test_a_release_of_several_numbers_has_its_shape_checked():
    noise = calibrate_laplace(moves_by(1.0), epsilon=1.0, dimension=3)
    assert noise.response(np.zeros((4, 3))).draw(SystemSource()).shape == (4, 3)
    with pytest.raises(ValueError, match="dimension"):
        noise.response(np.zeros((3, 4)))


def test_rules_refuse_too_little_noise():
    rounded = round_to_grid(moves_by(1.0), grid=2.0**-20, dimension=1)
    with pytest.raises(ValueError, match="reaches delta"):
        gaussian_noise_analytic(
            rounded, scale=1.0, grid=2.0**-20, epsilon=1.0, delta=1e-5
        )
    with pytest.raises(ValueError, match="finer grid"):
        gaussian_noise_analytic(rounded, scale=3.0, grid=1.0, epsilon=1.0, delta=1e-5)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: calibrate_laplace(moves_by(1.0), epsilon=0.0),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=-1.0),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=NAN),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=INF),
        lambda: calibrate_laplace(moves_by(0.0), epsilon=1.0),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0, grid=0.3),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0, grid=0.0),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0, grid=2.0**-70),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0, dimension=0),
        lambda: calibrate_gaussian(moves_by(1.0), epsilon=1.0, delta=1.0),
        lambda: calibrate_gaussian(moves_by(1.0), epsilon=1.0, delta=0.0),
        lambda: calibrate_gaussian(moves_by(1.0), epsilon=1.0, delta=NAN),
        lambda: calibrate_gaussian(moves_by(1.0), epsilon=1e9, delta=1e-5),
        lambda: calibrate_gaussian_zcdp(moves_by(1.0), rho=0.0),
        lambda: calibrate_gaussian_zcdp(moves_by(1.0), rho=INF),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0).response([NAN]),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0).response([0.0, INF]),
        lambda: calibrate_laplace(moves_by(1.0), epsilon=1.0).response(["a"]),
        lambda: calibrate_laplace(claim_pure(), epsilon=1.0),
        lambda: mean_sensitivity(n=9, voters=3, low=1.0, high=1.0),
        lambda: mean_sensitivity(n=9, voters=0, low=0.0, high=1.0),
        lambda: mean_sensitivity(n=9, voters=3, low=NAN, high=1.0),
    ],
)
def test_nonsense_is_refused_before_any_noise(ask):
    with pytest.raises(ValueError, match=r".") as raised:
        ask()
    assert type(raised.value).__module__ == "reticent.errors"


def claim_pure():
    return claim(PureDP(1.0), ReplaceOne(9), Scope.ANSWER, statement="wrong kind")
