"""Plans of perturbed risk minimisation: penalties, noise and solvers, all preset."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import below_one, positive
from reticent.errors import InvalidParameterError, SolverError
from reticent.estimators import (
    ROUND_OFF,
    BallProblem,
    BoundedLoss,
    erm_sensitivity,
    minimise_risk,
    rows_in_ball,
    unit_positions,
)
from reticent.guarantees import Certificate, gaussian_ratio
from reticent.learners.linear.noise_rules import (
    coefficient_sensitivity,
    objective_noise,
    objective_release,
    solver_distance,
)
from reticent.mechanisms import (
    GridNoise,
    RandomSource,
    calibrate_gaussian,
    calibrate_laplace,
    draw_discrete_laplace,
)

Float = NDArray[np.float64]

# The constant feature, for rows in the unit ball.
CONSTANT = 0.5
_LARGEST_NORM = 1.1180339887498950  # sqrt(1 + CONSTANT^2), rounded up
# Rows with their constant are shorter than this, all rounding included.
LONGEST_ROW = 1.12
# Share of the sensitivity, or of epsilon, that the solver's tolerance may cost.
_SOLVER_SHARE = 1e-3
# Coefficients of about this size are looked for, for rows in the unit ball.
_COEFFICIENT = 2.0
_NEWTON_STEPS = 100


def bounded_rows(
    X: Float, norm_bound: Any, l1_bound: float | None, fit_intercept: Any
) -> tuple[Float, float, float]:
    """Scale rows into their bounds; return them and bounds on their l1 and l2 norm.

    Rows are divided by `norm_bound`, and longer ones scaled down, in l1 too if there
    is a bound; the constant comes last.
    """
    rows = rows_in_ball(X, norm_bound, False)
    largest = math.sqrt(rows.shape[1]) * (1 + 4 * ROUND_OFF)
    if l1_bound is not None:
        largest = min(largest, l1_bound / norm_bound)
        sizes = np.abs(rows).sum(axis=1, keepdims=True)
        inside = largest * (1 - 4 * (rows.shape[1] + 16) * ROUND_OFF)
        rows = rows * np.minimum(1.0, inside / np.maximum(sizes, inside))
    if not fit_intercept:
        return rows, largest, 1.0
    full = np.full((len(rows), 1), CONSTANT)
    return np.concatenate([rows, full], axis=1), largest + CONSTANT, _LARGEST_NORM


def unit_weights(units: Any, n_rows: int) -> tuple[Float, int]:
    """Return a weight a row, so that every unit weighs one n-th, and the number n."""
    positions, n_units = unit_positions(units, n_rows)
    sizes = np.bincount(positions, minlength=n_units)
    return np.asarray(1.0 / (sizes[positions] * float(n_units))), n_units


@dataclass(frozen=True, eq=False)
class OutputPlan:
    """Noise on the minimiser over a ball (P3)."""

    problem: BallProblem
    tolerance: float
    noise: GridNoise

    @classmethod
    def of(
        cls,
        model: Any,
        loss: BoundedLoss,
        *,
        n_units: int,
        dimension: int,
        feature_bound: float,
        labels_from_data: bool,
        seeded: bool,
    ) -> OutputPlan:
        """Check a model's parameters; scikit-learn's checks may be off."""
        owner = type(model).__name__
        epsilon = positive(owner, "epsilon", model.epsilon)
        delta = below_one(owner, "delta", model.delta)
        radius = positive(owner, "radius", model.radius)
        # Standard deviation of the noise on one coefficient, over its sensitivity.
        spread = (
            1 / gaussian_ratio(epsilon, delta)
            if delta
            else math.sqrt(2 * dimension) / epsilon
        )
        lipschitz = loss.slope * feature_bound
        strength = model.regularization
        if isinstance(strength, str) and strength == "auto":
            moved = 2 * lipschitz * spread / n_units
            curved = loss.curvature * feature_bound**2
            # Where what the penalty costs and what the noise costs grow alike.
            strength = (2 * curved * moved**2 / radius**2) ** (1 / 3)
        strength = positive(owner, "regularization", strength)
        problem = BallProblem(loss, feature_bound, radius, strength)
        tolerance = _SOLVER_SHARE * lipschitz / n_units
        premise = coefficient_sensitivity(
            erm_sensitivity(
                n=n_units,
                lipschitz=lipschitz,
                feature_bound=1.0,
                radius=radius,
                regularization=strength,
                tolerance=tolerance,
                labels_from_data=labels_from_data,
            ),
            dimension=dimension,
        )
        facts: dict[str, Any] = {"dimension": dimension, "seeded": seeded}
        noise = (
            calibrate_gaussian(premise, epsilon=epsilon, delta=delta, **facts)
            if delta
            else calibrate_laplace(premise, epsilon=epsilon, **facts)
        )
        return cls(problem, tolerance, noise)

    def coefficients(
        self, rows: Float, targets: Float, weights: Float, source: RandomSource
    ) -> Float:
        """Minimise the risk to the preset tolerance, and add the noise."""
        found = minimise_risk(self.problem, rows, targets, weights, self.tolerance)
        return self.noise.response(found).draw(source)


@dataclass(frozen=True, eq=False)
class ObjectivePlan:
    """Noise in the objective: a random tilt, then an almost exact minimiser."""

    loss: BoundedLoss
    n_units: int
    feature_bound: float
    regularization: float
    tilt_scale: float
    tilt_grid: float
    tolerance: float
    noise: GridNoise
    certificate: Certificate[Any]

    @classmethod
    def of(
        cls,
        model: Any,
        loss: BoundedLoss,
        *,
        n_units: int,
        dimension: int,
        l1_bound: float,
        feature_bound: float,
        labels_from_data: bool,
        seeded: bool,
    ) -> ObjectivePlan:
        """Share out epsilon; all but a little goes to the tilt."""
        epsilon = positive(type(model).__name__, "epsilon", model.epsilon)
        curved = loss.curvature * feature_bound**2
        steep = 2 * loss.slope * l1_bound
        strength, scale = _tilt(model, epsilon, n_units, curved, steep)
        # So fine that drawing from the grid costs less than 2^-31 of epsilon.
        grid = 2.0 ** math.floor(math.log2(scale * epsilon / dimension) - 32)
        exact = objective_noise(
            n=n_units,
            slope=loss.slope,
            curvature=loss.curvature,
            l1_bound=l1_bound,
            l2_bound=feature_bound,
            regularization=strength,
            scale=scale,
            grid=grid,
            dimension=dimension,
            labels_from_data=labels_from_data,
            seeded=seeded,
        )
        tolerance = _SOLVER_SHARE * epsilon * scale / (n_units * dimension)
        distance = solver_distance(
            n=n_units,
            regularization=strength,
            tolerance=tolerance,
            grid=grid,
            dimension=dimension,
        )
        noise = calibrate_laplace(
            distance,
            epsilon=epsilon * (1 - 2.0**-40) - exact.guarantee.epsilon,
            dimension=dimension,
            seeded=seeded,
        )
        return cls(
            loss=loss,
            n_units=n_units,
            feature_bound=feature_bound,
            regularization=strength,
            tilt_scale=scale,
            tilt_grid=grid,
            tolerance=tolerance,
            noise=noise,
            certificate=objective_release(exact, noise.certificate, epsilon=epsilon),
        )

    def coefficients(
        self, rows: Float, targets: Float, weights: Float, source: RandomSource
    ) -> Float:
        """Draw the tilt, minimise to the preset tolerance, and add the last noise."""
        zero = np.zeros(rows.shape[1], dtype=np.int64)
        drawn = draw_discrete_laplace(zero, self.tilt_scale / self.tilt_grid, source)
        tilt = drawn * self.tilt_grid / self.n_units
        found = self._minimiser(rows, targets, weights, tilt)
        return self.noise.response(found).draw(source)

    def _minimiser(
        self, rows: Float, targets: Float, weights: Float, tilt: Float
    ) -> Float:
        problem = BallProblem(
            self.loss, self.feature_bound, math.inf, self.regularization
        )
        tilted = _Tilted(problem, rows, targets, weights, tilt)
        w = np.zeros(rows.shape[1])
        for _ in range(_NEWTON_STEPS):
            gradient = tilted.gradient(w)
            if np.linalg.norm(gradient) + tilted.error(w) <= self.tolerance:
                return w
            moved = _newton_step(tilted, w, gradient)
            if moved is None:
                break
            w = moved
        raise SolverError(
            f"the preset solver tolerance of {self.tolerance:.3g} was not reached. "
            "Raise `regularization` or `epsilon`, or rescale the features."
        )


@dataclass(frozen=True, eq=False)
class _Tilted:
    """The tilted objective with its derivatives."""

    problem: BallProblem
    rows: Float
    y: Float
    weights: Float
    tilt: Float

    def value(self, w: Float) -> float:
        losses = self.problem.loss.loss.value(self.rows @ w, self.y)
        penalty = self.problem.regularization * (w @ w) / 2
        return float(self.weights @ losses + penalty + self.tilt @ w)

    def gradient(self, w: Float) -> Float:
        weighted = self.weights * self.problem.loss.loss.slope(self.rows @ w, self.y)
        # Blocks keep the rounding of long sums small; see `gradient_error`.
        size = max(1, math.isqrt(len(weighted)))
        parts = [
            weighted[start : start + size] @ self.rows[start : start + size]
            for start in range(0, len(weighted), size)
        ]
        total = np.sum(parts, axis=0)
        return np.asarray(total + self.problem.regularization * w + self.tilt)

    def error(self, w: Float) -> float:
        """Bound the rounding of the gradient at `w`."""
        ball = replace(self.problem, radius=2 * float(np.linalg.norm(w)))
        tilt = 8 * ROUND_OFF * float(np.linalg.norm(self.tilt))
        return ball.gradient_error(*self.rows.shape) + tilt

    def hessian(self, w: Float) -> Float:
        curves = self.problem.loss.loss.curvature(self.rows @ w, self.y)
        data = (self.rows.T * (self.weights * curves)) @ self.rows
        return np.asarray(data + self.problem.regularization * np.eye(len(w)))


def _newton_step(tilted: _Tilted, w: Float, gradient: Float) -> Float | None:
    """Return a point with a lower value, or a gradient half as long; None if none."""
    step = np.linalg.solve(tilted.hessian(w), gradient)
    here, slope = tilted.value(w), float(gradient @ step)
    norm = float(np.linalg.norm(gradient))
    length = 1.0
    while length > 1e-10:
        there = w - length * step
        if tilted.value(there) <= here - 1e-4 * length * slope < here:
            return np.asarray(there)
        if np.linalg.norm(tilted.gradient(there)) <= 0.5 * norm:
            return np.asarray(there)
        length /= 2
    return None


def _tilt(
    model: Any, epsilon: float, n_units: int, curved: float, steep: float
) -> tuple[float, float]:
    """Return the regularisation and the scale of the tilt's noise."""
    strength = model.regularization
    if isinstance(strength, str) and strength == "auto":
        volume = 5 * curved / (epsilon * n_units)  # a fifth of epsilon at most
        balance = math.sqrt(2) * steep / (epsilon * n_units * _COEFFICIENT)
        strength = max(volume, balance)
    strength = positive(type(model).__name__, "regularization", strength)
    last = 0.01 * epsilon
    left = epsilon * (1 - 2.0**-30) - last - curved / (n_units * strength)
    if not left > 0:
        raise InvalidParameterError(
            f"regularization={strength!r} is too small for epsilon={epsilon!r} and "
            f"n_units={n_units}: it must exceed {1.02 * curved / n_units:.3g} / "
            'epsilon. Leave it "auto".'
        )
    return strength, steep / left * (1 + 2.0**-30)
