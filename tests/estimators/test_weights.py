"""Weights: every estimator refuses those that it does not take, and says what to do."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from reticent import generalization, learners, prediction
from reticent.errors import InvalidParameterError, NearChanceWarning
from reticent.learners import PrivateTabularClassifier
from reticent.prediction import PrivateVotingClassifier

ESTIMATORS = sorted(
    {
        found
        for room in (prediction, learners, generalization)
        for name in room.__all__
        if inspect.isclass(found := getattr(room, name))
        and issubclass(found, BaseEstimator)
        and hasattr(found, "fit")
        and not hasattr(found, "transform")  # these see no labels
    },
    key=lambda found: found.__name__,
)


def test_all_estimators_are_found():
    assert len(ESTIMATORS) > 25
    assert {PrivateVotingClassifier, PrivateTabularClassifier} <= set(ESTIMATORS)


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", ["sample_weight", "class_weight"])
def test_a_weight_given_to_fit_is_refused_with_what_to_do(cls, name):
    model = cls.__new__(cls)
    with pytest.raises(InvalidParameterError) as refused:
        model.fit([[0.0]], [0], **{name: [1.0]})
    said = str(refused.value)
    assert said.startswith(f"{cls.__name__}.fit takes no {name}: ")
    assert "Leave it out. " in said
    # scikit-learn must not think that it takes them.
    assert not has_fit_parameter(model, name)


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_a_class_weight_is_taken_or_refused_with_what_to_do(cls):
    if "class_weight" in inspect.signature(cls).parameters:
        assert cls is PrivateTabularClassifier
        return
    with pytest.raises(InvalidParameterError) as refused:
        cls(class_weight="balanced")
    said = str(refused.value)
    assert said.startswith(f"{cls.__name__} has no class_weight. ")
    if is_regressor(cls.__new__(cls)):
        assert said.endswith("Every unit counts once.")
    else:
        assert "model inside" in said or "PrivateTabularClassifier" in said


def test_what_is_advised_works():
    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
    inside = LogisticRegression(class_weight="balanced")
    PrivateVotingClassifier(inside, epsilon=1.0, classes=[0, 1], n_shards=5).fit(X, y)
    model = PrivateTabularClassifier(1.0, classes=[0, 1], class_weight="balanced")
    assert model.get_params()["class_weight"] == "balanced"


def test_a_warning_of_fit_names_the_line_of_the_caller():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    model = PrivateVotingClassifier(LogisticRegression(), 0.1, [0, 1], n_shards=3)
    with pytest.warns(NearChanceWarning) as told:
        model.fit(X, y)
    assert {warning.filename for warning in told} == {__file__}
