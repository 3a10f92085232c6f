"""Unions of intervals on lines too long for brute force."""

import numpy as np
import pytest

from reticent.hypotheses import Intervals, Thresholds


def least_cost(X, y, weights, k, start):
    """The textbook dynamic program, one value and one label at a time."""
    inf = float("inf")
    first, *rest = (value == X for value in np.unique(X))
    paid = {}
    for label in (0, 1):
        used = int(start not in ("either", str(label)))
        paid[label, used] = weights[first & (y != label)].sum()
    for here in rest:
        paid = {
            (label, used): weights[here & (y != label)].sum()
            + min(paid.get((label, used), inf), paid.get((1 - label, used - 1), inf))
            for label in (0, 1)
            for used in range(k + 1)
        }
    return min(total for (_, used), total in paid.items() if used <= k)


@pytest.mark.parametrize("start", ["either", "0", "1"])
@pytest.mark.parametrize("k", [0, 1, 2, 4, 9, 30])
def test_sweeps_agree_with_the_textbook(k, start, seed):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        n_points = int(rng.integers(1, 80))
        X = rng.integers(0, 50, n_points)
        y, weights = rng.integers(0, 2, n_points), rng.integers(-4, 5, n_points)
        found = Intervals(k, start).minimise(X, y, weights)
        assert found.value == least_cost(X, y, weights, k, start)
        assert len(found.hypothesis.ends) <= k
        assert start in ("either", str(found.hypothesis.start))
        wrong = Intervals(k, start).predict(found.hypothesis, X) != y
        assert found.value == weights[wrong].sum()


@pytest.mark.parametrize(
    ("start", "direction"), [("0", "up"), ("1", "down"), ("either", "either")]
)
def test_one_end_is_a_threshold(start, direction, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 20, 40), rng.integers(0, 2, 40)
    one, other = Intervals(1, start), Thresholds(direction)
    assert one.growth(points=X) == other.growth(points=X)
    assert one.vc_dimension == other.vc_dimension
    assert one.minimise(X, y).value == other.minimise(X, y).value
    assert (one.project(X).labels == other.project(X).labels).all()


def test_enough_ends_leave_no_mistake(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.permutation(60), rng.integers(0, 2, 60)
    changes = int((np.diff(y[np.argsort(X)]) != 0).sum())
    assert Intervals(changes).minimise(X, y).value == 0
    assert len(Intervals(59).minimise(X, y).hypothesis.ends) == changes
    assert Intervals(changes - 1).minimise(X, y).value > 0
