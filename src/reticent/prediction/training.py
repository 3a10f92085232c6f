"""Training the models of all shards, by the fastest way that fits them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._sklearn import MatrixLike
from reticent.ensembles import (
    ClassifierEnsemble,
    Columns,
    Partition,
    RegressorEnsemble,
    fit_shards,
    linear_recipe,
    train_classifiers,
    train_regressors,
)
from reticent.mechanisms import RandomSource

# Newton steps of all shards at once solve systems of this size; larger models are
# faster one by one.
_MOST_UNKNOWNS = 600


def classifiers_of_shards(
    model: Any,
    X: MatrixLike,
    y: NDArray[Any],
    partition: Partition,
    source: RandomSource,
    classes: NDArray[Any],
) -> ClassifierEnsemble:
    """Train one classifier a shard; logistic and ridge models all at once.

    `model` holds the parameters `estimator`, `n_jobs` and `verbose`.
    """
    if _trains_fused(model.estimator, X, len(classes), classifies=True):
        return train_classifiers(
            model.estimator, X, y, partition, classes, n_jobs=model.n_jobs
        )
    shards = _fit_one_by_one(model, X, y, partition, source)
    return ClassifierEnsemble(
        shards.models, Columns.of(X), classes, n_jobs=model.n_jobs
    )


def regressors_of_shards(
    model: Any,
    X: MatrixLike,
    y: NDArray[np.float64],
    partition: Partition,
    source: RandomSource,
    bounds: tuple[float, float],
) -> RegressorEnsemble:
    """Train one regressor a shard; ridge models all at once."""
    if _trains_fused(model.estimator, X, 1, classifies=False):
        return train_regressors(
            model.estimator, X, y, partition, bounds, n_jobs=model.n_jobs
        )
    shards = _fit_one_by_one(model, X, y, partition, source)
    return RegressorEnsemble(shards.models, Columns.of(X), bounds, n_jobs=model.n_jobs)


def _trains_fused(
    estimator: Any, X: MatrixLike, n_labels: int, *, classifies: bool
) -> bool:
    recipe = linear_recipe(estimator)
    return (
        recipe is not None
        and recipe.classifies == classifies
        and isinstance(X, np.ndarray)
        and X.dtype.kind in "biuf"
        and (X.shape[1] + 1) * max(1, n_labels) <= _MOST_UNKNOWNS
    )


def _fit_one_by_one(
    model: Any, X: MatrixLike, y: Any, partition: Partition, source: RandomSource
) -> Any:
    return fit_shards(
        model.estimator,
        X,
        y,
        partition,
        source,
        n_jobs=model.n_jobs,
        verbose=bool(model.verbose),
    )
