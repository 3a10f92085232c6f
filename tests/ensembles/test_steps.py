"""Fixed point: every row is on the grid, and no model moves more than its share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reticent.ensembles import STEPS, check_bounds, output_steps, probability_steps
from reticent.errors import InvalidParameterError

HOSTILE = [np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1e308]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_probabilities_add_up_and_move_by_less_than_a_step(n_classes, seed):
    rng = np.random.default_rng(seed)
    given = rng.dirichlet(np.full(n_classes, 0.3), size=2000)
    steps = probability_steps(given)
    assert (steps >= 0).all()
    assert (steps.sum(axis=1) == STEPS).all()
    assert np.abs(steps - given * STEPS).max() < 1


def test_probabilities_are_rounded_to_the_largest_remainders():
    # Exact thirds of 2^24 = 3 * 5592405 + 1: one label gets the step that is left.
    assert probability_steps(np.full((1, 3), 1 / 3)).tolist() == [
        [5592406, 5592405, 5592405]
    ]
    shares = [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    exact = [share * STEPS for share in shares]
    expected = [int(share) for share in exact]
    expected[max(range(3), key=lambda k: exact[k] - int(exact[k]))] += 1
    assert probability_steps(np.array([[0.2, 0.4, 0.4]])).tolist() == [expected]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_whatever_a_model_says_its_row_is_on_the_simplex(n_classes, seed):
    rng = np.random.default_rng(seed)
    given = rng.choice([*HOSTILE, 0.3, 0.7], size=(3000, n_classes))
    steps = probability_steps(given)
    assert (steps >= 0).all()
    assert (steps.sum(axis=1) == STEPS).all()


def test_a_row_that_is_no_distribution_is_taken_as_uniform():
    half = [STEPS // 2, STEPS // 2]
    for row in ([np.nan, 1], [0, 0], [-1, 2], [np.inf, 1], [1e308, 1e308]):
        assert probability_steps(np.array(row, dtype=float)).tolist() == half


def test_outputs_are_clipped_and_counted_from_the_lower_bound():
    given = np.array([-9.0, -1.0, 0.0, 0.5, 1.0, 9.0, np.inf, -np.inf])
    expected = np.array([0, 0, 0.5, 0.75, 1, 1, 1, 0]) * STEPS
    assert output_steps(given, (-1, 1)).tolist() == expected.tolist()


def test_an_output_that_is_no_number_is_taken_as_the_middle():
    assert output_steps(np.array([np.nan]), (3, 5)).tolist() == [STEPS // 2]


@pytest.mark.parametrize("bounds", [(-1e308, 1e308), (0, 1e-323), (1, 1 + 2**-52)])
def test_extreme_bounds_stay_on_the_grid(bounds):
    low, high = bounds
    steps = output_steps(np.array([*HOSTILE, low, high]), bounds)
    assert ((steps >= 0) & (steps <= STEPS)).all()
    assert steps[-2:].tolist() == [0, STEPS]


@pytest.mark.parametrize(
    "bounds", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (-np.inf, 0), (0, 5e-324)]
)
def test_bounds_that_are_none_are_refused(bounds):
    with pytest.raises(InvalidParameterError, match="bounds"):
        check_bounds(bounds)
