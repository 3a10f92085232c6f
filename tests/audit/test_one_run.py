"""One-run audits: never above the truth, and near it where guesses can be good."""

import math

import numpy as np
import pytest
from scipy import stats

from reticent.audit import (
    canaries_needed,
    epsilon_of_guesses,
    one_run,
    one_run_p_value,
)
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.mechanisms import SystemSource, flip_labels
from tests.stats import assert_rate_at_most, rejects

SOURCE = SystemSource()


def answers(epsilon):
    """Randomized response to every coin: exactly epsilon-DP."""
    flip = 1 / (1 + math.exp(epsilon))
    return lambda coins: flip_labels(coins.astype(int), flip, SOURCE)


def found(epsilon, canaries=600, **settings):
    return one_run(answers(epsilon), lambda a: a, canaries, **settings)


def test_the_bound_nearly_reaches_the_truth():
    audit = found(2.0, 20_000)
    assert audit.epsilon > 1.6
    assert audit.refutes(1.0)
    assert "one run" in str(audit)


def test_it_is_sound_over_many_audits():
    audits = 400
    wrong = sum(found(1.0, 200, confidence=0.9).refutes(1.0) for _ in range(audits))
    assert_rate_at_most(wrong, audits, 0.1)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("guesses", [1, 7, 40])
def test_randomized_response_attains_the_tail(epsilon, guesses):
    chance = 1 / (1 + math.exp(-epsilon))
    for correct in range(guesses + 1):
        exact = sum(
            math.comb(guesses, k) * chance**k * (1 - chance) ** (guesses - k)
            for k in range(correct, guesses + 1)
        )
        value = one_run_p_value(correct, guesses, canaries=guesses, epsilon=epsilon)
        assert value == pytest.approx(exact, rel=1e-9)


def law_with_leaks(m, epsilon, delta, *, together):
    """The law of right guesses when coins are told with probability delta."""
    chance = 1 / (1 + math.exp(-epsilon))
    if together:
        law = (1 - delta) * stats.binom.pmf(np.arange(m + 1), m, chance)
        law[m] += delta
        return law
    return stats.binom.pmf(np.arange(m + 1), m, delta + (1 - delta) * chance)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_a_delta_is_paid_for_exactly(together, delta):
    m, epsilon = 30, 1.0
    tails = np.cumsum(law_with_leaks(m, epsilon, delta, together=together)[::-1])[::-1]
    for correct in range(m + 1):
        value = one_run_p_value(correct, m, canaries=m, epsilon=epsilon, delta=delta)
        assert tails[correct] <= value * (1 + 1e-9)
    # Leaving the delta out would not be sound.
    without = [
        one_run_p_value(correct, m, canaries=m, epsilon=epsilon)
        for correct in range(m + 1)
    ]
    assert (tails > np.array(without) * (1 + 1e-9)).any()


def test_guessing_only_the_clearest_helps():
    rng = np.random.default_rng(0)

    def release(coins):
        told = rng.random(len(coins)) < 0.1  # a tenth of the coins leaks outright
        return np.where(told, 2.0 * coins - 1, rng.normal(0, 0.01, len(coins)))

    few = one_run(release, lambda scores: scores, 2000, guesses=100)
    everything = one_run(release, lambda scores: scores, 2000)
    assert few.epsilon > 2.5 > 1.0 > everything.epsilon


def test_the_bound_is_the_first_claim_that_stands():
    for delta in (0.0, 1e-5):
        bound = epsilon_of_guesses(95, 100, confidence=0.99, delta=delta)
        claims = np.linspace(0, 8, 400)
        values = [
            one_run_p_value(95, 100, canaries=100, epsilon=claim, delta=delta)
            for claim in claims
        ]
        first = claims[np.array(values) > 0.01].min()
        assert first - claims[1] <= bound <= first
    assert epsilon_of_guesses(50, 100) == 0.0


def test_the_planned_number_of_guesses_refutes():
    # Half of the guesses must say True and half False. Of twice as many canaries there
    # are enough of either, so that each guess is as good as the plan takes it for.
    needed = canaries_needed(1.0, 2.0, power=0.95)
    missed = sum(
        not found(2.0, 2 * needed, guesses=needed).refutes(1.0) for _ in range(200)
    )
    assert_rate_at_most(missed, 200, 0.05)
    # The control: a plan that is content with little power misses too often.
    few = canaries_needed(1.0, 2.0, power=0.01)
    missed = sum(not found(2.0, 2 * few, guesses=few).refutes(1.0) for _ in range(200))
    assert rejects(assert_rate_at_most, missed, 200, 0.05)


def test_wrong_uses_are_named():
    with pytest.raises(InvalidParameterError, match="guesses=5"):
        found(1.0, 4, guesses=5)
    with pytest.raises(InvalidParameterError, match="correct=3"):
        one_run_p_value(3, 2, canaries=2, epsilon=1.0)
    with pytest.raises(InvalidDataError, match="one finite number"):
        one_run(answers(1.0), lambda a: a[:1], 5)
    with pytest.raises(InvalidParameterError, match="above claimed"):
        canaries_needed(2.0, 1.0)
