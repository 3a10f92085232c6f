"""Signed weights become exact integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import InvalidDataError
from reticent.hypotheses.oracles.costs import COST_TOTAL_BITS, signed_costs

FINITE = st.floats(-1e12, 1e12, allow_subnormal=False)


def test_cost_of_ones_and_base_give_the_weighted_mistakes():
    y, weights = np.array([0, 1, 1, 0]), np.array([2, 3, -5, 7])
    costs = signed_costs(y, weights, 4)
    for labels in np.ndindex(2, 2, 2, 2):
        expected = int(weights[np.array(labels) != y].sum())
        assert costs.value(int(costs.ones @ labels)) == expected


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_fixed_point_moves_a_weight_by_a_tiny_share_of_the_total(weights):
    costs = signed_costs(np.zeros(len(weights)), weights, len(weights))
    unit = Fraction(2) ** costs.exponent
    total = sum(abs(Fraction(w)) for w in weights)
    for given_weight, cost in zip(weights, costs.ones.tolist(), strict=True):
        moved = abs(Fraction(given_weight) - cost * unit)
        assert moved <= total * Fraction(2) ** -51
        assert moved == 0 or not costs.exact
    assert np.abs(costs.ones).sum() <= 2**COST_TOTAL_BITS


@given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=20))
def test_weights_on_a_grid_are_kept_exactly(numerators):
    weights = np.array(numerators) / 2**10
    costs = signed_costs(np.zeros(len(weights)), weights, len(weights))
    assert costs.exact
    assert costs.value(int(costs.ones.sum())) == weights.sum()


def test_integer_weights_give_integers_and_floats_give_floats():
    assert isinstance(signed_costs([1], [3], 1).value(0), int)
    assert isinstance(signed_costs([1], [3.0], 1).value(0), float)
    assert signed_costs([1], [3], 1).values(np.array([0.0])).dtype == np.int64
    assert signed_costs([1], [0.5], 1).values(np.array([0])).tolist() == [0.5]
    assert signed_costs([True], None, 1).value(0) == 1


def test_costs_of_one_point_are_gathered():
    costs = signed_costs([0, 1, 0], [2, 3, 4], 3)
    assert costs.gathered(np.array([1, 0, 1]), 2).tolist() == [-3, 6]


def test_extreme_scales_do_not_overflow():
    costs = signed_costs([0, 0], [5e-324, 5e-324], 2)
    assert costs.value(int(costs.ones.sum())) == 1e-323
    costs = signed_costs([0, 0], [2.0**1022, -(2.0**1022)], 2)
    assert costs.value(int(costs.ones[0])) == 2.0**1022


@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        ([0, 2], None, "only 0 and 1"),
        ([0, np.nan], None, "only 0 and 1"),
        (["0", "1"], None, "only 0 and 1"),
        ([0], None, "one label for each"),
        ([0, 1], [1.0], "one number for each"),
        ([0, 1], ["a", "b"], "one number for each"),
        ([0, 1], [np.nan, 1.0], "finite"),
        ([0, 1], [np.inf, 1.0], "finite"),
        ([0, 1], [1.7e308, 1.7e308], "finite sum"),
        ([0, 1], [2**52, 1], "at most 2"),
        ([0, 1], [-(2**63), 2**62], "at most 2"),
    ],
)
def test_bad_labels_and_weights_are_refused(y, weights, message):
    with pytest.raises(InvalidDataError, match=message):
        signed_costs(y, weights, 2)
