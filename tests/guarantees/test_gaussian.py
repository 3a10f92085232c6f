"""Gaussian DP: its curve, its rules, and individual accounting (G24)."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from reticent.errors import RelationMismatchError, RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    ZeroOut,
    gaussian_composition,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_gdp,
    gaussian_ratio,
    gaussian_to_approx,
    gaussian_to_zcdp,
    group,
    individual_filter,
    individual_filter_replacing,
    post_process,
    pure_to_gaussian,
    recheck,
    zeroing_to_replacing,
)
from tests.guarantees.cases import given

EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 4.0]


def hockey_stick(mu, epsilon):
    """Return the delta of two unit Gaussians `mu` apart, from tails of the loss."""
    cut = epsilon / mu - mu / 2 if mu else math.inf
    return stats.norm.sf(cut) - math.exp(epsilon) * stats.norm.sf(cut + mu)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_epsilon_is_the_smallest_that_reaches_delta(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert gaussian_delta(mu, epsilon * (1 - 1e-9)) > delta
        assert gaussian_ratio(epsilon, delta) == pytest.approx(mu, rel=1e-9)
    certificate = gaussian_to_approx(given(GaussianDP(mu)), delta=delta)
    assert certificate.guarantee == ApproxDP(epsilon, delta)
    recheck(certificate)


def test_known_values():
    # Dong, Roth and Su 2022, Table 1 has mu = 1 at (epsilon, delta) near (1, 0.1269).
    assert gaussian_epsilon(1.0, 0.12693674) == pytest.approx(1.0, abs=1e-6)
    assert gaussian_epsilon(0.0, 1e-6) == 0.0


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 30.0])
def test_pure_privacy_lies_above_the_gaussian_curve_and_touches_it(epsilon):
    mu = pure_to_gaussian(given(PureDP(epsilon))).guarantee.mu
    with mpmath.workprec(300):
        share = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * share - 1)
        assert exact <= mu <= exact * (1 + mpmath.mpf(10) ** -12)
    # The trade-off curves, point by point.
    alpha = np.linspace(1e-6, 1 - 1e-6, 2_001)
    pure = np.maximum(1 - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - alpha))
    gaussian = stats.norm.cdf(stats.norm.isf(alpha) - mu)
    assert (gaussian <= pure + 1e-12).all()
    smaller = stats.norm.cdf(stats.norm.isf(alpha) - 0.9 * mu)
    if epsilon <= 4:
        assert (smaller > pure).any()  # a tenth less is false


def test_steps_add_up_as_squares_and_never_too_little():
    parts = [given(GaussianDP(3.0)), given(GaussianDP(0.5))]
    total = gaussian_composition(*parts, counts=[1, 64])
    assert total.guarantee.mu == pytest.approx(5.0, rel=1e-15)
    assert total.guarantee.mu >= 5.0
    assert GaussianDP(0.1).times(100).mu == pytest.approx(1.0)
    assert GaussianDP(0.1).times(100).mu >= 1.0
    recheck(total)
    other = given(GaussianDP(1.0), relation=ZeroOut(100))
    with pytest.raises(RelationMismatchError, match="one relation"):
        gaussian_composition(parts[0], other, counts=[1, 1])
    with pytest.raises(RuleError, match="one count for each"):
        gaussian_composition(parts[0], counts=[1, 1])


def test_noise_groups_and_conversions_are_pinned():
    noisy = gaussian_noise_gdp(given(Sensitivity(3.0)), scale=6.0)
    assert noisy.guarantee.mu == pytest.approx(0.5, rel=1e-12)
    assert gaussian_to_zcdp(noisy).guarantee.rho == pytest.approx(0.125, rel=1e-12)
    assert group(noisy, size=3).guarantee.mu == pytest.approx(1.5, rel=1e-12)
    assert post_process(noisy, what="a plot").guarantee == noisy.guarantee
    # The concentrated bound is never sharper than the exact curve.
    for mu in (0.2, 1.0, 2.5):
        exact = gaussian_epsilon(mu, 1e-6)
        assert exact < ZCDP(mu**2 / 2).rho + math.sqrt(2 * mu**2 * math.log(1e6))


def test_replacing_costs_twice_zeroing_or_the_root_of_two():
    zeroed = individual_filter(n=50, mu=0.5, scope="interface")
    assert zeroed.relation == ZeroOut(50)
    assert zeroed.scope is Scope.INTERFACE
    assert "zero out one unit of 50" in zeroed.headline()
    replaced = zeroing_to_replacing(zeroed)
    assert replaced.relation == ReplaceOne(50)
    assert replaced.guarantee == GaussianDP(1.0)
    acute = zeroing_to_replacing(zeroed, acute=True)
    assert acute.guarantee.mu == pytest.approx(0.5 * math.sqrt(2), rel=1e-15)
    assert acute.guarantee.mu**2 >= 0.5
    for certificate in (zeroed, replaced, acute):
        recheck(certificate)
    twice = gaussian_composition(zeroed, counts=[2])
    with pytest.raises(RuleError, match="Convert before composing"):
        zeroing_to_replacing(twice, acute=True)


def test_the_factors_of_replacing_are_reached_and_not_passed(seed):
    rng = np.random.default_rng(seed)
    worst = {"any": 0.0, "acute": 0.0}
    for _ in range(2_000):
        a, b = rng.normal(size=(2, 3, 2))
        a, b = (v / np.linalg.norm(v) for v in (a, b))  # each spends mu = 1
        worst["any"] = max(worst["any"], np.linalg.norm(a - b))
        worst["acute"] = max(worst["acute"], np.linalg.norm(abs(a) - abs(b)))
    assert 1.9 < worst["any"] <= 2
    assert 1.3 < worst["acute"] <= math.sqrt(2)


def test_rounds_of_both_kinds_share_one_filter(seed):
    certificate = individual_filter_replacing(n=50, mu=0.5, scope="interface")
    assert certificate.relation == ReplaceOne(50)
    assert certificate.guarantee == GaussianDP(0.5)
    recheck(certificate)
    rng = np.random.default_rng(seed)
    worst, undercharged = 0.0, 0.0
    for _ in range(3_000):
        any_a, any_b = rng.normal(size=(2, 2, 2)) * rng.choice([0, 1], (2, 2, 1))
        acute_a, acute_b = abs(
            rng.normal(size=(2, 2, 2)) * rng.choice([0, 1], (2, 2, 1))
        )
        apart = ((any_a - any_b) ** 2).sum() + ((acute_a - acute_b) ** 2).sum()
        for weight in (2, 1):
            paid = [
                weight * (v**2).sum() + (w**2).sum()
                for v, w in ((any_a, acute_a), (any_b, acute_b))
            ]
            ratio = apart / max(2 * max(paid), 1e-12)  # against mu^2 for mu^2 / 2 each
            if weight == 2:
                worst = max(worst, ratio)
            else:
                undercharged = max(undercharged, ratio)
    assert 0.9 < worst <= 1
    assert undercharged > 1  # rounds that may point apart need the factor


def transcript_delta(first, second, epsilon):
    """Return the exact delta of two rounds with noise of scale 1.

    A unit adds `first` to the first round and ``second(y)`` to the next, which the
    analyst chooses after seeing the first answer `y`; its neighbour adds nothing.
    """
    width = 1e-4
    y = np.arange(-10.0, 14.0, width) + width / 2
    loss = first * y - first**2 / 2
    here = stats.norm.pdf(y) * np.exp(loss) * width
    left, moved = epsilon - loss, np.vectorize(second)(y)
    # Where nothing is added any more, what was lost so far decides.
    done = -np.expm1(np.minimum(0.0, left))
    step = np.where(moved > 0, moved, 1.0)
    cut = left / step - step / 2
    more = stats.norm.sf(cut) - np.exp(left) * stats.norm.sf(cut + step)
    return float((here * np.where(moved > 0, more, done)).sum())


def adaptive(budget, first, *, forgets=False):
    """Return the largest second contribution that the filter admits, on one side."""
    spent = 0.0 if forgets else first**2
    rest = math.sqrt(max(0.0, budget - spent))
    return lambda y: rest if y > 0.3 else 0.0


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("first", [0.2, 0.7, 1.0])
def test_two_adaptive_rounds_stay_within_the_filter(first, epsilon):
    reached = transcript_delta(first, adaptive(1.0, first), epsilon)
    assert reached <= hockey_stick(1.0, epsilon) + 1e-8


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_full_filter_is_tight_and_a_forgetful_one_is_caught(epsilon):
    full = transcript_delta(0.6, lambda y: 0.8, epsilon)
    assert full == pytest.approx(hockey_stick(1.0, epsilon), rel=1e-6)
    broken = transcript_delta(0.8, adaptive(1.0, 0.8, forgets=True), epsilon)
    assert broken > hockey_stick(1.0, epsilon) * 1.01


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_budgets_are_refused(bad):
    with pytest.raises(ValueError, match="mu"):
        individual_filter(n=5, mu=bad, scope="interface")


def test_a_pure_loss_that_no_tail_can_show_is_refused():
    assert pure_to_gaussian(given(PureDP(600.0))).guarantee.mu > 60
    with pytest.raises(RuleError, match="epsilon <= 600"):
        pure_to_gaussian(given(PureDP(601.0)))
