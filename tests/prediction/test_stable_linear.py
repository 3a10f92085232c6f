"""StableLinearClassifier and StableLinearRegressor: certificates and data (P3)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

from reticent.errors import (
    InvalidParameterError,
    ReticentError,
    SolverError,
    TooFewRecordsError,
)
from reticent.estimators.linear.rows import row_bound, rows_in_ball
from reticent.guarantees import ZCDP, PureDP, recheck
from reticent.prediction import StableLinearClassifier, StableLinearRegressor
from tests.stats import assert_rate, rejects

TUMOURS, BENIGN = load_breast_cancer(return_X_y=True)
TUMOURS = (TUMOURS - TUMOURS.mean(axis=0)) / TUMOURS.std(axis=0)
PATIENTS, PROGRESS = load_diabetes(return_X_y=True)
SOLVERS = ["erm", "psgd"]


def rules_of(certificate):
    return [node.rule for node in certificate.walk()]


@given(
    st.lists(
        st.lists(st.floats(-1e308, 1e308), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.floats(1e-300, 1e300),
    st.booleans(),
)
def test_rows_never_leave_the_ball(values, bound, intercept):
    rows = rows_in_ball(np.array(values), bound, intercept)
    assert rows.shape == (len(values), 3 + intercept)
    limit = Fraction(row_bound(intercept)) ** 2
    for row in rows.tolist():
        assert sum(Fraction(x) ** 2 for x in row) <= limit


def test_rows_inside_the_ball_are_only_divided():
    X = np.array([[0.3, 0.4], [0.0, 0.0], [3.0, 4.0]])
    rows = rows_in_ball(X, 1.0, False)
    np.testing.assert_allclose(rows, [[0.3, 0.4], [0.0, 0.0], [0.6, 0.8]], rtol=1e-14)
    np.testing.assert_allclose(rows_in_ball(X, 10.0, True)[2], [0.3, 0.4, 1.0])


def test_clipping_a_little_less_would_leave_the_ball():
    # The negative control of the exact test above: plain division overshoots.
    X = np.random.default_rng(0).normal(size=(200, 3))
    plain = X / np.linalg.norm(X, axis=1, keepdims=True)

    def inside(rows):
        assert all(sum(Fraction(x) ** 2 for x in row) <= 1 for row in rows.tolist())

    inside(rows_in_ball(X, 1e-9, False))
    assert rejects(inside, plain)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_answer_is_certified_from_the_solver_up(solver):
    model = StableLinearClassifier(0.5, solver, norm_bound=3.0, classes=[0, 1])
    model.fit(TUMOURS, BENIGN)
    certificate = model.certificate_
    assert isinstance(certificate.guarantee, PureDP)
    assert 0.4999 < certificate.guarantee.epsilon <= 0.5
    assert rules_of(certificate)[-1] == f"P3-{solver}"
    assert certificate.proved
    assert certificate.relation.n == 569
    recheck(certificate)
    recheck(model.sensitivity_)


def test_the_numbers_on_the_certificate_are_those_of_the_theorem():
    model = StableLinearClassifier(
        1.0, regularization=0.2, radius=4.0, tolerance=0.01, fit_intercept=False
    ).fit(TUMOURS, BENIGN)
    # L = L_f = 1: 2 L L_f / (lambda n), one percent more for the solver.
    moved = 2 / (0.2 * 569) * 1.01
    assert model.sensitivity_.guarantee.l1 == pytest.approx(moved, rel=1e-9)
    assert model.response(TUMOURS[:1]).probabilities.shape == (1, 2)
    one_pass = StableLinearClassifier(1.0, "psgd", radius=4.0).fit(TUMOURS, BENIGN)
    moved = 2 * 4.0 * math.sqrt(2) / math.sqrt(569)
    assert one_pass.sensitivity_.guarantee.l1 == pytest.approx(moved, rel=1e-9)


def test_automatic_regularization_is_s1s():
    model = StableLinearClassifier(0.5, radius=2.0).fit(TUMOURS, BENIGN)
    expected = 2 * math.sqrt(2) / (2.0 * math.sqrt(569 * 0.5 / 1.5))
    assert model.regularization_ == pytest.approx(expected)


def test_shards_divide_the_move():
    one, four = (
        StableLinearClassifier(1.0, "psgd", n_shards=r, random_state=0).fit(
            TUMOURS, BENIGN
        )
        for r in (1, 4)
    )
    ratio = one.sensitivity_.guarantee.l1 / four.sensitivity_.guarantee.l1
    # A quarter of the units moves twice as far, and counts a quarter.
    assert ratio == pytest.approx(2.0, rel=0.01)
    assert rules_of(four.sensitivity_) == ["G6", "P3-psgd"]
    assert four.certificate_.relation.n == 569
    recheck(four.certificate_)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_shards", [1, 3])
def test_replaced_units_move_fitted_models_within_the_certificate(
    solver, n_shards, intercept
):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), rng.integers(0, 2, 12)
    model = StableLinearClassifier(
        1.0,
        solver,
        loss="hinge",
        radius=0.5,
        n_shards=n_shards,
        fit_intercept=intercept,
        classes=[0, 1],
        random_state=0,
    )
    before = model.fit(X, y).coefficients_
    bound, worst = model.sensitivity_.guarantee.l1, 0.0
    for unit in range(12):
        for angle in np.linspace(0, 2 * math.pi, 6, endpoint=False):
            other, labels = X.copy(), y.copy()
            other[unit] = 50 * math.cos(angle), 50 * math.sin(angle)
            labels[unit] = 1 - y[unit]
            moved = model.fit(other, labels).coefficients_ - before
            # The worst query: along the move, at full length.
            largest = np.linalg.norm(moved[:2]) + np.abs(moved[2:]).sum()
            worst = max(worst, float(largest))
    assert worst <= bound
    assert worst >= 0.3 * bound


def test_a_unit_of_many_rows_weighs_as_one():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    for solver in SOLVERS:
        model = StableLinearClassifier(1.0, solver, random_state=0, classes=[0, 1])
        plain = model.fit(X, y).coefficients_
        people = np.arange(30)
        again = np.concatenate([people, np.full(40, 7)])
        grouped = model.fit(X[again], y[again], units=again)
        np.testing.assert_allclose(grouped.coefficients_, plain, atol=1e-4)
        assert grouped.n_units_ == 30
        # Without units the same rows weigh forty times as much.
        loose = model.fit(X[again], y[again]).coefficients_
        assert np.abs(loose - plain).max() > 0.01


def test_the_order_of_units_is_drawn_and_not_read():
    # Sorted by label, one pass in file order would end on one side.
    order = np.argsort(BENIGN, kind="stable")
    model = StableLinearClassifier(4.0, "psgd", norm_bound=3.0)
    model.fit(TUMOURS[order], BENIGN[order])
    law = model.response(TUMOURS).probabilities
    assert law[np.arange(569), BENIGN].mean() > 0.9


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_tumours_are_told_apart(solver, loss):
    model = StableLinearClassifier(
        1.0, solver, loss=loss, norm_bound=3.0, classes=[0, 1]
    ).fit(TUMOURS, BENIGN)
    law = model.response(TUMOURS).probabilities
    assert law[np.arange(569), BENIGN].mean() > 0.88


def test_predict_follows_the_law_with_fresh_noise():
    model = StableLinearClassifier(0.1, norm_bound=3.0).fit(TUMOURS, BENIGN)
    row = np.repeat(TUMOURS[:1], 20_000, axis=0)
    chance = model.response(TUMOURS[:1]).probabilities[0, 1]
    assert_rate(model.predict(row).sum(), 20_000, chance)


@pytest.mark.parametrize("loss", ["huber", "squared"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_numbers_are_predicted_within_bounds(solver, loss):
    model = StableLinearRegressor(
        4.0, (0, 400), solver, loss=loss, norm_bound=0.125
    ).fit(PATIENTS, PROGRESS)
    law = model.response(PATIENTS)
    explained = 1 - ((law.location - PROGRESS) ** 2).mean() / PROGRESS.var()
    assert explained > 0.2
    drawn = model.predict(np.repeat(PATIENTS[:1], 2000, axis=0))
    assert drawn.min() >= 0
    assert drawn.max() <= 400
    assert_rate((drawn > law.location[0]).sum(), 2000, 0.5)
    recheck(model.certificate_)
    assert law.scale == pytest.approx(200 * model.sensitivity_.guarantee.l1 / 4, 1e-3)


def test_far_bounds_lose_no_precision():
    near = StableLinearRegressor(1.0, (0, 400), random_state=0).fit(PATIENTS, PROGRESS)
    far = StableLinearRegressor(1.0, (1e9, 1e9 + 400), random_state=0)
    far.fit(PATIENTS, PROGRESS + 1e9)
    shift = far.response(PATIENTS).location - near.response(PATIENTS).location
    np.testing.assert_allclose(shift, 1e9, atol=1e-3)


def test_targets_beyond_the_bounds_are_clipped():
    rows = np.ones((50, 1))
    model = StableLinearRegressor(1e4, (0, 1), radius=5.0)
    inside = model.fit(rows, np.ones(50)).response(rows[:1]).location
    outside = model.fit(rows, np.full(50, 1e9)).response(rows[:1]).location
    assert outside == pytest.approx(inside, abs=1e-6)


@pytest.mark.parametrize("estimator", [StableLinearClassifier, StableLinearRegressor])
def test_gaussian_noise_states_its_zcdp(estimator):
    settings = {"bounds": (0, 1)} if estimator is StableLinearRegressor else {}
    model = estimator(1.0, delta=1e-6, **settings).fit(TUMOURS, BENIGN)
    assert isinstance(model.certificate_.guarantee, ZCDP)
    recheck(model.certificate_)
    assert len(model.predict(TUMOURS)) == 569


def test_labels_read_from_the_data_and_seeds_are_assumptions():
    model = StableLinearClassifier(1.0, random_state=0).fit(TUMOURS, BENIGN)
    codes = {assumption.code for assumption in model.certificate_.assumptions}
    assert codes == {"PUBLIC_LABELS", "SEEDED_NOISE"}
    assert not model.certificate_.proved


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"solver": "magic"}, "solver"),
        ({"loss": "zero-one"}, "loss"),
        ({"loss": "hinge", "width": 0.0}, "width"),
        ({"norm_bound": 0.0}, "norm_bound"),
        ({"norm_bound": float("nan")}, "norm_bound"),
        ({"radius": -1.0}, "radius"),
        ({"radius": float("inf")}, "radius"),
        ({"regularization": 0.0}, "regularization"),
        ({"regularization": "none"}, "regularization"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 1e-14}, "tolerance"),
        ({"n_shards": 0}, "n_shards"),
        ({"n_shards": 2.5}, "n_shards"),
        ({"n_shards": 570}, "n_shards"),
        ({"classes": [0, 1, 2]}, "binary"),
        ({"solver": "psgd", "radius": 1e4}, "smoothness"),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message) as raised,
    ):
        StableLinearClassifier(**settings).fit(TUMOURS, BENIGN)
    if skip:
        assert isinstance(raised.value, ReticentError)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"bounds": (0.0, float("inf"))}, "bounds"),
        ({"loss": "logistic"}, "loss"),
        ({"width": float("nan")}, "width"),
        ({"radius": float("nan")}, "radius"),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_of_regressors_are_named(settings, message, skip):
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        StableLinearRegressor(**settings).fit(PATIENTS, PROGRESS)


@pytest.mark.parametrize("value", ["much", None, [1.0], 1j, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "epsilon",
        "delta",
        "norm_bound",
        "radius",
        "regularization",
        "tolerance",
        "n_shards",
        "solver",
    ],
)
def test_values_of_any_kind_are_refused_by_name(name, value):
    for model in (StableLinearClassifier(), StableLinearRegressor(bounds=(0, 1))):
        model.set_params(**{name: value})
        with (
            config_context(skip_parameter_validation=True),
            pytest.raises(ReticentError, match=name),
        ):
            model.fit(TUMOURS, BENIGN)


def test_hostile_rows_are_refused_or_harmless():
    rows = np.array([[1e308, -1e308], [5e-324, 0.0], [0.0, 0.0], [1.0, 2.0]])
    model = StableLinearClassifier(1.0, norm_bound=1e-12, classes=[0, 1])
    model.fit(rows, [0, 1, 0, 1])
    assert np.isfinite(model.coefficients_).all()
    assert np.isfinite(model.response(rows).log_probabilities).all()
    for value in (np.nan, np.inf):
        rows[1, 1] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(rows, [0, 1, 0, 1])
    with pytest.raises(TooFewRecordsError, match="n_shards"):
        StableLinearClassifier(n_shards=3).fit(TUMOURS[:2], [0, 1])


def test_a_fit_that_misses_its_target_fails_before_anything_is_released(monkeypatch):
    monkeypatch.setattr("reticent.estimators.linear.solvers._MOST_STEPS", 1)
    model = StableLinearClassifier(1.0, regularization=1e-4)
    with pytest.raises(SolverError, match="tolerance"):
        model.fit(TUMOURS, BENIGN)
    with pytest.raises(NotFittedError):
        model.predict(TUMOURS)


def test_clones_and_errors_are_ours():
    model = StableLinearClassifier(1.0, "psgd", loss="hinge", width=0.5)
    assert clone(model).get_params() == model.get_params()
    with (
        config_context(skip_parameter_validation=True),
        pytest.raises(InvalidParameterError, match="solver"),
    ):
        StableLinearRegressor(solver="newton").fit(PATIENTS, PROGRESS)


# Noise is made negligible; rows and targets of the checks fit the public bounds.
@estimator_checks.parametrize_with_checks(
    [
        StableLinearClassifier(1e6, norm_bound=10.0, random_state=0),
        StableLinearClassifier(1e6, "psgd", norm_bound=10.0, random_state=0),
        StableLinearRegressor(
            1e6, (-4, 4), norm_bound=10.0, radius=5.0, random_state=0
        ),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
