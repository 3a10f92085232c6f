"""Tree ensembles: walking flat arrays never changes a vote."""

from __future__ import annotations

import io

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
)

from reticent.ensembles import ClassifierEnsemble, FusedTrees, Fusion
from tests.ensembles.fused_cases import (
    assert_same_votes,
    classifiers,
    problem,
    regressors,
)


def boosted(**settings):
    return HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=4, **settings)


def light(**settings):
    options = {"n_estimators": 8, "min_child_samples": 4, "verbose": -1, "n_jobs": 1}
    return lightgbm.LGBMClassifier(**(options | settings))


CLASSIFIERS = [
    DecisionTreeClassifier(),
    DecisionTreeClassifier(max_depth=1),
    ExtraTreeClassifier(),
    RandomForestClassifier(6),
    RandomForestClassifier(7, max_depth=2, bootstrap=False),
    ExtraTreesClassifier(6),
    boosted(),
    boosted(early_stopping=True, n_iter_no_change=1, tol=0.05, validation_fraction=0.3),
    light(),
    light(boosting_type="dart", num_leaves=4),
]


def name(value):
    return type(value).__name__


def boundary_rows(ensemble, X, seed):
    """Return rows that sit on thresholds of the trees, and next to them."""
    trees = ensemble.fusion.models
    rng = np.random.default_rng(seed)
    inner = np.flatnonzero(trees.children[:, 0] != np.arange(len(trees.children)))
    rows = X[: 3 * 12].copy()
    for place, node in enumerate(rng.choice(inner, size=len(rows) // 3)):
        value = trees.threshold[node]
        column = trees.feature[node]
        rows[3 * place, column] = value
        rows[3 * place + 1, column] = np.nextafter(value, np.inf)
        rows[3 * place + 2, column] = np.nextafter(value, -np.inf)
    return rows


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name)
def test_fused_votes_are_the_models_votes(estimator, n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    ensemble = classifiers(estimator, X, y, np.arange(n_classes), n_shards=8)
    assert isinstance(ensemble.fusion.models, FusedTrees)
    assert_same_votes(ensemble, X[:60])
    assert_same_votes(ensemble, boundary_rows(ensemble, X, seed))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name)
def test_missing_and_hostile_values_take_the_models_turns(estimator, seed):
    X, y = problem(seed, n_classes=3)
    X[np.random.default_rng(seed).random(X.shape) < 0.15] = np.nan
    ensemble = classifiers(estimator, X, y, [0, 1, 2], n_shards=6)
    queries = X[:40].copy()
    hostile = [np.inf, -np.inf, 1e39, -1e300, 5e-324, -0.0, 1e-40]
    for row, value in enumerate(hostile):
        queries[5 * row, row % 6] = value
    assert_same_votes(ensemble, queries)


def test_a_value_that_was_never_missing_takes_the_models_turn(seed):
    X, y = problem(seed)
    for estimator in (DecisionTreeClassifier(), boosted(), light()):
        ensemble = classifiers(estimator, X, y, [0, 1], n_shards=6)
        queries = np.where(
            np.random.default_rng(seed).random((40, 6)) < 0.3, np.nan, X[:40]
        )
        assert_same_votes(ensemble, queries)


def test_constrained_trees_are_answered_as_the_models_do(seed):
    X, y = problem(seed)
    tree = DecisionTreeClassifier(monotonic_cst=[1, 0, 0, 0, 0, 0])
    ensemble = classifiers(tree, X, y, [0, 1], n_shards=6)
    queries = X[:10].copy()
    queries[4, 3] = np.nan
    assert_same_votes(ensemble, queries)


def test_trees_that_refuse_missing_values_cast_fixed_votes(seed):
    X, y = problem(seed)
    tree = ExtraTreeClassifier(splitter="best")
    ensemble = classifiers(tree, X, y, [0, 1], n_shards=6)
    queries = X[:10].copy()
    queries[4, 3] = np.nan
    assert_same_votes(ensemble, queries)
    assert ensemble.votes(queries)[4].tolist() == [3, 3]


def test_the_check_catches_trees_that_do_not_round_rows(seed):
    """Decision trees compare in single precision, boosted trees in double."""
    X, y = problem(seed)
    ensemble = classifiers(DecisionTreeClassifier(), X, y, [0, 1])
    arrays = ensemble.fusion.models.to_arrays() | {"single": np.array(False)}
    fusion = Fusion(ensemble.fusion.encoding, FusedTrees.from_arrays(arrays))
    wrong = ClassifierEnsemble(ensemble.models, ensemble.columns, [0, 1], fusion=fusion)
    trees = ensemble.fusion.models
    inner = np.flatnonzero(trees.children[:, 0] != np.arange(len(trees.children)))
    rows = np.repeat(X[:20], len(inner), axis=0)
    columns = np.tile(trees.feature[inner], 20)
    above = np.nextafter(np.tile(trees.threshold[inner], 20), np.inf)
    rows[np.arange(len(rows)), columns] = above
    pieces = np.array_split(rows, len(rows) // 100)
    assert any(
        not np.array_equal(wrong.votes(piece), wrong.votes(piece, fused=False))
        for piece in pieces
    )
    assert all(
        np.array_equal(ensemble.votes(piece), ensemble.votes(piece, fused=False))
        for piece in pieces
    )


@pytest.mark.parametrize(
    "estimator", [CLASSIFIERS[0], CLASSIFIERS[3], boosted()], ids=name
)
def test_shards_with_one_label_are_answered_as_the_models_do(estimator, seed):
    X, y = problem(seed)
    y[np.argsort(X[:, 0])[:550]] = 0
    y[np.argsort(X[:, 0])[550:]] = 1
    ensemble = classifiers(estimator, X, y, ["x", 0, 1][1:], n_shards=60)
    single = [
        len(model.classes_) == 1 for model in ensemble.models if model is not None
    ]
    assert any(single)
    assert not all(single)
    assert_same_votes(ensemble, X[:40], least_fused=1)


@pytest.mark.parametrize("estimator", [CLASSIFIERS[3], boosted(), light()], ids=name)
def test_labels_keep_their_names_and_their_order(estimator, seed):
    X, y = problem(seed, n_classes=3)
    labels = np.array(["c", "a", "b"])
    assert_same_votes(classifiers(estimator, X, labels[y], labels, n_shards=6), X[:40])


@pytest.mark.parametrize("rows", [1, 100, 5000])
def test_small_and_large_batches_agree(rows, seed):
    X, y = problem(seed)
    ensemble = classifiers(RandomForestClassifier(5), X, y, [0, 1])
    queries = np.resize(X, (rows, 6))
    expected = np.concatenate([ensemble.votes(row[None]) for row in X])
    assert np.array_equal(ensemble.votes(queries), np.resize(expected, (rows, 2)))


def test_single_precision_rows_are_answered_as_the_models_do(seed):
    X, y = problem(seed)
    X = X.astype(np.float32)
    for estimator in (DecisionTreeClassifier(), boosted(), light()):
        assert_same_votes(classifiers(estimator, X, y, [0, 1], n_shards=6), X[:60])


COLOURS = ["red", "green", "blue", "grey", "pink"]


def with_categories(seed, kind):
    """Return a frame with a categorical column that decides the label."""
    rng = np.random.default_rng(seed)
    X, _ = problem(seed)
    colour = rng.choice(COLOURS, size=len(X), p=[0.4, 0.3, 0.2, 0.08, 0.02])
    y = (np.isin(colour, ["green", "grey"]) ^ (X[:, 1] > 5)).astype(int)
    colours = pd.Series(colour, dtype="category")
    colours[rng.random(len(X)) < 0.1] = None
    frame = pd.DataFrame({"a": X[:, 0], "colour": colours, "b": X[:, 1]})
    if kind == "polars":
        return pl.from_pandas(frame), y
    return frame, y


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_that_shards_number_by_themselves_are_fused(kind, seed):
    frame, y = with_categories(seed, kind)
    ensemble = classifiers(boosted(), frame, y, [0, 1], n_shards=8, public_types=True)
    assert len(ensemble.fusion.models.branches) > 0
    assert_same_votes(ensemble, frame[:40])


def test_categories_unknown_to_some_or_all_shards_take_the_models_turn(seed):
    frame, y = with_categories(seed, "pandas")
    ensemble = classifiers(boosted(), frame, y, [0, 1], n_shards=30, public_types=True)
    known = [
        set(model._preprocessor.named_transformers_["encoder"].categories_[0])
        for model in ensemble.models
    ]
    assert any("pink" not in names for names in known)
    queries = frame[:10].copy()
    queries["colour"] = pd.Categorical([*COLOURS, "mauve", None, "pink", "pink", "red"])
    assert_same_votes(ensemble, queries)


def test_numbered_categories_are_fused(seed):
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=600), rng.integers(0, 6, size=600)]
    y = (np.isin(X[:, 1], [1, 4]) ^ (X[:, 0] > 0)).astype(int)
    ensemble = classifiers(boosted(categorical_features=[1]), X, y, [0, 1], n_shards=8)
    assert len(ensemble.fusion.models.branches) > 0
    queries = X[:30].copy()
    queries[:4, 1] = [-1, 2.5, 300, np.nan]
    assert_same_votes(ensemble, queries)


