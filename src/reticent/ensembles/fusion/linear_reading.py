"""Reads fitted linear models into one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import linear_model as linear
from sklearn.svm import LinearSVC, LinearSVR

from reticent._arrays import Floats, Ints
from reticent.ensembles.fusion.encoding import DOUBLE_ROUNDOFF
from reticent.ensembles.fusion.linear import MAGNITUDE_LIMIT, FusedLinear
from reticent.ensembles.fusion.pipelines import FusablePipeline, column_maps
from reticent.estimators import NO_BALLOT, Labels

# Exact types only: a subclass may predict differently.
_CLASSIFIERS = (
    LinearSVC,
    linear.LogisticRegression,
    linear.LogisticRegressionCV,
    linear.Perceptron,
    linear.RidgeClassifier,
    linear.RidgeClassifierCV,
    linear.SGDClassifier,
)
_REGRESSORS = (
    linear.BayesianRidge,
    linear.ElasticNet,
    linear.ElasticNetCV,
    linear.HuberRegressor,
    linear.Lasso,
    linear.LassoCV,
    linear.LinearRegression,
    LinearSVR,
    linear.Ridge,
    linear.RidgeCV,
    linear.SGDRegressor,
)


@dataclass(frozen=True, slots=True, eq=False)
class FoldedModel:
    """One model's weights with its scalers folded in, as in `FusedLinear`.

    A model of two labels has one score, the margin of the second.
    """

    labels: Ints
    weights: Floats
    intercepts: Floats
    missing: Floats
    bulk: float

    @property
    def largest(self) -> float:
        """The largest number in the model; NaN if one is NaN."""
        numbers = np.abs([*self.weights.ravel(), *self.intercepts, self.bulk])
        return float(numbers.max())


def predicted_width(pipeline: FusablePipeline) -> int | None:
    """Return how many columns a linear predictor has weights for, None for others."""
    if type(pipeline.predictor) not in _REGRESSORS + _CLASSIFIERS:
        return None
    return int(np.shape(pipeline.predictor.coef_)[-1])


def fuse_linear(
    pipelines: dict[int, FusablePipeline], labels: Labels | None
) -> FusedLinear | None:
    """Return the models of the given shards as one matrix, where possible.

    All pipelines have one structure and width; `labels` are None for regression.
    Returns None if the predictors are not linear, or none of them can be among the
    arrays. Shards with weights above `MAGNITUDE_LIMIT` are left out, and so are those
    where an imputer dropped a column.
    """
    example = next(iter(pipelines.values()))
    if type(example.predictor) not in (_REGRESSORS if labels is None else _CLASSIFIERS):
        return None
    folded = {shard: _fold(pipeline, labels) for shard, pipeline in pipelines.items()}
    lines = {shard: line for shard, line in folded.items() if line is not None}
    if not lines:
        return None
    return join_models(
        lines,
        n_scores=1 if labels is None or len(labels) == 2 else len(labels),
        n_columns=np.shape(example.predictor.coef_)[-1],
        steps=4 * (len(example.tail) + max(len(b.movers) for b in example.blocks)),
        link=_link(example.predictor, labels),
    )


def join_models(
    models: dict[int, FoldedModel],
    *,
    n_scores: int,
    n_columns: int,
    steps: int,
    link: str,
) -> FusedLinear:
    """Join the models of the given shards; there may be none."""
    padded = [_pad(model, n_scores) for model in models.values()]
    shape = (len(padded), n_scores, n_columns)
    missing = np.array([model.missing for model in padded]).reshape(shape)
    if np.isnan(missing).all():
        missing = missing[:, :, :0]
    labels = np.array([model.labels for model in padded], dtype=np.int64)
    return FusedLinear(
        shards=np.array(list(models), dtype=np.int64),
        labels=labels.reshape(len(padded), max(2, n_scores)),
        weights=np.array([model.weights for model in padded]).reshape(shape),
        intercepts=np.array([model.intercepts for model in padded]).reshape(shape[:2]),
        missing=missing,
        bulk=np.array([model.bulk for model in padded], dtype=np.float64),
        steps=steps,
        roundoff=DOUBLE_ROUNDOFF,
        link=link,
    )


def _fold(pipeline: FusablePipeline, labels: Labels | None) -> FoldedModel | None:
    model = pipeline.predictor
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    intercepts = np.broadcast_to(
        np.asarray(model.intercept_, dtype=np.float64), len(coef)
    )
    maps = column_maps(pipeline, coef.shape[1])
    if maps is None:
        return None
    known = np.full(2, NO_BALLOT)
    if labels is not None:
        known = labels.indices(model.classes_)
        # A model of one label has nothing to compare, and may raise.
        if len(known) < 2 or (known == NO_BALLOT).any():
            return None
    with np.errstate(all="ignore"):
        size = np.abs(coef)
        folded = FoldedModel(
            labels=known,
            weights=coef * maps.slope,
            intercepts=intercepts + coef @ maps.offset,
            missing=coef * (maps.when_missing - maps.offset),
            # Once for the offset, and twice more for a missing value.
            bulk=float((np.abs(intercepts) + 3 * (size @ maps.bulk)).max()),
        )
        inner = max(size.max(initial=0), np.abs(maps.slope).max(initial=0))
    # A comparison with NaN is false.
    tame = inner <= MAGNITUDE_LIMIT and folded.largest <= MAGNITUDE_LIMIT
    return folded if tame else None


def _pad(line: FoldedModel, n_scores: int) -> FoldedModel:
    """Pad a model that knows fewer labels to the common number of scores."""
    n_own, n_columns = line.weights.shape
    if n_own == n_scores:
        return line
    weights = np.zeros((n_scores, n_columns))
    missing = np.where(np.isnan(line.missing[:1]), np.nan, np.zeros(weights.shape))
    intercepts = np.full(n_scores, -np.inf)
    labels = np.full(n_scores, NO_BALLOT)
    n_known = len(line.labels)
    # One margin becomes two scores, 0 and the margin: the larger one wins.
    own = slice(n_known - n_own, n_known)
    weights[own], missing[own], intercepts[own] = (
        line.weights,
        line.missing,
        line.intercepts,
    )
    intercepts[: n_known - n_own] = 0
    labels[:n_known] = line.labels
    return FoldedModel(labels, weights, intercepts, missing, line.bulk)


def _link(model: Any, labels: Labels | None) -> str:
    """Return how scores become probabilities, if every version does it the same way."""
    if labels is None or type(model) not in (
        linear.LogisticRegression,
        linear.LogisticRegressionCV,
    ):
        return ""
    if getattr(model, "multi_class", "auto") not in ("auto", "deprecated"):
        return ""
    if len(labels) == 2:
        return "logistic"
    return "" if model.solver == "liblinear" else "softmax"
