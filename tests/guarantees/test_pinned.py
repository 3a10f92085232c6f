"""Numbers of conversions and totals, against forty digits and against small counts."""

import math
import random

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

from reticent.errors import InvalidGuaranteeError
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    Budget,
    Compression,
    FiniteRange,
    PerfectGeneralization,
    PureDP,
    ReplaceOne,
    Scope,
    UniformStability,
    answers_within,
    approx_robust_error,
    approx_to_robust,
    claim,
    compression_to_robust,
    exact_composition,
    finite_range_to_robust,
    perfect_to_robust,
    pld_composition,
    prediction_to_risk_multiple,
    pure_to_approx,
    pure_to_robust,
    replace_stable,
    rho_within,
    to_replace_one,
    zcdp_composition,
    zcdp_epsilon,
)
from reticent.guarantees.convert import exponential_sum
from reticent.guarantees.loss import delta_left, pld_epsilon, pure_delta, pure_epsilon
from tests.guarantees.cases import given, sampled

mpmath.mp.dps = 40


def best_order(rho, delta):
    """The smallest of Canonne, Kamath and Steinke's bounds over all orders 1 + x."""
    rho, target = mpmath.mpf(rho), -mpmath.log(mpmath.mpf(delta))
    low, high = mpmath.mpf(0), mpmath.sqrt(target / rho)
    for _ in range(140):
        x = (low + high) / 2
        low, high = (x, high) if rho * x**2 + mpmath.log1p(x) < target else (low, x)
    x = high
    return (1 + x) * rho + (target - mpmath.log1p(x)) / x - mpmath.log1p(1 / x)


LOSSES = [10.0**power for power in (-9, -4, -2, -1, 0, 1, 3)]


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_a_concentrated_total_is_that_of_its_best_order(delta):
    rng = random.Random(0)
    for rho in LOSSES + [rng.lognormvariate(0, 3) for _ in range(20)]:
        truth = best_order(rho, delta)
        # Where it is not zero: every order's bound is above the true one.
        if truth > 0:
            assert truth <= zcdp_epsilon(rho, delta) <= truth * (1 + 1e-9) + 1e-13


def test_a_tiny_loss_may_take_a_huge_order():
    # Its best order is beyond e^345, the root of what floats hold.
    rho, delta = 1e-306, 1e-200
    with mpmath.workdps(400):
        truth = best_order(rho, delta)
        assert truth <= zcdp_epsilon(rho, delta) <= truth * (1 + mpmath.mpf(1e-6))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
def test_the_largest_rho_within_a_budget(epsilon):
    rho = rho_within(epsilon, 1e-6)
    assert zcdp_epsilon(rho, 1e-6) <= epsilon < zcdp_epsilon(rho * (1 + 1e-9), 1e-6)


def test_a_sum_of_exponentials_is_rounded_up():
    rng = random.Random(1)
    for _ in range(300):
        epsilon, size = rng.lognormvariate(-2, 3), rng.randint(1, 40)
        if epsilon * size > 600:
            continue
        exact = mpmath.mpf(epsilon)
        truth = mpmath.expm1(size * exact) / mpmath.expm1(exact)
        assert truth <= exponential_sum(epsilon, size) <= truth * (1 + 1e-12)


def test_a_sum_of_equal_terms_leaves_room_for_their_growth():
    # Terms within 1e-16 of one: their number, a margin, and the usual rounding.
    assert 5 * (1 + 3e-15) < exponential_sum(1e-18, 5) < 5 * (1 + 1e-14)


@pytest.mark.parametrize("count", range(7))
def test_a_budget_covers_as_many_pure_answers_as_fit(count):
    answer = claim(PureDP(0.125), ReplaceOne(9), Scope.ANSWER, statement="given")
    budget = Budget(0.125 * count + 0.0625)
    assert answers_within(answer, budget) == count


def binomial_delta(epsilon, step, count):
    """The delta of `count` randomized responses, summed atom by atom."""
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(step)))
    total = mpmath.mpf(0)
    mass = p**count
    for hits in range(count, -1, -1):
        loss = (2 * hits - count) * mpmath.mpf(step)
        if loss <= epsilon:
            break
        total += mass * -mpmath.expm1(epsilon - loss)
        mass *= mpmath.mpf(hits) / (count - hits + 1) * (1 - p) / p
    return total


@pytest.mark.parametrize(
    ("epsilon", "step", "count"),
    [
        (514.0, 0.5, 4200),  # many atoms; e^epsilon is a float
        (800.0, 0.5, 5900),  # e^epsilon is not
        (3.0, 0.5, 40),  # few atoms
        (1.0, 0.01, 2000),
    ],
)
def test_the_delta_of_pure_steps_is_that_of_randomized_response(epsilon, step, count):
    truth = binomial_delta(epsilon, step, count)
    found = pure_delta(epsilon, step, count)
    assert truth <= found
    if epsilon < 700:  # beyond, the second of two tails is given away
        assert found <= truth * (1 + 1e-5)