def test_trees_behind_declared_encoders_are_fused(seed):
    frame, y = with_categories(seed, "pandas")
    frame["colour"] = (
        frame["colour"].astype(object).where(frame["colour"].notna(), "red")
    )
    one_hot = ColumnTransformer(
        [("colour", OneHotEncoder(categories=[COLOURS]), ["colour"])],
        remainder="passthrough",
    )
    ordinal = ColumnTransformer(
        [("colour", OrdinalEncoder(categories=[COLOURS]), ["colour"])],
        remainder="passthrough",
    )
    for pipeline in (
        make_pipeline(one_hot, RandomForestClassifier(4)),
        make_pipeline(ordinal, boosted(categorical_features=[0])),
        make_pipeline(ordinal, light()),
    ):
        ensemble = classifiers(pipeline, frame, y, [0, 1], n_shards=4)
        assert_same_votes(ensemble, frame[:10])


def test_several_blocks_before_numbered_categories_are_fused(seed):
    """The numbers before are scaled by declared rules, and categories come second."""
    frame, y = with_categories(seed, "pandas")
    frame["colour"] = (
        frame["colour"].astype(object).where(frame["colour"].notna(), "red")
    )
    columns = ColumnTransformer(
        [
            ("b", FunctionTransformer(np.arctan), ["b"]),
            ("colour", OrdinalEncoder(categories=[COLOURS]), ["colour"]),
        ]
    )
    ensemble = classifiers(
        make_pipeline(columns, boosted(categorical_features=[1])),
        frame,
        y,
        [0, 1],
        n_shards=4,
    )
    assert_same_votes(ensemble, frame[:10])


