"""Linear functions learned with public points: losses, plan and solver (M3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._arrays import Floats
from reticent._numbers import below_one, down, positive, up
from reticent._search import last_that_holds
from reticent._text import one_of
from reticent.errors import InvalidParameterError, SolverError
from reticent.estimators import ROUND_OFF, LinearFacts, is_auto
from reticent.guarantees import Certificate, gaussian_ratio
from reticent.hypotheses import (
    ConvexLoss,
    HuberLoss,
    LinearBall,
    LogisticLoss,
    SquaredLoss,
)
from reticent.learners.linear.output_noise import calibrated_noise
from reticent.learners.public.rules import (
    minimiser_move,
    projected_model,
    regularized_sensitivity,
)
from reticent.mechanisms import GridLaw, GridNoise, RandomSource

# Widths, in turn, over which the kink of the absolute loss is rounded.
_WIDTHS = tuple(0.25 * 8.0**-k for k in range(14))


@dataclass(frozen=True)
class UnitLoss:
    """A convex loss that ranges over at most one at any one example."""

    # "logistic", "squared", "huber" or "absolute". Targets are 0 and 1 for
    # "logistic", in [-1, 1] for the others.
    name: str
    reach: float  # bound on the size of predictions
    width: float  # where Huber's loss bends
    share: float  # what the plain loss is multiplied by, rounded down

    @classmethod
    def of(cls, name: Any, width: Any, reach: float) -> UnitLoss:
        """Scale the loss called `name` by its range.

        The logistic loss differs by exactly the reach between the largest prediction
        and the smallest. The others grow with the distance from the target and range
        widest for a target of size one, from the nearest to the farthest prediction.
        """
        one_of("loss", name, "logistic", "squared", "huber", "absolute")
        if name == "logistic":
            return cls(name, reach, 1.0, down(1 / reach))
        width = positive("Huber's loss", "width", width)
        plain = cls(name, reach, width, 1.0)
        ends = np.array([reach + 1.0, max(0.0, 1.0 - reach)])
        far, near = plain.value(ends, np.zeros(2)).tolist()
        return cls(name, reach, width, down(1 / up(far - near)))

    def smooth(self, width: float | None = None) -> ConvexLoss:
        """Return the loss for a solver; the absolute one is rounded over `width`."""
        if self.name == "logistic":
            return LogisticLoss(self.share)
        if self.name == "squared":
            return SquaredLoss(self.share / 2)
        if self.name == "huber":
            return HuberLoss(self.width, self.share)
        width = _WIDTHS[0] if width is None else width
        return HuberLoss(width, self.share / width)

    def value(self, prediction: Floats, y: Floats) -> Floats:
        """Return the loss of each prediction."""
        if self.name == "absolute":
            return np.asarray(self.share * np.abs(prediction - y))
        return self.smooth().value(prediction, y)

    @property
    def slope(self) -> float:
        """Bound on the size of the derivative."""
        steepest = {"squared": self.reach + 1, "huber": self.width}
        return up(self.share * steepest.get(self.name, 1.0))

    @property
    def curvature(self) -> float | None:
        """Bound on the second derivative; None if there is none."""
        if self.name == "absolute":
            return None
        return self.share * (0.25 if self.name == "logistic" else 1.0)


@dataclass(frozen=True, eq=False)
class RegularizedPlan:
    """Penalty, solver's gap and noise of M3, all from public quantities."""

    loss: UnitLoss
    radius: float  # bound on the norm of the coefficients
    regularization: float  # strength of the penalty at the public points; the eta of M3
    gap: float  # what the solver promises; the certificate rests on it
    noise: GridNoise  # on the values at the public points
    certificate: Certificate[Any]  # what the model promises

    @classmethod
    def of(
        cls, model: Any, facts: LinearFacts, *, n_public: int, leverage: float | None
    ) -> RegularizedPlan:
        """Check a model's parameters; scikit-learn's checks may be off."""
        owner = type(model).__name__
        epsilon = positive(owner, "epsilon", model.epsilon)
        delta = below_one(owner, "delta", model.delta)
        radius = positive(owner, "radius", model.radius)
        reach = up(radius * facts.feature_bound)
        loss = UnitLoss.of(model.loss, model.width, reach)
        spread = projected_spread(epsilon, delta, n_public, facts.dimension)
        regularization = model.regularization
        if is_auto(regularization):
            regularization = cheapest_regularization(
                loss, spread, facts.n_units, leverage, model._prediction
            )
        regularization = positive(owner, "regularization", regularization)
        tolerance = positive(owner, "tolerance", model.tolerance)
        steepness = {"lipschitz": loss.slope, "leverage": leverage}
        move = minimiser_move(facts.n_units, regularization, **steepness)
        gap = regularization * (tolerance * move / 2) ** 2
        # Floating point proves no finer gap, whatever the rows hold.
        finest = (facts.n_units + n_public + facts.dimension + 64) * 64 * ROUND_OFF
        gap = max(gap, finest * (1 + regularization * reach**2))
        moved = regularized_sensitivity(
            n=facts.n_units,
            m=n_public,
            eta=regularization,
            gap=gap,
            reach=reach,
            **steepness,
            rounding=(facts.dimension + 32) * 2 * ROUND_OFF * reach,
            labels_from_data=facts.labels_from_data,
        )
        noise = calibrated_noise(
            moved, epsilon, delta, dimension=n_public, seeded=facts.seeded
        )
        released = projected_model(noise.certificate, points=n_public)
        return cls(loss, radius, regularization, gap, noise, released)

    def values(
        self, rows: Floats, y: Floats, weights: Floats, public: Floats
    ) -> Floats:
        """Minimise to the preset gap; return the minimiser's values at `public`.

        `weights` are those of the rows, and sum to one over all units.
        """
        # What floating point may add: to the weights of units, to the matrix of the
        # public rows, and to the norm of the result.
        size = 1 + 4 * self.regularization * self.loss.reach**2
        reserve = (len(public) + 64) * 2 * ROUND_OFF * size
        if not 2 * reserve <= self.gap:
            raise InvalidParameterError(
                f"a gap of {self.gap:.3g} is finer than {2 * reserve:.3g}, which "
                "floating point can prove here. Raise `tolerance`, or lower "
                "`regularization`."
            )
        problem = _Problem(self, rows, y, weights * len(rows), public)
        target = self.gap - reserve
        if self.loss.name == "absolute":
            found = _absolute_minimiser(problem, target)
        else:
            found = problem.minimise(self.loss.smooth(), target)
        return np.asarray(public @ found)

    def project(self, public: Floats, noisy: Floats) -> Floats:
        """Return the released coefficients; they see nothing but noisy values."""
        law = self.noise.law
        spread = math.sqrt(2) if law is GridLaw.LAPLACE else 1.0
        return nearest_linear(
            public, noisy, self.radius, noise=spread * self.noise.scale
        )

    def noisy(self, values: Floats, source: RandomSource) -> Floats:
        """Draw the noisy values: all that the release knows of the data."""
        return self.noise.response(values).draw(source)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Rows, targets and weights of one minimisation."""

    plan: RegularizedPlan
    rows: Floats
    y: Floats
    weights: Floats
    public: Floats

    def minimise(self, loss: ConvexLoss, gap: float) -> Floats:
        found = LinearBall(self.plan.radius).minimise(
            self.rows,
            self.y,
            self.weights,
            loss=loss,
            gap=gap,
            public=self.public,
            eta=self.plan.regularization,
        )
        return np.array(found.hypothesis.coefficients)

    def gap(self, w: Floats, slopes: Floats) -> float:
        """Bound how much linear functions with these slopes of the loss improve.

        That is the largest decrease over the ball of the objective's linear part at
        `w`, with the rounding of the gradient.
        """
        n, d = self.rows.shape
        m = len(self.public)
        shares = self.weights / n * slopes
        values = self.public @ w
        pull = 2 * self.plan.regularization / m
        gradient = shares @ self.rows + pull * (values @ self.public)
        sizes = np.abs(shares) @ np.abs(self.rows)
        sizes += pull * (np.abs(values) @ np.abs(self.public))
        radius, norm = self.plan.radius, float(np.linalg.norm(gradient))
        error = (n + m + 2 * d + 64) * ROUND_OFF * float(np.linalg.norm(sizes))
        return float(gradient @ w) + radius * (norm + 2 * error) * (1 + 2.0**-40)


def _absolute_minimiser(problem: _Problem, gap: float) -> Floats:
    r"""Minimise the absolute loss by rounding its kink over smaller and smaller widths.

    *Proof of the gap.* Slopes `a` in [-1, 1] satisfy :math:`|v| \ge |u| + a (v - u) -
    (|u| - a u)` for residuals `u`, `v`. So the objective exceeds its minimum by at most
    the gap of the linear part plus the mean of :math:`|u| - a u`, which vanishes
    outside the width, where `a` is the sign of `u`.
    """
    share = problem.plan.loss.share
    for width in _WIDTHS:
        try:
            found = problem.minimise(problem.plan.loss.smooth(width), gap / 2)
        except SolverError:
            continue
        residuals = problem.rows @ found - problem.y
        slopes = np.clip(residuals / width, -1.0, 1.0)
        short = np.abs(residuals) - slopes * residuals
        rest = share * float(problem.weights @ short) / len(short) * (1 + 2.0**-30)
        rounding = 64 * ROUND_OFF * (1 + len(found)) * problem.plan.loss.reach * share
        if problem.gap(found, share * slopes) + rest + rounding <= gap:
            return found
    raise SolverError(
        f"gap={gap!r} was not reached for the absolute loss. Raise `tolerance`, or "
        "use loss='huber'."
    )


def projected_spread(epsilon: float, delta: float, m: int, dimension: int) -> float:
    """Return the root mean square noise after projection, for a move of one.

    Of the noise on `m` values only the part in the class survives.
    """
    kept = min(dimension, m)
    if delta:
        return math.sqrt(kept) / gaussian_ratio(epsilon, delta)
    return math.sqrt(2 * kept * m) / epsilon


def cheapest_regularization(
    loss: UnitLoss,
    spread: float,
    n_units: int,
    leverage: float | None,
    prediction: float,
) -> float:
    """Return where the penalty and the noise together cost least, roughly.

    `prediction` is how much of a prediction's size counts; signs survive shrinking.
    """
    choices = np.logspace(-7, 1, 161)
    costs = []
    for regularization in choices.tolist():
        moved = minimiser_move(
            n_units, regularization, lipschitz=loss.slope, leverage=leverage
        )
        noise = spread * moved
        curved = math.inf if loss.curvature is None else loss.curvature * noise**2 / 2
        costs.append(regularization * prediction**2 + min(curved, loss.slope * noise))
    return float(choices[int(np.argmin(costs))])


def leverage_at_most(public: Floats, feature_bound: float) -> float | None:
    """Bound linear functions at bounded rows by their root mean square at public ones.

    None if the public rows leave a direction out, or nearly so.
    """
    m, d = public.shape
    moments = public.T @ public / m
    # What rounding can do to the matrix and to its eigenvalues.
    error = (m + 16 * d + 64) * 2 * ROUND_OFF * float(np.trace(moments))
    least = float(np.linalg.eigvalsh(moments)[0]) - error
    if not least > 0:
        return None
    return up(feature_bound / math.sqrt(least))


def nearest_linear(
    public: Floats, values: Floats, radius: float, *, noise: float = 0.0
) -> Floats:
    """Return coefficients in the ball whose values are nearest to `values` (M1).

    A function of public rows and given values alone. With `noise`, the values' known
    standard deviation, coefficients are shrunk as if each had the variance
    ``radius^2 / dimension`` before. Directions that the public rows do not have stay
    zero.
    """
    m, d = public.shape
    curves, axes = np.linalg.eigh(public.T @ public / m)
    pull = axes.T @ (values @ public / m)
    seen = curves > 1e-12 * max(float(curves[-1]), 1e-300)
    curves, pull, axes = curves[seen], pull[seen], axes[:, seen]
    least = noise**2 * d / (m * radius**2)

    def at(multiplier: float) -> Floats:
        return np.asarray(pull / (curves + multiplier))

    def within(multiplier: float) -> bool:
        return bool(np.linalg.norm(at(multiplier)) <= radius)

    if within(least):
        return np.asarray(axes @ at(least))
    most = least + float(np.linalg.norm(pull)) / radius
    return np.asarray(axes @ at(last_that_holds(within, most, least, halvings=100)))
