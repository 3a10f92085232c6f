"""Training the models of all shards, by the fastest way that fits them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._sklearn import MatrixLike
from reticent.ensembles import (
    ClassifierEnsemble,
    DealtRows,
    Fusion,
    RegressorEnsemble,
    fit_shards,
    fit_spooled,
    linear_fusion,
    linear_recipe,
    train_classifiers,
    train_regressors,
    train_spooled,
)
from reticent.estimators import Columns, Labels, Partition
from reticent.mechanisms import RandomSource
from reticent.prediction.sharded.base import keeps_what_it_learned

#: What is to be predicted: one of the public labels, or a number within bounds.
Task = Labels | tuple[float, float]

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
    if isinstance(X, np.ndarray) and _trains_fused(
        model.estimator, X.shape[1], len(classes), classifies=True
    ):
        return train_classifiers(
            model.estimator, X, y, partition, classes, n_jobs=model.n_jobs
        )
    # In the type of the public labels, which is not that of what happens to occur.
    places = Labels(classes).indices(y)
    shards = _fit_one_by_one(model, X, classes[places], partition, source)
    return ClassifierEnsemble(
        shards.models, shards.columns, classes, n_jobs=model.n_jobs
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
    if isinstance(X, np.ndarray) and _trains_fused(
        model.estimator, X.shape[1], 1, classifies=False
    ):
        return train_regressors(
            model.estimator, X, y, partition, bounds, n_jobs=model.n_jobs
        )
    shards = _fit_one_by_one(model, X, y, partition, source)
    return RegressorEnsemble(shards.models, shards.columns, bounds, n_jobs=model.n_jobs)


def ensemble_of_spooled(
    model: Any, rows: DealtRows, source: RandomSource, task: Task
) -> Any:
    """Train the ensemble that the same rows would give in memory, to the last bit.

    `task` is the public labels, or the public bounds of a number.
    """
    labels = task if isinstance(task, Labels) else None
    columns = Columns(count=rows.n_columns, names=None)
    n_labels = 1 if labels is None else len(labels)
    recipe = linear_recipe(model.estimator)
    fusion: Fusion | None = None
    models: tuple[Any, ...] = (None,) * rows.n_shards
    if recipe is not None and _trains_fused(
        model.estimator, rows.n_columns, n_labels, classifies=labels is not None
    ):
        n_classes = None if labels is None else n_labels
        trained = train_spooled(recipe, rows, n_classes=n_classes, n_jobs=model.n_jobs)
        fusion = linear_fusion(recipe, trained)
    else:
        models = fit_spooled(
            _own(model.estimator),
            rows,
            source,
            labels=None if labels is None else labels.classes,
            n_jobs=model.n_jobs,
            verbose=bool(model.verbose),
        ).models
    held: dict[str, Any] = {
        "fusion": fusion,
        "only_arrays": fusion is not None,
        "n_jobs": model.n_jobs,
    }
    if isinstance(task, Labels):
        return ClassifierEnsemble(models, columns, task.classes, **held)
    return RegressorEnsemble(models, columns, task, **held)


def _trains_fused(
    estimator: Any, n_columns: int, n_labels: int, *, classifies: bool
) -> bool:
    recipe = linear_recipe(estimator)
    return (
        recipe is not None
        and recipe.classifies == classifies
        and (n_columns + 1) * max(1, n_labels) <= _MOST_UNKNOWNS
    )


def _fit_one_by_one(
    model: Any, X: MatrixLike, y: Any, partition: Partition, source: RandomSource
) -> Any:
    return fit_shards(
        _own(model.estimator),
        X,
        y,
        partition,
        source,
        public_types=bool(model.public_types),
        n_jobs=model.n_jobs,
        verbose=bool(model.verbose),
    )


def _own(estimator: Any) -> Any:
    """Return an estimator whose clones share nothing with the caller's.

    A frozen part clones into itself: fitted again by its owner, it would change the
    models that were trained with it.
    """
    return deepcopy(estimator) if keeps_what_it_learned(estimator) else estimator