def test_one_label_is_no_choice():
    stable = claim(
        UniformStability(0.1), ReplaceOne(9), Scope.ANSWER, statement="given"
    )
    with pytest.raises(InvalidGuaranteeError, match="labels"):
        replace_stable(stable, p=0.1, labels=1)
    assert replace_stable(stable, p=0.1, labels=2).guarantee.epsilon > 0


def test_the_delta_of_pure_steps_leaves_room_for_both_tails():
    # Two tails of a binomial law are subtracted; each may be off by 1e-10 of itself.
    epsilon, step, count = 0.01, 0.001, 5000
    truth = binomial_delta(epsilon, step, count)
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(step)))
    least = math.floor((epsilon / step + count) / 2)
    above = mpmath.betainc(least + 1, count - least, 0, p, regularized=True)
    room = mpmath.mpf(1e-10) * (2 * above - truth)
    assert pure_delta(epsilon, step, count) >= truth + 0.9 * room


@pytest.mark.parametrize("slack", [0.0, 1e-3, 0.02])
def test_transforms_of_steps_with_a_delta_agree_with_exact_composition(slack):
    delta, count = 0.1, 4
    found = pld_epsilon((("pure", 0.5, slack, count),), delta)
    exact = pure_epsilon(0.5, count, delta_left(delta, slack, count))
    assert exact <= found <= exact * (1 + 1e-5)


@pytest.mark.parametrize("beta", [0.01, 0.3, 0.49])
def test_perfect_generalization_is_robust_up_to_a_failure_of_one(beta):
    perfect = sampled(PerfectGeneralization(beta, 0.2, 0.0), n=50)
    made = perfect_to_robust(perfect).guarantee
    assert made.delta == pytest.approx(2 * beta)
    assert made.epsilon == pytest.approx(math.sqrt((0.2 + math.log(2 / beta)) / 100))


def posterior_error(epsilon, delta, n, beta, logs):
    """G11's bound at ln b, ln c and the log-odds of the share that goes to delta."""
    b, c = np.exp(logs[:2])
    share = 1 / (1 + np.exp(-logs[2])) if delta > 0 else 0.0
    t = b * np.log((1 + 1 / c) / (beta * (1 - share)))
    s = delta / (share * beta) if delta > 0 else 0.0
    return 2 * t + c + np.expm1(epsilon + 1 / (n * b)) + 2 * s


@pytest.mark.parametrize("epsilon", [0.01, 0.5])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-4])
@pytest.mark.parametrize("n", [500, 10**6])
def test_g11_uses_the_best_parameters(epsilon, delta, n):
    beta = 0.05
    found = approx_robust_error(epsilon, delta, n, beta)
    best = min(
        minimize(
            lambda logs: posterior_error(epsilon, delta, n, beta, logs),
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 4000},
        ).fun
        for start in ([-6.0, -6.0, -3.0], [-3.0, -3.0, 0.0])
    )
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1e-15])
def test_g20_looks_at_moments_up_to_a_million(epsilon):
    # The best moment of so small a loss is beyond; the millionth is good enough.
    made = prediction_to_risk_multiple(given(PureDP(epsilon)), beta=0.01).guarantee
    exponent = 1e6 * mpmath.mpf(epsilon) - mpmath.log(mpmath.mpf(0.01)) / 10**6
    assert float(mpmath.log(mpmath.mpf(made.factor))) == pytest.approx(float(exponent))


@pytest.mark.parametrize(
    "composition", [exact_composition, zcdp_composition, pld_composition]
)
@pytest.mark.parametrize("delta", [1e-6, 0.3])
def test_a_total_has_the_delta_that_was_asked_for(composition, delta):
    made = composition(given(PureDP(0.125)), counts=(3,), delta=delta)
    assert made.guarantee.delta == delta
    assert pure_to_approx(given(PureDP(0.125))).guarantee.delta == 0


def test_g7_replacing_one_unit_costs_four_times_the_rho_of_removing_it():
    one = given(ZCDP(0.125), relation=AddRemove())
    assert to_replace_one(one, n=9).guarantee == ZCDP(0.5)


@pytest.mark.parametrize("failure", [0.25, 1e-6])
def test_a_robust_bound_fails_as_rarely_as_was_asked_for(failure):
    kept, few = Compression(3, 2, 0), FiniteRange(8)
    private = given(PureDP(0.01), relation=ReplaceOne(100), scope=Scope.MODEL)
    for made in (
        pure_to_robust(private, beta=failure),
        approx_to_robust(private, beta=failure),
        finite_range_to_robust(sampled(few), beta=failure),
        compression_to_robust(sampled(kept), delta=failure),
    ):
        assert made.guarantee.delta == failure
