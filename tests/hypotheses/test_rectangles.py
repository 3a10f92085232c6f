"""Rectangles beyond what brute force over subsets can reach."""

import numpy as np
import pytest

from reticent.hypotheses import Rectangle, Rectangles


def least_cost(X, y, weights):
    """Try every pair of columns and of rows."""
    best = int(weights[y == 1].sum())
    xs, ys = np.unique(X[:, 0]), np.unique(X[:, 1])
    for i, left in enumerate(xs):
        for right in xs[i:]:
            wide = (X[:, 0] >= left) & (X[:, 0] <= right)
            for j, bottom in enumerate(ys):
                for top in ys[j:]:
                    inside = wide & (X[:, 1] >= bottom) & (X[:, 1] <= top)
                    best = min(best, int(weights[inside != y].sum()))
    return best


@pytest.mark.parametrize("nodes", [None, 50], ids=["at once", "in blocks"])
def test_sweep_finds_the_least_cost(nodes, seed, monkeypatch):
    if nodes is not None:
        monkeypatch.setattr(
            "reticent.hypotheses.oracles.cheapest_box._NODES_AT_ONCE", nodes
        )
    rng = np.random.default_rng(seed)
    for _ in range(15):
        n_points, values = rng.integers(5, 40), rng.integers(2, 12)
        X = rng.integers(0, values, size=(n_points, 2))
        y, weights = rng.integers(0, 2, n_points), rng.integers(-3, 4, n_points)
        found = Rectangles().minimise(X, y, weights)
        assert found.value == least_cost(X, y, weights)
        wrong = Rectangles().predict(found.hypothesis, X) != y
        assert found.value == weights[wrong].sum()


def test_sweep_agrees_with_the_list_of_all_labelings(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        X = rng.normal(size=(25, 2))
        y, weights = rng.integers(0, 2, 25), rng.normal(size=25)
        projection = Rectangles().project(X)
        values = projection.mistakes(X, y, weights)
        found = Rectangles().minimise(X, y, weights)
        assert found.hypothesis == projection[int(np.argmin(values))]
        assert found.value == values.min()


def test_empty_rectangle_is_preferred_and_known():
    found = Rectangles().minimise([[0, 0], [1, 1]], [0, 0])
    assert found.hypothesis.is_empty
    assert Rectangles().predict(found.hypothesis, [[0.5, 0.5]]).tolist() == [0]
    assert not Rectangle(0.0, 0.0, 1.0, 1.0).is_empty
