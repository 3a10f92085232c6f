"""G12 to G14: few outputs and kept examples generalise."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    Compression,
    FiniteRange,
    ReplaceOne,
    Scope,
    compose_compressions,
    compression,
    compression_to_robust,
    finite_range,
    finite_range_to_robust,
    pure_robust_error,
)
from tests.guarantees.cases import sampled
from tests.guarantees.fair_bits import two_sided

# ----------------------------------------------------------------------- G12


@pytest.mark.parametrize("outputs", [1, 2, 100, 10**6])
@pytest.mark.parametrize("units", [10, 1000])
def test_g12_covers_the_worst_of_independent_features(outputs, units):
    closest = 0.0
    for beta in (0.3, 1e-2, 1e-5):
        premise = finite_range(size=outputs, n=units, scope="model")
        error = finite_range_to_robust(premise, beta=beta).guarantee.epsilon
        assert -math.expm1(outputs * math.log1p(-two_sided(units, error))) <= beta
        truth = next(
            k / units
            for k in range(units + 1)
            if -math.expm1(
                outputs * math.log1p(-min(0.999999, two_sided(units, k / units)))
            )
            <= beta
        )
        closest = max(closest, truth / error)
    assert closest > (0.7 if units > 10 else 0.5)


@pytest.mark.parametrize("units", [1, 3, 5, 101])
def test_g12_needs_the_two_that_the_paper_drops(units):
    """S3 Thm 21 prints sqrt(ln(R/beta)/(2n)): an odd number of fair bits is never
    balanced, so one fixed feature is off by 1/(2n) surely."""
    error = 1 / (2 * units) - 1e-9
    printed = math.exp(-2 * units * error**2)  # the failure that it would allow, R = 1
    assert two_sided(units, error) == pytest.approx(1.0)
    assert printed < 1
    premise = finite_range(size=1, n=units, scope="model")
    ours = finite_range_to_robust(premise, beta=printed).guarantee
    assert two_sided(units, ours.epsilon) <= printed


def test_g12_takes_ranges_too_long_for_a_float():
    huge = sampled(FiniteRange(2**5000), n=10**6)
    error = finite_range_to_robust(huge, beta=0.05).guarantee.epsilon
    assert error == pytest.approx(math.sqrt((5001 * math.log(2) + math.log(20)) / 2e6))


# ------------------------------------------------------------------ G13, G14


def kept_one_of(units, error):
    """Chance that the best of `units` decoded features overfits by more than `error`.

    Each example carries the number of a feature of its own and fair bits of all
    features; the one kept decides the feature, and counts as a one itself.
    """
    high = math.floor(units * (0.5 + error) - 1 + 1e-9)
    low = math.ceil(units * (0.5 - error) - 1 - 1e-9) - 1
    one = binom.sf(high, units - 1, 0.5) + binom.cdf(low, units - 1, 0.5)
    return -math.expm1(units * math.log1p(-min(one, 1 - 1e-12)))


@pytest.mark.parametrize("units", [20, 200, 5000])
def test_g13_covers_the_best_single_example(units):
    closest = 0.0
    for delta in (0.3, 0.05, 1e-4):
        premise = compression(kept=1, n=units)
        error = compression_to_robust(premise, delta=delta).guarantee.epsilon
        assert kept_one_of(units, error) <= delta
        truth = next(
            k / units for k in range(units) if kept_one_of(units, k / units) <= delta
        )
        closest = max(closest, truth / error)
        # The control: without counting the lists it would be broken.
        fixed = finite_range(size=1, n=units, scope="model")
        naive = finite_range_to_robust(fixed, beta=delta).guarantee.epsilon
        if units > 20:
            assert kept_one_of(units, naive) > delta
    assert closest > 0.7


def test_g13_formula_and_its_limits():
    made = compression_to_robust(compression(kept=3, n=100, side_bits=4), delta=0.05)
    spread = 3 * math.log(100) + 4 * math.log(2) + math.log(2 / 0.05)
    assert made.guarantee.epsilon == pytest.approx(math.sqrt(spread / (2 * 97)) + 0.03)
    chosen = compression(kept=3, n=100, side_bits=4, size_from_data=True)
    wider = compression_to_robust(chosen, delta=0.05).guarantee.epsilon
    spread += math.log(100)
    assert wider == pytest.approx(math.sqrt(spread / (2 * 97)) + 0.03)
    none = compression_to_robust(compression(kept=0, n=100), delta=0.05).guarantee
    one = finite_range_to_robust(finite_range(size=1, n=100, scope="model"), beta=0.05)
    assert none.epsilon == pytest.approx(one.guarantee.epsilon)
    with pytest.raises(RuleError, match="rule G13 needs fewer kept examples than n=5"):
        compression_to_robust(compression(kept=5, n=5), delta=0.05)
    with pytest.raises(
        InvalidParameterError, match="size_from_data must be True or False"
    ):
        compression(kept=1, n=5, size_from_data="yes")


def test_g13_is_well_below_what_is_printed():
    for n, k, delta in ((2000, 5, 0.05), (500, 1, 1e-3), (10**5, 20, 0.01)):
        premise = compression(kept=k, n=n)
        ours = compression_to_robust(premise, delta=delta).guarantee.epsilon
        printed = (
            math.sqrt(4 * k * math.log(n / delta) / n)
            + 8 * k * math.log(2 * n / delta) / n
            + k / n
        )
        assert ours < 0.4 * printed


def test_g14_adds_lists_bits_and_lengths():
    parts = [
        compression(kept=2, n=100),
        compression(kept=1, n=100, side_bits=3, size_from_data=True),
        compression(kept=4, n=100, size_from_data=True),
    ]
    total = compose_compressions(*parts)
    assert total.guarantee == Compression(7, 3, 2)
    assert total.proved
    with pytest.raises(RuleError, match="rule G14 needs one sample"):
        compose_compressions(parts[0], compression(kept=1, n=99))
    with pytest.raises(RuleError, match="rule G14 needs at least one"):
        compose_compressions()


def test_g14_lengths_read_off_the_data_cost_one_union_bound_each():
    """Where lists begin and end says something: a sequence of lists of length 0 or 1.

    Step j keeps one example if the sample is the j-th possible one, and none
    otherwise. One example is kept in all, and yet everything is known.
    """
    kinds, units, delta = 4096, 12, 0.05
    steps = kinds**units
    # The indicator of the sample is one on it and at most 12/4096 in the population.
    overfitting = 1 - units / kinds
    lists_alone = compression_to_robust(
        sampled(Compression(1, 0, 1), n=units), delta=delta
    ).guarantee.epsilon
    assert lists_alone < 0.8 < overfitting  # what one union bound would promise
    honest = compression_to_robust(
        sampled(Compression(1, 0, steps), n=units), delta=delta
    ).guarantee.epsilon
    assert honest > 1


# ------------------------------------------------------------------ rounding


def test_certified_errors_are_never_below_the_formula(seed):
    rng = np.random.default_rng(seed)
    mp = mpmath.mp.clone()
    mp.dps = 50
    for _ in range(150):
        n = int(10 ** rng.uniform(0.5, 9))
        epsilon = float(10 ** rng.uniform(-9, 1))
        beta = float(10 ** rng.uniform(-30, -0.01))
        kept = int(rng.integers(0, min(n, 50)))
        bits, size = int(rng.integers(0, 99)), int(10 ** rng.uniform(0, 12))
        e, b = mp.mpf(repr(epsilon)), mp.mpf(repr(beta))
        reach = e * mp.sqrt(mp.mpf(n) / 8) + mp.sqrt(-mp.log(b))
        pairs = [
            (
                pure_robust_error(epsilon, n, beta),
                mp.sqrt((mp.log(2) + reach**2) / (2 * n)),
            ),
            (
                finite_range_to_robust(
                    finite_range(size=size, n=n, scope="model"), beta=beta
                ).guarantee.epsilon,
                mp.sqrt(mp.log(2 * size / b) / (2 * n)),
            ),
            (
                compression_to_robust(
                    compression(kept=kept, n=n, side_bits=bits), delta=beta
                ).guarantee.epsilon,
                mp.sqrt(
                    (kept * mp.log(n) + bits * mp.log(2) + mp.log(2 / b))
                    / (2 * (n - kept))
                )
                + mp.mpf(kept) / n,
            ),
        ]
        for certified, true in pairs:
            assert certified >= true
            assert certified <= true * (1 + mp.mpf("1e-13"))


def test_axioms_about_outputs_and_kept_examples_are_proved():
    assert finite_range(size=3, n=5, scope="interface").scope is Scope.INTERFACE
    assert compression(kept=2, n=5).scope is Scope.MODEL
    assert finite_range(size=3, n=5, scope="answer").proved
    assert ReplaceOne(5) != compression(kept=2, n=5).relation
