"""From the parameters of a stable linear model to its coefficients and its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._arrays import Floats, Ints
from reticent._numbers import below_one, positive, whole
from reticent._text import one_of
from reticent.errors import TooFewRecordsError
from reticent.estimators import (
    ROUND_OFF,
    BallProblem,
    BoundedLoss,
    UnitIds,
    automatic_regularization,
    erm_sensitivity,
    is_auto,
    minimise_risk,
    one_pass,
    one_pass_error,
    partition_rows,
    psgd_sensitivity,
    row_bound,
    unit_positions,
)
from reticent.guarantees import (
    Certificate,
    Sensitivity,
    average_of_shards,
    gaussian_noise,
)
from reticent.mechanisms import (
    GridNoise,
    RandomSource,
    calibrate_gaussian,
    calibrate_laplace,
    noise_source,
)


@dataclass(frozen=True, eq=False)
class LinearPlan:
    """One stable linear model, planned from public quantities, and its units."""

    problem: BallProblem  # loss, ball and penalty
    # Sizes.
    n_units: int
    n_shards: int
    n_rows: int
    n_features: int
    # What one answer may cost.
    epsilon: float
    delta: float
    solver: str  # "erm" or "psgd"
    tolerance: float  # of the solver, as a share of the sensitivity
    units: UnitIds  # the unit of each row; None if every row is a unit
    source: RandomSource  # deals units to shards, orders them, and draws answers

    @classmethod
    def of(
        cls, model: Any, loss: BoundedLoss, shape: tuple[int, int], units: UnitIds
    ) -> LinearPlan:
        """Check the parameters of a model; scikit-learn's checks may be off."""
        owner = type(model).__name__
        one_of("solver", model.solver, "erm", "psgd")
        epsilon = positive(owner, "epsilon", model.epsilon)
        radius = positive(owner, "radius", model.radius)
        n_shards = whole(owner, "n_shards", model.n_shards)
        _, n_units = unit_positions(units, shape[0])
        if not n_shards <= n_units:
            raise TooFewRecordsError(
                f"n_shards={n_shards} needs one unit per shard; got n_units={n_units}. "
                "Lower n_shards or add units."
            )
        slope = row_bound(model.fit_intercept)
        smallest = n_units // n_shards
        regularization = model.regularization
        if is_auto(regularization):
            lipschitz = loss.slope * slope
            regularization = automatic_regularization(
                lipschitz, radius, smallest, epsilon
            )
        regularization = positive(owner, "regularization", regularization)
        return cls(
            problem=BallProblem(loss, slope, radius, regularization),
            n_units=n_units,
            n_shards=n_shards,
            n_rows=shape[0],
            n_features=shape[1],
            epsilon=epsilon,
            delta=below_one(owner, "delta", model.delta),
            solver=model.solver,
            tolerance=positive(owner, "tolerance", model.tolerance),
            units=units,
            source=noise_source(model.random_state),
        )

    @property
    def smallest_shard(self) -> int:
        """Units in the smallest shard; larger ones are more stable."""
        return self.n_units // self.n_shards

    @property
    def solver_tolerance(self) -> float:
        """The preset bound on the distance of the gradient from the normal cone."""
        return self.tolerance * self.problem.lipschitz / self.smallest_shard

    @property
    def step(self) -> float:
        """Length of a gradient step, the same in every shard."""
        root = math.sqrt(self.smallest_shard)
        return self.problem.radius / (self.problem.lipschitz * root)

    def sensitivity(self, *, labels_from_data: bool) -> Certificate[Sensitivity]:
        """Certify how far one unit moves a prediction."""
        problem = self.problem
        facts: dict[str, Any] = {
            "n": self.smallest_shard,
            "lipschitz": problem.lipschitz,
            "feature_bound": problem.feature_bound,
            "radius": problem.radius,
            "rounding": self._rounding(),
            "labels_from_data": labels_from_data,
        }
        if self.solver == "erm":
            moved = erm_sensitivity(
                regularization=problem.regularization,
                tolerance=self.solver_tolerance,
                **facts,
            )
        else:
            moved = psgd_sensitivity(smoothness=problem.smoothness, **facts)
        if self.n_shards == 1:
            return moved
        return average_of_shards(moved, shards=self.n_shards, n=self.n_units)

    def _rounding(self) -> float:
        """Bound the rounding of one prediction, as it enters one shard's promise."""
        problem = self.problem
        size = 2 * (self.n_features + 32) * ROUND_OFF * problem.radius
        trained = size
        if self.solver == "psgd":
            trained += one_pass_error(
                problem,
                self.smallest_shard + 1,
                self.n_features,
                self.step,
                grouped=self.units is not None,
            )
        # The mean over shards and the prediction itself round once for all shards.
        shared = size + self.n_shards * ROUND_OFF * problem.radius
        return problem.feature_bound * (trained + self.n_shards * shared)

    def noise(
        self, premise: Certificate[Sensitivity]
    ) -> tuple[GridNoise, Certificate[Any]]:
        """Calibrate noise for one answer; return it with its certificate.

        With a delta the noise is Gaussian and the certificate states its zCDP, because
        many answers compose best by it.
        """
        seeded = self.source.seeded
        if self.delta == 0:
            noise = calibrate_laplace(premise, epsilon=self.epsilon, seeded=seeded)
            return noise, noise.certificate
        noise = calibrate_gaussian(
            premise, epsilon=self.epsilon, delta=self.delta, seeded=seeded
        )
        rounded = noise.certificate.premises[0]
        return noise, gaussian_noise(rounded, scale=noise.scale)

    def coefficients(self, rows: Floats, targets: Floats) -> Floats:
        """Train one model per shard and return the mean of their coefficients."""
        positions, _ = unit_positions(self.units, self.n_rows)
        partition = partition_rows(
            self.n_rows, self.n_shards, self.source, units=self.units
        )
        # The order is drawn, too: it must not depend on where a unit's rows are.
        rank = np.empty(self.n_units, dtype=np.int64)
        rank[self.source.permutation(self.n_units)] = np.arange(self.n_units)
        found = [
            self._fit(rows[shard], targets[shard], rank[positions[shard]])
            for shard in partition.rows_by_shard()
        ]
        return np.asarray(np.mean(found, axis=0))

    def _fit(self, rows: Floats, targets: Floats, units: Ints) -> Floats:
        order = np.argsort(units, kind="stable")
        rows, targets, units = rows[order], targets[order], units[order]
        ends = np.flatnonzero(np.append(units[1:] != units[:-1], True)) + 1
        problem = self.problem
        if self.solver == "psgd":
            slope = problem.loss.slope_at
            return one_pass(slope, rows, targets, ends, self.step, problem.radius)
        sizes = np.diff(ends, prepend=0)
        weights = np.repeat(1.0 / (sizes * len(ends)), sizes)
        return minimise_risk(problem, rows, targets, weights, self.solver_tolerance)
