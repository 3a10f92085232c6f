"""Bounds: against formulas written down anew, and sizes against their own inverse."""

import math

import pytest

from reticent.hypotheses import Thresholds
from reticent.planning import bounds


def sauer(d, m):
    """Labelings of m points by a class of dimension d, at most."""
    return sum(math.comb(m, i) for i in range(d + 1))


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize("m", [1, 5, 40, 1000])
def test_a_class_known_by_its_dimension_has_at_least_sauers_labelings(d, m):
    bound = bounds.log_growth(bounds.AnyOfDimension(d), m)
    assert bound >= math.log(sauer(d, m)) - 1e-9
    assert bound <= m * math.log(2) * 1.0001 or m > d


def test_sizes_of_a_vote_are_those_of_the_theorem():
    family = Thresholds()
    error, failure, epsilon = 0.2, 0.1, 0.5
    shards, n = bounds.vote_sizes(family, error, failure, epsilon)
    assert shards == math.ceil(6 * math.log(4 / error) / epsilon)
    m = n // shards

    def enough(rows):
        labelings = family.growth(2 * rows)
        return 2 * labelings * 2 ** (-error / 4 * rows / 2) <= failure / shards

    assert enough(m)
    assert not enough(m - 1)


@pytest.mark.parametrize("n", [3_000, 100_000, 10**7])
def test_the_error_for_n_rows_inverts_the_rows_for_an_error(n):
    family = bounds.AnyOfDimension(3)
    for error_of, sizes in (
        (bounds.vote_error, bounds.vote_sizes),
        (bounds.average_error, bounds.average_sizes),
    ):
        error = error_of(family, n, 1.0, 0.05)
        if error < 1:
            assert sizes(family, error * (1 + 1e-6), 0.05, 1.0)[1] <= n
            assert sizes(family, error * (1 - 1e-6), 0.05, 1.0)[1] > n


def test_the_walks_error_solves_its_inequality():
    error = bounds.walk_error(1, 5_000, 1.0)
    reach = math.ceil(2 * math.log(2 / error))
    assert 6 * reach / error <= 5_000 * (1 + 1e-6)
    assert bounds.walk_size(1, error * 0.999, 1.0) > 5_000


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_the_lower_bound_is_that_of_stable_prediction(epsilon, delta):
    gamma = (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)
    expected = 9 / (8 * gamma * 500)
    assert bounds.lower_bound(10, 500, epsilon, delta) == pytest.approx(expected)


def test_a_cover_pays_for_its_size():
    family = Thresholds()
    few, many = (bounds.cover_bound(family, 10**6, m, 1.0, 0.05) for m in (100, 2000))
    assert many < few
    assert bounds.cover_bound(family, 10**6, 2000, 0.1, 0.05) > many
