"""Consensus answers: stability moves by one, delta covers the actual noise (P9)."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest

from reticent.errors import BudgetExhaustedError, InvalidDataError
from reticent.guarantees import ApproxDP, Scope, recheck
from reticent.mechanisms import (
    UNSTABLE,
    Consensus,
    SeededSource,
    SystemSource,
    consensus_certificate,
    consensus_delta,
    consensus_margin,
    discrete_laplace_law,
    false_stability,
    sparse_scale,
    stability,
)
from tests.mechanisms.neighbours import moves, profiles
from tests.mechanisms.test_sparse import passes
from tests.stats import assert_rate


@pytest.mark.parametrize(("n_labels", "voters"), [(2, 9), (2, 10), (3, 8), (4, 6)])
def test_one_vote_moves_stability_by_one_and_never_a_stable_plurality(n_labels, voters):
    for votes in profiles(n_labels, voters):
        here = stability([votes])[0]
        for moved in moves(votes):
            assert abs(stability([moved])[0] - here) <= 1
            if here >= 1:
                assert np.argmax(moved) == np.argmax(votes)


def test_the_gap_itself_is_too_sensitive():
    assert abs((5 - 1) - (4 - 2)) == 2  # one vote moves the gap by two


def brute_force(scale, margin):
    """Sum Pr[nu - rho > margin] over both noises."""
    reach = int(80 * scale) + margin + 50
    k = np.arange(-reach, reach + 1)
    rho = np.exp(discrete_laplace_law(k, scale))
    return float((rho * passes(0, margin + k, 2 * scale)).sum())


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("margin", [1, 2, 5, 40])
def test_false_stability_covers_the_noise(scale, margin):
    bound, actual = false_stability(scale, margin), brute_force(scale, margin)
    w, s = margin, scale
    continuous = (4 * math.exp(-w / (2 * s)) - math.exp(-w / s)) / 6
    assert bound >= actual
    assert bound >= continuous
    assert bound == pytest.approx(max(actual, continuous), rel=1e-9)


@pytest.mark.parametrize("scale", [5.0, 50.0])
def test_passing_strictly_stays_below_the_continuous_formula(scale):
    for margin in (1, 10, 100):
        w, s = margin, scale
        continuous = (4 * math.exp(-w / (2 * s)) - math.exp(-w / s)) / 6
        assert 0.8 * continuous < brute_force(scale, margin) <= continuous
        # Passing with equality, too, would exceed what the formula promises.
        assert brute_force(scale, margin - 1) > continuous


def test_noise_passes_as_often_as_computed(seed):
    source, rows = SeededSource(seed), [[2, 2]] * 1
    passed = 0
    for _ in range(1_500):
        consensus = Consensus(3, epsilon=2.0, unstable=1, queries=1, source=source)
        passed += consensus.answer(rows)[0] != UNSTABLE
    assert_rate(passed, 1_500, brute_force(sparse_scale(2.0, 1), 3))


def answer_law(votes, margin, scale):
    """Return the law of one answer: each label, then `UNSTABLE`."""
    u = int(stability([votes])[0])
    reach = int(80 * scale) + 50
    k = np.arange(-reach, reach + 1)
    rho = np.exp(discrete_laplace_law(k, scale))
    stable = float((rho * passes(u, margin + k, 2 * scale)).sum())
    law = np.zeros(len(votes) + 1)
    law[np.argmax(votes)] = stable
    law[-1] = 1 - stable
    return law


@pytest.mark.parametrize("margin", [2, 6])
def test_no_neighbour_moves_an_answer_beyond_epsilon_and_delta(margin):
    epsilon, scale = 1.5, sparse_scale(1.5, 1)
    delta = consensus_delta(margin=margin, epsilon=epsilon, unstable=1, queries=1)
    worst = 0.0
    for votes in profiles(3, 7):
        for moved in moves(votes):
            first = answer_law(votes, margin, scale)
            second = answer_law(moved, margin, scale)
            excess = np.maximum(first - np.exp(epsilon) * second, 0).sum()
            worst = max(worst, excess)
    assert 0.5 * delta < worst <= delta


def test_margin_is_the_smallest_that_suffices():
    settings = {"epsilon": 1.0, "unstable": 5, "queries": 1_000}
    margin = consensus_margin(delta=1e-6, **settings)
    assert consensus_delta(margin=margin, **settings) <= 1e-6
    assert consensus_delta(margin=margin - 1, **settings) > 1e-6


def test_agreement_is_answered_and_disagreement_is_not():
    consensus = Consensus(
        50, epsilon=5.0, unstable=3, queries=100, source=SystemSource()
    )
    rows = [[10_000, 0, 0]] * 5 + [[0, 0, 10_000]] * 5 + [[5_000, 5_000, 0]]
    answers = consensus.answer(rows)
    assert answers.tolist() == [0] * 5 + [2] * 5 + [UNSTABLE]
    assert consensus.unstable_left == 2
    assert consensus.queries_left == 89


def test_answering_stops_when_either_budget_is_used():
    consensus = Consensus(50, epsilon=5.0, unstable=2, queries=4, source=SystemSource())
    assert len(consensus.answer([[10_000, 0]] * 9)) == 4
    with pytest.raises(BudgetExhaustedError, match="queries"):
        consensus.answer([[10_000, 0]])
    consensus = Consensus(
        50, epsilon=5.0, unstable=2, queries=40, source=SystemSource()
    )
    assert consensus.answer([[3, 3]] * 9).tolist() == [UNSTABLE] * 2
    with pytest.raises(BudgetExhaustedError, match="positives"):
        consensus.answer([[3, 3]])


def test_a_resumed_consensus_has_no_more_than_was_left():
    consensus = Consensus(
        50, epsilon=5.0, unstable=3, queries=10, source=SystemSource()
    )
    consensus.answer([[10_000, 0]] * 4)
    state = json.loads(json.dumps(consensus.state()))
    again = Consensus.resume(state, SystemSource())
    assert again.queries_left == 6
    assert again.unstable_left == 2
    assert again.margin == 50
    with pytest.raises(ValueError, match="state"):
        Consensus.resume({}, SystemSource())
    with pytest.raises(ValueError, match="asked"):
        Consensus.resume({**state, "asked": 11}, SystemSource())


@pytest.mark.parametrize("twice", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copy_asks_as_many_queries_again(twice):
    consensus = Consensus(
        50, epsilon=5.0, unstable=3, queries=10, source=SystemSource()
    )
    with pytest.raises(InvalidDataError, match="two copies"):
        twice(consensus)


def test_certificate_is_for_all_answers():
    certificate = consensus_certificate(
        n=1_000, margin=300, epsilon=1.0, unstable=2, queries=500
    )
    assert certificate.scope is Scope.INTERFACE
    s = 4.0
    formula = 500 * (4 * math.exp(-300 / (2 * s)) - math.exp(-300 / s)) / 6
    assert isinstance(certificate.guarantee, ApproxDP)
    assert certificate.guarantee.delta == pytest.approx(formula, rel=1e-9, abs=0.0)
    recheck(certificate)
    with pytest.raises(ValueError, match="margin"):
        consensus_certificate(n=10, margin=1, epsilon=0.1, unstable=2, queries=500)
