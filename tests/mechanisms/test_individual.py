"""Individual accounting: nobody passes the cap, whatever the rounds are (G24)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.mechanisms import UnitFilter
from reticent.mechanisms.individual import FULL


def test_no_unit_passes_the_cap_in_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    cap, n = 0.0573, 40
    watched = UnitFilter(n, cap)
    paid = [Fraction(0)] * n
    refused = 0
    for _ in range(400):
        units = rng.choice(n, rng.integers(1, n), replace=False)
        whole = rng.integers(0, 257, len(units))
        scale, weight = float(rng.uniform(500, 4000)), int(rng.integers(1, 3))
        speaks = watched.admit(units, whole**2.0, watched.price(scale, weight))
        for unit, size, may in zip(units, whole, speaks, strict=True):
            cost = weight * Fraction(int(size)) ** 2 / Fraction(scale) ** 2
            assert may or paid[unit] + cost > Fraction(cap) * (1 - Fraction(1, 10**6))
            paid[unit] += cost if may else 0
            refused += not may
    assert refused > 1000
    assert max(paid) <= Fraction(cap)
    assert max(paid) > Fraction(cap) * 9 / 10


def test_a_round_beyond_the_cap_is_left_out_and_costs_nothing():
    watched = UnitFilter(3, 1.0)
    price = watched.price(1.0, 1)
    speaks = watched.admit(np.array([0, 2]), np.array([0.999999, 1e250]), price)
    assert speaks.tolist() == [True, False]
    assert FULL * 0.999999 <= watched.spent[0] <= FULL
    assert watched.spent[1:].tolist() == [0, 0]
    assert not watched.admit(np.array([0]), np.array([1e-5]), price).any()
    assert watched.admit(np.array([0]), np.array([0.0]), price).all()


@pytest.mark.parametrize("square", [np.nan, np.inf])
def test_a_cost_that_is_no_number_is_never_free(square):
    """As a whole number it would be far below zero, and every cap above it."""
    watched = UnitFilter(2, 1.0)
    price, squares = watched.price(1.0, 1), np.array([square, 0.5])
    both = np.array([0, 1])
    assert watched.affords(both, squares, price, 0.0).tolist() == [False, True]
    assert watched.admit(slice(None), squares, price).tolist() == [False, True]
    assert watched.spent[0] == 0


def test_state_goes_on_where_it_was():
    first = UnitFilter(4, 1.0)
    first.admit(slice(None), np.full(4, 0.2499), first.price(1.0, 2))
    again = UnitFilter(4, 1.0, first.spent.copy())
    assert again.admit(slice(None), np.full(4, 0.2499), again.price(1.0, 2)).all()
    assert not again.admit(slice(None), np.full(4, 0.01), again.price(1.0, 2)).any()
    with pytest.raises(InvalidParameterError, match="uint32"):
        UnitFilter(3, 1.0, first.spent)
