"""No query fails by the size of what was learned, whatever `np.seterr` says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    StableLinearClassifier,
    StableLinearRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(500, 2))
Y = (X[:, 0] > 0).astype(int)
# Products with small or large coefficients are too small or too large for a float.
QUERIES = np.array([[0.0, 1e-300], [5e-324, -5e-324], [1e300, 1e300], [1e-200, 0.1]])

SCALED = make_pipeline(StandardScaler(), LogisticRegression())
MODELS = {
    "linear": StableLinearClassifier(0.01, classes=[0, 1]),
    "linear numbers": StableLinearRegressor(0.01, bounds=(0.0, 1.0)),
    "voting": PrivateVotingClassifier(SCALED, classes=[0, 1], n_shards=9),
    "trees": PrivateVotingClassifier(
        DecisionTreeClassifier(max_depth=3), classes=[0, 1], n_shards=9
    ),
    "averaging": PrivateAveragingClassifier(SCALED, classes=[0, 1], n_shards=9),
    "averaging numbers": PrivateAveragingRegressor(
        Ridge(), bounds=(0.0, 1.0), n_shards=9
    ),
    "walk": ProjectedWalkClassifier(1.0, error=0.9, classes=[0, 1]),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_number_makes_a_query_fail(name):
    for scale in (1.0, 1e-8):
        model = MODELS[name].fit(X * [1.0, scale], Y)
        for query in QUERIES:
            with np.errstate(all="raise"):
                assert model.predict(query[None]).shape == (1,)
                model.response(query[None])


def test_what_was_learned_does_not_decide_whether_a_query_fails():
    for largest in (0.0, 0.5):
        rows = X * [1.0, 0.0]
        rows[0, 1] = largest
        model = MODELS["linear"].fit(rows, Y)
        with np.errstate(all="raise"):
            assert model.predict([[0.0, 1e-300]]).shape == (1,)


def test_votes_are_the_same_whatever_is_raised():
    model = MODELS["voting"].fit(X, Y)
    expected = model.law_.votes(QUERIES)
    with np.errstate(all="raise"):
        assert np.array_equal(model.law_.votes(QUERIES), expected)
