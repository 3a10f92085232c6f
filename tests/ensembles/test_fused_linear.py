"""Linear ensembles: one matrix product never changes a vote."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, LinearSVR

from reticent.ensembles import ClassifierEnsemble, FusedLinear, Fusion
from tests.ensembles.fused_cases import (
    assert_same_votes,
    classifiers,
    problem,
    regressors,
)

CLASSIFIERS = [
    LogisticRegression(max_iter=30),
    LogisticRegression(solver="liblinear", l1_ratio=1.0),
    LinearSVC(max_iter=50),
    RidgeClassifier(),
    SGDClassifier(max_iter=20),
    SGDClassifier(loss="log_loss", average=True, max_iter=20),
    Perceptron(max_iter=20),
]
SCALERS = [
    (),
    (StandardScaler(),),
    (StandardScaler(with_mean=False),),
    (StandardScaler(with_std=False),),
    (MinMaxScaler((-1, 3)),),
    (MaxAbsScaler(),),
    (RobustScaler(with_centering=False), StandardScaler()),
    (PolynomialFeatures(2, include_bias=False), StandardScaler()),
    (FunctionTransformer(np.arctan), "passthrough", MinMaxScaler()),
    (make_pipeline(StandardScaler(), RobustScaler()),),
]


def name(value):
    if isinstance(value, tuple):
        return "+".join(type(step).__name__ for step in value) or "none"
    return type(value).__name__


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("estimator", "scalers"),
    [
        *((estimator, scalers) for estimator in CLASSIFIERS for scalers in SCALERS[:2]),
        *((LogisticRegression(max_iter=30), scalers) for scalers in SCALERS[2:]),
    ],
    ids=name,
)
def test_fused_votes_are_the_models_votes(estimator, scalers, n_classes, seed):
    if isinstance(estimator, LogisticRegression) and estimator.solver == "liblinear":
        n_classes = 2
    X, y = problem(seed, n_classes=n_classes)
    ensemble = classifiers(
        make_pipeline(*scalers, estimator), X, y, np.arange(n_classes)
    )
    assert_same_votes(ensemble, X[:100])


def on_the_border(seed, scalers):
    """Return an ensemble whose models have each some row exactly on their border."""
    X, y = problem(seed)
    pipeline = make_pipeline(*scalers, LogisticRegression(max_iter=30))
    ensemble = classifiers(pipeline, X, y, [0, 1], n_shards=40)
    for model, row in zip(ensemble.models, X, strict=False):
        last = model[-1]
        last.intercept_ = last.intercept_ - model.decision_function(row[None])
    return ClassifierEnsemble(ensemble.models, ensemble.columns, [0, 1]), X[:40]


@pytest.mark.parametrize("scalers", SCALERS[:5], ids=name)
def test_ties_are_decided_by_the_models(scalers, seed):
    ensemble, X = on_the_border(seed, scalers)
    assert_same_votes(ensemble, X)
    for row in X[::5]:
        single = row[None]
        assert np.array_equal(
            ensemble.votes(single), ensemble.votes(single, fused=False)
        )


def test_the_check_catches_a_product_that_trusts_its_last_bits(seed):
    ensemble, X = on_the_border(seed, (StandardScaler(),))
    bold = dataclasses.replace(ensemble.fusion.models, steps=-16 - X.shape[1])
    fusion = Fusion(ensemble.fusion.encoding, bold)
    naive = ClassifierEnsemble(ensemble.models, ensemble.columns, [0, 1], fusion=fusion)
    assert not np.array_equal(naive.votes(X), ensemble.votes(X, fused=False))


def test_ties_of_whole_numbers_are_decided_by_the_models(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(400, 4)).astype(float)
    for n_classes in (2, 3):
        y = rng.integers(0, n_classes, size=400)
        estimator = Perceptron(max_iter=3)
        assert_same_votes(classifiers(estimator, X, y, np.arange(n_classes)), X)


@pytest.mark.parametrize("scalers", [(), (StandardScaler(),)], ids=name)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "longdouble"])
def test_every_number_type_is_answered_as_the_models_do(dtype, scalers, seed):
    X, y = problem(seed)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = X > 0 if dtype == "bool" else (X * 3).astype(dtype)
    pipeline = make_pipeline(*scalers, LogisticRegression())
    for rows in (X, X.astype(float)):
        ensemble = classifiers(pipeline, rows, y, [0, 1])
        assert_same_votes(ensemble, X[:200])


@pytest.mark.parametrize("labels", [["no", "yes"], ["yes", "no"], [2.0, -2.0]])
def test_labels_keep_their_names_and_their_order(labels, seed):
    X, y = problem(seed)
    named = np.array(sorted(labels))[y]
    ensemble = classifiers(LogisticRegression(), X, named, labels)
    assert_same_votes(ensemble, X)
    order = [sorted(labels).index(label) for label in labels]
    numbered = classifiers(LogisticRegression(), X, y, [0, 1])
    assert np.array_equal(ensemble.votes(X), numbered.votes(X)[:, order])


HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1e150, 1e99, 5e-324, -0.0]


@pytest.mark.parametrize("scalers", [(), (StandardScaler(),)], ids=name)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_hostile_rows_are_answered_as_the_models_do(n_classes, scalers, seed):
    X, y = problem(seed, n_classes=n_classes)
    pipeline = make_pipeline(*scalers, LogisticRegression(max_iter=30))
    ensemble = classifiers(pipeline, X, y, np.arange(n_classes), n_shards=5)
    queries = X[:40].copy()
    rng = np.random.default_rng(seed)
    for row in range(0, 40, 2):
        queries[row, rng.integers(6)] = HOSTILE[row // 2 % len(HOSTILE)]
    assert_same_votes(ensemble, queries)
    with config_context(assume_finite=True):
        assert_same_votes(ensemble, queries)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_imputed_values_are_folded_in(strategy, n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    X[:, -1] = np.nan_to_num(X[:, -1])
    for steps in (
        (SimpleImputer(strategy=strategy), StandardScaler()),
        (MinMaxScaler(), SimpleImputer(strategy=strategy), RobustScaler()),
    ):
        pipeline = make_pipeline(*steps, LogisticRegression(max_iter=30))
        ensemble = classifiers(pipeline, X, y, np.arange(n_classes), n_shards=5)
        queries = X[:60].copy()
        queries[3, 0] = np.inf
        assert_same_votes(ensemble, queries)


def test_a_column_that_one_shard_cannot_impute_is_left_to_its_model(seed):
    X, y = problem(seed)
    X[:, 0] = np.nan
    X[:3, 0] = 1.0
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    ensemble = classifiers(pipeline, X, y, [0, 1])
    assert_same_votes(ensemble, X[:50], least_fused=1)
    assert len(ensemble.fusion.shards) <= 3


COLOURS = ["red", "green", "blue"]


def mixed(seed):
    """Return a frame with numbers, categories and missing values, and labels."""
    X, y = problem(seed)
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["colour"] = rng.choice(COLOURS, size=len(y))
    frame["size"] = rng.choice(["s", "m"], size=len(y))
    frame["unused"] = "text"
    frame.loc[rng.random(len(y)) < 0.1, "a"] = np.nan
    return frame, y


def on_columns(*, unknown="error", sparse_output=True, tail=()):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    colour = OneHotEncoder(
        categories=[COLOURS], handle_unknown=unknown, sparse_output=sparse_output
    )
    size = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="s"),
        OrdinalEncoder(categories=[["s", "m"]]),
        MinMaxScaler(),
    )
    columns = ColumnTransformer(
        [
            ("numbers", numbers, ["a", "b", "c"]),
            ("colour", colour, ["colour"]),
            ("size", size, ["size"]),
            ("unused", "drop", ["unused"]),
            ("nothing", StandardScaler(), []),
        ],
        remainder="passthrough",
    )
    return make_pipeline(columns, *tail, LogisticRegression(max_iter=30))


@pytest.mark.parametrize("frames", ["pandas", "polars"])
@pytest.mark.parametrize("unknown", ["error", "ignore"])
@pytest.mark.parametrize("tail", [(), (MaxAbsScaler(),)], ids=name)
def test_column_transformers_with_declared_encoders_are_fused(
    frames, unknown, tail, seed
):
    frame, y = mixed(seed)
    queries = frame.iloc[:12].copy()
    queries.loc[[3, 7], "colour"] = "mauve"
    queries.loc[[5], "b"] = np.nan
    queries.loc[[6], "f"] = np.nan
    if frames == "polars":
        frame, queries = pl.from_pandas(frame), pl.from_pandas(queries)
    pipeline = on_columns(unknown=unknown, sparse_output=not tail, tail=tail)
    ensemble = classifiers(pipeline, frame, y, [0, 1], n_shards=4)
    assert_same_votes(ensemble, queries)
    assert_same_votes(ensemble, queries[:1])


def test_rows_that_no_shard_can_encode_get_fixed_votes(seed):
    frame, y = mixed(seed)
    ensemble = classifiers(on_columns(), frame, y, [0, 1])
    queries = frame.iloc[:5].copy()
    queries.loc[[2], "colour"] = "mauve"
    votes = ensemble.votes(queries)
    assert votes[2].tolist() == [6, 6]
    assert np.array_equal(votes[[0, 1, 3, 4]], ensemble.votes(frame.iloc[[0, 1, 3, 4]]))


def test_learned_encoders_are_left_to_the_models(seed):
    """Whether shards share them hangs on the records, and so would the time taken."""
    frame, y = mixed(seed)
    columns = ColumnTransformer(
        [("colour", OneHotEncoder(), ["colour"])], remainder="drop"
    )
    ensemble = classifiers(
        make_pipeline(columns, LogisticRegression()), frame, y, [0, 1]
    )
    assert ensemble.fusion is None
    assert (ensemble.votes(frame[:20]).sum(axis=1) == 12).all()


def test_columns_chosen_by_type_are_left_to_the_models(seed):
    """The types that a shard sees are those of its own cells."""
    frame, y = mixed(seed)
    columns = ColumnTransformer(
        [
            ("numbers", SimpleImputer(), make_column_selector(dtype_include="number")),
            ("colour", OneHotEncoder(categories=[COLOURS]), ["colour"]),
        ]
    )
    ensemble = classifiers(make_pipeline(columns, RidgeClassifier()), frame, y, [0, 1])
    assert ensemble.fusion is None
    assert (ensemble.votes(frame[:20]).sum(axis=1) == 12).all()


def test_wide_sparse_encodings_stay_sparse(seed):
    rng = np.random.default_rng(seed)
    words = np.array(["to", "be", "or", "not", "that", "is", "the", "question"])
    texts = [" ".join(rng.choice(words, size=6)) for _ in range(300)]
    y = np.array(["question" in text for text in texts]).astype(int)
    pipeline = make_pipeline(HashingVectorizer(n_features=4096), SGDClassifier())
    ensemble = classifiers(pipeline, texts, y, [0, 1])
    assert_same_votes(ensemble, texts[:50])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_rows_are_answered_as_the_models_do(n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    X = sparse.csr_matrix(np.where(np.abs(X - 5) > 1, X, 0))
    for pipeline in (
        make_pipeline(LogisticRegression(max_iter=30)),
        make_pipeline(StandardScaler(with_mean=False), LinearSVC(max_iter=30)),
    ):
        assert_same_votes(classifiers(pipeline, X, y, np.arange(n_classes)), X[:50])


def test_sparse_rows_that_are_not_finite_get_fixed_votes(seed):
    X, y = problem(seed)
    ensemble = classifiers(LogisticRegression(), sparse.csr_matrix(X), y, [0, 1])
    queries = X[:20].copy()
    queries[3, 1], queries[9, 2] = np.nan, np.inf
    assert_same_votes(ensemble, sparse.csr_matrix(queries))
    assert ensemble.votes(sparse.csr_matrix(queries))[[3, 9]].tolist() == [[6, 6]] * 2


def test_large_batches_are_answered_in_pieces(seed):
    X, y = problem(seed)
    ensemble = classifiers(RidgeClassifier(), X, y, [0, 1], n_shards=150)
    queries = np.repeat(X, 5, axis=0)
    expected = np.repeat(ensemble.votes(X), 5, axis=0)
    assert np.array_equal(ensemble.votes(queries), expected)


def test_more_models_than_a_byte_counts_are_added_up(seed):
    X, y = problem(seed, n_rows=3000)
    ensemble = classifiers(RidgeClassifier(), X, y, [0, 1], n_shards=300)
    assert np.array_equal(ensemble.votes(X[:40]), ensemble.votes(X[:40], fused=False))


def test_subclasses_and_kernels_are_left_to_the_models(seed):
    class Contrary(LogisticRegression):
        def predict(self, X):
            return 1 - super().predict(X)

    X, y = problem(seed)
    for estimator in (Contrary(), SVC(), make_pipeline(StandardScaler(), SVC())):
        ensemble = classifiers(estimator, X, y, [0, 1])
        assert ensemble.fusion is None
        assert (ensemble.votes(X[:20]).sum(axis=1) == 12).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fused_probabilities_are_the_models_own(n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=30))
    ensemble = classifiers(pipeline, X, y, np.arange(n_classes))
    queries = X[:40].copy()
    queries[4, 0] = np.nan
    fused, looped = (
        ensemble.probability_sums(queries),
        ensemble.probability_sums(queries, fused=False),
    )
    assert np.array_equal(fused, looped)


@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        Ridge(),
        Lasso(max_iter=50),
        ElasticNet(max_iter=50),
        SGDRegressor(max_iter=20),
        HuberRegressor(max_iter=20),
        BayesianRidge(),
        LinearSVR(max_iter=20),
    ],
    ids=name,
)
def test_fused_outputs_are_the_models_own(estimator, seed):
    X, _ = problem(seed)
    y = np.tanh(X[:, 2]) + X[:, 1]
    pipeline = make_pipeline(StandardScaler(), estimator)
    ensemble = regressors(pipeline, X, y, (0, 10))
    assert len(ensemble.fusion.shards) == 12
    queries = X[:40].copy()
    queries[4, 0] = np.nan
    fused, looped = (
        ensemble.output_sums(queries),
        ensemble.output_sums(queries, fused=False),
    )
    assert np.array_equal(fused, looped)


def test_arrays_are_stored_without_pickle(seed):
    X, y = problem(seed, n_classes=3)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    ensemble = classifiers(pipeline, X, y, [0, 1, 2])
    file = io.BytesIO()
    np.savez(file, **ensemble.fusion.models.to_arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        loaded = FusedLinear.from_arrays(arrays)
    fusion = Fusion(ensemble.fusion.encoding, loaded)
    stored = ClassifierEnsemble([None] * 12, ensemble.columns, [0, 1, 2], fusion=fusion)
    queries = X[:50].copy()
    queries[7, 2] = np.nan
    assert np.array_equal(stored.votes(queries), ensemble.votes(queries))


@pytest.mark.parametrize("imputes", [False, True])
def test_ties_without_models_are_settled_by_the_arrays(imputes, seed):
    steps = (SimpleImputer(), StandardScaler()) if imputes else (StandardScaler(),)
    ensemble, X = on_the_border(seed, steps)
    stored = ClassifierEnsemble(
        [None] * 40, ensemble.columns, [0, 1], fusion=ensemble.fusion
    )
    votes = stored.votes(X)
    assert (votes.sum(axis=1) == 40).all()
    assert np.abs(votes - ensemble.votes(X)).max() <= 1


def test_ties_of_several_labels_without_models_go_to_the_first(seed):
    X, y = problem(seed)
    y = np.arange(len(y)) % 3
    ensemble = classifiers(LogisticRegression(max_iter=5), X, y, [0, 1, 2])
    for model in ensemble.models:
        model.coef_[:], model.intercept_[:] = 0, [-1, 2, 2]
    tied = ClassifierEnsemble(ensemble.models, ensemble.columns, [0, 1, 2])
    assert_same_votes(tied, X[:5])
    stored = ClassifierEnsemble(
        [None] * 12, tied.columns, [0, 1, 2], fusion=tied.fusion
    )
    assert stored.votes(X[:5]).tolist() == [[0, 12, 0]] * 5