def test_boosted_ties_are_decided_by_the_models_or_settled_by_the_arrays(seed):
    X, y = problem(seed)
    ensemble = classifiers(boosted(), X, y, [0, 1], n_shards=6)
    for model in ensemble.models:
        for turn in model._predictors:
            turn[0].nodes["value"] = 0
        model._baseline_prediction[:] = 0
    tied = ClassifierEnsemble(ensemble.models, ensemble.columns, [0, 1])
    assert_same_votes(tied, X[:5])
    stored = ClassifierEnsemble([None] * 6, tied.columns, [0, 1], fusion=tied.fusion)
    assert stored.votes(X[:5]).tolist() == [[6, 0]] * 5


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)),
        GradientBoostingClassifier(n_estimators=3),
        light(boosting_type="rf", subsample=0.5, subsample_freq=1),
        light(objective="multiclassova"),
        light(zero_as_missing=True),
        light(linear_tree=True),
    ],
    ids=["scaled", "other", "averaged", "one-against-all", "zeros", "linear"],
)
def test_trees_of_another_kind_are_left_to_the_models(estimator, seed):
    X, y = problem(seed, n_classes=3)
    ensemble = classifiers(estimator, X, y, [0, 1, 2], n_shards=4)
    assert ensemble.fusion is None
    votes = ensemble.votes(X[:20])
    assert (votes.sum(axis=1) == 4).all()
    assert any(model is not None for model in ensemble.models)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeRegressor(),
        RandomForestRegressor(5),
        ExtraTreesRegressor(5),
        HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=4),
        lightgbm.LGBMRegressor(
            n_estimators=5, min_child_samples=4, verbose=-1, n_jobs=1
        ),
    ],
    ids=name,
)
def test_fused_outputs_are_the_models_own(estimator, seed):
    X, _ = problem(seed)
    ensemble = regressors(estimator, X, X[:, 1] + np.tanh(X[:, 2]), (3, 8))
    assert len(ensemble.fusion.shards) == 12
    queries = X[:40].copy()
    queries[3, 0] = np.nan
    fused, looped = (
        ensemble.output_sums(queries),
        ensemble.output_sums(queries, fused=False),
    )
    assert np.array_equal(fused, looped)


def test_outputs_behind_a_logarithm_are_left_to_the_models(seed):
    X, _ = problem(seed)
    for estimator in (
        HistGradientBoostingRegressor(loss="poisson", max_iter=3),
        lightgbm.LGBMRegressor(
            objective="poisson", n_estimators=3, verbose=-1, n_jobs=1
        ),
    ):
        assert regressors(estimator, X, np.abs(X[:, 1]), (0, 9)).fusion is None


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "estimator", [CLASSIFIERS[0], CLASSIFIERS[3], boosted(), light()], ids=name
)
def test_fused_probabilities_are_the_models_own(estimator, n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    ensemble = classifiers(estimator, X, y, np.arange(n_classes), n_shards=6)
    fused, looped = (
        ensemble.probability_sums(X[:40]),
        ensemble.probability_sums(X[:40], fused=False),
    )
    assert np.array_equal(fused, looped)


def test_arrays_are_stored_without_pickle(seed):
    frame, y = with_categories(seed, "pandas")
    ensemble = classifiers(boosted(), frame, y, [0, 1], n_shards=6, public_types=True)
    file = io.BytesIO()
    np.savez(file, **ensemble.fusion.models.to_arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        loaded = FusedTrees.from_arrays(arrays)
    fusion = Fusion(ensemble.fusion.encoding, loaded)
    stored = ClassifierEnsemble([None] * 6, ensemble.columns, [0, 1], fusion=fusion)
    assert np.array_equal(stored.votes(frame), ensemble.votes(frame))
