"""Every kind of estimator that can be fused, with its settings for predicting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)


@dataclass(frozen=True)
class Case:
    """An estimator, the number of its labels (0: numbers), and what it should do."""

    estimator: Any
    n_classes: int
    fused: bool = True
    missing: bool = False
    categories: bool = False

    def __str__(self) -> str:
        steps = getattr(self.estimator, "steps", [("", self.estimator)])
        return "+".join(type(step).__name__ for _, step in steps) + str(self.n_classes)

    @property
    def kinds(self) -> list[str]:
        """Return what can be compared."""
        if not self.n_classes:
            return ["outputs"]
        gives = hasattr(self.estimator, "predict_proba")
        return ["votes", "probabilities"] if gives else ["votes"]


def _light(kind: str = "Classifier", **settings: Any) -> Any:
    options = {"n_estimators": 6, "min_child_samples": 4, "verbose": -1, "n_jobs": 1}
    return getattr(lightgbm, f"LGBM{kind}")(**(options | settings))


def _boosted(**settings: Any) -> Any:
    return HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=4, **settings)


_SCALERS = [
    (StandardScaler(),),
    (RobustScaler(with_centering=False), StandardScaler()),
    (MinMaxScaler((-1, 3)),),
    (SimpleImputer(), MaxAbsScaler()),
    (PolynomialFeatures(2, include_bias=False), StandardScaler()),
    (FunctionTransformer(np.arctan), StandardScaler(with_std=False)),
]
_LINEAR_CLASSIFIERS = [
    LogisticRegression(max_iter=20),
    LogisticRegression(fit_intercept=False, max_iter=20),
    LogisticRegressionCV(
        Cs=2, cv=2, max_iter=10, l1_ratios=(0.0,), use_legacy_attributes=False
    ),
    LinearSVC(max_iter=20),
    RidgeClassifier(),
    RidgeClassifierCV(),
    SGDClassifier(max_iter=10),
    SGDClassifier(loss="log_loss", max_iter=10),
    Perceptron(max_iter=10),
]
_LINEAR_REGRESSORS = [
    BayesianRidge(),
    ElasticNet(max_iter=20),
    ElasticNetCV(cv=2, max_iter=20, alphas=3),
    HuberRegressor(max_iter=20),
    Lasso(max_iter=20),
    LassoCV(cv=2, max_iter=20, alphas=3),
    LinearRegression(),
    LinearSVR(max_iter=20),
    Ridge(),
    RidgeCV(),
    SGDRegressor(max_iter=10),
]
_TREE_CLASSIFIERS = [
    DecisionTreeClassifier(),
    ExtraTreeClassifier(),
    RandomForestClassifier(5),
    ExtraTreesClassifier(4, max_depth=3),
    _boosted(),
    _boosted(early_stopping=True, n_iter_no_change=1, tol=0.1),
    _light(),
    _light(boosting_type="dart"),
    _light(max_bin=15, use_missing=False),
]
_TREE_REGRESSORS = [
    DecisionTreeRegressor(),
    ExtraTreeRegressor(),
    RandomForestRegressor(4),
    ExtraTreesRegressor(4),
    HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=4),
    HistGradientBoostingRegressor(loss="absolute_error", max_iter=4),
    HistGradientBoostingRegressor(loss="quantile", quantile=0.3, max_iter=4),
    _light("Regressor"),
]
_LOOPED = [
    RandomForestClassifier(3, n_jobs=2),
    _light(pred_early_stop=True, pred_early_stop_freq=1, pred_early_stop_margin=0.1),
    _light(num_iteration_predict=2),
    _light(boosting_type="rf", subsample=0.5, subsample_freq=1),
    _light(zero_as_missing=True),
    _light(linear_tree=True),
    _light(sigmoid=2.0),
]

CASES = [
    *(Case(model, k) for model in _LINEAR_CLASSIFIERS for k in (2, 3)),
    *(Case(make_pipeline(*s, LogisticRegression()), 2) for s in _SCALERS),
    *(Case(make_pipeline(*s, LogisticRegression()), 3) for s in _SCALERS[::3]),
    Case(LogisticRegression(solver="liblinear"), 2),
    *(Case(model, 0) for model in _LINEAR_REGRESSORS),
    *(Case(make_pipeline(*s, Ridge()), 0) for s in _SCALERS),
    *(Case(m, k, missing=k == 3) for m in _TREE_CLASSIFIERS for k in (2, 3)),
    *(Case(model, 0) for model in _TREE_REGRESSORS),
    Case(make_pipeline(FunctionTransformer(np.arctan), _light()), 2),
    *(Case(_boosted(categorical_features=[1]), k, categories=True) for k in (2, 3)),
    *(Case(model, 2, fused=False) for model in _LOOPED),
]
