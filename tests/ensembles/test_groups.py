"""Whether a shard answers through arrays depends on its own model alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent.ensembles import ClassifierEnsemble
from reticent.estimators import Columns, partition_rows
from reticent.mechanisms import noise_source
from tests.ensembles.fused_cases import classifiers, problem, regressors

BOOSTED = HistGradientBoostingClassifier(
    max_iter=4, min_samples_leaf=3, categorical_features="from_dtype"
)


def fused_shards(ensemble, X=None):
    """Return the shards that answer through arrays, as groups."""
    fusions = ensemble._fusions()
    if X is not None:
        read = ensemble.columns.read(X)
        fusions = [fusion for fusion, _ in ensemble._encoded(read, True)]
    return sorted(fusion.shards.tolist() for fusion in fusions)


def filled(predictor):
    return make_pipeline(SimpleImputer(), StandardScaler(), predictor)


def with_gaps(X):
    X = X.copy()
    X[::3, 1] = np.nan
    X[4, 2] = np.inf  # every model refuses this row
    return X


def without_column(X, partition, shards):
    """Return rows in which each of the shards lacks a column, not always the same."""
    X = X.copy()
    for shard in shards:
        X[partition.rows_by_shard()[shard], shard % 3] = np.nan
    return X


@pytest.mark.parametrize("lost", [[0], [0, 1], [3], [0, 2, 4, 5]])
def test_shards_that_lack_a_column_are_asked_and_the_others_stay_fused(lost, seed):
    X, y = problem(seed, n_rows=240)
    Z = without_column(X, partition_rows(len(y), 6, noise_source(seed)), lost)
    fit = {"n_shards": 6, "seed": seed}
    voting = classifiers(filled(LogisticRegression()), Z, y, [0, 1], **fit)
    averaging = regressors(filled(Ridge()), Z, X[:, 0], (0, 9), **fit)
    for ensemble in (voting, averaging):
        assert fused_shards(ensemble, X) == [sorted({*range(6)} - set(lost))]
    for queries in (X[:30], X[:1], with_gaps(X[:30])):
        for add_up in (voting.votes, voting.probability_sums, averaging.output_sums):
            assert np.array_equal(add_up(queries), add_up(queries, fused=False))


def colours(kind, n, seed):
    """Return a frame with categories that are text, numbers, or whole numbers."""
    rng = np.random.default_rng(seed)
    levels = ["red", "green", "blue"] if kind == "text" else [1, 2, 3]
    chosen = rng.integers(0, 3, n)
    known = [levels[place] for place in chosen]
    if kind == "numbers":
        known[0] = None  # with a missing one, whole numbers are numbers
    column = pd.Categorical(known, categories=levels)
    frame = pd.DataFrame({"c": column, "a": rng.normal(size=n)})
    return frame, (chosen == 1) ^ (rng.random(n) < 0.2)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_categories_of_several_kinds_are_fused_apart(turn):
    """Whole numbers are looped; the other kinds are fused, whoever comes first."""
    kinds = np.roll(["whole", "text", "numbers", "text", "numbers", "text"], turn)
    models = []
    for seed, kind in enumerate(kinds):
        frame, y = colours(kind, 60, seed)
        models.append(clone(BOOSTED).fit(frame, y.astype(int)))
    columns = Columns.of(frame, public_types=True)
    ensemble = ClassifierEnsemble(models, columns, [0, 1])
    groups = {
        kind: np.flatnonzero(kinds == kind).tolist() for kind in ("text", "numbers")
    }
    assert fused_shards(ensemble) == sorted(groups.values())
    for kind in ("text", "numbers", "whole"):
        queries, _ = colours(kind, 20, 99)
        expected = [groups[kind]] if kind in groups else []
        assert fused_shards(ensemble, queries) == expected
        for add_up in (ensemble.votes, ensemble.probability_sums):
            assert np.array_equal(add_up(queries), add_up(queries, fused=False))


def test_a_missing_category_in_one_shard_leaves_the_others_fused():
    models = []
    for seed in range(6):
        frame, y = colours("whole" if seed == 0 else "numbers", 60, seed)
        models.append(clone(BOOSTED).fit(frame, y.astype(int)))
    ensemble = ClassifierEnsemble(models, Columns.of(frame, public_types=True), [0, 1])
    assert fused_shards(ensemble) == [[1, 2, 3, 4, 5]]
    # Which shards are fused is not a question of who comes first.
    turned = ClassifierEnsemble(models[::-1], ensemble.columns, [0, 1])
    assert fused_shards(turned) == [[0, 1, 2, 3, 4]]
