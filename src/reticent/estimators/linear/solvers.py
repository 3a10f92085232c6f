"""Solvers whose distance from the truth is known: Newton in a ball, and one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reticent._arrays import Floats, Ints
from reticent._search import last_that_holds
from reticent.errors import InvalidParameterError, SolverError
from reticent.estimators.linear.losses import ROUND_OFF, BoundedLoss

_MOST_STEPS = 200
# Within this share of the radius a point counts as lying on the sphere.
_ON_SPHERE = 8 * ROUND_OFF
# From this many rows on, every sixteenth row gives a first guess.
_MANY_ROWS, _FEW = 20_000, 16
# Rows whose products stay in a processor's cache.
CACHED_ROWS = 4096
# Terms that are added one after the other before sums of sums are taken.
_LEVEL = 256


@dataclass(frozen=True)
class BallProblem:
    """Regularised risk over a ball, with everything public that bounds errors."""

    loss: BoundedLoss  #: the loss of one row
    feature_bound: float  #: bound on the norm of a row
    radius: float  #: bound on the norm of the coefficients
    regularization: float  #: strength of the penalty

    @property
    def lipschitz(self) -> float:
        """Bound on the gradient of one row's loss."""
        return self.loss.slope * self.feature_bound

    @property
    def smoothness(self) -> float:
        """Bound on the curvature of one row's loss."""
        return self.loss.curvature * self.feature_bound**2

    def gradient_error(self, n_rows: int, n_features: int) -> float:
        """Bound the rounding of a computed gradient, whatever the rows hold.

        A prediction is off by `n_features` roundings, which the curvature carries into
        the slope; the slope has some of its own; rows are summed in blocks of about
        ``sqrt(n_rows)``. Points that count as on the sphere are off by a few more.
        """
        prediction = (n_features + 8) * self.smoothness * self.radius
        summing = 2 * math.isqrt(n_rows) + 32
        penalty = (self.smoothness + self.regularization) * self.radius
        return ROUND_OFF * (prediction + summing * self.lipschitz + 16 * penalty)


def minimise_risk(
    problem: BallProblem, rows: Floats, y: Floats, weights: Floats, tolerance: float
) -> Floats:
    r"""Minimise the regularised risk until the preset tolerance is proved.

    .. math:: \sum_i v_i \ell(w \cdot x_i, y_i) + \frac\lambda2 |w|^2,\quad |w| \le R

    Parameters
    ----------
    problem : BallProblem
        Loss, penalty and ball.
    rows, y, weights : ndarray
        Rows in the norm bound, their targets, and nonnegative weights that sum to 1.
    tolerance : float
        Fixed in advance, because noise is calibrated to it.

    Guarantee
    ---------
    The distance of minus the gradient from the normal cone of the ball, rounding of
    the gradient included, is at most `tolerance`; otherwise SolverError.
    """
    error = problem.gradient_error(*rows.shape)
    if not 2 * error <= tolerance:
        raise InvalidParameterError(
            f"a solver tolerance of {tolerance:.3g} is finer than {2 * error:.3g}, "
            "which floating point can prove here. Raise `tolerance`, or lower "
            "`radius`."
        )
    risk = Risk(problem, rows, y, weights)
    w, distance = _newton(risk, _first_guess(risk), tolerance - error)
    if not distance + error <= tolerance:
        raise SolverError(
            f"the preset solver tolerance of {tolerance:.3g} was not reached. Raise "
            "`tolerance` or `regularization`, or rescale the features."
        )
    return w


def _newton(risk: Risk, w: Floats, target: float) -> tuple[Floats, float]:
    """Iterate until `normal_distance` is at most `target` or no step helps."""
    radius = risk.problem.radius
    for _ in range(_MOST_STEPS):
        gradient = risk.gradient(w)
        distance = normal_distance(w, gradient, radius)
        if distance <= target:
            break
        lower = _descend(
            risk, w, _model_minimiser(risk.hessian(w), gradient, w, radius)
        )
        if lower is None:
            break
        w = lower
    return w, distance


def _first_guess(risk: Risk) -> Floats:
    """Return a start near the minimum: that of a few of the rows, if there are many.

    What is promised depends on where the solver ends, not on where it starts; but most
    steps are taken far from the end, where a few rows are enough.
    """
    n_rows, n_columns = risk.rows.shape
    some = slice(None, None, _FEW)
    total = float(risk.weights[some].sum())
    if n_rows < _MANY_ROWS or not total > 0:
        return np.zeros(n_columns)
    part = Risk(risk.problem, risk.rows[some], risk.y[some], risk.weights[some] / total)
    # The part's minimum is about this far from the whole's; nearer is no use.
    near = risk.problem.lipschitz / math.sqrt(len(part.rows))
    return _newton(part, _first_guess(part), near)[0]


def normal_distance(w: Floats, gradient: Floats, radius: float) -> float:
    """Return the distance of ``-gradient`` from the normal cone of the ball at `w`."""
    norm = float(np.linalg.norm(w))
    inward = float(gradient @ w)
    if norm >= radius * (1 - _ON_SPHERE) and inward < 0:
        gradient = gradient - w * (inward / norm**2)
    return float(np.linalg.norm(gradient))


