"""Ensembles to compare: fused against asked model by model."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification

from reticent.ensembles import ClassifierEnsemble, RegressorEnsemble, train_ensemble
from reticent.ensembles.fitting import fit_shards
from reticent.estimators import Labels, partition_rows
from reticent.mechanisms import noise_source


def problem(seed, *, n_classes=2, n_rows=600, n_features=6):
    """Return rows and labels in which a few shards miss the rarest label."""
    weights = None if n_classes == 2 else [*np.full(n_classes - 1, 0.97), 0.03]
    X, y = make_classification(
        n_rows,
        n_features,
        n_informative=n_features - 1,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        weights=None if weights is None else np.array(weights) / np.sum(weights),
        flip_y=0.02,
        random_state=seed,
    )
    return X * np.logspace(-3, 3, n_features) + 5, y


def trained_at_once(estimator, X, targets, partition, task):
    """Return an ensemble of linear models that were trained all at once.

    `task` is a list of labels 0, 1, ..., or a pair of bounds.
    """
    task = Labels(task) if isinstance(task, list) else task
    source = noise_source(0)
    ensemble = train_ensemble(estimator, X, targets, partition, source, task)
    assert ensemble.fusion is not None
    assert all(model is None for model in ensemble.models)
    return ensemble


def classifiers(estimator, X, y, classes, *, n_shards=12, seed=0, **settings):
    source = noise_source(seed)
    partition = partition_rows(len(y), n_shards, source)
    fitted = fit_shards(estimator, X, y, partition, source, **settings)
    return ClassifierEnsemble(fitted.models, fitted.columns, classes)


def regressors(estimator, X, y, bounds, *, n_shards=12, seed=0):
    source = noise_source(seed)
    partition = partition_rows(len(y), n_shards, source)
    fitted = fit_shards(estimator, X, y, partition, source)
    return RegressorEnsemble(fitted.models, fitted.columns, bounds)


def assert_same_votes(ensemble, X, *, least_fused=None):
    """Fused and looped votes agree, shard by shard."""
    fused = 0 if ensemble.fusion is None else len(ensemble.fusion.shards)
    live = sum(model is not None for model in ensemble.models)
    assert fused >= (live if least_fused is None else least_fused) > 0
    assert np.array_equal(ensemble.votes(X), ensemble.votes(X, fused=False))
    for shard in range(ensemble.n_shards):
        alone = ClassifierEnsemble(
            ensemble.models[shard : shard + 1],
            ensemble.columns,
            ensemble.labels.classes,
        )
        assert np.array_equal(alone.votes(X), alone.votes(X, fused=False))
