"""Budgets: what they accept, and what they cover."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from reticent.errors import InvalidGuaranteeError
from reticent.guarantees import ZCDP, ApproxDP, BoundedRange, Budget, PureDP
from tests.guarantees.cases import HOSTILE_NUMBERS


@pytest.mark.parametrize("value", HOSTILE_NUMBERS, ids=lambda v: type(v).__name__)
def test_hostile_budgets_are_refused(value):
    with pytest.raises(InvalidGuaranteeError, match="Budget needs"):
        Budget(value)
    with pytest.raises(InvalidGuaranteeError, match="Budget needs"):
        Budget(1.0, value)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (-0.0, 0.1), (1.0, 1.0)])
def test_budgets_that_allow_nothing_or_everything_are_refused(epsilon, delta):
    with pytest.raises(InvalidGuaranteeError, match="Budget needs"):
        Budget(epsilon, delta)


def test_a_fraction_is_rounded_down_to_a_float():
    budget = Budget(Fraction(1, 3), Fraction(2, 3))
    assert Fraction(budget.epsilon) <= Fraction(1, 3)
    assert Fraction(budget.delta) <= Fraction(2, 3)
    assert budget.epsilon == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.parametrize(
    ("guarantee", "covered"),
    [
        (PureDP(1.0), True),
        (PureDP(math.nextafter(1.0, 2)), False),
        (BoundedRange(1.0), True),
        (BoundedRange(1.1), False),
        (ApproxDP(1.0, 1e-6), True),
        (ApproxDP(1.0, 2e-6), False),
        (ApproxDP(1.1, 0.0), False),
        (ZCDP(0.001), False),
    ],
)
def test_covers_compares_every_number(guarantee, covered):
    assert Budget(1.0, 1e-6).covers(guarantee) is covered


def test_budget_prints_itself():
    assert str(Budget(4.0, 1e-6)) == "ε = 4, δ = 1e-6 in total"
    assert str(Budget(0.5)) == "ε = 0.5 in total"
