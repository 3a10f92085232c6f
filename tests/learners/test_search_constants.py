"""Every number in the rules of a private search, against a second computation (G26)."""

import math

import mpmath
import numpy as np
import pytest

from reticent.evaluation import unit_counts, unit_sums
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
)
from reticent.learners.linear.gradient_rules import (
    clipped_sum,
    noisy_steps,
    noisy_steps_gdp,
)
from reticent.learners.search.profiles import profile
from reticent.learners.search.rules import allowed, best_of_runs, one_run
from reticent.mechanisms import Repetitions, grid_scale_to_continuous


def run_of(promise, scope=Scope.MODEL, n=3):
    return claim(promise, ReplaceOne(n), scope, statement="a test says so")


@pytest.mark.parametrize("own", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("at", [0.0, 0.1, 0.19])
def test_pure_profiles(own, at):
    exact = (mpmath.exp(own) - mpmath.exp(at)) / (1 + mpmath.exp(own))
    assert exact <= profile(PureDP(own), at) <= exact * (1 + 1e-13)
    mixed = 0.01 + 0.99 * exact
    assert mixed <= profile(ApproxDP(own, 0.01), at) <= mixed * (1 + 1e-13)
    assert profile(PureDP(own), own) == 0
    assert profile(ApproxDP(own, 0.01), own) == pytest.approx(0.01, rel=1e-14)


@pytest.mark.parametrize("rho", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("at", [0.01, 1.0, 5.0])
def test_concentrated_profiles(rho, at):
    x = np.geomspace(1e-4, 1e5, 200_000)
    logs = x * ((1 + x) * rho - at) - np.log(x) + (1 + x) * np.log(x / (1 + x))
    best = min(math.exp(min(logs.min(), 0)), math.sqrt(rho / 2))
    found = profile(ZCDP(rho), at)
    assert found == pytest.approx(best, rel=1e-6)
    assert profile(ZCDP(0.0), at) == 0


def test_gaussian_profiles():
    assert profile(GaussianDP(0.0), 0.3) == 0
    phi = mpmath.ncdf
    exact = phi(-0.3 / 0.5 + 0.25) - mpmath.exp(0.3) * phi(-0.3 / 0.5 - 0.25)
    assert profile(GaussianDP(0.5), 0.3) == pytest.approx(float(exact), rel=1e-9)


def test_the_second_epsilon_is_bounded_by_gamma():
    runs = Repetitions(1.0, 0.2)
    # delta(e) = (e^1 - e^e) / (1 + e^1) against 0.25 (e^e - 1), equal at:
    edge = math.log((math.e / (1 + math.e) + 0.25) / (1 / (1 + math.e) + 0.25))
    assert not allowed(PureDP(1.0), runs, edge * (1 - 1e-9))
    assert allowed(PureDP(1.0), runs, edge * (1 + 1e-9))


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0, 3.0])
def test_totals(eta):
    run = one_run(run_of(PureDP(0.3)), level=0.5)
    score = run_of(PureDP(0.4), Scope.ANSWER, n=2)
    total = best_of_runs(run, score, eta=eta, gamma=0.2)
    assert total.guarantee == PureDP(0.5 * (2 + eta))
    assert total.relation == ReplaceOne(5)
    assert total.scope is Scope.MODEL
    run = one_run(run_of(GaussianDP(0.1)), level=0.1)
    runs = Repetitions(eta, 0.2)
    most = runs.mean * profile(GaussianDP(0.1), 0.5)
    found = best_of_runs(
        run,
        run_of(PureDP(0.01), Scope.ANSWER),
        eta=eta,
        gamma=0.2,
        epsilon_one=0.5,
        epsilon_two=0.25,
        delta=most * (1 + 1e-9),
    ).guarantee
    assert found.epsilon == pytest.approx(0.5 + (1 + eta) * 0.25, rel=1e-15)
    with pytest.raises(Exception, match="reach delta"):
        best_of_runs(
            run,
            run_of(PureDP(0.01), Scope.ANSWER),
            eta=eta,
            gamma=0.2,
            epsilon_one=0.5,
            epsilon_two=0.25,
            delta=most * (1 - 1e-9),
        )


def test_a_score_that_is_dearer_than_training_counts():
    run = one_run(run_of(PureDP(0.3)), level=0.3)
    score = run_of(PureDP(0.4), Scope.ANSWER)
    total = best_of_runs(run, score, eta=1.0, gamma=0.2).guarantee
    assert total.epsilon == pytest.approx(1.2)


def test_gradient_descent_as_gaussian_dp():
    premise = clipped_sum(n=10, clip=1.0, dimension=2)
    facts = {"steps": 9, "scale": 64.0, "grid": 2.0**-10}
    mu = noisy_steps_gdp(premise, **facts).guarantee.mu
    continuous = grid_scale_to_continuous(64.0 * 2**10) * 2.0**-10
    assert 0 <= mu - 3 * 2 / continuous <= 1e-11
    assert mu == pytest.approx(6 / 64, rel=1e-6)
    # The curve that is certified for an epsilon is the one of this mu.
    reached = profile(GaussianDP(mu), 0.2)
    noisy_steps(premise, epsilon=0.2, delta=reached * (1 + 1e-9), **facts)
    with pytest.raises(Exception, match="reaches delta"):
        noisy_steps(premise, epsilon=0.2, delta=reached * (1 - 1e-6), **facts)


def test_sums_and_counts_move_by_what_a_unit_adds():
    assert unit_sums(n=9, steps=5).guarantee.l1 == 5
    assert unit_sums(n=9, steps=5, dimension=2).guarantee.l1 == 10
    assert unit_counts(n=9, dimension=2).guarantee.l1 == 2
    with pytest.raises(Exception, match="dimension"):
        unit_counts(n=9, dimension=1)
