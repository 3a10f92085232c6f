"""Linear functions in a ball, and convex minimisation over them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats, row_products
from reticent._search import geometric_mean, last_that_holds
from reticent.errors import InvalidDataError, InvalidParameterError, SolverError
from reticent.hypotheses.losses import ConvexLoss
from reticent.hypotheses.oracles.points import point_matrix

_MOST_STEPS = 500

# Half of the last place of 1.0, and the roundings in one term of a gradient.
_ROUND_OFF, _ROUNDINGS = 2.0**-53, 32
# Rows whose intermediate results stay in a processor's cache.
_CACHED_ROWS = 4096


@dataclass(frozen=True, slots=True)
class LinearFunction:
    """The function ``x -> x @ coefficients``."""

    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ConvexMinimum:
    """An almost optimal function, and a proof of how far it may be from the optimum."""

    hypothesis: LinearFunction  #: the function found
    value: float  #: its objective
    #: No function in the ball has an objective below ``value - gap``. Includes a bound
    #: on the rounding of the gradient.
    gap: float


@dataclass(frozen=True, slots=True)
class LinearBall:
    r"""Linear functions :math:`x \mapsto w \cdot x` with :math:`|w|_2 \le` `radius`.

    A convex class of real-valued functions, for regularised and perturbed risk
    minimisation (P3, M2, M3). It has no labelings, so `project`, `growth` and
    `vc_dimension` are refused; its signs are :class:`Halfspaces`. Add a constant
    feature for an intercept.

    Parameters
    ----------
    radius : float
        Bound on the Euclidean norm of the coefficients.

    Examples
    --------
    >>> from reticent.hypotheses import SquaredLoss
    >>> ball = LinearBall(radius=1.0)
    >>> found = ball.minimise([[1.0], [2.0]], [3.0, 6.0], loss=SquaredLoss(), gap=1e-9)
    >>> found.hypothesis.coefficients, found.gap <= 1e-9
    ((1.0,), True)
    """

    radius: float

    def __post_init__(self) -> None:
        if not 0 < self.radius < math.inf:
            raise InvalidParameterError(
                f"radius={self.radius!r} is not possible; a finite number > 0 is "
                "needed."
            )

    def predict(self, hypothesis: LinearFunction, X: ArrayLike) -> Floats:
        """Return the value at each row; it does not depend on the other rows."""
        rows = point_matrix(X, len(hypothesis.coefficients))
        return row_products(rows, np.array(hypothesis.coefficients))

    def minimise(
        self,
        X: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        loss: ConvexLoss,
        gap: float,
        ridge: float = 0.0,
        public: ArrayLike | None = None,
        eta: float = 0.0,
        tilt: ArrayLike | None = None,
    ) -> ConvexMinimum:
        r"""Minimise a convex objective over the ball to a preset gap.

        .. math:: \frac1n \sum_i v_i \ell(w \cdot x_i, y_i) + \frac\lambda2 |w|^2
                  + \frac\eta m \sum_j (w \cdot z_j)^2 + t \cdot w

        Parameters
        ----------
        X, y : array-like
            Rows and targets (0 or 1 for the classification losses).
        weights : array-like, optional
            :math:`v_i \ge 0`; one each if left out. Negative ones are refused, because
            the objective would not be convex.
        loss : ConvexLoss
            :math:`\ell`.
        gap : float
            The largest gap allowed, fixed in advance: noise is calibrated to it.
        ridge : float, default=0
            :math:`\lambda`.
        public, eta : array-like and float, optional
            Public rows :math:`z_j` and :math:`\eta` of M3.
        tilt : array-like, optional
            A linear term :math:`t`, for perturbed minimisation (M2).

        Guarantee
        ---------
        The objective of the result exceeds the minimum by at most ``result.gap``, which
        is at most `gap`; otherwise SolverError. Proof: for convex :math:`F` and
        :math:`|v| \le R`, :math:`F(w) - F(v) \le \nabla F(w) \cdot (w - v) \le
        \nabla F(w) \cdot w + R |\nabla F(w)|`.
        """
        if not 0 < gap < math.inf:
            raise InvalidParameterError(f"gap={gap!r} must be a finite number > 0.")
        objective = _Objective.of(X, y, weights, loss, ridge, public, eta, tilt)
        return _newton(objective, self.radius, gap)

    @property
    def vc_dimension(self) -> NoReturn:
        """Refused: the class is real-valued."""
        self._refuse("vc_dimension")

    def project(self, X: ArrayLike) -> NoReturn:
        """Refuse: the class has no labelings."""
        self._refuse("project")

    def growth(
        self, m: int | None = None, *, points: ArrayLike | None = None
    ) -> NoReturn:
        """Refuse: the class has no labelings."""
        self._refuse("growth")

    def _refuse(self, name: str) -> NoReturn:
        raise InvalidParameterError(
            f"LinearBall has no {name}: its functions are real-valued, not 0-1. Use "
            "Halfspaces for labels, or the convex `minimise` of this class."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    """The smooth convex objective with gradient and Hessian."""

    rows: Floats
    y: Floats
    weights: Floats
    loss: ConvexLoss
    quadratic: Floats  # the Hessian of the two penalties
    tilt: Floats
    terms: int  # how many summands a gradient entry has

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None,
        loss: ConvexLoss,
        ridge: float,
        public: ArrayLike | None,
        eta: float,
        tilt: ArrayLike | None,
    ) -> _Objective:
        rows = point_matrix(X)
        n_rows, d = rows.shape
        if not (0 <= ridge < math.inf and 0 <= eta < math.inf):
            raise InvalidParameterError(
                f"ridge={ridge!r} and eta={eta!r} must be finite numbers >= 0."
            )
        if (public is None) != (eta == 0):
            raise InvalidParameterError(
                "eta > 0 and public rows go together; give both."
            )
        quadratic = ridge * np.eye(d)
        if public is not None:
            Z = point_matrix(public, d)
            quadratic = quadratic + 2 * eta / len(Z) * (Z.T @ Z)
        shift = np.zeros(d) if tilt is None else _vector("tilt", tilt, d)
        targets = _vector("y", y, n_rows)
        each = (
            np.ones(n_rows) if weights is None else _vector("weights", weights, n_rows)
        )
        if (each < 0).any():
            raise InvalidDataError("weights must be >= 0 for a convex objective.")
        return cls(rows, targets, each / n_rows, loss, quadratic, shift, n_rows)

    def _blocks(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield rows, targets and weights, few enough to stay in the cache."""
        for start in range(0, len(self.rows), _CACHED_ROWS):
            some = slice(start, start + _CACHED_ROWS)
            yield self.rows[some], self.y[some], self.weights[some]

    def value(self, w: Floats) -> float:
        loss = sum(
            float(weights @ self.loss.value(rows @ w, y))
            for rows, y, weights in self._blocks()
        )
        return float(loss + w @ self.quadratic @ w / 2 + self.tilt @ w)

    def gradient(self, w: Floats) -> tuple[Floats, float]:
        """Return the gradient and a bound on the norm of its rounding error."""
        d = len(w)
        found, summed, moved = np.zeros((3, d))
        for rows, y, weights in self._blocks():
            prediction, sizes = rows @ w, np.abs(rows)
            slope = weights * self.loss.slope(prediction, y)
            curve = weights * self.loss.curvature(prediction, y)
            found += slope @ rows
            summed += np.abs(slope) @ sizes
            # A rounded prediction moves the slope by the curvature.
            moved += (curve * (sizes @ np.abs(w))) @ sizes
        found += self.quadratic @ w + self.tilt
        rest = np.abs(self.quadratic) @ np.abs(w) + np.abs(self.tilt)
        count = self.terms + 2 * d + _ROUNDINGS
        error = _ROUND_OFF * (count * (summed + rest) + (d + _ROUNDINGS) * moved)
        return found, float(np.linalg.norm(error))

    def hessian(self, w: Floats) -> Floats:
        found = self.quadratic.copy()
        for rows, y, weights in self._blocks():
            curve = weights * self.loss.curvature(rows @ w, y)
            found += (rows.T * curve) @ rows
        return found


