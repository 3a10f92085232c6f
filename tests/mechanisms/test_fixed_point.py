"""Integer bounds on exp(-x) hold against an independent library of any precision."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.mechanisms.sampling.fixed_point import exp_bounds, scaled

HARD = [
    Fraction(0),
    Fraction(1, 2**1074),
    Fraction(1, 3),
    Fraction(1),
    Fraction(5, 2),
    Fraction(63),
    Fraction(64),
    Fraction(10**7),
    Fraction(2**60),
    Fraction(709782712893384, 10**12),
    Fraction(2**52 + 1, 2**52),
]


def holds(bounds, x, bits):
    """Compare with 2^bits exp(-x), known to 400 bits behind the point."""
    with mpmath.workprec(bits + 400):
        value = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), bits)
        return mpmath.mpf(bounds[0]) <= value <= mpmath.mpf(bounds[1])


@pytest.mark.parametrize("x", HARD)
@pytest.mark.parametrize("bits", [1, 53, 64, 117, 1000])
def test_bounds_hold_and_are_close(x, bits):
    low, high = exp_bounds(x, bits)
    assert 0 <= low <= high <= 2**bits
    assert high - low <= 2
    assert holds((low, high), x, bits)


@given(
    st.fractions(min_value=0, max_value=1200, max_denominator=10**18),
    st.integers(1, 600),
)
@settings(max_examples=300, deadline=None)
def test_bounds_hold_for_any_fraction(x, bits):
    low, high = exp_bounds(x, bits)
    assert high - low <= 2
    assert holds((low, high), x, bits)


def test_reference_catches_bounds_that_are_one_unit_off():
    x = Fraction(1, 3)
    low, high = exp_bounds(x, 64)
    assert not holds((low + 2, high + 2), x, 64)
    assert not holds((low - 2, high - 2), x, 64)


def test_zero_is_exact():
    assert exp_bounds(Fraction(0), 64) == (2**64, 2**64)


def test_scaled_rounds_outwards():
    assert scaled(Fraction(1, 3), 2) == (1, 2)
    assert scaled(Fraction(1, 4), 2) == (1, 1)
