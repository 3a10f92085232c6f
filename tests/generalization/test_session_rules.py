"""R2: its formula, and the rules that it contains."""

import math

import mpmath
import pytest

from reticent.errors import InvalidGuaranteeError, RuleError
from reticent.generalization import session_to_robust, unit_sum
from reticent.generalization.session.costs import subset_bits
from reticent.generalization.session.failures import (
    NO_FAILURE_BITS,
    SET_ASIDE,
    failure_bits,
)
from reticent.guarantees import (
    SEEDED_NOISE,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    approx_robust_error,
    claim,
    compression,
    compression_to_robust,
    finite_range,
    finite_range_to_robust,
    pure_to_robust,
    recheck,
)


def error(**budget):
    return session_to_robust(**{"n": 1000, "beta": 0.05, **budget}).guarantee.epsilon


def reference(n, epsilon, kept, bits, beta):
    with mpmath.workdps(50):
        left = n - kept
        guess = kept * mpmath.log(n) + bits * mpmath.log(2) - mpmath.log(beta)
        reach = epsilon * mpmath.sqrt(mpmath.mpf(left) / 8) + mpmath.sqrt(guess)
        rest = mpmath.sqrt((mpmath.log(2) + reach**2) / (2 * left))
        share = mpmath.mpf(kept) / n
        return min(mpmath.mpf(1), share + (1 - share) * rest)


@pytest.mark.parametrize("n", [10, 1000, 10**6])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("kept", [0, 1, 9])
@pytest.mark.parametrize("bits", [0.0, 7.5, 100.0])
def test_bound_is_the_formula_rounded_up(n, epsilon, kept, bits):
    want = reference(n, epsilon, kept, bits, 0.05)
    got = error(n=n, epsilon=epsilon, kept=kept, bits=bits)
    assert want <= got <= float(want) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_a_session_of_one_private_step_is_g10(epsilon):
    step = claim(PureDP(epsilon), ReplaceOne(1000), Scope.MODEL, statement="test")
    alone = pure_to_robust(step, beta=0.05).guarantee.epsilon
    assert error(epsilon=epsilon) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("bits", [1, 10, 64])
def test_a_session_of_few_bits_is_g12(bits):
    alone = finite_range(size=2**bits, n=1000, scope="interface")
    alone = finite_range_to_robust(alone, beta=0.05).guarantee.epsilon
    assert error(bits=bits) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(("kept", "bits"), [(1, 0), (20, 5)])
def test_a_session_of_compressions_is_at_most_g13(kept, bits):
    alone = compression(kept=kept, n=1000, side_bits=bits)
    alone = compression_to_robust(alone, delta=0.05).guarantee.epsilon
    assert 0.9 * alone < error(kept=kept, bits=bits) <= alone


def test_a_session_with_delta_is_g11():
    alone = approx_robust_error(0.05, 1e-12, 1000, 0.05)
    assert error(epsilon=0.05, delta=1e-12) == pytest.approx(min(1, alone), rel=1e-6)
    assert error(epsilon=0.05, delta=1e-12) < 1
    # Kept examples are guessed, and delta pays for the guesses: beyond it, nothing.
    assert error(epsilon=0.05, delta=1e-6, kept=50) == 1.0


def test_bound_grows_with_every_budget_and_shrinks_with_beta():
    base = {"epsilon": 0.1, "kept": 3, "bits": 10.0}
    start = error(**base)
    for name, more in [("epsilon", 0.2), ("kept", 4), ("bits", 11.0)]:
        assert error(**{**base, name: more}) > start
    assert error(**base, share=0.5) > start
    assert error(**base, beta=0.1) < start


@pytest.mark.parametrize("kept", [1000, 2000])
def test_keeping_everything_promises_nothing(kept):
    assert error(kept=kept) == 1.0


def test_assumptions_ride_along_and_the_certificate_derives_again():
    text = f"{SEEDED_NOISE.code}: {SEEDED_NOISE.statement}"
    certificate = session_to_robust(n=50, beta=0.05, epsilon=0.1, assuming=(text,))
    assert certificate.assumptions == {SEEDED_NOISE}
    recheck(Certificate.from_json(certificate.to_json()))


def test_bad_numbers_are_refused():
    with pytest.raises(InvalidGuaranteeError, match="epsilon=nan"):
        error(epsilon=float("nan"))
    with pytest.raises(InvalidGuaranteeError, match="kept=-1"):
        error(kept=-1)
    with pytest.raises(RuleError, match="share"):
        error(share=0.0)
    with pytest.raises(RuleError, match="CODE"):
        error(assuming=("because",))


@pytest.mark.parametrize(
    ("n", "rows", "most"),
    [(10, 10, 1), (10, 10, 2), (10, 10, 7), (50, 50, 30), (10, 35, 4), (2, 2, 2)],
)
def test_a_guess_among_all_sets_has_its_price(n, rows, most):
    # Including sets of every smaller size: how many are kept may depend on the data.
    sets = sum(math.comb(rows, size) for size in range(1, most + 1))
    bits = subset_bits(n, rows, most)
    assert n**most * 2**bits >= sets
    if bits > 1e-6:
        assert n**most * 2 ** (bits - 0.01) < sets


def test_large_sets_have_a_price_too():
    assert subset_bits(5000, 5000, 2000) == 0.0
    bits, most = subset_bits(3, 5000, 1500), 1500
    assert bits >= math.log2(math.comb(5000, most)) - most * math.log2(3) > 0


def test_shares_of_failures_add_up_to_what_is_set_aside():
    total = sum(2.0 ** -failure_bits(step) for step in range(1, 100_000))
    assert 0.999 * SET_ASIDE < total < SET_ASIDE
    assert -math.log2(1 - SET_ASIDE) < NO_FAILURE_BITS


def test_a_sum_moves_by_one():
    assert unit_sum(n=7).guarantee == Sensitivity(1.0)
    assert unit_sum(n=7).relation == ReplaceOne(7)
