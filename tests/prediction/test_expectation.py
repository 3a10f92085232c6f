"""A word before noise: what answers can be worth, from public facts (P1, P2)."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge

from reticent.ensembles import OUTPUT_STEPS
from reticent.errors import NearChanceWarning, OnlyNoiseWarning, ShardFailureWarning
from reticent.mechanisms import soft_vote
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from reticent.prediction.sharded.expectation import largest_stays, noisy_r2
from reticent.prediction.sharded.sums import SumNoise

ROWS = np.random.default_rng(0).normal(size=(60, 2))
YES = (ROWS[:, 0] > 0).astype(int)


def heard(model, X, y):
    """Fit; return the model and the one warning, or None."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert len(told) <= 1
    return model, told[0].message if told else None


def test_one_shard_of_diabetes_is_only_noise():
    X, y = load_diabetes(return_X_y=True)
    model = PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0, 400), n_shards=1)
    _, warning = heard(model, X, y)
    assert isinstance(warning, OnlyNoiseWarning)
    assert "R2 is at most -1.49" in str(warning)
    assert "reticent.learners" in str(warning)


def test_diabetes_gets_more_shards_by_default():
    X, y = load_diabetes(return_X_y=True)
    model = PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0, 400))
    model, warning = heard(model, X, y)
    assert warning is None
    assert model.n_shards_ > 10
    assert model.expectation_.best > 0.9


def test_wine_in_one_shard_is_warned_of_with_a_number():
    X, y = load_wine(return_X_y=True)
    model = PrivateVotingClassifier(LogisticRegression(), 1.0, [0, 1, 2], 1)
    model, warning = heard(model.set_params(rule="soft"), X, y)
    assert isinstance(warning, NearChanceWarning)
    assert "right at most 45 times in 100" in str(warning)
    assert model.expectation_.chance == pytest.approx(1 / 3)


def test_wine_gets_more_shards_by_default():
    X, y = load_wine(return_X_y=True)
    model = PrivateVotingClassifier(LogisticRegression(), 1.0, [0, 1, 2])
    model, warning = heard(model, X, y)
    assert warning is None
    assert model.expectation_.best > 0.99


def test_two_labels_in_one_shard_are_warned_of():
    model = PrivateVotingClassifier(LogisticRegression(), 1.0, [0, 1], 1)
    model, warning = heard(model, ROWS, YES)
    assert isinstance(warning, NearChanceWarning)
    assert not isinstance(warning, OnlyNoiseWarning)
    assert model.expectation_.best == pytest.approx(np.e / (1 + np.e))


def test_the_warning_comes_before_anything_is_trained():
    class Untrained(LogisticRegression):
        def fit(self, X, y):
            raise AssertionError("trained")

    model = PrivateVotingClassifier(Untrained(), 0.1, [0, 1], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NearChanceWarning)
        with pytest.raises(NearChanceWarning, match=r"epsilon=0\.1"):
            model.fit(ROWS, YES)
    assert not hasattr(model, "law_")


def test_expectations_are_functions_of_public_facts():
    model = PrivateVotingClassifier(LogisticRegression(), 1.0, [0, 1])
    one, _ = heard(model, ROWS, YES)
    expected = one.expectation_
    other, _ = heard(model, ROWS * 0, 1 - YES)
    assert other.expectation_ == expected


def test_enough_shards_are_enough_and_one_fewer_is_not():
    model = PrivateVotingClassifier(LogisticRegression(), 0.5, [0, 1, 2], 3)
    model, _ = heard(model.set_params(rule="soft"), ROWS, YES)

    def kept(shards):
        law = soft_vote(np.array([[shards, 0, 0]]), 0.5).probabilities[0, 0]
        return (law - 1 / 3) / (2 / 3)

    enough = model.expectation_.enough
    assert kept(enough) >= 0.9 > kept(enough - 1)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("shards", [1, 4, 30])
def test_noisy_r2_is_the_integral_over_even_targets(delta, shards):
    sums = SumNoise.calibrated(100, 1, epsilon=1.0, delta=delta, seeded=False)
    span = shards * float(OUTPUT_STEPS)
    scale = sums.noise.scale / span
    law = stats.norm(scale=scale) if delta else stats.laplace(scale=scale)
    noise = law.ppf((np.arange(5000) + 0.5) / 5000)
    target = (np.arange(500) + 0.5)[:, None] / 500
    moved = ((np.clip(target + noise, 0, 1) - target) ** 2).mean()
    assert noisy_r2(sums.noise, span) == pytest.approx(1 - 12 * moved, abs=5e-3)


def test_the_largest_of_noisy_sums_is_known():
    sums = SumNoise.calibrated(100, 3, epsilon=1.0, delta=0.0, seeded=False)
    rng = np.random.default_rng(0)
    lead = 3.0 * OUTPUT_STEPS
    noise = rng.laplace(scale=sums.noise.scale, size=(200_000, 3))
    noise[:, 0] += lead
    drawn = (noise.argmax(axis=1) == 0).mean()
    assert largest_stays(sums.noise, lead, 2) == pytest.approx(drawn, abs=0.01)


def test_averaging_two_and_three_labels_is_expected_too():
    for labels in ([0, 1], [0, 1, 2]):
        model = PrivateAveragingClassifier(LogisticRegression(), 1.0, labels, 21)
        model, warning = heard(model, ROWS, YES)
        assert warning is None
        assert 0.8 < model.expectation_.best < 1


def test_a_curator_hears_that_most_shards_failed():
    class Broken(LogisticRegression):
        def fit(self, X, y):
            raise RuntimeError(f"bad value {X[0, 0]}")

    model = PrivateVotingClassifier(Broken(), 1.0, [0, 1], 15)
    model, warning = heard(model, ROWS, YES)
    assert isinstance(warning, ShardFailureWarning)
    assert "15 of 15 shards" in str(warning)
    assert "RuntimeError (15)" in str(warning)
    assert "bad value" not in str(warning)  # it may quote a record
    assert len(model.shard_errors_) == 15
    assert "bad value" in model.shard_errors_[0]


def test_no_word_is_said_of_a_few_failures():
    class Picky(LogisticRegression):
        def fit(self, X, y):
            if len(np.unique(y)) < 2:
                raise ValueError("one label")
            return super().fit(X, y)

    labels = np.zeros(60, dtype=int)
    labels[:30] = 1
    model = PrivateVotingClassifier(Picky(), 1.0, [0, 1], 15, random_state=3)
    model, warning = heard(model, ROWS, labels)
    assert warning is None
    assert 0 < len(model.shard_errors_) < 8


@pytest.mark.parametrize("spread", [None, 40.0])
def test_narrow_targets_get_more_shards(spread):
    X = np.random.default_rng(0).normal(size=(5000, 2))
    y = np.clip(500 + 40 * X[:, 0], 0, 1000)
    model = PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0, 1000), spread=spread)
    assert model.fit(X, y).n_shards_ == (50 if spread is None else 146)
