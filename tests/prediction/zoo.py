"""Pipelines of every kind, each with a classifier and a regressor at its end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.prediction.hostile_tables import JOBS


class ReadsTypes(ClassifierMixin, BaseEstimator):
    """Answers by the types and the layout of the rows it was fitted on."""

    def __init__(self, labels=True):
        self.labels = labels

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        types = [str(t) for t in getattr(X, "dtypes", [getattr(X, "dtype", None)])]
        order = getattr(X, "flags", {"C_CONTIGUOUS": True})["C_CONTIGUOUS"]
        labels = str(getattr(X, "index", None))
        self.mood_ = crc32(f"{types} {labels} {order}".encode())
        return self

    def predict(self, X):
        mood = self.mood_ % 2 if self.labels else self.mood_ % 1000 / 1000
        return np.full(len(X), mood)


class Draws(ClassifierMixin, BaseEstimator):
    """Draws from the process's generators, once more for each row it learns from."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.mood_ = np.random.random_sample(len(X))[-1]  # noqa: NPY002
        return self

    def predict(self, X):
        drawn = np.random.random_sample(len(X))  # noqa: NPY002
        return (drawn + random.random() > 2 * self.mood_).astype(int)


class Overwrites(ClassifierMixin, BaseEstimator):
    """Writes what it learned into the rows it is asked about, in place."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.centre_ = np.asarray(X, dtype=float)[:, 0].mean()
        return self

    def predict(self, X):
        if hasattr(X, "iloc"):
            X.iloc[:, 0] = X.iloc[:, 0].astype(float) - self.centre_
            return (X.iloc[:, 0].to_numpy() > 0).astype(int)
        if isinstance(X, np.ndarray):
            X[:, 0] -= self.centre_
            return (X[:, 0] > 0).astype(int)
        return (X[:, 0].to_numpy() > self.centre_).astype(int)


@dataclass(frozen=True)
class Animal:
    """Steps before a predictor, and the predictor for labels and for numbers.

    `mixed` says that the steps need the columns of text; `pandas` that they work on
    frames of pandas only; without `polars`, that text in frames of polars ends the
    process, as it does in LightGBM 4.7.
    """

    steps: tuple[Any, ...] = ()
    labels: Any = None
    numbers: Any = None
    mixed: bool = False
    pandas: bool = False
    polars: bool = True

    def pipeline(self, task: str) -> Any:
        logistic = LogisticRegression(solver="newton-cholesky")
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        default = tree if self.labels == "tree" else logistic
        if task == "labels":
            last = default if self.labels in (None, "tree") else self.labels
        else:
            last = Ridge() if self.numbers is None else self.numbers
        return make_pipeline(*self.steps, last)


NUMBERS = ["age", "income", "code"]


def columns(*parts: Any) -> ColumnTransformer:
    named = [(f"part{place}", *part) for place, part in enumerate(parts)]
    return ColumnTransformer(named, sparse_threshold=0)


FILL = make_pipeline(SimpleImputer(), StandardScaler())
TREE = {"labels": "tree", "numbers": DecisionTreeRegressor(max_depth=3, random_state=0)}
SMALL = {"max_iter": 4, "max_leaf_nodes": 4, "min_samples_leaf": 3}
TRIED = {"n_neighbors": [1, 2, 3, 5, 9]}
LIGHT = {"n_estimators": 3, "num_leaves": 4, "min_child_samples": 3, "verbose": -1}

ZOO: dict[str, Animal] = {
    "logistic": Animal(),
    "scaled logistic": Animal((StandardScaler(),)),
    "ridge": Animal((), RidgeClassifier()),
    "in-place scaler": Animal((StandardScaler(copy=False),), SVC(), SVR()),
    "min-max": Animal((MinMaxScaler(),)),
    "max-abs": Animal((MaxAbsScaler(),), RidgeClassifier()),
    "robust": Animal(
        (RobustScaler(),), KNeighborsClassifier(3), KNeighborsRegressor(3)
    ),
    "mean": Animal((SimpleImputer(), StandardScaler())),
    "declared filling": Animal(
        (SimpleImputer(strategy="constant", missing_values=-1, fill_value=0),), **TREE
    ),
    "median and marks": Animal(
        (SimpleImputer(strategy="median", add_indicator=True),), **TREE
    ),
    "most frequent": Animal((SimpleImputer(strategy="most_frequent"),)),
    "neighbours fill": Animal((KNNImputer(n_neighbors=2),)),
    "iterative": Animal((IterativeImputer(max_iter=2, random_state=0),)),
    "bins": Animal(
        (FILL, KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"))
    ),
    "quantiles": Animal((FILL, QuantileTransformer(n_quantiles=5))),
    "power": Animal((FILL, PowerTransformer())),
    "components": Animal((FILL, PCA(2))),
    "svd": Animal((FILL, TruncatedSVD(2, random_state=0))),
    "best columns": Animal((FILL, SelectKBest(k=2))),
    "varying columns": Animal((SimpleImputer(), VarianceThreshold(0.01)), **TREE),
    "chosen by a model": Animal((FILL, SelectFromModel(Ridge()))),
    "polynomial": Animal((FILL, PolynomialFeatures(2))),
    "splines": Animal((FILL, SplineTransformer(3))),
    "normalised": Animal((SimpleImputer(), Normalizer(copy=False))),
    "two-valued": Animal((SimpleImputer(), Binarizer(threshold=1, copy=False)), **TREE),
    "declared polynomial": Animal((PolynomialFeatures(2), StandardScaler())),
    "function": Animal((FunctionTransformer(np.arctan), MinMaxScaler())),
    "forest": Animal(
        (),
        RandomForestClassifier(3, max_depth=3, random_state=0),
        RandomForestRegressor(3, max_depth=3, random_state=0),
    ),
    "boosted": Animal(
        (),
        HistGradientBoostingClassifier(**SMALL),
        HistGradientBoostingRegressor(**SMALL),
    ),
    "boosted with categories": Animal(
        (),
        HistGradientBoostingClassifier(categorical_features=[2], **SMALL),
        HistGradientBoostingRegressor(categorical_features=[2], **SMALL),
    ),
    "lightgbm": Animal(
        (), LGBMClassifier(**LIGHT), LGBMRegressor(**LIGHT), polars=False
    ),
    "naive": Animal((), GaussianNB()),
    "reads types": Animal((), ReadsTypes(), ReadsTypes(labels=False)),
    "overwrites": Animal((), Overwrites(), Overwrites()),
    "numbers by type": Animal(
        (
            columns(
                (FILL, make_column_selector(dtype_include=np.number)),
                (
                    OneHotEncoder(handle_unknown="ignore"),
                    make_column_selector(dtype_exclude=np.number),
                ),
            ),
        ),
        mixed=True,
        pandas=True,
    ),
    "whole numbers by type": Animal(
        (
            ColumnTransformer(
                [("whole", FILL, make_column_selector(dtype_include="int64"))],
                remainder=SimpleImputer(strategy="most_frequent"),
            ),
        ),
        pandas=True,
    ),
    "filled columns": Animal(
        (ColumnTransformer([("filled", FILL, NUMBERS)]), StandardScaler()), pandas=True
    ),
    "one-hot": Animal(
        (columns((FILL, NUMBERS), (OneHotEncoder(handle_unknown="ignore"), ["job"])),),
        mixed=True,
    ),
    "ordinal": Animal(
        (
            columns(
                ("passthrough", NUMBERS),
                (
                    OrdinalEncoder(
                        handle_unknown="use_encoded_value",
                        unknown_value=-1,
                        encoded_missing_value=-2,
                    ),
                    ["job"],
                ),
            ),
        ),
        mixed=True,
        **TREE,
    ),
    "target encoder": Animal(
        (columns((FILL, NUMBERS), (TargetEncoder(cv=2, random_state=0), ["job"])),),
        mixed=True,
    ),
    "unseeded target encoder": Animal(
        (columns((FILL, NUMBERS), (TargetEncoder(cv=2), ["job"])),), mixed=True
    ),
    "shuffled splits": Animal(
        (FILL,),
        GridSearchCV(KNeighborsClassifier(), TRIED, cv=KFold(2, shuffle=True)),
        GridSearchCV(KNeighborsRegressor(), TRIED, cv=KFold(2, shuffle=True)),
    ),
    "draws": Animal((FILL,), Draws(), Draws()),
    "declared categories": Animal(
        (
            columns(
                (FILL, NUMBERS),
                (
                    make_pipeline(
                        SimpleImputer(strategy="constant", fill_value="none"),
                        OneHotEncoder(categories=[JOBS], handle_unknown="ignore"),
                    ),
                    ["job"],
                ),
            ),
        ),
        mixed=True,
    ),
    "counted words": Animal(
        (columns((FILL, NUMBERS), (CountVectorizer(), "note")),), mixed=True
    ),
    "weighted words": Animal((columns((TfidfVectorizer(), "note")),), mixed=True),
    "hashed words": Animal(
        (columns((HashingVectorizer(n_features=16), "note")),), mixed=True
    ),
    "boosted with named categories": Animal(
        (
            columns(
                ("passthrough", NUMBERS), (OrdinalEncoder(categories=[JOBS]), ["job"])
            ),
        ),
        HistGradientBoostingClassifier(categorical_features=[3], **SMALL),
        HistGradientBoostingRegressor(categorical_features=[3], **SMALL),
        mixed=True,
    ),
    "reads types of a frame": Animal(
        (), ReadsTypes(), ReadsTypes(labels=False), mixed=True
    ),
}
