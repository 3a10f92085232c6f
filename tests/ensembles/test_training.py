"""Fused training: scikit-learn's coefficients, and shards that do not meet."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from reticent.ensembles import OUTPUT_STEPS, train_ensemble
from reticent.ensembles.fusion.encoding import Encoded
from reticent.ensembles.linear_recipe import linear_recipe
from reticent.ensembles.linear_training import fused_recipe, train_linear
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import Labels, partition_rows
from reticent.mechanisms import noise_source
from tests.ensembles.fused_cases import problem, trained_at_once


def dealt(y, n_shards, seed, units=None):
    return partition_rows(len(y), n_shards, noise_source(seed), units=units)


def converged(estimator):
    """Return the same estimator, run until it does not move any more."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if isinstance(last, LogisticRegression):
        last = clone(last).set_params(tol=1e-13, max_iter=100_000)
    else:
        last = clone(last).set_params(solver="svd")
    return make_pipeline(*estimator[:-1], last) if hasattr(estimator, "steps") else last


def assert_same_scores(fused, estimator, X, y, partition, *, tol=2e-5):
    """Compare decision values, which scikit-learn's solvers know to about `tol`."""
    encoded = Encoded(np.arange(len(X)), X, frozenset({X.dtype}))
    scores = np.concatenate([chunk for _, chunk, _ in fused.scored(encoded)])
    for place, shard in enumerate(fused.shards):
        rows = partition.rows_by_shard()[shard]
        model = converged(estimator).fit(X[rows], y[rows])
        method = "decision_function" if hasattr(model, "classes_") else "predict"
        expected = getattr(model, method)(X)
        own = scores[:, place]
        own = own[:, np.isfinite(own).all(axis=0)]
        if expected.ndim == 1 and own.shape[1] == 2:
            own = own[:, 1:]
        size = 1 + np.abs(expected).max()
        assert np.abs(own - expected.reshape(own.shape)).max() < tol * size


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), LogisticRegression(C=20)),
        make_pipeline(
            StandardScaler(), LogisticRegression(C=0.01, fit_intercept=False)
        ),
        make_pipeline(StandardScaler(), RidgeClassifier()),
        RidgeClassifier(alpha=0.1, fit_intercept=False),
    ],
    ids=["plain", "weak", "no-intercept", "ridge", "raw-ridge"],
)
def test_classifiers_have_scikit_learns_coefficients(estimator, n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    X[:, 3] = 7.0  # a constant column
    partition = dealt(y, 10, seed)
    fused = train_linear(linear_recipe(estimator), X, y, partition, n_classes=n_classes)
    assert len(fused.shards) == 10
    assert_same_scores(fused, estimator, X, y, partition)


def test_unscaled_logistic_models_have_scikit_learns_coefficients(seed):
    X, y = problem(seed)
    X = X - X.mean(axis=0)
    X /= np.sqrt(X.std(axis=0))
    partition = dealt(y, 6, seed)
    estimator = LogisticRegression(solver="newton-cholesky")
    fused = train_linear(linear_recipe(estimator), X, y, partition, n_classes=2)
    assert_same_scores(fused, estimator, X, y, partition, tol=1e-7)


def test_regressors_have_scikit_learns_coefficients(seed):
    X, _ = problem(seed)
    y = X[:, 1] + np.tanh(X[:, 2])
    partition = dealt(y, 10, seed)
    for estimator in (
        Ridge(alpha=0.5),
        Ridge(fit_intercept=False),
        make_pipeline(StandardScaler(), Ridge(alpha=3.0)),
    ):
        fused = train_linear(linear_recipe(estimator), X, y, partition, n_classes=None)
        assert_same_scores(fused, estimator, X, y, partition, tol=1e-9)


def test_the_check_catches_another_penalty(seed):
    X, y = problem(seed)
    partition = dealt(y, 4, seed)
    fused = train_linear(
        linear_recipe(make_pipeline(StandardScaler(), LogisticRegression(C=1.01))),
        X,
        y,
        partition,
        n_classes=2,
    )
    right = make_pipeline(StandardScaler(), LogisticRegression(C=1.0))
    with pytest.raises(AssertionError):
        assert_same_scores(fused, right, X, y, partition)


def test_separable_shards_converge(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    estimator = make_pipeline(StandardScaler(), LogisticRegression(C=1e4))
    partition = dealt(y, 10, seed)
    fused = train_linear(linear_recipe(estimator), X, y, partition, n_classes=2)
    assert_same_scores(fused, estimator, X, y, partition, tol=1e-3)


def test_shards_that_lack_labels_are_trained_on_those_they_have(seed):
    X, y = problem(seed, n_classes=4)
    estimator = make_pipeline(StandardScaler(), LogisticRegression())
    partition = dealt(y, 30, seed)
    present = [len(np.unique(y[rows])) for rows in partition.rows_by_shard()]
    assert set(present) >= {3, 4}
    fused = train_linear(linear_recipe(estimator), X, y, partition, n_classes=4)
    assert_same_scores(fused, estimator, X, y, partition)
    ensemble = trained_at_once(estimator, X, y, partition, [0, 1, 2, 3])
    looped = np.zeros((50, 4), dtype=int)
    for rows in partition.rows_by_shard():
        model = clone(estimator).set_params(logisticregression__tol=1e-10)
        predicted = model.fit(X[rows], y[rows]).predict(X[:50])
        looped[np.arange(50), predicted] += 1
    assert np.abs(ensemble.votes(X[:50]) - looped).sum() <= 4


def weights_of(X, y, partition, estimator):
    fused = train_linear(linear_recipe(estimator), X, y, partition, n_classes=2)
    models = zip(fused.weights, fused.intercepts, strict=True)
    return dict(zip(fused.shards.tolist(), models, strict=True))


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        LogisticRegression(C=0.1),
        RidgeClassifier(),
    ],
    ids=["scaled", "raw", "ridge"],
)
def test_a_replaced_unit_changes_one_model_and_no_bit_of_others(estimator, seed):
    """Units of one row and of fifty, replaced by units of either size."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 50], size=60, p=[0.6, 0.3, 0.1])
    blocks = [(rng.normal(size=(k, 4)), rng.integers(0, 2, size=k)) for k in sizes]

    def table(blocks):
        units = np.repeat(np.arange(60), [len(rows) for rows, _ in blocks])
        X = np.concatenate([rows for rows, _ in blocks])
        return X, np.concatenate([labels for _, labels in blocks]), units

    X, y, units = table(blocks)
    before = weights_of(X, y, dealt(y, 7, seed, units), estimator)
    for place in (0, 17, 42, 59):
        for size in (1, 50):
            other = rng.normal(size=(size, 4)) * 10, rng.integers(0, 2, size=size)
            X2, y2, units2 = table([*blocks[:place], other, *blocks[place + 1 :]])
            after = weights_of(X2, y2, dealt(y2, 7, seed, units2), estimator)
            same = [
                all(
                    np.array_equal(a, b)
                    for a, b in zip(before[s], after[s], strict=True)
                )
                for s in range(7)
            ]
            assert same.count(False) == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_do_not_change_a_bit(n_jobs, seed):
    X, y = problem(seed, n_classes=3)
    partition = dealt(y, 20, seed)
    recipe = linear_recipe(make_pipeline(StandardScaler(), LogisticRegression()))
    alone = train_linear(recipe, X, y, partition, n_classes=3)
    shared = train_linear(recipe, X, y, partition, n_classes=3, n_jobs=n_jobs)
    assert np.array_equal(alone.weights, shared.weights)


def test_shards_that_cannot_be_trained_cast_fixed_votes(seed):
    X, y = problem(seed)
    partition = dealt(y, 6, seed)
    rows = partition.rows_by_shard()
    y[rows[1]] = 1
    X[rows[4][0], 2] = np.nan
    ensemble = trained_at_once(LogisticRegression(), X, y, partition, [0, 1])
    assert ensemble.fusion.shards.tolist() == [0, 2, 3, 5]
    votes = ensemble.votes(X[rows[0]])
    assert (votes.sum(axis=1) == 6).all()
    assert (votes >= 1).all()  # shards 1 and 4 vote for different labels


@pytest.mark.parametrize("value", [1e300, 1e160, 1e80])
@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), RidgeClassifier()], ids=str
)
def test_a_record_that_overflows_changes_its_own_shard_only(estimator, value, seed):
    X, y = problem(seed)
    partition = dealt(y, 6, seed)
    before = weights_of(X, y, partition, estimator)
    X[partition.rows_by_shard()[2][0], 1] = value
    after = weights_of(X, y, partition, estimator)
    for shard in {0, 1, 3, 4, 5}:
        for a, b in zip(before[shard], after[shard], strict=True):
            assert np.array_equal(a, b)
    votes = trained_at_once(estimator, X, y, partition, [0, 1]).votes(X[:20])
    assert (votes.sum(axis=1) == 6).all()


def test_targets_that_are_no_numbers_fail_their_shard_only(seed):
    X, _ = problem(seed)
    y = X[:, 1].copy()
    partition = dealt(y, 6, seed)
    y[partition.rows_by_shard()[2][0]] = np.nan
    ensemble = trained_at_once(Ridge(), X, y, partition, (0, 10))
    assert ensemble.fusion.shards.tolist() == [0, 1, 3, 4, 5]


def test_an_ensemble_of_which_nothing_can_be_trained_still_votes(seed):
    X, y = problem(seed)
    partition = dealt(y, 5, seed)
    ensemble = trained_at_once(LogisticRegression(), X, 0 * y, partition, [0, 1])
    assert ensemble.votes(X[:2]).tolist() == [[3, 2]] * 2


def test_trained_regressors_answer_within_bounds(seed):
    X, _ = problem(seed)
    y = X[:, 1]
    partition = dealt(y, 10, seed)
    ensemble = trained_at_once(Ridge(alpha=0.01), X, y, partition, (4.9, 5.1))
    average = 4.9 + 0.2 * ensemble.output_sums(X) / (10 * OUTPUT_STEPS)
    assert np.abs(average - np.clip(y, 4.9, 5.1)).mean() < 0.02


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(solver="liblinear"),
        LogisticRegression(l1_ratio=0.5, solver="saga"),
        LogisticRegression(C=np.inf),
        LogisticRegression(class_weight="balanced"),
        RidgeClassifier(class_weight="balanced"),
        RidgeClassifier(alpha=0),
        make_pipeline(MinMaxScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression()),
        Ridge(),
    ],
    ids=str,
)
def test_other_settings_are_fitted_shard_by_shard(estimator, seed):
    assert fused_recipe(estimator, n_columns=6, n_classes=2) is None
    if isinstance(estimator, Ridge) or getattr(estimator, "alpha", 1) == 0:
        return
    X, y = problem(seed, n_rows=60)
    source = noise_source(seed)
    ensemble = train_ensemble(
        estimator, X, y, dealt(y, 2, seed), source, Labels([0, 1])
    )
    assert all(model is not None for model in ensemble.models)


@pytest.mark.parametrize(
    ("n_columns", "n_classes"), [(299, 2), (199, 3), (599, None)], ids=str
)
def test_one_limit_decides_how_models_are_trained(n_columns, n_classes):
    estimator = Ridge() if n_classes is None else LogisticRegression()
    assert fused_recipe(estimator, n_columns, n_classes) is not None
    assert fused_recipe(estimator, n_columns + 1, n_classes) is None
    partition = dealt(np.zeros(4), 2, 0)
    targets = np.arange(4) % 2 if n_classes else np.arange(4.0)
    with pytest.raises(InvalidParameterError, match="one by one"):
        train_linear(
            linear_recipe(estimator),
            np.zeros((4, n_columns + 1)),
            targets,
            partition,
            n_classes=n_classes,
        )


def test_data_that_do_not_fit_are_refused(seed):
    X, y = problem(seed)
    partition = dealt(y, 5, seed)
    with pytest.raises(InvalidDataError, match="rows of the partition"):
        trained_at_once(LogisticRegression(), X[:-1], y, partition, [0, 1])
