"""PrivateVotingClassifier as a scikit-learn estimator on real pipelines (P1)."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import estimator_checks

from reticent import Budget
from reticent.errors import InvalidParameterError, ReticentError, TooFewRecordsError
from reticent.guarantees import BoundedRange, PureDP, recheck, repeat
from reticent.prediction import PrivateVotingClassifier
from tests.prediction.learners import Table
from tests.stats import assert_rate

X, Y = load_breast_cancer(return_X_y=True)
LINEAR = make_pipeline(StandardScaler(), LogisticRegression())


def mixed_frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": rng.lognormal(10, 1, n),
            "job": rng.choice(["nurse", "clerk", "cook"], n),
        }
    )
    risk = frame["age"] / 40 + (frame["job"] == "cook") - 1.5
    return frame, np.where(risk + rng.normal(0, 0.3, n) > 0, "yes", "no")


MIXED = make_column_transformer(
    (StandardScaler(), ["age", "income"]),
    (OneHotEncoder(handle_unknown="ignore"), ["job"]),
)


@pytest.mark.parametrize(
    "base",
    [
        LINEAR,
        HistGradientBoostingClassifier(max_iter=10),
        RandomForestClassifier(n_estimators=10),
        make_pipeline(StandardScaler(), SVC()),
        KNeighborsClassifier(),
        Table(),
    ],
    ids=lambda base: (
        type(base).__name__ + type(getattr(base, "_final_estimator", 0)).__name__
    ),
)
def test_any_base_estimator_works_unchanged(base):
    model = PrivateVotingClassifier(base, epsilon=2.0, classes=[0, 1], n_shards=7)
    answers = model.fit(X, Y).predict(X[:50])
    assert set(answers) <= {0, 1}
    assert model.certificate_.guarantee == PureDP(2.0)
    assert model.certificate_.proved
    recheck(model.certificate_)


def test_mixed_columns_of_a_data_frame_work_with_units():
    frame, y = mixed_frame()
    people = np.repeat(np.arange(100), 4)
    model = PrivateVotingClassifier(
        make_pipeline(MIXED, LogisticRegression()), 4.0, ["no", "yes"], 5
    )
    model.fit(frame, y, units=people)
    assert model.n_units_ == 100
    assert (model.predict(frame) == y).mean() > 0.8


def test_missing_values_pass_to_a_pipeline_that_takes_them():
    holes = X.copy()
    holes[::7, 3] = np.nan
    base = HistGradientBoostingClassifier(max_iter=20)
    model = PrivateVotingClassifier(base, 4.0, [0, 1], 7).fit(holes, Y)
    assert (model.predict(holes) == Y).mean() > 0.85
    with pytest.raises(ValueError, match="NaN"):
        PrivateVotingClassifier(LINEAR, 4.0, [0, 1], 7).fit(holes, Y)


def test_pandas_polars_and_numpy_give_the_same_law():
    names = [f"c{i}" for i in range(X.shape[1])]
    forms = [X, pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)]
    laws = [
        PrivateVotingClassifier(LINEAR, 1.0, [0, 1], 9, random_state=0)
        .fit(form, Y)
        .response(form[:40])
        .probabilities
        for form in forms
    ]
    np.testing.assert_array_equal(laws[0], laws[1])
    np.testing.assert_array_equal(laws[0], laws[2])


def test_model_selection_tools_work():
    model = PrivateVotingClassifier(LINEAR, 4.0, [0, 1], 5)
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.8
    search = GridSearchCV(model, {"n_shards": [3, 7], "epsilon": [1.0, 4.0]}, cv=2)
    assert search.fit(X, Y).best_score_ > 0.8
    assert make_pipeline(StandardScaler(), clone(model)).fit(X, Y).predict(X[:3]).size


def test_predict_follows_the_response():
    model = PrivateVotingClassifier(LINEAR, 0.3, [0, 1], 9).fit(X, Y)
    row = X[:1]
    law = model.response(row).probabilities[0, 1]
    drawn = model.predict(np.repeat(row, 20_000, axis=0))
    assert_rate(drawn.sum(), drawn.size, law)


def test_every_answer_draws_afresh():
    model = PrivateVotingClassifier(LINEAR, 0.05, [0, 1], 9).fit(X, Y)
    calls = np.array([model.predict(X[:64]) for _ in range(4)])
    assert all((calls[0] != later).any() for later in calls[1:])


def test_labels_read_from_the_data_are_an_assumption():
    model = PrivateVotingClassifier(LINEAR, 1.0, n_shards=5).fit(X, Y)
    assert [a.code for a in model.certificate_.assumptions] == ["PUBLIC_LABELS"]


def test_a_seed_makes_the_certificate_conditional():
    model = PrivateVotingClassifier(LINEAR, 1.0, [0, 1], 5, random_state=0).fit(X, Y)
    assert "SEEDED_NOISE" in {a.code for a in model.certificate_.assumptions}
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_a_part_that_came_fitted_is_an_assumption():
    scaler = FrozenEstimator(StandardScaler().fit(X))
    base = make_pipeline(scaler, LogisticRegression())
    model = PrivateVotingClassifier(base, 1.0, [0, 1], 5).fit(X, Y)
    assert [a.code for a in model.certificate_.assumptions] == ["PUBLIC_PARTS"]
    recheck(model.certificate_)


def test_the_rule_is_chosen_by_labels_and_budget():
    binary = PrivateVotingClassifier(LINEAR, 0.2, [0, 1], 5).fit(X, Y)
    assert binary.rule_ == "geometric"
    many = PrivateVotingClassifier(
        LINEAR, 0.2, [0, 1], 5, budget=Budget(8, 1e-6), queries=200
    ).fit(X, Y)
    assert many.rule_ == "soft"
    assert many.certificate_.guarantee == BoundedRange(0.2)
    assert repeat(many.certificate_, 200, delta=1e-6).guarantee.epsilon < 8
    flowers, kinds = load_iris(return_X_y=True)
    three = PrivateVotingClassifier(LINEAR, 1.0, [0, 1, 2], 5).fit(flowers, kinds)
    assert three.rule_ == "permute-and-flip"


def test_the_number_of_shards_comes_from_public_quantities():
    model = PrivateVotingClassifier(LINEAR, 1.0, [0, 1]).fit(X, Y)
    other = PrivateVotingClassifier(LINEAR, 1.0, [0, 1]).fit(X * 0 + 1, 1 - Y)
    assert model.shard_choice_ == other.shard_choice_
    assert model.n_shards_ % 2 == 1
    assert "569" in model.shard_choice_.reason


def test_one_replaced_unit_changes_one_shard():
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    people = np.repeat(np.arange(12), 5)
    base = LogisticRegression(solver="liblinear")  # trained one by one
    model = PrivateVotingClassifier(base, 1.0, [0, 1], 4, random_state=1)
    before = model.fit(data, labels, units=people).ensemble_.models
    coefficients = [np.r_[m.coef_.ravel(), m.intercept_] for m in before]
    for unit in range(12):
        changed = data.copy()
        changed[people == unit] += 3.0
        after = clone(model).fit(changed, labels, units=people).ensemble_.models
        moved = [
            not np.array_equal(old, np.r_[m.coef_.ravel(), m.intercept_])
            for old, m in zip(coefficients, after, strict=True)
        ]
        assert sum(moved) == 1


@pytest.mark.parametrize("base", [LogisticRegression(), LINEAR])
def test_one_replaced_unit_changes_one_model_trained_in_one_go(base):
    model = PrivateVotingClassifier(base, 1.0, [0, 1], 9, random_state=1)
    before = model.fit(X, Y).ensemble_.fusion.models
    for row in (0, 100, 568):
        changed, labels = X.copy(), Y.copy()
        changed[row] *= 2.0
        labels[row] = 1 - labels[row]
        after = clone(model).fit(changed, labels).ensemble_.fusion.models
        moved = (before.weights != after.weights).any(axis=(1, 2))
        assert moved.sum() == 1


def test_a_failing_shard_says_nothing():
    class Fragile(Table):
        def fit(self, X, y):
            warnings.warn("a record is odd", stacklevel=1)
            raise ValueError("record 17 is odd")

    model = PrivateVotingClassifier(Fragile(), 1.0, [0, 1], 3).fit(X, Y)
    assert set(model.predict(X[:20])) <= {0, 1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"n_shards": 0}, "n_shards"),
        ({"n_shards": "many"}, "n_shards"),
        ({"n_shards": 10**6}, "n_shards"),
        ({"rule": "loud"}, "rule"),
        ({"rule": "gaussian"}, "delta"),
        ({"rule": "gaussian", "delta": 1.0}, "delta"),
        ({"classes": [0]}, "class"),
        ({"classes": [0, 0, 1]}, "classes"),
        ({"classes": [1, 2]}, "classes"),
        ({"estimator": LogisticRegression}, "class"),
        ({"estimator": "logistic"}, "fit"),
        ({"estimator": LogisticRegression(C=-1)}, "C"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    arguments = {"estimator": LINEAR, "epsilon": 1.0, "classes": [0, 1], "n_shards": 5}
    model = PrivateVotingClassifier(**{**arguments, **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message) as raised,
    ):
        model.fit(X, Y)
    assert not skip or isinstance(raised.value, ReticentError)


def test_too_few_units_and_odd_rules_are_refused():
    with pytest.raises(TooFewRecordsError, match="n_units=4"):
        PrivateVotingClassifier(LINEAR, 1.0, [0, 1], 5).fit(
            X, Y, units=np.arange(len(Y)) % 4
        )
    flowers, kinds = load_iris(return_X_y=True)
    with pytest.raises(InvalidParameterError, match="two labels"):
        PrivateVotingClassifier(LINEAR, 1.0, [0, 1, 2], 5, rule="geometric").fit(
            flowers, kinds
        )


EXPECTED_FAILURES: dict[str, str] = {}


@estimator_checks.parametrize_with_checks(
    [PrivateVotingClassifier(LogisticRegression(), 60.0, n_shards=1, random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
