"""What one shard says does not depend on the models beside it, to the bit."""

from __future__ import annotations

import copy

import lightgbm
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent.ensembles import (
    OUTPUT_STEPS,
    ClassifierEnsemble,
    FusedTrees,
    RegressorEnsemble,
)
from reticent.errors import InvalidParameterError
from reticent.estimators import partition_rows
from reticent.mechanisms import noise_source
from tests.ensembles.adversarial import at_changes, discrete
from tests.ensembles.fused_cases import (
    classifiers,
    problem,
    regressors,
    trained_at_once,
)

# Steps of the size of rounding errors: every last bit of an output shows.
NARROW = (5.0, 5.0 + 1e-7)
KEPT = 3


def near_middle(X):
    return 5 + 5e-8 + 1e-8 * (X[:, 1] - 5) / X[:, 1].std()


def zero(model):
    model[-1].coef_ = 0 * model[-1].coef_
    model[-1].intercept_ = 0 * model[-1].intercept_


def huge(model):
    model[-1].coef_ = 1e300 * model[-1].coef_


def endless(model):
    model[-1].coef_ = np.inf * model[-1].coef_


def tiny(model):
    zero(model)
    model[-1].coef_[..., 0] = 5e-324


OTHERS = [zero, huge, endless, tiny, None]


def replaced(models, change):
    """Return models of which every third is changed, or gone."""
    changed = list(copy.deepcopy(models))
    for shard in range(KEPT + 1, len(models), 3):
        if change is None:
            changed[shard] = None
        else:
            change(changed[shard])
    return changed


def alone(models, shard):
    return [model if place == shard else None for place, model in enumerate(models)]


@pytest.mark.parametrize("change", OTHERS)
def test_an_output_does_not_depend_on_other_models(change, seed):
    X, _ = problem(seed, n_rows=1200, n_features=40)
    pipeline = make_pipeline(StandardScaler(), Ridge())
    fitted = regressors(pipeline, X, X[:, 20] + X[:, 30] / 10, NARROW)
    # Rows next to which the kept model's output moves by a step.
    rng = np.random.default_rng(seed)
    answer = discrete("outputs", NARROW, None)
    queries = at_changes(fitted.models[KEPT], answer, X, rng, 200)
    queries = np.r_[queries, 1e155 * X[:5]]

    def sums(models):
        return RegressorEnsemble(models, fitted.columns, NARROW).output_sums(queries)

    middle = OUTPUT_STEPS // 2
    models = replaced(fitted.models, change)
    own = sum(sums(alone(models, shard)) - 11 * middle for shard in range(12))
    assert np.array_equal(sums(models), own)
    kept = sums(alone(fitted.models, KEPT))
    assert np.array_equal(sums(alone(models, KEPT)), kept)
    inside = (kept > 11 * middle) & (kept < 11 * middle + OUTPUT_STEPS)
    assert inside.sum() > 30


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("change", OTHERS)
def test_probabilities_and_votes_do_not_depend_on_other_models(change, n_classes, seed):
    X, y = problem(seed, n_classes=n_classes)
    classes = np.arange(n_classes)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=30))
    fitted = classifiers(pipeline, X, y, classes)
    queries = np.r_[X[:40], np.zeros((1, 6)), 1e155 * X[:3]]
    for method in ("votes", "probability_sums"):

        def sums(models, method=method):
            ensemble = ClassifierEnsemble(models, fitted.columns, classes)
            return getattr(ensemble, method)(queries)

        empty = sums([None] * 12)
        models = replaced(fitted.models, change)
        own = empty + sum(sums(alone(models, s)) - empty for s in range(12))
        assert np.array_equal(sums(models), own)


def test_sums_of_models_held_as_arrays_do_not_depend_on_others(seed):
    """Replace the targets of all other shards by nothing, or by what overflows."""
    X, _ = problem(seed)
    y = near_middle(X)
    partition = partition_rows(len(y), 12, noise_source(seed))
    mine = np.isin(np.arange(len(y)), partition.rows_by_shard()[KEPT])
    found = []
    for other in (y, 0 * y, 1e200 * y, np.nan * y):
        trained = trained_at_once(
            make_pipeline(StandardScaler(), Ridge()),
            X,
            np.where(mine, y, other),
            partition,
            NARROW,
        )
        fused = trained.fusion.models
        place = fused.shards.tolist().index(KEPT)
        # Settled row by row, or beyond doubt: of every row the kept shard's own.
        encoded = trained.fusion.encode(X)
        rows, places = fused.output_sums(encoded, NARROW)[1]
        sure = ~np.isin(np.arange(len(X)), rows[places == place])
        settled = fused.settle_outputs(encoded.values, np.arange(len(X)), place, NARROW)
        one = slice(place, place + 1)
        kept = type(fused)(
            fused.shards[one],
            fused.labels[one],
            fused.weights[one],
            fused.intercepts[one],
            fused.missing[one],
            fused.bulk[one],
            fused.steps,
            fused.roundoff,
            fused.link,
        )
        counted = kept.output_sums(encoded, NARROW)[0]
        assert np.array_equal(counted[sure], settled[sure])
        found.append(settled)
    for settled in found[1:]:
        assert np.array_equal(settled, found[0])


