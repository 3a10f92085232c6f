"""Sorting once gives the same answers as never sorting."""

import numpy as np
import pytest

from reticent.errors import InvalidDataError
from reticent.hypotheses import Intervals, SortedColumns, Stumps, Tally, Thresholds


def instance(rng, n_rows, d, n_values=9):
    X = rng.integers(0, n_values, size=(n_rows, d)).astype(float)
    return X, rng.integers(0, 2, n_rows), rng.integers(-4, 5, n_rows)


@pytest.mark.parametrize("family", [Stumps(3), Thresholds("either"), Intervals(3)])
def test_presorted_data_and_tallies_count_the_same_mistakes(family, seed):
    rng = np.random.default_rng(seed)
    d = 3 if isinstance(family, Stumps) else 1
    for _ in range(60):
        X, y, weights = instance(rng, rng.integers(1, 60), d)
        public, _, _ = instance(rng, rng.integers(1, 12), d, 12)
        projection = family.project(public)
        expected = [int(weights[family.predict(h, X) != y].sum()) for h in projection]
        presorted = family.presort(X)
        assert isinstance(presorted, SortedColumns)
        assert projection.mistakes(X, y, weights).tolist() == expected
        assert projection.mistakes(presorted, y, weights).tolist() == expected
        tally = presorted.tally(y, weights)
        assert isinstance(tally, Tally)
        assert projection.mistakes(tally).tolist() == expected
        assert family.minimise(presorted, y, weights) == family.minimise(X, y, weights)


def test_integer_counts_are_exact_where_floats_would_round():
    X, y = np.arange(4.0), [0, 0, 0, 0]
    weights = [2**51, 1, -(2**50), 1]
    counted = Thresholds().project(X).mistakes(X, y, weights)
    assert counted.dtype == np.int64
    assert counted.tolist() == [0, 2**50 + 2, 2 - 2**50, 1 - 2**50, 1]


def test_a_tally_takes_no_second_labels():
    tally = Thresholds().presort([1.0, 2.0]).tally([0, 1])
    projection = Thresholds().project([1.0])
    with pytest.raises(InvalidDataError, match="already"):
        projection.mistakes(tally, [0, 1])
    with pytest.raises(InvalidDataError, match="needs y"):
        projection.mistakes(Thresholds().presort([1.0, 2.0]))
    with pytest.raises(InvalidDataError, match="needs y"):
        projection.mistakes([1.0, 2.0])


def test_stumps_refuse_a_tally_of_other_features():
    tally = Stumps().presort([[1.0, 2.0]]).tally([0])
    with pytest.raises(InvalidDataError, match="2 features"):
        Stumps().project([[1.0]]).mistakes(tally)


def test_many_representatives_are_counted_at_once(seed):
    rng = np.random.default_rng(seed)
    X, y, weights = instance(rng, 500, 1, 10_000)
    projection = Intervals(2, "0").project(np.arange(1_500.0))
    assert len(projection) == 1 + 1_500 + 1_500 * 1_499 // 2
    counted = projection.mistakes(X, y, weights)
    for index in rng.integers(len(projection), size=50):
        labels = Intervals(2, "0").predict(projection[int(index)], X)
        assert counted[index] == weights[labels != y].sum()
