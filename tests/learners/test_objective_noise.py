"""Objective perturbation: exact densities lose no more than is certified."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils import estimator_checks

from reticent.errors import ReticentError, RuleError
from reticent.estimators import LinearFacts, bounded_rows, unit_weights
from reticent.estimators.linear.losses import classification_loss
from reticent.guarantees import (
    PUBLIC_LABELS,
    PureDP,
    ReplaceOne,
    Scope,
    ZeroOut,
    recheck,
)
from reticent.learners import (
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
)
from reticent.learners.linear.noise_rules import objective_noise, objective_release
from reticent.learners.linear.objective_noise import ObjectivePlan

LOGISTIC = classification_loss("logistic", 1.0)
GRID = np.linspace(-60, 60, 4001)


def log_density(x, y, strength, scale):
    """The exact log-density, along GRID, of the minimiser in one dimension.

    The tilt that leads to w is b(w); the density of w is that of b times |b'|.
    """
    n = len(x)
    scores = np.outer(GRID, x)
    tilt = -n * strength * GRID - ((expit(scores) - y) * x).sum(axis=1)
    slope = n * strength + (expit(scores) * expit(-scores) * x**2).sum(axis=1)
    return -np.abs(tilt) / scale + np.log(slope)


def worst_loss(strength, scale, n=3):
    """Largest log-ratio over neighbours with rows and labels at their extremes."""
    worst = 0.0
    rows = np.array([-1.0, 0.0, 1.0])
    for x0 in rows:
        for x1 in rows:
            for y0 in (0.0, 1.0):
                x, y = np.array([1.0, x1, x0]), np.array([1.0, 0.0, y0])
                for other in rows:
                    for label in (0.0, 1.0):
                        x2, y2 = x.copy(), y.copy()
                        x2[2], y2[2] = other, label
                        gap = log_density(x, y, strength, scale) - log_density(
                            x2, y2, strength, scale
                        )
                        worst = max(worst, np.abs(gap).max())
    return worst


def worst_loss_of_leaving_out(strength, scale, n=3):
    """Largest log-ratio over datasets with and without their last unit."""
    worst = 0.0
    for x0, x1 in product([-1.0, 0.0, 1.0], repeat=2):
        for y0 in (0.0, 1.0):
            x, y = np.array([1.0, x1, x0]), np.array([1.0, 0.0, y0])
            gone = np.array([1.0, x1, 0.0])  # a row of zeros has no gradient
            gap = log_density(x, y, strength, scale) - log_density(
                gone, y, strength, scale
            )
            worst = max(worst, np.abs(gap).max())
    return worst


def certified(strength, scale, **change):
    facts = {
        "n": 3,
        "slope": 1.0,
        "curvature": 0.25,
        "l1_bound": 1.0,
        "l2_bound": 1.0,
        "regularization": strength,
        "scale": scale,
        "grid": 2.0**-60,
        "dimension": 1,
    }
    return objective_noise(**{**facts, **change}).guarantee.epsilon


@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("scale", [0.5, 4.0, 100.0])
def test_exact_densities_lose_at_most_what_is_certified(strength, scale):
    assert worst_loss(strength, scale) <= certified(strength, scale) * (1 + 1e-9)


@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("scale", [0.5, 4.0, 100.0])
def test_leaving_a_unit_out_loses_at_most_what_is_certified(strength, scale):
    limit = certified(strength, scale, relation="zero-out")
    assert worst_loss_of_leaving_out(strength, scale) <= limit * (1 + 1e-9)
    assert limit < certified(strength, scale)


def test_each_part_of_the_bound_on_leaving_out_is_needed():
    zeroed = {"relation": "zero-out"}
    # One gradient of length one, in full: a smaller one would promise too much. So
    # would no determinant, and so would this bound for two gradients (see below).
    assert worst_loss_of_leaving_out(1.0, 0.5) > certified(
        1.0, 0.5, slope=0.95, curvature=1e-9, **zeroed
    )
    assert worst_loss_of_leaving_out(0.01, 100.0) > certified(
        0.01, 100.0, curvature=1e-9, **zeroed
    )
    rows, sums, _ = bounded_rows(np.eye(2), 1.0, 1.0, True)
    gradients = (expit(rows @ [-60.0, 60.0, 0.0]) - [1, 0])[:, None] * rows
    replaced = np.abs(gradients[0] - gradients[1]).sum() / 4.0
    assert replaced > certified(100.0, 4.0, l1_bound=sums, **zeroed)
    assert np.abs(gradients[0]).sum() / 4.0 <= certified(
        100.0, 4.0, l1_bound=sums, **zeroed
    )


@pytest.mark.parametrize(
    "kind", [ObjectivePerturbationClassifier, ObjectivePerturbationRegressor]
)
def test_leaving_a_unit_out_needs_about_half_the_tilt(kind):
    X, y = make_classification(500, random_state=0)
    model = kind(1.0, regularization=1.0, relation="zero-out").fit(X, y)
    recheck(model.certificate_)
    assert model.certificate_.relation == ZeroOut(500)
    assert model.certificate_.guarantee == PureDP(1.0)
    replacing = kind(1.0, regularization=1.0).fit(X, y)
    assert model.tilt_scale_ == pytest.approx(replacing.tilt_scale_ / 2, rel=1e-9)
    exact, _ = replacing.certificate_.premises
    _, computed = model.certificate_.premises
    with pytest.raises(RuleError, match="same data"):
        objective_release(exact, computed, epsilon=1.0)


def test_each_part_of_the_bound_is_needed():
    # In one dimension two gradients differ by one at most; see below for two of them.
    # Less than that, or no determinant, would promise too much.
    assert worst_loss(1.0, 0.5) > certified(1.0, 0.5, slope=0.4)
    assert worst_loss(0.01, 100.0) > certified(0.01, 100.0, curvature=1e-9)


def plan_for(model, n, d, l1_bound=None):
    _, sums, largest = bounded_rows(np.zeros((1, d)), 1.0, l1_bound, True)
    facts = LinearFacts(
        n_units=n,
        dimension=d + 1,
        l1_bound=sums,
        feature_bound=largest,
        labels_from_data=False,
        seeded=False,
    )
    return ObjectivePlan.of(model, LOGISTIC, facts)


@pytest.mark.parametrize("l1_bound", [None, 1.2])
def test_one_unit_moves_the_tilt_behind_a_minimiser_as_certified(l1_bound):
    rng = np.random.default_rng(0)
    plan = plan_for(ObjectivePerturbationClassifier(1.0), 10, 4, l1_bound)
    exact = dict(plan.certificate.premises[0].details)
    for _ in range(2000):
        size = 10.0 ** rng.integers(-2, 5)
        X = rng.normal(size=(2, 4)) * size
        rows, _, _ = bounded_rows(X, 1.0, l1_bound, True)
        w = rng.normal(size=5) * 10.0 ** rng.integers(-1, 3)
        slopes = expit(rows @ w) - rng.integers(0, 2, 2)
        gradients = slopes[:, None] * rows
        moved = np.abs(gradients[0] - gradients[1]).sum()
        assert moved <= 2 * exact["slope"] * exact["l1_bound"]
        assert (np.linalg.norm(rows, axis=1) <= exact["l2_bound"]).all()


def test_twice_the_bound_on_a_gradient_is_attained():
    rows, sums, _ = bounded_rows(np.eye(2), 1.0, 1.0, True)
    gradients = (expit(rows @ [-60.0, 60.0, 0.0]) - [1, 0])[:, None] * rows
    assert np.abs(gradients[0] - gradients[1]).sum() > 1.999 * sums


def test_the_solver_is_as_near_as_promised():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200).astype(float)
    plan = plan_for(ObjectivePerturbationClassifier(0.5), 200, 3)
    rows, _, _ = bounded_rows(X, 1.0, None, True)
    weights, _ = unit_weights(None, 200)
    for _ in range(20):
        tilt = rng.laplace(0, plan.tilt_scale / 200, 4)
        found = plan._minimiser(rows, y, weights, tilt)
        slopes = weights * (expit(rows @ found) - y)
        gradient = slopes @ rows + plan.regularization * found + tilt
        assert np.linalg.norm(gradient) <= plan.tolerance


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_certificates(epsilon):
    X, y = make_classification(500, random_state=0)
    model = ObjectivePerturbationClassifier(epsilon, classes=[0, 1]).fit(X, y)
    certificate = model.certificate_
    assert certificate.guarantee == PureDP(epsilon)
    assert certificate.relation == ReplaceOne(500)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    recheck(certificate)
    with pytest.raises(RuleError):
        objective_release(*certificate.premises, epsilon=0.999 * epsilon)
    read = ObjectivePerturbationClassifier(epsilon).fit(X, y).certificate_
    assert read.assumptions == {PUBLIC_LABELS}


def test_it_learns_about_as_well_as_without_privacy():
    X, y = make_classification(20_000, 10, n_informative=5, random_state=3)
    model = ObjectivePerturbationClassifier(
        1.0, norm_bound=5.0, classes=[0, 1], random_state=0
    )
    plain = LogisticRegression().fit(X, y).score(X, y)
    assert model.fit(X, y).score(X, y) > plain - 0.02


def test_regression():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3))
    y = 50 + 20 * X[:, 0] - 10 * X[:, 2] + rng.normal(0, 1, 20_000)
    model = ObjectivePerturbationRegressor(
        1.0, bounds=(0, 100), norm_bound=2.0, random_state=0
    )
    assert model.fit(X, y).score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.02
    recheck(model.certificate_)


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": 0.0},
        {"norm_bound": NAN},
        {"l1_bound": NAN},
        {"l1_bound": 0.0},
        {"regularization": NAN},
        {"regularization": 1e-9},
        {"width": NAN, "loss": "hinge"},
        {"loss": "nil"},
        {"relation": "sample"},
    ],
    ids=str,
)
def test_hostile_values_are_refused_also_with_validation_off(bad):
    X, y = make_classification(40, random_state=0)
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        ObjectivePerturbationClassifier(**bad).fit(X, y)


QUIET = {"epsilon": 1e4, "norm_bound": 20.0, "random_state": 0}


@estimator_checks.parametrize_with_checks(
    [
        ObjectivePerturbationClassifier(**QUIET),
        ObjectivePerturbationRegressor(**QUIET, bounds=(-10.0, 10.0)),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
