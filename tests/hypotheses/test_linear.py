"""Convex minimisation over a ball, and what its gap promises."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from reticent.errors import InvalidDataError, InvalidParameterError, SolverError
from reticent.hypotheses import (
    HuberLoss,
    LinearBall,
    LinearFunction,
    LogisticLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)

LOSSES = [
    SquaredLoss(),
    SquaredLoss(scale=0.1),
    HuberLoss(width=0.3),
    LogisticLoss(),
    SmoothedHingeLoss(width=0.5, scale=2.0),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def instance(rng, n_rows=60, d=4):
    X = rng.normal(size=(n_rows, d))
    y = (X[:, 0] + rng.normal(size=n_rows) > 0).astype(float)
    return X, y


@every_loss
def test_derivatives_are_derivatives(loss, seed):
    rng = np.random.default_rng(seed)
    # Away from kinks of the slope, where the curvature jumps.
    at = rng.uniform(-3, 3, size=200)
    y = rng.integers(0, 2, 200).astype(float)
    h = 1e-6
    slope = (loss.value(at + h, y) - loss.value(at - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.slope(at, y), slope, atol=1e-6)
    curve = (loss.slope(at + h, y) - loss.slope(at - h, y)) / (2 * h)
    smooth = np.abs(loss.curvature(at + h, y) - loss.curvature(at - h, y)) < 1e-3
    np.testing.assert_allclose(loss.curvature(at, y)[smooth], curve[smooth], atol=1e-5)
    assert (loss.value(at, y) >= 0).all()
    assert (loss.curvature(at, y) >= 0).all()


def objective(w, X, y, loss, ridge, Z, eta, tilt):
    value = loss.value(X @ w, y).mean() + ridge / 2 * w @ w + tilt @ w
    return value + eta * np.mean((Z @ w) ** 2)


@every_loss
@pytest.mark.parametrize("radius", [0.05, 0.7, 100.0])
@pytest.mark.parametrize(("ridge", "eta"), [(0.0, 0.05), (0.1, 0.0), (0.01, 0.3)])
def test_gap_bounds_the_distance_to_the_best(loss, radius, ridge, eta, seed):
    rng = np.random.default_rng(seed)
    X, y = instance(rng)
    Z, tilt = rng.normal(size=(30, 4)), 0.02 * rng.normal(size=4)
    found = LinearBall(radius).minimise(
        X,
        y,
        loss=loss,
        gap=1e-9,
        ridge=ridge,
        public=Z if eta else None,
        eta=eta,
        tilt=tilt,
    )
    w = np.array(found.hypothesis.coefficients)
    assert np.linalg.norm(w) <= radius * (1 + 1e-15)
    assert 0 <= found.gap <= 1e-9
    facts = (X, y, loss, ridge, Z, eta, tilt)
    assert found.value == pytest.approx(objective(w, *facts), rel=1e-12)
    other = minimize(
        objective,
        np.zeros(4),
        args=facts,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: radius**2 - v @ v},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    inside = other.x * min(1.0, radius / max(np.linalg.norm(other.x), 1e-300))
    assert objective(inside, *facts) >= found.value - found.gap - 1e-13
    # Nothing nearby is better either.
    for step in rng.normal(size=(50, 4)) * 1e-4:
        near = w + step
        near *= min(1.0, radius / np.linalg.norm(near))
        assert objective(near, *facts) >= found.value - found.gap - 1e-13


def test_squared_loss_inside_the_ball_is_least_squares(seed):
    X, y = instance(np.random.default_rng(seed))
    found = LinearBall(50.0).minimise(X, y, loss=SquaredLoss(), gap=1e-10)
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(found.hypothesis.coefficients, exact, atol=1e-5)


def test_weights_repeat_rows(seed):
    X, y = instance(np.random.default_rng(seed))
    weights = np.arange(len(X)) % 3
    ball, loss = LinearBall(1.0), LogisticLoss()
    weighted = ball.minimise(X, y, weights, loss=loss, gap=1e-11, ridge=0.1)
    rows = np.repeat(np.arange(len(X)), weights)
    scale = len(rows) / len(X)
    repeated = ball.minimise(
        X[rows], y[rows], loss=LogisticLoss(scale), gap=1e-11, ridge=0.1
    )
    assert weighted.value == pytest.approx(repeated.value, abs=1e-10)


def test_prediction_is_linear_and_row_by_row(seed):
    rng = np.random.default_rng(seed)
    X, ball = rng.normal(size=(500, 9)), LinearBall(1.0)
    function = LinearFunction(tuple(rng.normal(size=9)))
    together = ball.predict(function, X)
    np.testing.assert_allclose(together, X @ np.array(function.coefficients))
    apart = [ball.predict(function, x[np.newaxis])[0] for x in X]
    assert together.tolist() == apart


def test_gradient_error_is_bounded(seed):
    # The proof of the gap rests on the gradient; compare it with finite differences.
    rng = np.random.default_rng(seed)
    X, y = instance(rng)
    loss, w = LogisticLoss(), rng.normal(size=4)
    slope = loss.slope(X @ w, y) @ X / len(X)
    rough = approx_fprime(w, lambda v: loss.value(X @ v, y).mean(), 1e-7)
    np.testing.assert_allclose(slope, rough, atol=1e-5)


def test_unreachable_gap_is_an_error(seed):
    X, y = instance(np.random.default_rng(seed))
    with pytest.raises(SolverError, match="gap=1e-300"):
        LinearBall(1.0).minimise(X, y, loss=LogisticLoss(), gap=1e-300)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"gap": 0.0}, InvalidParameterError, "gap=0.0"),
        ({"gap": float("nan")}, InvalidParameterError, "gap=nan"),
        ({"ridge": -1.0}, InvalidParameterError, "ridge=-1.0"),
        ({"eta": 1.0}, InvalidParameterError, "public"),
        ({"public": [[1.0]]}, InvalidParameterError, "public"),
        ({"eta": float("nan"), "public": [[1.0]]}, InvalidParameterError, "eta=nan"),
        ({"weights": [-1.0, 1.0]}, InvalidDataError, ">= 0"),
        ({"weights": [1.0]}, InvalidDataError, "weights"),
        ({"tilt": [1.0, 2.0]}, InvalidDataError, "tilt"),
        ({"tilt": [np.inf]}, InvalidDataError, "tilt"),
        ({"y": [0.0, np.nan]}, InvalidDataError, "y has NaN"),
    ],
)
def test_bad_input_is_refused(changed, error, message):
    given = {"X": [[0.0], [1.0]], "y": [0.0, 1.0], "loss": SquaredLoss(), "gap": 1e-6}
    with pytest.raises(error, match=message):
        LinearBall(1.0).minimise(**{**given, **changed})


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_radius_must_be_finite_and_positive(radius):
    with pytest.raises(InvalidParameterError, match="radius="):
        LinearBall(radius)


@pytest.mark.parametrize(
    "make", [SquaredLoss, LogisticLoss, HuberLoss, SmoothedHingeLoss]
)
def test_losses_check_their_scale(make):
    with pytest.raises(InvalidParameterError, match="scale=nan"):
        make(scale=float("nan"))
    if make in (HuberLoss, SmoothedHingeLoss):
        with pytest.raises(InvalidParameterError, match="width=0"):
            make(width=0)


def test_questions_about_labels_are_refused():
    ball = LinearBall(1.0)
    for ask in (
        lambda: ball.project([[1.0]]),
        lambda: ball.growth(3),
        lambda: ball.vc_dimension,
    ):
        with pytest.raises(InvalidParameterError, match="Halfspaces"):
            ask()
