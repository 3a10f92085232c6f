"""Bounds: against formulas written a second time; sizes against their own inverse."""

import math

import pytest

from benchmarks.studies import theorem_sizes as sizes
from reticent.hypotheses import Thresholds
from reticent.planning import bounds


def test_sizes_of_a_vote_are_those_of_the_theorem():
    family = Thresholds()
    error, failure, epsilon = 0.2, 0.1, 0.5
    shards, n = sizes.vote_sizes(family, error, failure, epsilon)
    assert shards == math.ceil(6 * math.log(4 / error) / epsilon)
    m = n // shards

    def enough(rows):
        labelings = family.growth(2 * rows)
        return 2 * labelings * 2 ** (-error / 4 * rows / 2) <= failure / shards

    assert enough(m)
    assert not enough(m - 1)


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


@pytest.mark.parametrize("n", [100, 10_000])
def test_the_uniform_gap_is_that_of_vapnik_and_chervonenkis(n):
    family = Thresholds()
    gap = bounds.uniform_gap(family, n, 0.05)
    chance = 4 * family.growth(2 * n) * math.exp(-n * gap**2 / 8)
    assert chance == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_the_excess_of_a_stable_minimiser_is_penalty_stability_and_noise(epsilon):
    lipschitz, radius, n = 1.3, 2.0, 500
    weight = 2 * lipschitz / (radius * math.sqrt(n * epsilon / (1 + epsilon)))
    penalty = weight / 2 * radius**2
    stability = 2 * lipschitz**2 / (weight * n)
    expected = penalty + stability + stability / epsilon
    found = bounds.erm_excess_loss(lipschitz, radius, n, epsilon, 0.0)
    assert found == pytest.approx(expected, rel=1e-12)
    more = bounds.erm_excess_loss(lipschitz, radius, n, epsilon, 0.01)
    assert more == pytest.approx(1.01 * expected, rel=1e-12)


def test_a_cover_s_bound_is_the_sum_of_its_steps():
    family, n, points, epsilon, failure = Thresholds(), 10**6, 900, 0.7, 0.01
    net = bounds.net_error(family, points)
    chance = 2 * family.growth(2 * points) ** 2 * 2 ** (-net * points / 2)
    assert chance == pytest.approx(net, rel=1e-6)
    chosen = 2 * math.log(family.growth(points)) / (epsilon * n)
    gap = 2 * bounds.uniform_gap(family, n, failure)
    found = bounds.cover_bound(family, n, points, epsilon, failure)
    assert found == pytest.approx(2 * net + chosen + gap, rel=1e-9)
