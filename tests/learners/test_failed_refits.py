"""A fit that fails halfway leaves no certificate about another model."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from reticent.errors import (
    InvalidDataError,
    InvalidParameterError,
    RelationMismatchError,
)
from reticent.estimators.linear.released import ReleasedLinear
from reticent.generalization import AdaptiveSession, overfitting
from reticent.guarantees import Budget, Scope
from reticent.learners import (
    NoisyGradientClassifier,
    ObjectivePerturbationClassifier,
    PrivateSearch,
    PrivateTabularClassifier,
    StudentClassifier,
    Subsampled,
)
from reticent.prediction import PrivateVotingClassifier

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 2))
Y = (X[:, 0] > 0).astype(int)
PROMISES = ("certificate_", "zcdp_certificate_", "gaussian_certificate_")


def voting(epsilon=50.0, **known):
    return PrivateVotingClassifier(
        LogisticRegression(), epsilon, classes=[0, 1], n_shards=20, **known
    )


@pytest.mark.parametrize("kind", ["another relation", "not released"])
def test_a_learner_that_a_rule_refuses_is_under_no_earlier_certificate(kind):
    model = Subsampled(ObjectivePerturbationClassifier(0.1, classes=[0, 1]), size=590)
    before = model.fit(X, Y).learner_
    bad, error = voting(), InvalidParameterError
    if kind == "another relation":
        bad = ObjectivePerturbationClassifier(500.0, classes=[0, 1])
        bad.set_params(relation="zero-out")
        error = RelationMismatchError
    model.set_params(learner=bad)
    with pytest.raises(error):
        model.fit(X, Y)
    assert model.learner_ is before


def test_what_was_half_fitted_promises_nothing(monkeypatch):
    model = NoisyGradientClassifier(5.0, delta=1e-6, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
        assert all(hasattr(model, name) for name in PROMISES)
        model.set_params(epsilon=0.01)

        def stop(*_):
            raise KeyboardInterrupt

        # Certificates of the new fit are there, its coefficients are not.
        monkeypatch.setattr(ReleasedLinear, "_release", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
    assert not any(hasattr(model, name) for name in PROMISES)


def test_a_refusal_before_anything_has_changed_keeps_the_model():
    model = ObjectivePerturbationClassifier(1.0, classes=[0, 1]).fit(X, Y)
    kept = model.certificate_
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        model.fit(X, Y, sample_weight=Y)
    model.set_params(epsilon=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        model.fit(X, Y)
    assert model.certificate_ is kept


class TestASearchOverAPredictor:
    """Its certificate is about the choice; each answer costs its own epsilon."""

    @pytest.fixture
    def search(self):
        settings = {"estimator__C": [0.1, 1.0]}
        search = PrivateSearch(voting(), settings, Budget(0.01), runs=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return search.fit(X, Y)

    def test_promises_the_choice(self, search):
        assert search.certificate_.scope is Scope.CHOICE
        assert "-DP for the choice, replace one" in search.certificate_.headline()
        assert search.best_estimator_.certificate_.scope is Scope.ANSWER

    def test_has_no_price_of_an_answer(self, search):
        student = StudentClassifier(
            search, LogisticRegression(), 1.0, delta=0.0, spread=False, classes=None
        )
        with pytest.raises(InvalidParameterError, match="does not certify its answers"):
            student.fit(X, Y, public=RNG.uniform(-1, 1, (50, 2)))
        with pytest.raises(InvalidParameterError, match="about the choice"):
            overfitting(search, answers=100)

    def test_in_a_session_pays_for_the_choice_and_for_each_answer(self, search):
        session = AdaptiveSession(X, Y, epsilon=200.0)
        found = session.fit(search)
        assert session.spent.epsilon == pytest.approx(0.01)
        found.predict(X[:3])
        assert session.spent.epsilon == pytest.approx(150.01)


def test_no_warning_depends_on_how_many_labels_occur():
    rows = RNG.uniform(-1, 1, (30, 2))
    few = np.arange(30) % 15
    many = np.where(np.arange(30) == 29, 15, few)  # more than half of the rows
    model = PrivateTabularClassifier(1.0, delta=1e-3, classes=range(20))
    told = []
    for y in (few, many):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model.fit(rows, y)
        told.append([str(each.message) for each in heard])
    assert told[0] == told[1]
    with pytest.raises((InvalidDataError, ValueError)):
        model.fit(rows, rows[:, 0])
