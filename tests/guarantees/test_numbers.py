"""Numbers on certificates: what is refused, and sums that never round down."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from reticent._numbers import (
    below_one,
    ceil_float,
    exact,
    nonnegative,
    positive,
    probability,
    real,
    whole,
)
from reticent.errors import InvalidGuaranteeError, ReticentError
from tests.guarantees.cases import HOSTILE_NUMBERS

CHECKS = [nonnegative, positive, below_one, probability]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("value", HOSTILE_NUMBERS, ids=lambda v: str(type(v).__name__))
def test_hostile_numbers_are_refused_as_value_errors(check, value):
    with pytest.raises(InvalidGuaranteeError, match="owner needs") as caught:
        check("owner", "x", value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ReticentError)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("check", [below_one, probability])
@pytest.mark.parametrize("value", [1.0, 1, 1 + 1e-15, 2**63])
def test_one_and_more_is_no_probability(check, value):
    with pytest.raises(InvalidGuaranteeError, match="x"):
        check("owner", "x", value)


@pytest.mark.parametrize("check", [positive, probability])
@pytest.mark.parametrize("value", [0, 0.0, -0.0])
def test_zero_is_refused_where_it_means_nothing(check, value):
    with pytest.raises(InvalidGuaranteeError, match="x=0"):
        check("owner", "x", value)


def test_negative_zero_becomes_zero():
    assert math.copysign(1.0, nonnegative("owner", "x", -0.0)) == 1.0


@pytest.mark.parametrize("value", [5e-324, 1e-310, np.float32(0.25), np.int64(0), 0.5])
def test_honest_numbers_pass_unchanged(value):
    assert nonnegative("owner", "x", value) == value
    assert type(real("owner", "x", value)) is float


@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Fraction(2, 3), 2**53 + 1, 10**22 + 1]
)
def test_a_number_that_no_float_holds_is_rounded_up(value):
    assert Fraction(real("owner", "x", value)) > value
    assert Fraction(math.nextafter(real("owner", "x", value), 0)) < value


@pytest.mark.parametrize(
    "value",
    [True, 1.0, "1", None, math.nan, np.float64(2), 10**5000, -(10**5000), Fraction(1)],
    ids=lambda v: type(v).__name__,
)
def test_whole_refuses_what_is_not_a_printable_whole_number(value):
    with pytest.raises(InvalidGuaranteeError, match="owner needs"):
        whole("owner", "n", value)


def test_whole_names_the_least_value():
    assert whole("owner", "n", np.int64(7)) == 7
    assert whole("owner", "n", 2**63) == 2**63
    with pytest.raises(InvalidGuaranteeError, match="owner needs n >= 2; got n=1"):
        whole("owner", "n", 1, least=2)


def test_exact_reads_the_decimal_that_names_a_float():
    assert exact(0.1) == Fraction(1, 10)
    assert exact(0.1) * 10 == 1
    assert Fraction(0.1) * 10 != 1  # the float itself: the control


def test_ceil_float_is_the_smallest_float_not_below(seed):
    rng = np.random.default_rng(seed)
    for _ in range(500):
        value = Fraction(int(rng.integers(1, 2**62)), int(rng.integers(1, 2**62)))
        value *= Fraction(10) ** int(rng.integers(-320, 300))
        rounded = ceil_float(value)
        assert exact(rounded) >= value
        assert exact(math.nextafter(rounded, 0.0)) < value


def test_ceil_float_refuses_what_is_beyond_floats():
    largest = math.nextafter(math.inf, 0)
    assert ceil_float(exact(largest)) == largest
    for value in (exact(largest) + 1, Fraction(10) ** 400):
        with pytest.raises(InvalidGuaranteeError, match="finite"):
            ceil_float(value)
