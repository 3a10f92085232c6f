"""Fixed point: every row is on the grid, and no model moves more than its share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reticent.ensembles import OUTPUT_STEPS
from reticent.ensembles.output_steps import (
    output_steps,
    probability_steps,
    sure_output_steps,
    sure_probability_steps,
)
from reticent.errors import InvalidParameterError
from reticent.estimators import check_bounds

HOSTILE = [np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1e308]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_probabilities_add_up_and_move_by_at_most_a_step(n_classes, seed):
    rng = np.random.default_rng(seed)
    given = rng.dirichlet(np.full(n_classes, 0.3), size=2000)
    steps = probability_steps(given)
    assert (steps >= 0).all()
    assert (steps.sum(axis=1) == OUTPUT_STEPS).all()
    assert np.abs(steps - given * OUTPUT_STEPS).max() <= 1


def test_the_cuts_between_shares_are_rounded():
    # Exact thirds of 2^24 = 3 * 5592405 + 1: the label in the middle gets the step.
    assert probability_steps(np.full((1, 3), 1 / 3)).tolist() == [
        [5592405, 5592406, 5592405]
    ]
    cuts = [round(Fraction(1, 5) * OUTPUT_STEPS), round(Fraction(3, 5) * OUTPUT_STEPS)]
    expected = [cuts[0], cuts[1] - cuts[0], OUTPUT_STEPS - cuts[1]]
    assert probability_steps(np.array([[0.2, 0.4, 0.4]])).tolist() == [expected]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_steps_are_sure_where_no_error_can_change_them(n_classes, seed):
    rng = np.random.default_rng(seed)
    error = 2.0**-27  # a quarter of the rows have a cut within it of a boundary
    given = rng.dirichlet(np.full(n_classes, 0.5), size=4000)
    steps, sure = sure_probability_steps(given, np.full(len(given), error))
    assert np.array_equal(steps, probability_steps(given))
    assert 0 < np.mean(~sure) < 0.3 * (n_classes - 1)
    changed = np.zeros(len(given), dtype=bool)
    for _ in range(30):
        moved = given + rng.uniform(-error, error, given.shape) / (2 * n_classes)
        moved = np.maximum(moved, 0) / np.maximum(moved, 0).sum(axis=1, keepdims=True)
        changed |= (probability_steps(moved) != steps).any(axis=1)
    assert changed.any()
    assert not (changed & sure).any()


def test_outputs_are_sure_where_no_error_can_change_them(seed):
    rng = np.random.default_rng(seed)
    outputs, error = rng.uniform(-1.5, 1.5, size=4000), 2.0**-26
    steps, sure = sure_output_steps(outputs, np.full(4000, error), (-1, 1))
    changed = np.zeros(4000, dtype=bool)
    for _ in range(30):
        moved = outputs + rng.uniform(-error, error, 4000)
        changed |= output_steps(moved, (-1, 1)) != steps
    assert changed[~sure].any()
    assert not (changed & sure).any()
    assert sure[np.abs(outputs) > 1.1].all()


def test_nothing_is_sure_if_the_error_is_not_bounded():
    for value in (0.5, np.nan, np.inf, -np.inf):
        given = np.array([[value, 0.5]])
        assert not sure_probability_steps(given, np.array([np.inf]))[1].any()
        assert not sure_output_steps(given, np.full((1, 2), np.inf), (0, 1))[1].any()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_whatever_a_model_says_its_row_is_on_the_simplex(n_classes, seed):
    rng = np.random.default_rng(seed)
    given = rng.choice([*HOSTILE, 0.3, 0.7], size=(3000, n_classes))
    steps = probability_steps(given)
    assert (steps >= 0).all()
    assert (steps.sum(axis=1) == OUTPUT_STEPS).all()


def test_a_row_that_is_no_distribution_is_taken_as_uniform():
    half = [OUTPUT_STEPS // 2, OUTPUT_STEPS // 2]
    for row in ([np.nan, 1], [0, 0], [-1, 2], [np.inf, 1], [1e308, 1e308]):
        assert probability_steps(np.array(row, dtype=float)).tolist() == half


def test_outputs_are_clipped_and_counted_from_the_lower_bound():
    given = np.array([-9.0, -1.0, 0.0, 0.5, 1.0, 9.0, np.inf, -np.inf])
    expected = np.array([0, 0, 0.5, 0.75, 1, 1, 1, 0]) * OUTPUT_STEPS
    assert output_steps(given, (-1, 1)).tolist() == expected.tolist()


def test_an_output_that_is_no_number_is_taken_as_the_middle():
    assert output_steps(np.array([np.nan]), (3, 5)).tolist() == [OUTPUT_STEPS // 2]


@pytest.mark.parametrize("bounds", [(-1e308, 1e308), (0, 1e-323), (1, 1 + 2**-52)])
def test_extreme_bounds_stay_on_the_grid(bounds):
    low, high = bounds
    steps = output_steps(np.array([*HOSTILE, low, high]), bounds)
    assert ((steps >= 0) & (steps <= OUTPUT_STEPS)).all()
    assert steps[-2:].tolist() == [0, OUTPUT_STEPS]


@pytest.mark.parametrize(
    "bounds", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (-np.inf, 0), (0, 5e-324)]
)
def test_bounds_that_are_none_are_refused(bounds):
    with pytest.raises(InvalidParameterError, match="bounds"):
        check_bounds(bounds)
