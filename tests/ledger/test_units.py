"""Losses in whole units: exact, rounded against us, hostile numbers refused."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import InvalidParameterError
from reticent.ledger import Cap, Charge, Spend
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    RHO_UNITS,
    units_down,
    units_to_float,
    units_up,
    whole,
)

HOSTILE = [
    math.nan,
    math.inf,
    -math.inf,
    -0.0,
    -1e-300,
    -0.1,
    5e-324,
    sys.float_info.min / 2,
    1e999,
    1e300,
    2.0**63,
    2**63,
    -(2**63),
    10**400,
    Fraction(-1, 3),
    True,
    None,
    "0.1",
    b"0.1",
    1j,
    [0.1],
    np.float64("nan"),
    np.float32("inf"),
]


@pytest.mark.parametrize("value", HOSTILE, ids=str)
@pytest.mark.parametrize("rounding", [units_up, units_down])
def test_hostile_numbers_are_refused_by_name(value, rounding):
    with pytest.raises(InvalidParameterError, match="epsilon="):
        rounding("epsilon", value, EPSILON_UNITS)


@pytest.mark.parametrize("value", [v for v in HOSTILE if v is not None], ids=str)
def test_hostile_numbers_make_no_charge_and_no_cap(value):
    for build in (
        lambda: Charge.loss(epsilon=value, certificate="c"),
        lambda: Charge.loss(epsilon=0.1, delta=value, certificate="c"),
        lambda: Charge.loss(rho=value, certificate="c"),
        lambda: Charge(epsilon=value, certificate="c"),
        lambda: Cap.basic(epsilon=value),
        lambda: Cap.basic(epsilon=1.0, delta=value),
        lambda: Cap.zcdp(epsilon=value, delta=1e-6),
        lambda: Cap.zcdp(epsilon=1.0, delta=value),
    ):
        with pytest.raises(ValueError, match="="):
            build()


@pytest.mark.parametrize("value", [-1, MAX_UNITS + 1, 2**63, 1.0, True, None, "1"])
def test_units_are_whole_and_bounded(value):
    with pytest.raises(InvalidParameterError, match="n="):
        whole("n", value)


@pytest.mark.parametrize(
    ("value", "units", "up", "down"),
    [
        (0.1, EPSILON_UNITS, 100_000_000, 100_000_000),
        (1 / 3, EPSILON_UNITS, 333_333_334, 333_333_333),
        (Fraction(1, 3), EPSILON_UNITS, 333_333_334, 333_333_333),
        (1, EPSILON_UNITS, EPSILON_UNITS, EPSILON_UNITS),
        (np.float64(0.1), EPSILON_UNITS, 100_000_000, 100_000_000),
        (1e-12, EPSILON_UNITS, 1, 0),
        (0.0, EPSILON_UNITS, 0, 0),
        (1e-18, DELTA_UNITS, 1, 1),
        (0.005, RHO_UNITS, 5 * 10**9, 5 * 10**9),
        (sys.float_info.min, RHO_UNITS, 1, 0),
    ],
)
def test_charges_round_up_and_caps_round_down(value, units, up, down):
    assert units_up("x", value, units) == up
    assert units_down("x", value, units) == down


@given(st.floats(min_value=sys.float_info.min, max_value=1e8, exclude_min=False))
def test_rounding_brackets_the_decimal_by_less_than_a_unit(value):
    exact = Fraction(repr(value)) * EPSILON_UNITS
    up, down = (
        units_up("x", value, EPSILON_UNITS),
        units_down("x", value, EPSILON_UNITS),
    )
    assert down <= exact <= up
    assert up - down <= 1
    assert Fraction(repr(units_to_float(up, EPSILON_UNITS))) * EPSILON_UNITS >= exact


spends = st.builds(Spend, *(st.integers(0, 2**61),) * 4)


@given(spends, spends)
def test_spends_add_and_compare_kind_by_kind(one, other):
    total = one.plus(other)
    assert tuple(total) == tuple(a + b for a, b in zip(one, other, strict=True))
    assert total.minus(other) == one
    assert other.minus(total) == Spend()
    assert one.times(3) == one.plus(one).plus(one)
    assert one.within(total)
    assert total.within(one) == (other == Spend())


@pytest.mark.parametrize("kind", range(4))
def test_one_kind_too_many_is_not_within(kind):
    limits = Spend(1, 1, 1, 1)
    assert limits.within(limits)
    assert not limits._replace(**{Spend._fields[kind]: 2}).within(limits)