def _newton(objective: _Objective, radius: float, target: float) -> ConvexMinimum:
    """Projected Newton steps with backtracking, until the gap is proved."""
    w = np.zeros(objective.rows.shape[1])
    for _ in range(_MOST_STEPS):
        gradient, error = objective.gradient(w)
        norm = float(np.linalg.norm(gradient))
        gap = float(gradient @ w) + radius * norm + 2 * radius * error
        gap += _ROUNDINGS * len(w) * _ROUND_OFF * radius * norm
        if gap <= target:
            found = LinearFunction(tuple(float(c) for c in w))
            return ConvexMinimum(found, objective.value(w), max(gap, 0.0))
        step = _ball_minimiser(objective.hessian(w), gradient, w, radius) - w
        moved = _backtrack(objective, w, step, float(gradient @ step))
        if moved is None:
            break
        w = _into_ball(moved, radius)
    raise SolverError(
        f"gap={target!r} was not reached. Use a larger gap, or rescale the features."
    )


def _ball_minimiser(
    hessian: Floats, gradient: Floats, w: Floats, radius: float
) -> Floats:
    """Minimise the quadratic model at `w` over the ball, by its secular equation."""
    curve, axes = np.linalg.eigh(hessian)
    curve = np.maximum(curve, 0.0)
    pull = axes.T @ (hessian @ w - gradient)
    floor = 1e-14 * max(float(curve[-1]), float(np.abs(pull).max()) / radius, 1e-300)

    def within(multiplier: float) -> bool:
        return float(np.linalg.norm(pull / (curve + multiplier))) <= radius

    if within(floor):
        return axes @ (pull / (curve + floor))
    most = float(np.linalg.norm(pull)) / radius
    least = last_that_holds(within, most, floor, relative=0.5, middle=geometric_mean)
    least = last_that_holds(within, least, max(floor, least / 2))
    return _into_ball(axes @ (pull / (curve + least)), radius)


def _backtrack(
    objective: _Objective, w: Floats, step: Floats, slope: float
) -> Floats | None:
    """Halve the step until the objective falls enough; None if it does not."""
    here = objective.value(w)
    slack = 8 * _ROUND_OFF * (abs(here) + 1e-300)
    length = 1.0
    while length > 1e-12:
        there: Floats = w + length * step
        if objective.value(there) <= here + 1e-4 * length * slope + slack:
            return there
        length /= 2
    return None


def _into_ball(w: Floats, radius: float) -> Floats:
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)


def _vector(name: str, values: ArrayLike, length: int) -> Floats:
    found = np.asarray(values)
    if found.shape != (length,) or found.dtype.kind not in "biuf":
        raise InvalidDataError(
            f"{name} has shape {found.shape} and dtype {found.dtype}; {length} numbers "
            "are needed."
        )
    floats = found.astype(np.float64)
    if not np.isfinite(floats).all():
        raise InvalidDataError(f"{name} has NaN or infinite entries.")
    return floats
