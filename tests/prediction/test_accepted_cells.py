"""What a predictor refuses before it charges is what all of its models refuse."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

from reticent.prediction.sharded.accepted_cells import (
    _NUMBERS_ONLY,
    _NUMBERS_ONLY_MODULES,
    takes_missing,
    takes_numbers_only,
)

X, Y = load_breast_cancer(return_X_y=True)
X, Y = X[::4, :3], Y[::4] + 1


class Own(LogisticRegression):
    """A user's class, which may do anything with text."""


def in_listed_modules():
    return [
        kind
        for _, kind in all_estimators()
        if ".".join(kind.__module__.split(".")[:2]) in _NUMBERS_ONLY_MODULES
    ]


LISTED = dict.fromkeys([*_NUMBERS_ONLY, *in_listed_modules()])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", LISTED, ids=lambda kind: kind.__name__)
def test_what_is_refused_as_text_is_what_every_model_refuses(kind):
    known = signature(kind).parameters
    given = {"n_estimators": 2} if "n_estimators" in known else {}
    step = kind(**given)
    assert takes_numbers_only(step)
    assert takes_numbers_only(make_pipeline("passthrough", step))
    several = kind.__name__.startswith("MultiTask")
    step.fit(X, np.stack([Y, Y], axis=1) if several else Y)
    ask = step.predict if hasattr(step, "predict") else step.transform
    text = X[:1].astype(object)
    text[0, 1] = "a"
    for refused in (text, text.astype(str), pd.DataFrame(text)):
        with pytest.raises((TypeError, ValueError)):
            ask(refused)
    endless = X[:1].copy()
    endless[0, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        ask(endless)
    hole = X[:1].copy()
    hole[0, 1] = np.nan
    if not takes_missing(step):
        with pytest.raises(ValueError, match="NaN"):
            ask(hole)


@pytest.mark.parametrize(
    ("estimator", "missing", "numbers"),
    [
        (LogisticRegression(), False, True),
        (make_pipeline(StandardScaler(), LogisticRegression()), False, True),
        (make_pipeline(StandardScaler(), DecisionTreeClassifier()), True, True),
        (make_pipeline(StandardScaler(), SimpleImputer(), Own()), True, True),
        (make_pipeline(SimpleImputer(), LogisticRegression()), True, False),
        (make_pipeline(make_pipeline(SimpleImputer()), Own()), True, False),
        (make_pipeline(FunctionTransformer(), LogisticRegression()), True, False),
        (make_pipeline(OneHotEncoder(), LogisticRegression()), True, False),
        (make_pipeline(ColumnTransformer([]), LogisticRegression()), True, False),
        (make_pipeline(make_union(SimpleImputer()), Own()), True, False),
        (HistGradientBoostingClassifier(), True, False),
        (Own(), False, False),
        (None, True, False),
    ],
    ids=str,
)
def test_steps_are_asked_one_by_one(estimator, missing, numbers):
    assert takes_missing(estimator) is missing
    assert takes_numbers_only(estimator) is numbers