@dataclass(frozen=True, eq=False)
class Risk:
    """The regularised risk with its derivatives, without the ball."""

    problem: BallProblem
    rows: Floats
    y: Floats
    weights: Floats

    def along(self, w: Floats, step: Floats) -> Callable[[float], float]:
        """Return the slope of the objective at ``w + t step`` as a function of `t`."""
        start, moved = self.rows @ w, self.rows @ step
        weighted = self.weights * moved
        strength = self.problem.regularization
        first, second = strength * float(w @ step), strength * float(step @ step)

        def slope(t: float) -> float:
            slopes = self.problem.loss.loss.slope(start + t * moved, self.y)
            return float(weighted @ slopes) + first + t * second

        return slope

    def gradient(self, w: Floats) -> Floats:
        """Return the gradient at `w`."""
        slopes = self.problem.loss.loss.slope(self.rows @ w, self.y)
        weighted = self.weights * slopes
        # Blocks keep the rounding of long sums small; see `gradient_error`.
        size = max(1, math.isqrt(len(weighted)))
        parts = [
            weighted[start : start + size] @ self.rows[start : start + size]
            for start in range(0, len(weighted), size)
        ]
        return np.asarray(np.sum(parts, axis=0) + self.problem.regularization * w)

    def hessian(self, w: Floats) -> Floats:
        """Return the matrix of second derivatives at `w`."""
        curves = self.problem.loss.loss.curvature(self.rows @ w, self.y)
        strengths = self.weights * curves
        data = self.problem.regularization * np.eye(len(w))
        for start in range(0, len(strengths), CACHED_ROWS):
            some = slice(start, start + CACHED_ROWS)
            data += (self.rows[some].T * strengths[some]) @ self.rows[some]
        return data


def _model_minimiser(
    hessian: Floats, gradient: Floats, w: Floats, radius: float
) -> Floats:
    """Minimise the quadratic model at `w` over the ball."""
    curves, axes = np.linalg.eigh(hessian)
    curves = np.maximum(curves, 1e-300)
    pull = axes.T @ (hessian @ w - gradient)

    def at(multiplier: float) -> Floats:
        return np.asarray(pull / (curves + multiplier))

    def within(multiplier: float) -> bool:
        return bool(np.linalg.norm(at(multiplier)) <= radius)

    if within(0.0):
        return np.asarray(axes @ at(0.0))
    most = float(np.linalg.norm(pull)) / radius
    return _onto_sphere(
        axes @ at(last_that_holds(within, most, 0.0, halvings=120)), radius
    )


def _onto_sphere(w: Floats, radius: float) -> Floats:
    return np.asarray(w * (radius / np.linalg.norm(w)))


def _descend(risk: Risk, w: Floats, target: Floats) -> Floats | None:
    """Go towards the target while the objective falls; None if it does not fall.

    The slope along the way never decreases, so a bisection finds where it is still
    negative but at most half as steep. No values are compared: near the minimum their
    differences drown in rounding before slopes do.
    """
    slope = risk.along(w, target - w)
    first = slope(0.0)
    if not first < 0:
        return None
    if slope(1.0) <= -1e-6 * first:
        return target
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        here = slope(middle)
        low, high = (middle, high) if here <= 0 else (low, middle)
        if first / 2 <= here <= 0:
            break
    return np.asarray(w + low * (target - w)) if low > 0 else None


def one_pass(
    slope_at: Callable[[float, float], float],
    rows: Floats,
    y: Floats,
    ends: Ints,
    step: float,
    radius: float,
) -> Floats:
    """Take one projected gradient step per unit, in order; return the mean iterate.

    Rows and targets come unit after unit, and `ends` says where each unit's rows end; a
    unit's gradient is the mean over its rows. Iterates are projected to the ball of
    `radius`.
    """
    w, total = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    limit, start = radius * radius, 0
    for end in ends.tolist():
        if end == start + 1:
            row = rows[start]
            w = w - (step * slope_at(float(row @ w), float(y[start]))) * row
        else:
            block = rows[start:end]
            pairs = zip((block @ w).tolist(), y[start:end].tolist(), strict=True)
            slopes = np.array([slope_at(*pair) for pair in pairs])
            w = w - (step / (end - start)) * _weighted_sum(slopes, block)
        square = float(w @ w)
        if square > limit:
            w *= radius / math.sqrt(square)
        total += w
        start = end
    return total / max(1, len(ends))


def _weighted_sum(weights: Floats, rows: Floats) -> Floats:
    """Sum in levels of 256 terms, so that rounding does not grow with the rows."""
    terms = weights[:, None] * rows
    while len(terms) > _LEVEL:
        terms = np.add.reduceat(terms, np.arange(0, len(terms), _LEVEL))
    return np.asarray(terms.sum(axis=0))


def one_pass_error(
    problem: BallProblem, n: int, n_features: int, step: float, *, grouped: bool
) -> float:
    """Bound the rounding of `one_pass`: steps never magnify an error, so they add.

    `grouped` says that units may have several rows, at most five levels of them.
    """
    reach = problem.radius + step * problem.lipschitz
    terms = n_features + 16 + (5 * _LEVEL if grouped else 0)
    return 4 * ROUND_OFF * (n + 1) * terms * reach
