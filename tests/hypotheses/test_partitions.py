"""Splits by different features are told apart exactly."""

import numpy as np
import pytest

from reticent.hypotheses import Stumps
from reticent.hypotheses.oracles.partitions import distinct_splits, fingerprints
from reticent.hypotheses.oracles.points import distinct_rows


def reference(points):
    """The first feature and size of every split, by comparing sets."""
    found = {}
    for feature, column in enumerate(points.T):
        for cut in np.unique(column)[1:]:
            below = frozenset(np.flatnonzero(column < cut).tolist())
            above = frozenset(range(len(points))) - below
            key = frozenset([below, above])
            found.setdefault(key, (feature, len(below), float(cut)))
    return sorted(found.values())


def listed(splits):
    rows = zip(splits.feature, splits.size, splits.cut, strict=True)
    return [(int(f), int(s), float(c)) for f, s, c in rows]


def related_features(rng, n_points, d):
    """Features that repeat, reverse and almost agree with one another."""
    base = rng.permutation(n_points).astype(float)
    columns = []
    for _ in range(d):
        kind = rng.integers(4)
        column = base.copy() if kind < 2 else rng.permutation(n_points).astype(float)
        column = -column if kind % 2 else column
        swap = rng.integers(n_points, size=2)
        column[swap] = column[swap[::-1]]
        columns.append(np.floor(column / rng.integers(1, 4)))
    return np.column_stack(columns)


@pytest.mark.parametrize("words", [None, 1, 0], ids=["mixed", "alike", "void"])
def test_splits_are_those_of_sets(words, seed):
    rng = np.random.default_rng(seed)
    for _ in range(150):
        X = related_features(rng, int(rng.integers(1, 15)), int(rng.integers(1, 7)))
        points, _ = distinct_rows(X)
        # Fingerprints that all agree name every split of one size alike; those that are
        # zero, all splits.
        colliding = None if words is None else np.full(len(points), words, np.uint64)
        assert listed(distinct_splits(points, colliding)) == reference(points)


def test_fingerprints_differ():
    words = fingerprints(100_000)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == len(words)
    # The first words of splitmix64 from state 0, as published with the generator.
    assert hex(int(words[0])) == "0xe220a8397b1dcdaf"


def test_equal_and_opposite_features_add_no_labeling(seed):
    column = np.random.default_rng(seed).normal(size=(40, 1))
    one = Stumps().project(column)
    many = Stumps().project(np.hstack([column, -column, 2 * column + 1]))
    assert len(one) == len(many) == 80
    assert (many.hypotheses["feature"] == 0).all()


def test_constant_features_add_no_labeling():
    X = np.column_stack([np.arange(5.0), np.zeros(5)])
    assert Stumps().growth(points=X) == Stumps().growth(points=X[:, :1]) == 10
