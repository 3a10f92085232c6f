"""Tables in batches: the predictor that the whole table would give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)

N = 2_000
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(N, 4))
Y = np.where(X[:, 0] + RANDOM.normal(size=N) > 0, "yes", "no")
NUMBERS = X @ [1.0, -1.0, 0.5, 0.0] + RANDOM.normal(size=N)
PEOPLE = RANDOM.integers(0, 500, size=N)


def in_batches(y, units=None, *, step=300):
    for start in range(0, N, step):
        some = slice(start, start + step)
        yield (X[some], y[some], *([] if units is None else [units[some]]))


LINEAR = make_pipeline(StandardScaler(), LogisticRegression())
CASES = {
    "vote, linear": (PrivateVotingClassifier(LINEAR, 1.0, ["no", "yes"]), Y),
    "vote, trees": (
        PrivateVotingClassifier(
            DecisionTreeClassifier(max_features=2, max_depth=3), 0.5, ["yes", "no"]
        ),
        Y,
    ),
    "average, linear": (
        PrivateAveragingClassifier(LogisticRegression(), 1.0, ["no", "yes"]),
        Y,
    ),
    "numbers, linear": (
        PrivateAveragingRegressor(Ridge(), 2.0, bounds=(-3, 3)),
        NUMBERS,
    ),
    "numbers, trees": (
        PrivateAveragingRegressor(
            DecisionTreeRegressor(max_depth=2), 2.0, bounds=(-3, 3)
        ),
        NUMBERS,
    ),
}


def law(model):
    given = model.response(X)
    return given.probabilities if hasattr(model, "classes_") else given.location


@pytest.mark.parametrize("units", [None, PEOPLE], ids=["rows", "people"])
@pytest.mark.parametrize("case", CASES)
def test_batches_give_the_model_of_the_whole_table(case, units):
    model, y = CASES[case]
    model.set_params(random_state=5)
    whole = model.fit(X, y, units=units)
    expected = law(whole), whole.certificate_, whole.n_shards_
    parts = model.fit_batches(in_batches(y, units))
    assert np.array_equal(law(parts), expected[0])
    assert parts.certificate_ == expected[1]
    assert parts.n_shards_ == expected[2]
    assert parts.n_units_ == (N if units is None else len(np.unique(PEOPLE)))


def test_other_batches_give_another_model():
    model = PrivateVotingClassifier(LINEAR, 1.0, ["no", "yes"], random_state=5)
    one = law(model.fit_batches(in_batches(Y)))
    other = law(model.fit_batches(in_batches(Y[::-1])))
    assert not np.array_equal(one, other)


def test_the_size_of_batches_does_not_matter():
    model = PrivateVotingClassifier(LINEAR, 1.0, ["no", "yes"], random_state=5)
    one = law(model.fit_batches(in_batches(Y, PEOPLE, step=1_999)))
    other = law(model.fit_batches(in_batches(Y, PEOPLE, step=7)))
    assert np.array_equal(one, other)


def test_labels_must_be_declared():
    with pytest.raises(InvalidParameterError, match="classes=None"):
        PrivateVotingClassifier(LINEAR).fit_batches(in_batches(Y))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "no rows"),
        ([X], "batch 1 must be a tuple"),
        ([(X.tolist(), Y)], "batch 1 needs a matrix of numbers"),
        ([(X, Y), (X[:, :3], Y)], "batch 2: X has 3 features"),
        ([(X, Y), (X, Y[:-1])], "batch 2: .*inconsistent"),
        ([(X, np.where(Y == "no", "perhaps", Y))], "labels that are not in"),
        ([(np.where(X > 3, np.nan, X), Y)], "batch 1: .*NaN"),
    ],
    ids=["none", "bare", "list", "narrow", "short", "strange", "missing"],
)
def test_batches_that_cannot_be_meant_are_refused(batches, message):
    model = PrivateVotingClassifier(LogisticRegression(), 1.0, ["no", "yes"])
    with pytest.raises(InvalidDataError, match=message):
        model.fit_batches(iter(batches))


@pytest.mark.parametrize("epsilon", [0.0, np.nan, np.inf])
def test_a_mistaken_epsilon_costs_no_pass_over_the_rows(epsilon):
    def unread():
        raise AssertionError("the batches were read")
        yield

    with pytest.raises(ValueError, match="epsilon"):
        PrivateVotingClassifier(LINEAR, epsilon, ["no", "yes"]).fit_batches(unread())
