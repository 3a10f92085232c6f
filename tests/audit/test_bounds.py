"""Black-box bounds: sound for right mechanisms, sharp for broken ones."""

import numpy as np
import pytest

from reticent.audit import (
    LowerBound,
    OneRun,
    epsilon_at_least,
    lower_bound,
    trials_needed,
)
from reticent.errors import InvalidParameterError
from reticent.mechanisms import SystemSource, geometric_vote, soft_vote
from tests.stats import ALPHA, assert_rate_at_most

SOURCE = SystemSource()


def vote(rule, epsilon):
    def mechanism(votes):
        return int(rule([votes], epsilon).draw(SOURCE)[0])

    return mechanism


def test_a_broken_vote_is_refuted():
    doubled = vote(soft_vote, 2.0)  # exp(votes) where exp(votes / 2) was meant
    found = lower_bound(doubled, [3, 2], [2, 3], trials=3000)
    honest = lower_bound(vote(soft_vote, 1.0), [3, 2], [2, 3], trials=3000)
    assert not honest.refutes(1.0)
    assert found.epsilon > honest.epsilon
    # Its loss is 2, exactly, so the level is what keeps it from being accused.
    tight = lower_bound(
        vote(geometric_vote, 2.0), [3, 2], [2, 3], trials=3000, confidence=1 - ALPHA
    )
    assert tight.refutes(1.0)
    assert not tight.refutes(2.0)


def test_the_bound_is_sound_over_many_audits():
    rng = np.random.default_rng(0)
    wrong, audits, epsilon = 0, 400, 1.0
    flip = 1 / (1 + np.exp(epsilon))
    for _ in range(audits):
        hits = rng.binomial(500, 1 - flip)
        others = rng.binomial(500, flip)
        wrong += epsilon_at_least(hits, others, 500, level=0.05) > epsilon
    assert_rate_at_most(wrong, audits, 0.05)


def test_choosing_and_testing_on_the_same_samples_is_not_sound():
    # The control: the same mechanism on the same data, many outcomes, and an event
    # picked on the samples that then test it, looks like a large loss.
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 400, (2, 400))
    counts = np.stack([np.bincount(s, minlength=400) for s in (left, right)])
    event = counts[0] > counts[1]
    naive = epsilon_at_least(
        int(counts[0, event].sum()), int(counts[1, event].sum()), 400, level=0.001
    )
    samples = iter([*left, *right])
    sound = lower_bound(lambda _: int(next(samples)), 0, 1, trials=400)
    assert naive > 0.5
    assert sound.epsilon == 0.0


def test_where_all_outcomes_differ_nothing_is_said():
    # It releases everything, in a way that no sample shows: each outcome comes once.
    found = lower_bound(lambda data: (data, SOURCE.bytes(16)), 0, 1, trials=500)
    assert found.powerless
    assert (found.epsilon, found.ceiling) == (0.0, 0.0)
    assert not found.refutes(0.0)
    assert "nothing can be said" in str(found)
    assert "epsilon >=" not in str(found)
    assert "confidence" not in str(found)


def test_what_could_have_been_found_is_said():
    def same(data):
        return int(soft_vote([[1, 1]], 1.0).draw(SOURCE)[0])

    found = lower_bound(same, 0, 1, trials=500, confidence=1 - ALPHA)
    assert not found.powerless
    assert found.epsilon == 0.0
    most = epsilon_at_least(350, 0, 350, level=ALPHA / 2)
    assert found.ceiling == pytest.approx(most)
    assert "no loss was found" in str(found)
    # The control: a program that reveals all reaches the ceiling.
    shown = lower_bound(lambda data: data, 0, 1, trials=500, confidence=1 - ALPHA)
    assert shown.epsilon == pytest.approx(shown.ceiling)
    assert str(shown).startswith("epsilon >= ")


@pytest.mark.parametrize("epsilon", [0.99996, 1.00006, 0.5, 12.34567])
def test_a_printed_bound_is_never_larger_than_the_one_that_was_shown(epsilon):
    """Rounded to the nearest, 0.99996 would refute a claim of 1 that it does not."""
    two = LowerBound(epsilon, 0.0, 0.95, 100, (), 20.0)
    one = OneRun(epsilon, 0.0, 0.95, 10, 10, 9)
    for found in (two, one):
        printed = float(str(found).split()[2])
        assert epsilon * (1 - 1e-3) < printed <= epsilon


def test_a_delta_is_allowed_for():
    assert epsilon_at_least(10, 0, 1000, level=0.01, delta=0.5) == 0.0
    free = epsilon_at_least(900, 100, 1000, level=0.01)
    assert epsilon_at_least(900, 100, 1000, level=0.01, delta=0.2) < free
    assert 1.9 < free < np.log(9)


def test_the_planned_number_of_samples_refutes():
    needed = trials_needed(0.5, 1.0, rate=0.5)
    assert needed < trials_needed(0.9, 1.0, rate=0.5)
    rng = np.random.default_rng(1)
    refuted = 0
    for _ in range(60):
        n = int(needed * 0.7)
        hits, others = rng.binomial(n, 0.5), rng.binomial(n, 0.5 * np.exp(-1.0))
        refuted += epsilon_at_least(hits, others, n, level=0.0005) > 0.5
    assert refuted >= 50


def test_wrong_uses_are_named():
    with pytest.raises(InvalidParameterError, match="above claimed"):
        trials_needed(1.0, 1.0)
    with pytest.raises(ValueError, match="trials"):
        lower_bound(lambda x: x, 0, 1, trials=1)
    with pytest.raises(ValueError, match="confidence"):
        lower_bound(lambda x: x, 0, 1, confidence=1.0)
