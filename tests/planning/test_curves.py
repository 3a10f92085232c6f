"""Estimates: the laws are the mechanisms', the votes a Beta-binomial mixture."""

import numpy as np
import pytest
from scipy.stats import betabinom

from reticent.mechanisms import average_vote, geometric_vote, soft_vote
from reticent.planning import curves
from tests.stats import rejects


def exact_right(law, shards, epsilon, labels=2):
    """Chance of label 0 for 0..shards right votes, from the mechanism itself."""
    votes = np.zeros((shards + 1, labels), dtype=np.int64)
    votes[:, 0] = np.arange(shards + 1)
    votes[:, 1] = shards - votes[:, 0]
    return law(votes, epsilon).probabilities[:, 0]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("shards", [1, 9, 55])
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 6.0])
def test_estimates_use_the_mechanisms_own_laws(shards, epsilon):
    geometric = curves.geometric_right(shards, epsilon)
    close(geometric, exact_right(geometric_vote, shards, epsilon))
    close(
        curves.average_right(shards, epsilon),
        exact_right(average_vote, shards, epsilon),
    )
    for labels in (2, 3, 10):
        close(
            curves.soft_right(shards, epsilon, labels),
            exact_right(soft_vote, shards, epsilon, labels),
        )
    # Negative control: a forgotten half.
    soft = exact_right(soft_vote, shards, epsilon)
    assert rejects(close, curves.soft_right(shards, 2 * epsilon, 2), soft)


def test_votes_are_a_mixture_of_the_hopeless_and_a_beta_binomial():
    limit, excess = 0.1, 0.05
    weights = curves.vote_weights(21, limit, excess)
    wrong = excess / (1 - limit)
    law = betabinom(21, 2 * (1 - wrong), 2 * wrong).pmf(np.arange(22)) * (1 - limit)
    law[0] += limit
    close(weights, law)
    mean = 1 - weights @ np.arange(22) / 21
    assert mean == pytest.approx(limit + excess)


def test_a_learning_curve_falls_to_its_limit_and_starts_at_chance():
    errors = [curves.learning_excess(m, 0.6, 0.2) for m in (1, 60, 1000, 10**6)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == 0.2
    assert errors[1] == pytest.approx(0.08)
    assert errors[-1] < 0.001


def test_noise_ends_at_chance():
    assert curves.noisy_error(0.1, 0.3, 0.001) == pytest.approx(0.101, abs=1e-4)
    assert curves.noisy_error(0.1, 0.3, 50) == pytest.approx(0.3)
    assert curves.noisy_error(0.3, 0.3, 1.0) == 0.3
