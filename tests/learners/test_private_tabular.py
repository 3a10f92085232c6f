"""Released sums over random partitions (L12, L13, L14)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import RoundBudget
from reticent.guarantees import ApproxDP, ReplaceOne, Scope, ZeroOut, recheck
from reticent.learners import (
    NoisyGradientClassifier,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
    RandomPartitions,
)
from reticent.schemas import Categorical, Numeric


def crossed(n, seed):
    """Rows whose label no additive model finds: the sign of a product."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def test_it_learns_what_additive_models_cannot(seed):
    X, y = crossed(20_000, seed)
    model = PrivateTabularClassifier(2.0, classes=[0, 1], random_state=seed).fit(X, y)
    fresh, truth = crossed(4_000, seed + 1)
    assert (model.predict(fresh) == truth).mean() > 0.9
    assert np.allclose(model.predict_proba(fresh).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("relation", "kind"), [("replace-one", ReplaceOne), ("zero-out", ZeroOut)]
)
def test_the_certificate_is_about_the_whole_model(relation, kind, seed):
    X, y = crossed(200, seed)
    model = PrivateTabularClassifier(0.7, classes=[0, 1], relation=relation)
    certificate = model.fit(X, y).certificate_
    assert isinstance(certificate.guarantee, ApproxDP)
    assert certificate.guarantee.epsilon <= 0.7
    assert certificate.guarantee.epsilon > 0.7 * (1 - 1e-9)
    assert certificate.relation == kind(200)
    assert certificate.scope is Scope.MODEL
    assert not certificate.assumptions
    recheck(certificate)


def test_zeroing_a_unit_needs_half_the_noise_of_replacing_it():
    scales = {
        relation: RoundBudget.of("test", 1.0, 1e-6, relation).scale(
            1000.0, share=0.5, times=10, acute=False
        )
        for relation in ("replace-one", "zero-out")
    }
    ratio = scales["replace-one"] / scales["zero-out"]
    assert ratio == pytest.approx(2, rel=1e-4)


