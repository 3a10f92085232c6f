"""What one shard draws from the process's generators is no concern of the others."""

from __future__ import annotations

import random
from functools import partial

import joblib
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from reticent.ensembles.fitting import fit_shards
from reticent.ensembles.model_answers import model_ballots
from reticent.ensembles.process_generators import may_draw, own_generators
from reticent.estimators import Labels, partition_rows
from reticent.mechanisms import noise_source

X, Y = make_classification(n_samples=120, n_features=4, random_state=0)
N_SHARDS = 6


class Draws(ClassifierMixin, BaseEstimator):
    """Draws as often as it has rows; fails early if a number is negative."""

    def fit(self, X, y):
        if (X < -100).any():
            raise ValueError("negative")
        self.drawn_ = [float(np.random.random_sample()) for _ in X]  # noqa: NPY002
        self.drawn_ += [random.random()]
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return (np.random.random_sample(len(X)) > 0.5).astype(int)  # noqa: NPY002


def seed_everything():
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)


def fit(X, estimator=None, **options):
    seed_everything()
    source = noise_source(3)
    partition = partition_rows(len(Y), N_SHARDS, source)
    estimator = Draws() if estimator is None else estimator
    return fit_shards(estimator, X, Y, partition, source, **options), partition


def poisoned():
    changed = X.copy()
    changed[partition_rows(len(Y), N_SHARDS, noise_source(3)).rows_by_shard()[0]] = -999
    return changed


def drawn(models):
    return [None if model is None else model.drawn_ for model in models]


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_a_shard_that_fails_early_leaves_what_others_draw(backend):
    with joblib.parallel_config(backend=backend):
        before, after = (fit(table, n_jobs=2)[0] for table in (X, poisoned()))
    assert set(after.failures) == {0}
    assert drawn(before.models)[1:] == drawn(after.models)[1:]
    # Each shard draws something of its own.
    assert len({tuple(found) for found in drawn(before.models)}) == N_SHARDS


def test_every_backend_draws_the_same():
    plain = drawn(fit(X)[0].models)
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend=backend):
            assert drawn(fit(X, n_jobs=2)[0].models) == plain


def test_the_callers_generators_are_put_back():
    seed_everything()
    # A normal number is drawn with another, which is kept for the next time.
    expected = [np.random.normal() for _ in range(3)] + [random.random()]  # noqa: NPY002
    seed_everything()
    found = [np.random.normal()]  # noqa: NPY002
    with pytest.raises(ZeroDivisionError), own_generators(Draws(), 5):
        found[0] += 0 * np.random.normal() * random.random() / 0  # noqa: NPY002
    found += [np.random.normal(), np.random.normal(), random.random()]  # noqa: NPY002
    assert found == expected


def test_what_is_drawn_while_asked_depends_on_the_question_alone():
    models = [model for model in fit(X)[0].models if model is not None]
    labels = Labels([0, 1])
    seed_everything()
    first = model_ballots(models[1], X, labels)
    model_ballots(models[0], X[:7], labels)
    assert np.array_equal(model_ballots(models[1], X, labels), first)
    assert len(set(first.tolist())) == 2


class Own(LogisticRegression):
    """A class of the caller's own."""


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(random_state=1),
        LGBMClassifier(random_state=1),
        make_pipeline(StandardScaler(), RandomForestClassifier(random_state=1)),
        GridSearchCV(LogisticRegression(random_state=1), {"C": [1, 2]}, cv=3),
        make_pipeline(FunctionTransformer(np.log), LogisticRegression(random_state=1)),
    ],
)
def test_models_that_are_known_to_be_seeded_run_side_by_side(estimator):
    assert not may_draw(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        Own(random_state=1),
        LogisticRegression(random_state="deprecated"),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
        GridSearchCV(Own(random_state=1), {}, cv=3),
        GridSearchCV(LogisticRegression(random_state=1), {}, cv=KFold(shuffle=True)),
        GridSearchCV(LogisticRegression(random_state=1), {}, cv=StratifiedKFold(2)),
        GridSearchCV(LogisticRegression(random_state=1), {"a": [Own()]}),
        SelectKBest(f_classif),
        FunctionTransformer(partial(np.add, 1)),
        Draws(),
        object(),
    ],
)
def test_models_that_may_draw_take_turns(estimator):
    assert may_draw(estimator)
