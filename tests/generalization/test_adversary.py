"""The certified bound covers an adversary who sees the output and does their worst."""

import numpy as np
import pytest

from reticent.generalization import (
    BoostingScheme,
    CompressionClassifier,
    SubsampleScheme,
)
from tests.generalization.adversaries import (
    HashScheme,
    MemoryScheme,
    World,
    rich_class,
    worst_gap,
)
from tests.stats import assert_rate_at_most, rejects

FAILURE = 0.05
FUNCTIONS = 400
SCHEMES = {
    "threshold": "threshold",
    "interval": "interval",
    "rectangle": "rectangle",
    "perceptron": "perceptron",
    "svm": "svm",
    "boosting": BoostingScheme(rounds=4, examples=4, draws=3),
    "subsample": SubsampleScheme(draws=3),
}


def misses(scheme, seed, *, repetitions, n=300, **parameters):
    """Count samples on which some function of the output beats the bound.

    The adversary has the sample in hand when they choose among their functions, so
    the certificate is asked at the confidence that covers all of them at once.
    """
    rng = np.random.default_rng(seed)
    world = World(rng)
    confidence = 1 - FAILURE / FUNCTIONS
    count, gaps, bounds = 0, [], []
    for _ in range(repetitions):
        sample = world.draw(rng, n)
        model = CompressionClassifier(
            scheme, confidence=confidence, random_state=0, classes=[0, 1], **parameters
        ).fit(world.X[sample], world.y[sample])
        gaps.append(worst_gap(rich_class(world, model, FUNCTIONS), sample))
        bounds.append(model.certificate_.guarantee.epsilon)
        count += gaps[-1] > bounds[-1]
    return count, float(np.mean(gaps)), float(np.mean(bounds))


@pytest.mark.parametrize("name", SCHEMES)
def test_bound_covers_an_adversary_with_the_sample_in_hand(name, seed):
    repetitions = 25
    count, gap, bound = misses(SCHEMES[name], seed, repetitions=repetitions, n=400)
    assert_rate_at_most(count, repetitions, FAILURE)
    # The adversary is not asleep: they find about what chance offers anyone.
    assert gap > 0.04
    assert bound <= 1


def test_a_bound_that_forgets_what_was_kept_is_beaten(seed):
    # Control: Hoeffding for one fixed function, which is what a fresh sample earns.
    rng = np.random.default_rng(seed)
    world, n, repetitions = World(rng), 300, 25
    naive = np.sqrt(np.log(2 / FAILURE) / (2 * n))
    count = 0
    for _ in range(repetitions):
        sample = world.draw(rng, n)
        model = CompressionClassifier("svm", classes=[0, 1])
        model.fit(world.X[sample], world.y[sample])
        count += worst_gap(rich_class(world, model, FUNCTIONS), sample) > naive
    assert rejects(assert_rate_at_most, count, repetitions, FAILURE)


def overfit_by(scheme, rng, n):
    """Return how far training error and truth differ on coin-flip labels."""
    X, y = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    model = CompressionClassifier(scheme, report_error=False, classes=[0, 1])
    model.fit(X, y)
    fresh = rng.normal(size=(4000, 1))
    wrong_on_sample = np.mean(model.predict(X) != y)
    # Labels are coin flips, so every hypothesis is wrong half of the time.
    assert set(model.predict(fresh)) <= {0, 1}
    return 0.5 - wrong_on_sample, model.certificate_.guarantee.epsilon


def test_bound_holds_and_is_not_slack_against_an_evil_encoder(seed):
    rng = np.random.default_rng(seed)
    found = [overfit_by(HashScheme(), rng, n=200) for _ in range(100)]
    gaps, bounds = np.array(found).T
    assert_rate_at_most(int((gaps > bounds).sum()), len(gaps), FAILURE)
    # One of 200 random hypotheses is lucky by about 0.1; the bound says 0.15.
    assert gaps.mean() > 0.5 * bounds.mean()


def test_uncounted_side_information_is_caught(seed):
    rng = np.random.default_rng(seed)
    found = [overfit_by(MemoryScheme(), rng, n=200) for _ in range(20)]
    count = sum(gap > bound for gap, bound in found)
    assert rejects(assert_rate_at_most, count, len(found), FAILURE)
