"""Training the models of all shards, by the fastest way that fits them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from reticent._sklearn import MatrixLike
from reticent.ensembles.carried_state import keeps_what_it_learned
from reticent.ensembles.ensemble import ClassifierEnsemble, RegressorEnsemble
from reticent.ensembles.fitting import FittedShards, fit_shards, fit_spooled
from reticent.ensembles.fusion.fusion import Fusion
from reticent.ensembles.linear_training import (
    fused_recipe,
    linear_fusion,
    train_linear,
    train_spooled,
)
from reticent.ensembles.spool import DealtRows
from reticent.ensembles.suppressed_output import silence
from reticent.estimators import Columns, Labels, Partition
from reticent.mechanisms import RandomSource

#: What is to be predicted: one of the public labels, or a number within bounds.
Task: TypeAlias = Labels | tuple[float, float]
Ensemble: TypeAlias = ClassifierEnsemble | RegressorEnsemble


def train_ensemble(
    estimator: Any,
    X: MatrixLike,
    targets: NDArray[Any],
    partition: Partition,
    source: RandomSource,
    task: Task,
    *,
    public_types: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Ensemble:
    """Train one model per shard on rows in memory.

    Logistic and ridge models that are small enough are trained all at once, see
    `fused_recipe`; anything else is fitted shard by shard, see `fit_shards`. Targets
    are places of labels in the public list, or numbers; the `task` has the labels or
    the bounds. The source seeds what is random in the estimator.
    """
    n_classes = _n_classes(task)
    if isinstance(X, np.ndarray):
        recipe = fused_recipe(estimator, X.shape[1], n_classes)
        if recipe is not None:
            fused = train_linear(
                recipe, X, targets, partition, n_classes=n_classes, n_jobs=n_jobs
            )
            models = [None] * partition.n_shards
            fusion = linear_fusion(recipe, fused)
            return _ensemble(estimator, task, models, Columns.of(X), fusion, n_jobs)
    if isinstance(task, Labels):
        # In the type of the public labels, which is not that of what happens to occur.
        targets = task.classes[targets]
    shards = fit_shards(
        _own(estimator),
        X,
        targets,
        partition,
        source,
        public_types=public_types,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    ensemble = _ensemble(estimator, task, shards.models, shards.columns, None, n_jobs)
    return _with_failures(ensemble, shards)


def train_ensemble_spooled(
    estimator: Any,
    rows: DealtRows,
    source: RandomSource,
    task: Task,
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Ensemble:
    """Train the ensemble that the same rows would give in memory, to the last bit."""
    columns = Columns(count=rows.n_columns, names=None)
    n_classes = _n_classes(task)
    recipe = fused_recipe(estimator, rows.n_columns, n_classes)
    if recipe is not None:
        fused = train_spooled(recipe, rows, n_classes=n_classes, n_jobs=n_jobs)
        models = [None] * rows.n_shards
        fusion = linear_fusion(recipe, fused)
        return _ensemble(estimator, task, models, columns, fusion, n_jobs)
    shards = fit_spooled(
        _own(estimator),
        rows,
        source,
        labels=task.classes if isinstance(task, Labels) else None,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    ensemble = _ensemble(estimator, task, shards.models, columns, None, n_jobs)
    return _with_failures(ensemble, shards)


def _with_failures(ensemble: Ensemble, shards: FittedShards) -> Ensemble:
    ensemble.failures = dict(shards.failures)
    return ensemble


def _n_classes(task: Task) -> int | None:
    return len(task.classes) if isinstance(task, Labels) else None


def _ensemble(
    estimator: Any,
    task: Task,
    models: Sequence[Any],
    columns: Columns,
    fusion: Fusion | None,
    n_jobs: int | None,
) -> Ensemble:
    held: dict[str, Any] = {
        "fusion": fusion,
        "only_arrays": fusion is not None,
        "frozen": keeps_what_it_learned(estimator),
        "n_jobs": n_jobs,
    }
    if isinstance(task, Labels):
        return ClassifierEnsemble(models, columns, task.classes, **held)
    return RegressorEnsemble(models, columns, task, **held)


def _own(estimator: Any) -> Any:
    """Return a silent estimator whose clones share nothing with the caller's.

    A frozen part clones into itself: fitted again by its owner, it would change the
    models that were trained with it.
    """
    carries = keeps_what_it_learned(estimator)
    own = deepcopy(estimator) if carries else clone(estimator, safe=False)
    silence(own)
    return own