def test_levels_missing_values_many_labels_and_many_rows_per_unit(seed):
    rng = np.random.default_rng(seed)
    n = 3_000
    level = rng.integers(0, 3, n)
    X = np.column_stack([level.astype(float), rng.uniform(0, 10, n)])
    X[rng.random(n) < 0.1, 1] = np.nan
    model = PrivateTabularClassifier(
        8.0,
        classes=["a", "b", "c"],
        columns=[Categorical(["x", "y", "z"]), Numeric(0, 10, missing=True)],
        random_state=seed,
    )
    model.fit(X, np.array(["a", "b", "c"])[level], units=np.arange(n) // 2)
    assert model.n_units_ == n // 2
    assert model.certificate_.relation == ReplaceOne(n // 2)
    assert (model.predict(X) == np.array(["a", "b", "c"])[level]).mean() > 0.9


def test_numbers_are_released_within_their_bounds(seed):
    X, _ = crossed(20_000, seed)
    y = 100 + 50 * X[:, 0] * X[:, 1]
    model = PrivateTabularRegressor(2.0, bounds=(50, 150), random_state=seed).fit(X, y)
    answers = model.predict(X)
    assert ((answers >= 50) & (answers <= 150)).all()
    assert np.mean((answers - y) ** 2) < 0.5 * y.var()


def test_a_seed_and_labels_read_from_the_data_are_assumptions(seed):
    X, y = crossed(100, seed)
    model = PrivateTabularClassifier(1.0, random_state=seed).fit(X, y)
    codes = {assumption.code for assumption in model.certificate_.assumptions}
    assert codes == {"SEEDED_NOISE", "PUBLIC_LABELS"}


def test_wrong_uses_say_what_to_do(seed):
    X, y = crossed(100, seed)
    model = PrivateTabularClassifier(1.0, classes=[0, 1], columns=[(0, 1)])
    with pytest.raises(InvalidParameterError, match="one entry for each"):
        model.fit(X, y)
    with pytest.raises(InvalidParameterError, match="low < high"):
        clone(model).set_params(columns=[(0, 1), (1, 1)]).fit(X, y)
    fitted = clone(model).set_params(columns=None).fit(X, y)
    with pytest.raises((InvalidDataError, ValueError), match="infinity"):
        fitted.predict([[np.inf, 0.0]])


@pytest.mark.parametrize("weights", ["balanced", {0: 1, 1: 12}])
def test_rare_labels_can_count_as_much_as_frequent_ones(weights, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (20_000, 2))
    y = (rng.random(20_000) < 0.15 * (X[:, 0] > 0)).astype(int)
    plain = PrivateTabularClassifier(2.0, classes=[0, 1], random_state=seed).fit(X, y)
    model = clone(plain).set_params(class_weight=weights).fit(X, y)
    assert (plain.predict(X) == 0).mean() > 0.99
    found = model.predict(X)
    assert (found[X[:, 0] > 0.05] == 1).mean() > 0.9
    assert (found[X[:, 0] < -0.05] == 0).mean() > 0.9
    assert model.certificate_.guarantee == plain.certificate_.guarantee


def test_weights_of_labels_are_checked():
    X, y = crossed(50, 0)
    model = PrivateTabularClassifier(1.0, classes=[0, 1], class_weight={0: 1})
    with pytest.raises(InvalidParameterError, match="for each label"):
        model.fit(X, y)
    with pytest.raises(InvalidParameterError, match="class_weight"):
        model.set_params(class_weight={0: 1, 1: -1}).fit(X, y)


def test_probabilities_are_calibrated(seed):
    """Of rows that are told a chance of about q, about a share of q has the label."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (60_000, 2))
    truth = 1 / (1 + np.exp(-3 * X[:, 0] - 2 * X[:, 0] * X[:, 1] + 1))
    y = (rng.random(len(X)) < truth).astype(int)
    model = PrivateTabularClassifier(2.0, classes=[0, 1], random_state=seed)
    model.fit(X[:40_000], y[:40_000])
    told = model.predict_proba(X[40_000:])[:, 1]
    assert np.abs(told - truth[40_000:]).mean() < 0.05
    for low in np.arange(0.1, 0.9, 0.2):
        near = (told >= low) & (told < low + 0.2)
        assert y[40_000:][near].mean() == pytest.approx(told[near].mean(), abs=0.06)
    # Scores that were clipped while they were learnt are too sure of themselves
    # without the correction.
    scores = model._scores(X[40_000:])[0]
    raw = 1 / (1 + np.exp(-scores))
    assert np.abs(raw - truth[40_000:]).mean() > np.abs(told - truth[40_000:]).mean()


def test_random_partitions_never_look_at_the_data(seed):
    X, _ = crossed(60, seed)
    X[3, 1] = np.nan
    front = RandomPartitions(n_trees=5, depth=3, random_state=seed)
    features = front.fit_transform(X)
    # The same partitions whatever the rows are, and each row by itself.
    others = np.full((2, 2), 1e300)
    assert np.array_equal(clone(front).fit(others).transform(X), features)
    assert np.array_equal(front.transform(X[7:8]), features[7:8])
    assert features.shape == (60, 5 * 8)
    assert ((features > 0).sum(axis=1) == 5).all()
    norms = np.linalg.norm(features, axis=1)
    assert norms.max() <= front.norm_bound_
    assert norms.min() > 1 - 1e-12


def test_random_partitions_make_columns_interact(seed):
    X, y = crossed(20_000, seed)
    scores = {}
    for front in (RandomPartitions(depth=4, random_state=seed), None):
        learner = NoisyGradientClassifier(2.0, delta=1e-6, norm_bound=1.0)
        learner.set_params(classes=[0, 1], random_state=seed)
        if front is None:
            learner.set_params(norm_bound=1.5)
        model = make_pipeline(front or "passthrough", learner).fit(X, y)
        scores[front is None] = model.score(X, y)
    assert scores[False] > 0.85
    assert scores[True] < 0.6
