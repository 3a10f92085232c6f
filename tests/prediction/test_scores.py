"""Scores of predictors are for the curator, and say so."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score

from reticent.errors import CuratorOnlyWarning
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    RelabelingClassifier,
    StableLinearClassifier,
    StableLinearRegressor,
    StableSelectionClassifier,
    law,
)

X = np.random.default_rng(0).normal(size=(90, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch):
    monkeypatch.setattr(law, "_warned", set())


VOTING = PrivateVotingClassifier(LogisticRegression(), 1.0, [0, 1], 9)


@pytest.mark.parametrize(
    "model",
    [
        VOTING,
        PrivateAveragingClassifier(LogisticRegression(), 1.0, [0, 1], 9),
        PrivateAveragingRegressor(Ridge(), bounds=(0, 1), n_shards=9),
    ],
)
def test_a_score_warns_and_is_still_a_score(model):
    fitted = clone(model).fit(X, Y)
    with pytest.warns(CuratorOnlyWarning, match="for the curator only") as told:
        found = fitted.score(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.score(X, Y)  # once is enough
    assert isinstance(found, float)
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "kind",
    [
        ProjectedWalkClassifier,
        RelabelingClassifier,
        StableLinearClassifier,
        StableLinearRegressor,
        StableSelectionClassifier,
    ],
)
def test_every_predictor_says_so(kind):
    assert kind.score.__wrapped__ is not None


def test_cross_validation_and_searches_warn_once():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        scores = cross_val_score(VOTING, X, Y, cv=3)
        search = GridSearchCV(VOTING, {"n_shards": [3, 9]}, cv=2).fit(X, Y)
    assert len(scores) == 3
    assert search.best_params_["n_shards"] in (3, 9)
    said = [w for w in told if issubclass(w.category, CuratorOnlyWarning)]
    assert len(said) == 1
