"""Answers from a walk: two steps cost epsilon, one step half of it or less (P4)."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.guarantees import AddRemove, ReplaceOne, recheck
from reticent.mechanisms import (
    SeededSource,
    sigmoid_certificate,
    sigmoid_response,
    two_step_certificate,
    two_step_response,
)
from tests.mechanisms.neighbours import assert_loses_at_most, worst_loss, worst_range
from tests.stats import assert_follows, mutant, rejects

BOUND = 7


def steps(most):
    positions = range(-BOUND, BOUND + 1)
    return [(v, w) for v in positions for w in positions if 0 < abs(v - w) <= most]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_two_step_loses_epsilon_in_two_steps(epsilon):
    bounds = worst_loss(lambda v: two_step_response(v, epsilon, bound=BOUND), steps(2))
    assert_loses_at_most(
        bounds, two_step_certificate(n=9, epsilon=epsilon).guarantee.epsilon
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_two_step_loses_less_in_one_step(epsilon):
    cost = two_step_certificate(n=None, epsilon=epsilon).guarantee.epsilon
    bounds = worst_loss(lambda v: two_step_response(v, epsilon, bound=BOUND), steps(1))
    assert_loses_at_most(bounds, cost)
    assert cost < epsilon


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_sigmoid_moves_odds_in_proportion(epsilon, most):
    n = 9 if most == 2 else None
    cost = sigmoid_certificate(n=n, epsilon=epsilon).guarantee.epsilon
    bounds = worst_range(
        lambda v: sigmoid_response(v, epsilon, bound=BOUND), steps(most)
    )
    assert_loses_at_most(bounds, cost)


def test_three_steps_are_caught():
    bounds = worst_loss(lambda v: two_step_response(v, 1.0, bound=BOUND), steps(3))
    assert rejects(assert_loses_at_most, bounds, 1.0)


def test_laws_are_the_formulas():
    positions = np.arange(-BOUND, BOUND + 1)
    law = two_step_response(positions, 0.8, bound=BOUND).probabilities
    far = np.abs(positions)
    even, odd = np.exp(-0.4 * far) / 2, np.exp(-0.4 * (far - 1)) / (1 + np.exp(0.8))
    assert law.min(axis=1) == pytest.approx(np.where(far % 2, odd, even), rel=1e-9)
    assert (law[positions > 0].argmax(axis=1) == 1).all()
    assert (law[positions < 0].argmax(axis=1) == 0).all()
    sigmoid = sigmoid_response(positions, 0.8, bound=BOUND).probabilities[:, 1]
    assert sigmoid == pytest.approx(1 / (1 + np.exp(-0.4 * positions)), rel=1e-9)
    assert (law.min(axis=1) <= np.minimum(sigmoid, 1 - sigmoid) + 1e-12).all()


@pytest.mark.parametrize("law", [sigmoid_response, two_step_response])
@pytest.mark.parametrize("position", [-3, 2, 0])
def test_draws_follow_the_law(law, position, seed):
    response = law(np.full(1_000_000, position), 1.1, bound=BOUND)
    expected = law([position], 1.1, bound=BOUND).probabilities[0]
    counts = np.bincount(response.draw(SeededSource(seed)), minlength=2)
    assert_follows(counts, expected)
    assert rejects(assert_follows, counts, mutant(expected))


def test_certificates_name_their_relation():
    for certify in (sigmoid_certificate, two_step_certificate):
        assert certify(n=9, epsilon=1.0).relation == ReplaceOne(9)
        assert certify(n=None, epsilon=1.0).relation == AddRemove()
        recheck(certify(n=None, epsilon=800.0))
