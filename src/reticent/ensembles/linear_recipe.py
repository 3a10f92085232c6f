"""The linear models that can be trained for all shards at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

#: Settings of boosted trees for the few rows of a shard. Category codes are split as
#: numbers.
SHARD_TREES: dict[str, Any] = {
    "max_iter": 60,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 10,
    "l2_regularization": 1.0,
    "early_stopping": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRecipe:
    """The settings of a linear model with a squared penalty."""

    loss: str  #: ``"logistic"`` or ``"squared"``
    #: Factor of half the squared weights, added to the sum of losses (for squared
    #: losses, to half the sum): ``1 / C`` or ``alpha`` in scikit-learn's terms.
    penalty: float
    fit_intercept: bool  #: whether there is an intercept, never penalised
    scaled: bool  #: whether each shard standardises its columns first
    classifies: bool  #: whether targets are labels


def linear_recipe(estimator: Any) -> LinearRecipe | None:
    """Read the recipe of a logistic or ridge model, perhaps behind a StandardScaler.

    Returns
    -------
    LinearRecipe or None
        None if the estimator is another one, or has settings that fused training does
        not support: then shards are fitted one by one.
    """
    steps = [step for _, step in estimator.steps] if type(estimator) is Pipeline else []
    model = steps[-1] if steps else estimator
    scaled = len(steps) == 2
    if len(steps) > 2 or (scaled and not _is_full_scaler(steps[0])):
        return None
    if type(model) is LogisticRegression and _is_plain_logistic(model):
        loss, penalty = "logistic", 1 / model.C
    elif type(model) in (Ridge, RidgeClassifier) and _is_plain_ridge(model):
        loss, penalty = "squared", float(model.alpha)
    else:
        return None
    return LinearRecipe(
        loss=loss,
        penalty=penalty,
        fit_intercept=model.fit_intercept,
        scaled=scaled,
        classifies=type(model) is not Ridge,
    )


def _is_full_scaler(step: Any) -> bool:
    return type(step) is StandardScaler and step.with_mean and step.with_std


def _is_plain_logistic(model: LogisticRegression) -> bool:
    """Whether a model is multinomial with a squared penalty and equal weights."""
    return (
        model.penalty in ("l2", "deprecated")
        and model.l1_ratio in (None, 0)
        and 0 < model.C < np.inf
        and model.class_weight is None
        and model.solver != "liblinear"
        and getattr(model, "multi_class", "auto") in ("auto", "deprecated")
    )


def _is_plain_ridge(model: Any) -> bool:
    return (
        isinstance(model.alpha, (int, float))
        and 0 < model.alpha < np.inf
        and not model.positive
        and getattr(model, "class_weight", None) is None
    )
