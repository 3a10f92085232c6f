"""The exponential mechanism over a ball of linear functions: net and sampler (L2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reticent._arrays import Floats, Ints, row_products
from reticent._numbers import positive, probability, up
from reticent.errors import InvalidParameterError, SolverError
from reticent.estimators import BallProblem, minimise_risk
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ApproxDP,
    Assumption,
    Conclusion,
    ReplaceOne,
    Scope,
    rule,
)
from reticent.mechanisms import RandomSource, Response, exponential_mechanism

#: The one thing about a sampler that no code can check.
SAMPLER_TV = Assumption(
    "SAMPLER_TV",
    "the sampler's law, rounded to its grid, is within the stated total variation of "
    "its target, whatever the data",
)
# Losses are counted in whole steps, so that their sums are exact.
MOST_STEPS_OF_A_LOSS = 2**20
LARGEST_SCORE = 2**43
# Released coefficients are rounded to this part of the radius.
_GRID = 2.0**-30


@rule(
    "L2-sampler",
    name="log-concave sampler",
    statement="a sampler within total variation tau of an eps-DP target is "
    "(eps, (1 + e^eps) tau)-DP",
    source="S0 Prop. 19",
    gives=ApproxDP,
)
def sampled_model(
    *,
    n: int,
    epsilon: float,
    tv_error: float,
    labels_from_data: bool = False,
    seeded: bool = False,
) -> Conclusion[ApproxDP]:
    """Certify one draw of a sampler; always conditional on its distance.

    *Proof.* With target laws `P`, `Q` on neighbours and sampled laws within `tau` of
    them, an event has probability at most ``P + tau <= e^eps Q + tau <= e^eps (Q' +
    tau) + tau``. Equality is possible.
    """
    epsilon = positive("rule L2-sampler", "epsilon", epsilon)
    tau = probability("rule L2-sampler", "tv_error", tv_error)
    return Conclusion(
        ApproxDP(epsilon, up(up(1 + math.exp(epsilon)) * tau)),
        ReplaceOne(n),
        Scope.MODEL,
        Assumption.collect(
            (SAMPLER_TV, True),
            (PUBLIC_LABELS, labels_from_data),
            (SEEDED_NOISE, seeded),
        ),
    )


@dataclass(frozen=True, eq=False)
class BallTarget:
    r"""The target :math:`\Pr[w] \propto e^{-\varepsilon n F(w)/(2\,\mathrm{span})}`."""

    # Loss, ball, bound on rows, and penalty, which costs no privacy.
    problem: BallProblem
    # The data; weights sum to one.
    rows: Floats
    targets: Floats
    weights: Floats
    n_units: int
    epsilon: float  # what one exact draw costs
    # Public bounds: every loss in the ball lies in ``[low, low + span]``.
    low: float
    span: float

    @property
    def rate(self) -> float:
        """The factor before the regularised risk."""
        return self.epsilon * self.n_units / (2 * self.span)

    def log_density(self, points: Floats) -> Floats:
        """Return the log-density at points inside the ball, up to a constant."""
        scores = self.rows @ points.T
        losses = self.problem.loss.loss.value(scores, self.targets[:, None])
        penalty = self.problem.regularization * (points**2).sum(axis=1) / 2
        return np.asarray(-self.rate * (self.weights @ losses + penalty))

    def gradient(self, points: Floats) -> Floats:
        """Return the gradients of the log-density, one row per point."""
        scores = self.rows @ points.T
        slopes = self.problem.loss.loss.slope(scores, self.targets[:, None])
        data = (self.weights[:, None] * slopes).T @ self.rows
        return np.asarray(-self.rate * (data + self.problem.regularization * points))

    def mode(self) -> Floats:
        """Return about where the density is largest; chains start around it."""
        ridge = max(self.problem.regularization, 1e-6)
        problem = replace(self.problem, regularization=ridge)
        fine = max(1e-7, 4 * problem.gradient_error(*self.rows.shape))
        try:
            return minimise_risk(problem, self.rows, self.targets, self.weights, fine)
        except SolverError:
            return np.zeros(self.rows.shape[1])

    def curvature(self, point: Floats) -> Floats:
        """Return minus the Hessian of the log-density."""
        curves = self.problem.loss.loss.curvature(self.rows @ point, self.targets)
        data = (self.rows.T * (self.weights * curves)) @ self.rows
        ridge = self.problem.regularization * np.eye(len(point))
        return np.asarray(self.rate * (data + ridge))


def net_of_ball(dimension: int, radius: float, points: int) -> Floats:
    """Return about `points` points of a cubic grid, all that lie in the ball."""
    volume = math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1)
    per_radius = max(1, math.floor((points / volume) ** (1 / dimension)))
    axis = np.arange(-per_radius, per_radius + 1)
    mesh = np.stack(np.meshgrid(*[axis] * dimension), axis=-1).reshape(-1, dimension)
    inside = mesh[(mesh**2).sum(axis=1) <= per_radius**2]
    return np.asarray(inside * (radius / per_radius))


def loss_steps(n_units: int) -> int:
    """Return how many whole steps one loss is cut into, so that sums are exact."""
    steps = min(MOST_STEPS_OF_A_LOSS, LARGEST_SCORE // (2 * n_units))
    if not steps >= 1:
        raise InvalidParameterError("an exact net takes at most 2^42 units.")
    return steps


def net_law(target: BallTarget, net: Floats, units: Ints | None) -> Any:
    """Return the exact law of the exponential mechanism on a net.

    Each unit's loss is a whole number of steps between 0 and `loss_steps`, a function
    of that unit and the point alone; sums are exact.
    """
    steps = loss_steps(target.n_units)
    costs = np.empty(len(net), dtype=np.int64)
    for index, point in enumerate(net):
        losses = target.problem.loss.loss.value(
            row_products(target.rows, point), target.targets
        )
        share = np.clip((losses - target.low) / target.span, 0.0, 1.0)
        if units is not None:
            sizes = np.bincount(units)
            share = np.clip(np.bincount(units, weights=share) / sizes, 0.0, 1.0)
        costs[index] = np.floor(share * steps).astype(np.int64).sum()
    # The penalty is public, and rounded before any data are looked at.
    ridge = target.problem.regularization * (net**2).sum(axis=1) / 2
    extra = np.rint(np.minimum(ridge / target.span, 1.0) * steps * target.n_units)
    scores = -(costs + extra.astype(np.int64))
    law: Response = exponential_mechanism(
        scores,
        target.epsilon,
        bound=2 * steps * target.n_units,
        sensitivity=steps,
    )
    return law


@dataclass(frozen=True)
class Diagnostics:
    """How the chains of a sampler ran. Not private: do not share it."""

    # Largest split R-hat over coefficients and the log-density; near 1 if chains agree.
    r_hat: float
    effective_size: float  # smallest effective number of draws
    acceptance: float  # share of proposals accepted
    # Whether R-hat < 1.05, effective size >= 100 and 0.15 < acceptance < 0.99. A hint,
    # not a proof: the certificate stays conditional.
    converged: bool


def sample_ball(
    target: BallTarget, *, chains: int, steps: int, source: RandomSource
) -> tuple[Floats, Diagnostics]:
    """Draw from the target by Langevin proposals with Metropolis' correction.

    Proposals are scaled by the curvature at the mode; those outside the ball are
    rejected. The last point of the first chain is the draw, rounded to a public grid.
    """
    seed = int.from_bytes(source.bytes(16), "big")
    rng = np.random.default_rng(seed)
    mode = target.mode()
    curves, axes = np.linalg.eigh(target.curvature(mode))
    d = len(mode)
    # Flat directions are as wide as the ball, not wider.
    widths = 1 / np.sqrt(np.maximum(curves, d / target.problem.radius**2))
    root = axes * widths
    # Started at different places, about as far apart as the target is wide.
    points = _inside(mode + 2 * rng.normal(size=(chains, d)) @ root.T, target)
    history = np.empty((steps, chains, d + 1))
    size = d ** (-1 / 6)
    accepted = 0.0
    here, slope = target.log_density(points), target.gradient(points) @ root
    for step in range(steps):
        noise = rng.normal(size=(chains, d))
        move = size**2 / 2 * slope + size * noise
        there = points + move @ root.T
        inside = np.linalg.norm(there, axis=1) <= target.problem.radius
        safe = np.where(inside[:, None], there, points)
        value, back = target.log_density(safe), target.gradient(safe) @ root
        returned = -move - size**2 / 2 * back
        balance = (noise**2).sum(axis=1) / 2 - (returned**2).sum(axis=1) / (2 * size**2)
        taken = inside & (np.log(rng.random(chains)) < value - here + balance)
        points = np.where(taken[:, None], safe, points)
        here, slope = (
            np.where(taken, value, here),
            np.where(taken[:, None], back, slope),
        )
        accepted += float(taken.mean()) / steps
        history[step] = np.column_stack([points @ axes, here])
    grid = _GRID * 2.0 ** math.ceil(math.log2(target.problem.radius))
    drawn = np.rint(points[0] / grid) * grid
    return drawn, diagnose(history[steps // 2 :], accepted)


def _inside(points: Floats, target: BallTarget) -> Floats:
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    limit = 0.99 * target.problem.radius
    return np.asarray(points * np.minimum(1.0, limit / np.maximum(norms, limit)))


def diagnose(history: Floats, acceptance: float) -> Diagnostics:
    """Judge draws of shape (steps, chains, quantities), burn-in removed."""
    steps = len(history) // 2
    if steps < 4:
        return Diagnostics(math.inf, 0.0, acceptance, False)
    halves = np.concatenate([history[:steps], history[-steps:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean(axis=0)
    between = steps * halves.mean(axis=0).var(axis=0, ddof=1)
    pooled = (steps - 1) / steps * within + between / steps
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sqrt(pooled / within)
    # A chain that never moved has no variance, and proves nothing.
    r_hat = float(np.where(np.isfinite(ratios), ratios, np.inf).max())
    size = min(_effective(halves[:, :, j]) for j in range(halves.shape[2]))
    good = r_hat < 1.05 and size >= 100 and 0.15 < acceptance < 0.99
    return Diagnostics(r_hat, size, acceptance, bool(good))


def _effective(draws: Floats) -> float:
    """Return the effective number of draws, by Geyer's initial positive sequence."""
    steps, chains = draws.shape
    centred = draws - draws.mean(axis=0)
    padded = np.fft.rfft(centred, 2 * steps, axis=0)
    covariance = np.fft.irfft(np.abs(padded) ** 2, axis=0)[:steps].mean(axis=1) / steps
    pooled = covariance[0] + draws.mean(axis=0).var(ddof=1)
    if not pooled > 0:
        return 0.0
    correlation = 1 - (covariance[0] - covariance) / pooled
    total = 0.0
    for lag in range(0, steps - 1, 2):
        pair = correlation[lag] + correlation[lag + 1]
        if pair < 0:
            break
        total += pair
    return float(steps * chains / max(2 * total - 1, 1e-12))
