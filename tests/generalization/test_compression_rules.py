"""R1: its formula, its edges, and what it needs from its premise."""

import math

import mpmath
import pytest

from reticent.errors import InvalidGuaranteeError, RuleError
from reticent.generalization import kept_examples, kept_to_robust
from reticent.generalization.compression.rules import log_choose
from reticent.guarantees import (
    PUBLIC_LABELS,
    Certificate,
    Sample,
    Scope,
    compression,
    compression_to_robust,
    recheck,
)


def bound(beta=0.05, **details):
    details = {"scheme": "test", "rows": details["n"], **details}
    return kept_to_robust(kept_examples(**details), beta=beta).guarantee.epsilon


def reference(n, k, bits, sizes, beta):
    with mpmath.workdps(50):
        spread = (
            mpmath.log(mpmath.binomial(n, k))
            + bits * mpmath.log(2)
            + mpmath.log(2 * sizes / mpmath.mpf(beta))
        )
        rest = mpmath.sqrt(spread / (2 * (n - k)))
        share = mpmath.mpf(k) / n
        return min(mpmath.mpf(1), share + (1 - share) * rest)


@pytest.mark.parametrize("n", [2, 50, 1000, 10**6])
@pytest.mark.parametrize("k", [0, 1, 7, 40])
@pytest.mark.parametrize(("bits", "sizes"), [(0, 1), (13, 5)])
@pytest.mark.parametrize("beta", [0.5, 1e-9])
def test_bound_is_the_formula_rounded_up(n, k, bits, sizes, beta):
    got = bound(n=n, kept=min(k, n), side_bits=bits, sizes=sizes, beta=beta)
    want = 1 if k >= n else reference(n, k, bits, sizes, beta)
    assert want <= got <= float(want) * (1 + 1e-9)


@pytest.mark.parametrize(("n", "k"), [(10, 0), (10, 10), (10, 3), (10**6, 999_990)])
def test_logarithm_of_the_number_of_sets_is_an_upper_bound(n, k):
    with mpmath.workdps(50):
        exact = mpmath.log(mpmath.binomial(n, k))
    assert exact <= log_choose(n, k) <= exact + 1e-6


@pytest.mark.parametrize("k", [0, 1, 2, 10, 100, 499])
@pytest.mark.parametrize("sizes", [1, 500])
def test_bound_is_never_worse_than_g13(k, sizes):
    listed = compression(kept=k, n=500, side_bits=3, size_from_data=sizes > 1)
    theirs = compression_to_robust(listed, delta=0.05).guarantee.epsilon
    assert bound(n=500, kept=k, side_bits=3, sizes=sizes) <= theirs * (1 + 1e-12)


def test_bound_grows_with_everything_that_is_kept():
    base = {"n": 400, "kept": 5, "side_bits": 4, "sizes": 3, "reports": 2}
    start = bound(**base)
    for name, more in [("kept", 6), ("side_bits", 9), ("sizes", 9), ("reports", 9)]:
        assert bound(**{**base, name: more}) > start
    assert bound(**base, beta=0.01) > start


@pytest.mark.parametrize("kept", [400, 500])
def test_keeping_everything_promises_nothing(kept):
    assert bound(n=400, rows=600, kept=kept) == 1.0


@pytest.mark.parametrize(("n", "rows", "kept"), [(50, 51, 3), (50, 400, 10)])
def test_rows_of_one_unit_cost_the_bits_that_tell_them_apart(n, rows, kept):
    certificate = kept_examples(scheme="test", kept=kept, n=n, rows=rows)
    bits = certificate.guarantee.side_bits
    assert math.comb(n, kept) * 2**bits >= math.comb(rows, kept)
    assert math.comb(n, kept) * 2 ** (bits - 2) < math.comb(rows, kept)


def test_certificate_survives_json_and_derives_again():
    certificate = kept_to_robust(
        kept_examples(scheme="test", kept=3, n=90, rows=90, sizes=4, side_bits=2),
        beta=0.1,
    )
    again = Certificate.from_json(certificate.to_json())
    recheck(again)
    assert again == certificate
    assert certificate.relation == Sample(90)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved


def test_labels_read_from_the_data_are_an_assumption():
    certificate = kept_examples(
        scheme="test", kept=3, n=90, rows=90, labels_from_data=True
    )
    assert certificate.assumptions == {PUBLIC_LABELS}


def test_rule_refuses_lists_and_bad_numbers():
    with pytest.raises(RuleError, match="reads a set"):
        kept_to_robust(compression(kept=3, n=90), beta=0.05)
    with pytest.raises(InvalidGuaranteeError, match="beta=nan"):
        bound(n=90, kept=3, beta=float("nan"))
    with pytest.raises(RuleError, match="scheme"):
        kept_examples(scheme="", kept=3, n=90, rows=90)
    with pytest.raises(RuleError, match="kept <= rows"):
        kept_examples(scheme="test", kept=91, n=90, rows=90)
    with pytest.raises(InvalidGuaranteeError, match="rows"):
        kept_examples(scheme="test", kept=1, n=90, rows=80)
