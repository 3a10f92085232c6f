"""`verify` and `verify_noise` judge the law that is used, or refuse."""

import numpy as np
import pytest

from reticent.audit import replay, verify, verify_noise
from reticent.errors import CannotJudgeError
from reticent.guarantees import PureDP, ReplaceOne, Scope, Sensitivity, claim
from reticent.mechanisms import (
    SystemSource,
    calibrate_laplace,
    draw_bernoulli,
    draw_discrete_laplace,
    flip_labels,
    soft_vote,
)
from reticent.prediction import PrivateVotingClassifier
from tests.prediction.learners import Table

SOURCE = SystemSource()
LABELS = [(0, 0), (0, 1)]
KEPT = np.random.default_rng(0)


def judged(kind, seed=3):
    def make():
        return kind(Table(), 1.0, (0, 1), 3, rule="geometric", random_state=seed)

    return verify(make, LABELS, 3)


class Majority(PrivateVotingClassifier):
    """Answers what most models say, without any noise."""

    def predict(self, X):
        return self.classes_[self.response(X).log_probabilities.argmax(axis=1)]


class OtherVote(PrivateVotingClassifier):
    """Draws from another law than it states."""

    def predict(self, X):
        votes = np.array([[0, 9]] * len(X))
        return self.classes_[soft_vote(votes, 1.0).draw(self.law_.source)]


class Postscript(PrivateVotingClassifier):
    """Draws as it states, and then lets the data have their say."""

    def fit(self, X, y, **settings):
        self._first = y[0]
        return super().fit(X, y, **settings)

    def predict(self, X):
        return np.asarray(super().predict(X)) + 10 * self._first


class Timed(PrivateVotingClassifier):
    """Fits on a fresh seed of NumPy's."""

    def fit(self, X, y, **settings):
        np.random.default_rng()
        return super().fit(X, y, **settings)


class Moody(PrivateVotingClassifier):
    """States another law each time."""

    def response(self, X):
        ones = KEPT.integers(0, 9, size=len(X))
        return soft_vote(np.stack([9 - ones, ones], axis=1), 1.0)


def test_a_right_vote_is_kept():
    assert judged(PrivateVotingClassifier).holds


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Majority, "draws nothing"),
        (OtherVote, "does not draw from the law"),
        (Postscript, "depends on the data"),
        (Timed, "bits of the operating system"),
        (Moody, "two fits"),
    ],
)
def test_what_is_not_the_stated_law_is_refused(kind, message):
    with pytest.raises(CannotJudgeError, match=message):
        judged(kind)


def noise_on(value):
    premise = claim(Sensitivity(1.0), ReplaceOne(2), Scope.MODEL, statement="a test")
    noise = calibrate_laplace(premise, epsilon=1.0, grid=1.0, on_grid=True)
    return float(noise.response(float(value)).draw(SOURCE))


def judged_noise(beside):
    def release(X, y):
        return noise_on(y.sum()), beside(y)

    return verify_noise(release, LABELS, 2, claim=PureDP(1.0))


def test_noise_alone_is_kept():
    report = judged_noise(lambda y: len(y))
    assert report.holds
    assert report.worst == pytest.approx(1.0)


def test_what_is_released_beside_the_noise_is_seen():
    report = judged_noise(lambda y: int(y[0]))
    assert not report.holds
    assert report.worst == np.inf


@pytest.mark.parametrize(
    "beside",
    [
        lambda y: int(soft_vote([np.bincount(y, minlength=2)], 9.0).draw(SOURCE)[0]),
        lambda y: int(flip_labels(y[:1], 0.001, SOURCE)[0]),
        lambda y: bool(draw_bernoulli(0.001 + 0.998 * y[0], SOURCE)),
        lambda y: [draw_discrete_laplace([0], 1.0, SOURCE).size for _ in range(y[0])],
        lambda y: np.random.default_rng().random() < 0.0,
    ],
)
def test_other_draws_beside_the_noise_are_refused(beside):
    with pytest.raises(CannotJudgeError):
        judged_noise(beside)


def test_what_cannot_be_replayed_is_refused():
    def run(data):
        return np.random.default_rng().random()

    with pytest.raises(CannotJudgeError, match="replayed"):
        replay(run, 0, 1)


def test_a_coin_whose_chance_moves_is_a_violation():
    def run(data):
        return bool(draw_bernoulli(0.5 + 0.1 * data, SOURCE))

    assert not replay(run, 0, 1).holds
    assert replay(run, 0, 0).holds