def test_rows_of_models_held_as_arrays_do_not_depend_on_their_batch(seed):
    X, _ = problem(seed)
    partition = partition_rows(len(X), 12, noise_source(seed))
    trained = trained_at_once(Ridge(), X, near_middle(X), partition, NARROW)
    together = trained.output_sums(X[:50])
    one_by_one = np.concatenate([trained.output_sums(row[None]) for row in X[:50]])
    assert np.array_equal(together, one_by_one)


def lengthened(model):
    """Have one model of boosted trees hold many more rounds that add nothing."""
    longer = copy.deepcopy(model)
    last = copy.deepcopy(longer._predictors[-1])
    for tree in last:
        tree.nodes["value"] = 0
    longer._predictors += [last] * 500
    return longer


def test_the_path_does_not_depend_on_the_rounds_of_other_models(seed, monkeypatch):
    """A longer model beside them moves no shard from arrays to models or back."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=300), rng.integers(0, 6, size=300)]
    y = (np.isin(X[:, 1], [1, 4]) ^ (X[:, 0] > 0)).astype(int)
    estimator = HistGradientBoostingClassifier(
        max_iter=20, min_samples_leaf=4, categorical_features=[1]
    )
    fitted = classifiers(estimator, X, y, [0, 1], n_shards=5)
    queries = X[:60].copy()
    queries[::7, 1] = np.inf  # the models' own encoders refuse these rows
    walked = []
    tally = FusedTrees.tally
    monkeypatch.setattr(
        FusedTrees, "tally", lambda *given: walked.append(1) or tally(*given)
    )
    before = fitted.votes(queries)
    longer = [lengthened(fitted.models[0]), *fitted.models[1:]]
    after = ClassifierEnsemble(longer, fitted.columns, [0, 1])
    assert np.array_equal(after.votes(queries), before)
    assert len(walked) == 2
    assert np.array_equal(fitted.votes(queries, fused=False), before)
    # One round fewer by its parameters, and the batch is too long for the arrays.
    estimator.set_params(max_iter=200)
    classifiers(estimator, X, y, [0, 1], n_shards=5).votes(queries)
    assert len(walked) == 2


def test_the_number_of_rows_does_not_change_how_numbers_are_read(seed):
    """Whole numbers that single precision does not hold, in small and large batches."""
    rng = np.random.default_rng(seed)
    X = 2**25 + rng.integers(0, 4, size=(400, 2))
    y = (X[:, 0] % 4 < 2).astype(int)
    model = lightgbm.LGBMClassifier(
        n_estimators=5, min_child_samples=4, verbose=-1, n_jobs=1
    )
    ensemble = classifiers(model, X.astype(float), y, [0, 1], n_shards=4)
    for rows in (X, X.astype(np.longdouble), X.astype(float)):
        few = ensemble.probability_sums(rows[:50])
        many = ensemble.probability_sums(np.resize(rows, (2000, 2)))
        assert np.array_equal(few, many[:50])


@pytest.mark.parametrize("trains", [True, False])
def test_what_arrays_refuse_does_not_depend_on_what_could_be_trained(trains, seed):
    X, y = problem(seed)
    partition = partition_rows(len(y), 5, noise_source(seed))
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    labels = y if trains else 0 * y
    ensemble = trained_at_once(scaled, X, labels, partition, [0, 1])
    assert (ensemble.votes(sparse.csr_matrix(X[:3])).sum(axis=1) == 5).all()
    with pytest.raises(InvalidParameterError, match="arrays only"):
        ensemble.votes(X[:3], fused=False)
    with config_context(assume_finite=True):
        assert (ensemble.votes(X[:3]).sum(axis=1) == 5).all()
    assert ensemble.votes(np.full((1, 6), np.nan)).tolist() == [[3, 2]]
