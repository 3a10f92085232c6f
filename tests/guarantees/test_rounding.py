"""Every closed form against sixty digits: never below, and hardly above.

The forms of test_convert, test_concentrated, test_loss and test_robust have their own
checks there; these are the rest.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from reticent._numbers import down, up
from reticent.errors import RuleError
from reticent.guarantees import (
    ApproxDP,
    PerfectGeneralization,
    PureDP,
    Sensitivity,
    dp_to_consistency,
    gaussian_noise,
    group,
    laplace_noise,
    perfect_to_pair,
    perfect_to_robust,
    prediction_to_expected,
    prediction_to_risk_multiple,
    pure_to_perfect,
    resample_perfect,
    subsample,
)
from tests.guarantees.cases import answer, given, sampled

MP = mpmath.mp.clone()
MP.dps = 60
CASES = 150


def digits(value):
    """Return the decimal that a number on a certificate stands for."""
    return MP.mpf(repr(value))


def number(rng, low, high):
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def assert_rounded_up(certified, true, *, within="1e-11"):
    # Sums are exact, so the sixtieth digit of the reference decides nothing.
    assert digits(certified) >= true * (1 - MP.mpf("1e-50"))
    assert digits(certified) <= true * (1 + MP.mpf(within))


def chain(epsilon, links):
    return (
        MP.mpf(links) if epsilon == 0 else MP.expm1(links * epsilon) / MP.expm1(epsilon)
    )


def test_groups_and_subsamples(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        epsilon, delta = number(rng, 1e-12, 60), number(rng, 1e-300, 1e-6)
        size = int(rng.integers(1, 60))
        e, d = digits(epsilon), digits(delta)
        try:
            made = group(given(ApproxDP(epsilon, delta)), size=size).guarantee
        except RuleError:
            assert d * chain(e, size) > 0.99
        else:
            assert_rounded_up(made.epsilon, size * e)
            assert_rounded_up(made.delta, d * chain(e, size))
        m, n = int(rng.integers(1, 10**6)), int(10 ** rng.uniform(6, 15))
        loss = number(rng, 1e-12, 650)
        amplified = subsample(given(ApproxDP(loss, delta), n=m), n=n, order="shuffled")
        q = MP.mpf(m) / n
        true = MP.log1p(q * MP.expm1(digits(loss)))
        assert_rounded_up(amplified.guarantee.epsilon, true)
        assert_rounded_up(amplified.guarantee.delta, q * d)


def test_noise(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        moved, scale = number(rng, 1e-9, 1e9), number(rng, 1e-9, 1e9)
        premise = answer(Sensitivity(moved))
        ratio = digits(moved) / MP.mpf(scale)
        assert_rounded_up(laplace_noise(premise, scale=scale).guarantee.epsilon, ratio)
        rho = gaussian_noise(premise, scale=scale).guarantee.rho
        assert_rounded_up(rho, ratio**2 / 2)


def test_perfect_generalization(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        epsilon, delta = number(rng, 1e-9, 0.69), number(rng, 1e-15, 1e-3)
        beta, n = number(rng, 1e-15, 0.1), int(10 ** rng.uniform(0.5, 16))
        outputs = int(10 ** rng.uniform(0, 12))
        e, d, b = digits(epsilon), digits(delta), digits(beta)
        t = e * MP.sqrt(n * MP.log(2 * outputs / b) / 2)
        perfect = pure_to_perfect(
            given(PureDP(epsilon), n=n), outputs=outputs, beta=beta
        )
        assert_rounded_up(perfect.guarantee.epsilon, min(2 * t, t + n * e**2 / 8))
        premise = sampled(PerfectGeneralization(beta, epsilon, delta), n=n)
        private = resample_perfect(premise).guarantee
        assert_rounded_up(private.epsilon, 4 * e)
        assert_rounded_up(private.delta, d * chain(e, 4) + b / (1 - b))
        robust = perfect_to_robust(premise).guarantee
        assert_rounded_up(robust.epsilon, MP.sqrt((e + MP.log(2 / (b + d))) / (2 * n)))
        assert_rounded_up(robust.delta, 2 * (b + d))
        pair = perfect_to_pair(premise).guarantee
        assert_rounded_up(pair.delta, d * (1 + MP.exp(e)))
        assert_rounded_up(pair.failure, 2 * b)


def test_losses_of_predictions(seed):
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        epsilon, delta = number(rng, 1e-12, 20), number(rng, 1e-15, 0.1)
        bound, moment = number(rng, 1e-3, 1e3), int(rng.integers(1, 5))
        beta, rate = number(rng, 1e-300, 0.99), number(rng, 1e-9, 1)
        e, d, B = digits(epsilon), digits(delta), MP.mpf(bound)
        made = prediction_to_expected(
            answer(ApproxDP(epsilon, delta)), loss_bound=bound, moment=moment
        ).guarantee
        factor = MP.exp(moment**2 * e)
        lifted = (MP.exp(moment * e) + d * chain(e, moment)) ** moment
        assert_rounded_up(made.factor, factor)
        assert_rounded_up(made.slack, B**moment * (lifted - factor), within="1e-10")
        multiple = prediction_to_risk_multiple(answer(PureDP(epsilon)), beta=beta)
        log = -MP.log(MP.mpf(beta))
        near = min(10**6, max(1, int(MP.sqrt(log / e))))
        best = min(k * e + log / k for k in {near, min(10**6, near + 1)})
        assert_rounded_up(multiple.guarantee.factor, MP.exp(best), within="1e-9")
        release = dp_to_consistency(given(PureDP(epsilon)), rate=rate).guarantee.rate
        assert_rounded_up(release, digits(rate) + MP.tanh(e / 4))


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-16, 1.0, 1 / 3, 1e300])
def test_up_and_down_move_by_sixteen_last_digits(value):
    assert down(value) < value < up(value)
    assert up(value) - value <= 17 * math.ulp(value)
    assert up(math.inf) == math.inf
    assert math.isnan(up(math.nan))
