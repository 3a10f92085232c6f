"""What a clone carries along of what its original learned."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from reticent.ensembles.carried_state import keeps_what_it_learned
from reticent.prediction import PrivateVotingClassifier
from tests.ensembles.base_learners import PlainObject

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
SCALER = StandardScaler().fit(X)


class Cleaner:
    """Has no method fit, but knows something."""

    def __init__(self):
        self.known = 3

    def clean(self, X):
        return X

    @classmethod
    def plain(cls, X):
        return X


class Holds(ClassifierMixin, BaseEstimator):
    """Takes anything as its parameter."""

    def __init__(self, held=None):
        self.held = held

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def closing_over(scaler):
    return lambda X: scaler.transform(X)


def with_default(X, scaler=SCALER):
    return scaler.transform(X)


CARRIED = {
    "plain object": PlainObject(),
    "plain object within": make_pipeline(StandardScaler(), Holds(PlainObject())),
    "frozen": make_pipeline(FrozenEstimator(SCALER), LogisticRegression()),
    "bound method": make_pipeline(FunctionTransformer(SCALER.transform), Holds()),
    "partial": FunctionTransformer(partial(SCALER.transform, copy=True)),
    "argument of a partial": FunctionTransformer(partial(np.add, SCALER)),
    "keyword of a partial": FunctionTransformer(partial(print, file=SCALER)),
    "a step as well": make_pipeline(
        SCALER, FunctionTransformer(partial(np.add, SCALER))
    ),
    "closure": FunctionTransformer(closing_over(SCALER)),
    "default": FunctionTransformer(with_default),
    "dictionary": FunctionTransformer(np.add, kw_args={"by": [SCALER]}),
    "columns": ColumnTransformer(
        [("a", make_pipeline(FunctionTransformer(SCALER.transform)), [0])]
    ),
    "method of a plain object": FunctionTransformer(Cleaner().clean),
    "method of a dictionary": FunctionTransformer({"a": SCALER}.get),
    "array of objects": Holds(np.array([None, SCALER], dtype=object)),
    "attribute": Holds({"deep": (partial(np.add, Holds(SCALER)),)}),
    "searched": GridSearchCV(
        make_pipeline(StandardScaler()), {"standardscaler": [SCALER]}
    ),
}


def endless(X):
    def again(X):
        return later(X)

    if len(X):
        return again
    later = again
    return later


BLANK = {
    "empty cell": FunctionTransformer(endless(X)),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
    "fitted before": make_pipeline(SCALER, LogisticRegression()).fit(X, Y),
    "nested": BaggingClassifier(RandomForestClassifier().fit(X, Y)),
    "ufunc": FunctionTransformer(np.log1p),
    "function": SelectKBest(f_classif),
    "lambda": FunctionTransformer(lambda X: X + 1),
    "class method": FunctionTransformer(Cleaner.plain),
    "method of a blank": FunctionTransformer(StandardScaler().fit_transform),
    "text": CountVectorizer(tokenizer=str.split),
    "columns": ColumnTransformer([("a", OneHotEncoder(categories=[["x"]]), ["a"])]),
    "kernel": GaussianProcessClassifier(RBF(2.0)),
    "splitter": GridSearchCV(
        LogisticRegression(), {"C": [1, 2]}, cv=StratifiedKFold(3)
    ),
    "scorer": GridSearchCV(
        LogisticRegression(), {}, scoring=make_scorer(accuracy_score)
    ),
    "searched": GridSearchCV(
        make_pipeline(StandardScaler()),
        {"standardscaler": [StandardScaler(), LGBMClassifier(), "passthrough"]},
    ),
    "lightgbm": LGBMClassifier().fit(X, Y),
    "seeded": RandomForestClassifier(random_state=np.random.RandomState(0)),
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_copied_with_all_that_it_learned_is_found(name):
    assert keeps_what_it_learned(CARRIED[name])


@pytest.mark.parametrize("name", BLANK)
def test_clones_that_are_blank_are_told_from_those(name):
    assert not keeps_what_it_learned(BLANK[name])


@pytest.mark.parametrize("name", ["plain object", "bound method"])
def test_the_certificate_assumes_that_carried_parts_are_public(name):
    model = PrivateVotingClassifier(CARRIED[name], classes=[0, 1], n_shards=5)
    certificate = model.fit(X, Y).certificate_
    assert [a.code for a in certificate.assumptions] == ["PUBLIC_PARTS"]
    assert not certificate.proved


def test_an_object_that_holds_itself_is_looked_at_once():
    ring = Cleaner()
    ring.known = [ring]
    assert not keeps_what_it_learned(Holds(ring))
