"""Halfspaces: enumeration, integer programs and their proofs."""

from itertools import product

import numpy as np
import pytest

from reticent.errors import SolverError
from reticent.hypotheses import Conjunctions, Halfspace, Halfspaces
from reticent.hypotheses.oracles.integer_programs import coarse_costs, require_proof
from reticent.hypotheses.oracles.separation import _hulls_meet
from tests.hypotheses import brute_force


def noisy(rng, n_points, d, noise=0.2):
    X = rng.normal(size=(n_points, d))
    y = (X @ rng.normal(size=d) > 0) ^ (rng.random(n_points) < noise)
    return X, y.astype(int), rng.integers(-2, 5, size=n_points)


@pytest.mark.parametrize(("d", "n_points"), [(1, 40), (2, 30), (3, 20)])
def test_integer_program_agrees_with_enumeration(d, n_points, seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        X, y, weights = noisy(rng, n_points, d)
        listed = Halfspaces(d, method="enumerate").minimise(X, y, weights)
        solved = Halfspaces(d, method="milp").minimise(X, y, weights)
        assert listed.value == solved.value
        assert listed.exact
        assert solved.exact


@pytest.mark.parametrize("d", [2, 3])
def test_integer_program_agrees_with_enumeration_on_a_grid(d, seed):
    # Many points on common hyperplanes: the master's labels must be cut off.
    rng = np.random.default_rng(seed)
    for _ in range(6):
        X = rng.integers(0, 3, size=(14, d)) / 10
        y, weights = rng.integers(0, 2, 14), rng.integers(-3, 4, 14)
        listed = Halfspaces(d, method="enumerate").minimise(X, y, weights)
        solved = Halfspaces(d, method="milp").minimise(X, y, weights)
        assert listed.value == solved.value


@pytest.mark.parametrize("d", [4, 5])
def test_integer_program_is_exact_in_many_dimensions(d, seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        X = rng.integers(0, 3, size=(d + 4, d))
        y, weights = rng.integers(0, 2, len(X)), rng.integers(-3, 4, len(X))
        expected = brute_force.halfspace_labelings(X)
        brute_force.assert_minimum(Halfspaces(d), X, y, weights, expected, first=False)


def test_separable_labels_need_no_integer_program(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 6))
    normal = rng.normal(size=6)
    y = (X @ normal > 0.3).astype(int)
    # A time limit that no integer program could keep.
    found = Halfspaces(6, time_limit=1e-9).minimise(X, y)
    assert found.value == 0
    assert Halfspaces(6, time_limit=1e-9).consistent(X, y) == found.hypothesis


def test_no_proof_in_time_is_an_error(seed):
    X, y, weights = noisy(np.random.default_rng(seed), 60, 5, noise=0.4)
    with pytest.raises(SolverError, match="time_limit"):
        Halfspaces(5, time_limit=0.01).minimise(X, y, weights)
    bits = (X > 0).astype(int)
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, size=(300, 24))
    y = rng.integers(0, 2, 300)
    with pytest.raises(SolverError, match="time_limit"):
        Conjunctions(method="milp", time_limit=0.01).minimise(bits, y)


def test_integer_program_gives_up_where_floats_cannot_tell():
    # 0.3 is not 3 * 0.1: these points are on no line, but only by a rounding error.
    almost, y = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]]), [1, 0, 1]
    assert Halfspaces(method="enumerate").minimise(almost, y).value == 0
    with pytest.raises(SolverError, match="degenerate"):
        Halfspaces(method="milp").minimise(almost, y)


def test_a_gap_is_not_a_proof():
    require_proof(7, 6.9999)
    with pytest.raises(SolverError, match="zero gap"):
        require_proof(7, 6.4)
    with pytest.raises(SolverError, match="zero gap"):
        require_proof(7, float("nan"))


def test_hulls_meet_only_if_they_do():
    square = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert _hulls_meet(square, np.array([True, True, False, False]))
    assert not _hulls_meet(square, np.array([True, False, False, True]))
    assert not _hulls_meet(square[:0], np.array([], dtype=bool))
    assert not _hulls_meet(square, np.array([True] * 4))
    # 0.3 is not 3 * 0.1: the middle point is off the segment by a rounding error.
    almost = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])
    assert not _hulls_meet(almost, np.array([True, False, True]))


def test_coarse_costs_keep_proportions():
    assert coarse_costs(np.array([0, 0]))[0].tolist() == [0, 0]
    reduced, exact = coarse_costs(np.array([3 * 2**40, -(2**40)]))
    assert (reduced.tolist(), exact) == ([3, -1], True)
    reduced, exact = coarse_costs(np.array([2**45 + 1, -(2**44)]))
    assert not exact
    assert np.abs(reduced).sum() <= 2**30 + 2
    assert abs(reduced[0] / reduced[1] + 2) < 1e-8


def test_weights_of_zero_leave_the_labels_free():
    X, y = np.eye(4), [0, 1, 0, 1]
    found = Halfspaces(4).minimise(X, y, np.zeros(4, dtype=int))
    assert found.value == 0
    assert isinstance(found.hypothesis, Halfspace)


def test_prediction_does_not_depend_on_the_batch(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2_000, 7))
    plane = Halfspace(tuple(rng.normal(size=7)), 0.1)
    # Points on the boundary up to rounding, where a sum in another order would differ.
    X[:, 6] = (0.1 - X[:, :6] @ np.array(plane.normal[:6])) / plane.normal[6]
    together = Halfspaces(7).predict(plane, X)
    apart = [Halfspaces(7).predict(plane, x[np.newaxis])[0] for x in X]
    assert together.tolist() == apart
    assert 0 < together.sum() < len(X)


@pytest.mark.parametrize("d", [2, 3])
def test_points_of_less_than_full_dimension_are_labelled_within_their_flat(d):
    # A line and a plane, tilted, inside more dimensions.
    line = np.outer(np.arange(5), np.arange(1, d + 1))
    assert Halfspaces(d).growth(points=line) == 10
    corners = np.array(list(product((0, 1), repeat=2)))
    flat = np.column_stack([corners, corners.sum(axis=1)])[:, :d]
    assert Halfspaces(d).growth(points=flat) == 14
    assert Halfspaces(d).growth(points=line[:1]) == 2


def test_large_point_sets_are_counted_right_in_blocks(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(14, 3)), rng.integers(0, 2, size=(6, 3))])
    Z = rng.normal(size=(30, 3))
    y = rng.integers(0, 2, 30)
    whole = Halfspaces().project(X)
    monkeypatch.setattr(
        "reticent.hypotheses.oracles.halfspace_cells._SIDES_AT_ONCE", 100
    )
    parts = Halfspaces().project(X)
    assert whole.hypotheses.tobytes() == parts.hypotheses.tobytes()
    assert (whole.mistakes(Z, y) == parts.mistakes(Z, y)).all()
    labels = parts.predict(Z)
    assert (parts.mistakes(Z, y) == (labels != y).sum(axis=1)).all()
