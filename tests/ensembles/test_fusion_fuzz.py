"""Fused ensembles and the models they came from say the same, to the bit."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from reticent.ensembles import ClassifierEnsemble, RegressorEnsemble
from reticent.estimators import Labels
from tests.ensembles.adversarial import discrete, extreme_rows, in_types, rows_for
from tests.ensembles.fused_cases import classifiers, regressors
from tests.ensembles.fusion_zoo import CASES

FEATURES, SHARDS = 4, 3

# Small enough for 6 trees of 3 labels to go through the arrays.
BATCH = 400
EXTREME = 10
LONG_TURNS, LONG_BATCHES = 4, 5


def training_rows(case, seed):
    """Return rows with ties, plain numbers and, if asked for, missing ones; targets."""
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(180, FEATURES)) * [1, 1, 1e3, 1e-4] + [0, 3, 0, 0]
    X[:, 0] = np.rint(2 * X[:, 0]) / 2
    X[::7, 3] = rng.choice([0, 1e-36, -1e-34, 1e-30], size=len(X[::7]))
    if case.categories:
        X[:, 1] = rng.integers(0, 6, size=len(X))
    score = X[:, 0] + np.sin(X[:, 1]) + X[:, 2] / 1e3 + rng.normal(size=len(X)) / 3
    if case.missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    if not case.n_classes:
        return X, score
    return X, np.searchsorted(
        np.quantile(score, np.linspace(0, 1, case.n_classes + 1)[1:-1]), score
    )


# The second has steps of the size of rounding errors, the third is far from outputs.
BOUNDS = [(-3.0, 4.0), (0.3, 0.3 + 1e-7), (1e300, 1.5e308)]


@lru_cache(maxsize=2)
def ensembles_of(case, seed):
    X, y = training_rows(case, seed)
    if case.n_classes:
        labels = np.arange(case.n_classes)
        made = [classifiers(case.estimator, X, y, labels, n_shards=SHARDS, seed=seed)]
    else:
        made = [
            regressors(case.estimator, X, y, bounds, n_shards=SHARDS, seed=seed)
            for bounds in BOUNDS
        ]
    assert any(model is not None for model in made[0].models)
    return X, made


def answers(ensemble, kind, X, *, fused=True):
    method = {
        "votes": "votes",
        "probabilities": "probability_sums",
        "outputs": "output_sums",
    }
    return getattr(ensemble, method[kind])(X, fused=fused)


def takes_arrays(ensemble, X):
    """Whether a batch goes through the arrays."""
    return (
        ensemble.fusion is not None
        and ensemble.fusion.suits(X)
        and ensemble.fusion.reproduces_models(ensemble.fusion.encode(X))
    )


def comparisons(case):
    """Return what is compared: pairs of a place in `ensembles_of` and a kind."""
    places = range(1 if case.n_classes else len(BOUNDS))
    return [(place, kind) for place in places for kind in case.kinds]


def disagreements(case, seed, n_batches, n_types):
    """Compare fused and looped answers on adversarial rows; return where they part.

    Each batch of doubles is small enough to go through the arrays.
    """
    X, made = ensembles_of(case, seed)
    rng = np.random.default_rng([seed, 2])
    found = []
    for place, kind in comparisons(case):
        ensemble = made[place]
        assert (ensemble.fusion is not None) == case.fused
        bounds = getattr(ensemble, "bounds", None)
        labels = Labels(np.arange(max(2, case.n_classes)))
        for _ in range(n_batches):
            answer = discrete(kind, bounds, labels, level=rng.random())
            rows, extreme = X.copy(), extreme_rows(X, rng, EXTREME)
            if case.fused:
                rows = rows_for(ensemble, answer, X, rng, BATCH)
                assert takes_arrays(ensemble, rows)
            others = list(in_types(extreme, rng))
            chosen = [others[place] for place in rng.permutation(len(others))[:n_types]]
            batches = [("many", rows), ("one", rows[:1]), ("extreme", extreme), *chosen]
            for name, batch in batches:
                fused = answers(ensemble, kind, batch)
                looped = answers(ensemble, kind, batch, fused=False)
                if not np.array_equal(fused, looped):
                    found.append((str(case), kind, bounds, name))
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fused_and_looped_answers_are_the_same(case, seed):
    assert disagreements(case, seed, n_batches=1, n_types=1) == []


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_fused_and_looped_answers_are_the_same_on_a_million_rows(case, seed):
    for turn in range(LONG_TURNS):
        found = disagreements(
            case, seed + 1000 * turn, n_batches=LONG_BATCHES, n_types=1
        )
        assert found == []


def test_a_million_rows_are_compared():
    compared = sum(len(comparisons(case)) for case in CASES if case.fused)
    assert compared * LONG_TURNS * LONG_BATCHES * BATCH >= 10**6


def broken(ensemble, **changes):
    """Return the ensemble with other arrays in place of its own."""
    models = dataclasses.replace(ensemble.fusion.models, **changes)
    fusion = dataclasses.replace(ensemble.fusion, models=models)
    return ClassifierEnsemble(
        ensemble.models, ensemble.columns, ensemble.labels.classes, fusion=fusion
    )


def tree_case(kind):
    return next(case for case in CASES if type(case.estimator).__name__ == kind)


@pytest.mark.parametrize("kind", ["DecisionTreeClassifier", "LGBMClassifier"])
def test_the_check_catches_thresholds_moved_by_one_bit(kind, seed):
    case = tree_case(kind)
    X, (ensemble,) = ensembles_of(case, seed)
    trees = ensemble.fusion.models
    up = np.nextafter(trees.threshold, np.inf)
    if trees.single:
        up = np.nextafter(trees.threshold.astype(np.float32), np.float32(np.inf))
    # Strictly below a threshold is at most the number before it.
    strict = np.nextafter(trees.threshold, -np.inf)
    if trees.single:
        strict = np.nextafter(trees.threshold.astype(np.float32), np.float32(-np.inf))
    answer = discrete("votes", None, ensemble.labels)
    rng = np.random.default_rng(seed)
    rows = rows_for(ensemble, answer, X, rng, BATCH)
    looped = ensemble.votes(rows, fused=False)
    assert np.array_equal(ensemble.votes(rows), looped)
    for threshold in (up, strict):
        wrong = broken(ensemble, threshold=threshold.astype(float))
        assert not np.array_equal(wrong.votes(rows), looped)


def test_the_check_catches_a_product_that_trusts_its_last_bits(seed):
    case = next(case for case in CASES if str(case) == "StandardScaler+Ridge0")
    X, made = ensembles_of(case, seed)
    ensemble = made[1]
    answer = discrete("outputs", ensemble.bounds, None)
    rows = rows_for(ensemble, answer, X, np.random.default_rng(seed), BATCH)
    models = dataclasses.replace(ensemble.fusion.models, roundoff=0.0)
    fusion = dataclasses.replace(ensemble.fusion, models=models)
    bold = RegressorEnsemble(
        ensemble.models, ensemble.columns, ensemble.bounds, fusion=fusion
    )
    looped = ensemble.output_sums(rows, fused=False)
    assert np.array_equal(ensemble.output_sums(rows), looped)
    assert not np.array_equal(bold.output_sums(rows), looped)


LEVELS = ["a", "b", "c", "1", "2.0", "nan", ""]
CELLS = [*LEVELS, "unknown", None, np.nan, 1, 2.0, True, np.inf, np.str_("a")]


def with_levels(rng, cells, dtype, n_rows):
    """Return a frame of numbers and levels, in which each cell comes as often."""
    order = rng.permutation(n_rows) % len(cells)
    column = pd.Series([cells[place] for place in order])
    return pd.DataFrame(
        {"x": rng.normal(size=n_rows), "level": column.astype(dtype)}
    ).astype({"x": float})


def test_categories_of_any_kind_are_answered_as_the_models_do(seed):
    """Text against numbers, unknown levels, missing ones, and infinities."""
    rng = np.random.default_rng(seed)
    estimator = HistGradientBoostingClassifier(
        categorical_features=[1], max_iter=3, min_samples_leaf=4
    )
    used = set()
    for known in (LEVELS, [*LEVELS, None], [*LEVELS, np.nan], [1.0, 2.0, 5.0, np.nan]):
        frame = with_levels(rng, known, object, 120)
        y = (frame["x"] > 0) ^ frame["level"].isin(["b", "1", 2.0]).to_numpy()
        fitted = frame if known[0] == "a" else frame.astype(float)
        ensemble = classifiers(estimator, fitted, y.astype(int), [0, 1], n_shards=2)
        for cells, dtype in (
            (LEVELS, object),
            ([*LEVELS, "unknown", None, np.nan], object),
            (CELLS, object),
            ([*LEVELS, "unknown"], "category"),
            ([1.0, 2.5, np.nan, np.inf, -0.0], float),
            ([1, 2, 7], int),
        ):
            # Every cell once: models that refuse one are asked row by row.
            queries = with_levels(rng, cells, dtype, len(cells))
            used.add(takes_arrays(ensemble, queries))
            batches = [queries, queries[:1]]
            if cells is not CELLS:
                batches.append(pl.from_pandas(queries))
            for batch in batches:
                fused = ensemble.votes(batch)
                assert np.array_equal(fused, ensemble.votes(batch, fused=False))
    assert used == {True, False}
