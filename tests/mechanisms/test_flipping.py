"""Flipped labels: the certified epsilon holds and is attained, and draws follow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reticent.guarantees import (
    ApproxDP,
    ReplaceOne,
    Scope,
    UniformStability,
    claim,
    flip_private,
    flip_stable,
    replace_stable,
)
from reticent.mechanisms import (
    SeededSource,
    SoftmaxResponse,
    flip_labels,
    flipped,
    replace_labels,
    replaced,
    soft_vote,
)
from tests.stats import assert_follows, mutant, rejects


def certified(guarantee):
    return claim(guarantee, ReplaceOne(10), Scope.ANSWER, statement="by construction")


def law_of(*probabilities):
    """Return a response with (nearly) these probabilities."""
    return SoftmaxResponse(np.log(np.array([probabilities], dtype=float)))


@pytest.mark.parametrize("p", [0.01, 0.25, 0.4])
@pytest.mark.parametrize("gamma", [0.05, 0.3, 1.0])
def test_flipping_a_stable_label_is_private(p, gamma):
    epsilon = flip_stable(certified(UniformStability(gamma)), p=p).guarantee.epsilon
    tiny = 1e-12
    worst = 0.0
    for a in np.linspace(tiny, 1 - tiny, 101):
        for b in {max(tiny, a - gamma), min(1 - tiny, a + gamma)}:
            first = flipped(law_of(1 - a, a), p).log_probabilities
            second = flipped(law_of(1 - b, b), p).log_probabilities
            worst = max(worst, np.abs(first - second).max())
    assert 0.99 * epsilon <= worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("n_labels", [2, 3, 10])
@pytest.mark.parametrize("gamma", [0.1, 0.9])
def test_replacing_a_stable_label_is_private(n_labels, gamma):
    p = 0.2
    epsilon = replace_stable(
        certified(UniformStability(gamma)), p=p, labels=n_labels
    ).guarantee.epsilon
    tiny = 1e-13
    # The worst pair moves gamma from one label to an impossible one.
    start = [1 - (n_labels - 1) * tiny] + [tiny] * (n_labels - 1)
    moved = [start[0] - gamma, tiny + gamma, *start[2:]]
    losses = [replaced(law_of(*law), p).log_probabilities[0] for law in (start, moved)]
    worst = np.abs(losses[0] - losses[1]).max()
    assert 0.99 * epsilon <= worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("p", [0.05, 0.3])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.1), (0.0, 0.2)])
def test_flipping_a_private_label_is_purely_private(p, epsilon, delta):
    after = flip_private(certified(ApproxDP(epsilon, delta)), p=p).guarantee.epsilon
    grid = np.linspace(1e-9, 1 - 1e-9, 401)
    a, b = np.meshgrid(grid, grid)
    tolerance = 1e-12
    private = (a <= np.exp(epsilon) * b + delta + tolerance) & (
        1 - a <= np.exp(epsilon) * (1 - b) + delta + tolerance
    )
    private &= private.T
    loss = np.abs(np.log(p + (1 - 2 * p) * a) - np.log(p + (1 - 2 * p) * b))
    worst = loss[private].max()
    assert 0.98 * after <= worst <= after * (1 + 1e-9)


def test_flipping_loses_less_than_the_base():
    base, moved = soft_vote([[1, 4]], 2.0), soft_vote([[2, 3]], 2.0)
    before = np.abs(base.log_probabilities - moved.log_probabilities).max()
    after = np.abs(
        flipped(base, 0.3).log_probabilities - flipped(moved, 0.3).log_probabilities
    ).max()
    assert after < before


def test_law_agrees_with_intervals():
    for response in (
        flipped(soft_vote([[1, 4]], 2.0), 0.1),
        replaced(soft_vote([[1, 4, 0]], 2.0), 0.1),
    ):
        for (low, high), log in zip(
            response.exact(0), response.log_probabilities[0], strict=True
        ):
            assert high - low <= Fraction(1, 2**64)
            assert float(low) == pytest.approx(log, abs=1e-12)
        assert response.probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("p", [0.1, 0.45])
def test_flips_have_their_probability(p, seed):
    flips = flip_labels(np.ones(1_000_000, dtype=int), p, SeededSource(seed))
    counts = np.bincount(flips, minlength=2)
    law = np.array([p, 1 - p])
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


def test_replacements_are_uniform(seed):
    drawn = replace_labels(np.full(1_000_000, 2), 0.3, SeededSource(seed), n_labels=3)
    counts, law = np.bincount(drawn, minlength=3), np.array([0.1, 0.1, 0.8])
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


@pytest.mark.parametrize("wrap", [flipped, replaced])
def test_responses_draw_their_law(wrap, seed):
    response = wrap(soft_vote(np.tile([1, 2], (500_000, 1)), 1.0), 0.2)
    counts = np.bincount(response.draw(SeededSource(seed)), minlength=2)
    law = wrap(soft_vote([[1, 2]], 1.0), 0.2).probabilities[0]
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))
