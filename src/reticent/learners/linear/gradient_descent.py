"""From public quantities to the steps of noisy gradient descent, and taking them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent._numbers import below_one, positive, whole
from reticent._search import slightly_larger
from reticent._text import one_of
from reticent.errors import InternalError, InvalidParameterError, RuleError
from reticent.estimators import (
    CONSTANT,
    RELATIONS,
    UnitIds,
    is_auto,
    rows_in_ball,
    unit_positions,
    with_constant,
)
from reticent.guarantees import (
    ApproxDP,
    Certificate,
    Sensitivity,
    gaussian_delta,
    gaussian_ratio,
    gaussian_to_zcdp,
)
from reticent.learners.linear.gradient_rules import (
    clipped_sum,
    noisy_steps,
    noisy_steps_gdp,
)
from reticent.learners.linear.gradient_sums import (
    ClippedSums,
    Residual,
    fixed_point,
    sum_grid,
)
from reticent.mechanisms import (
    ROUNDING_VARIANCE,
    RandomSource,
    draw_discrete_gaussian,
    noise_source,
    reach,
)

# Largest squared norm of a row in the unit ball, with its constant.
_LARGEST_SQUARE = 1.0 + CONSTANT**2
# Defaults, chosen once on public data sets and not from anybody's records: gradients
# of more than half a row norm are clipped, and there are this many steps. Their number
# is the same for all tables, so that the cost grows as the number of rows does.
_CLIP = 0.5
_STEPS = 200
# With much noise, smaller coefficients are aimed for. If the time to reach all of them
# is below this many of the longest steps, only a share of it is taken: the fourth root
# of the ratio, at least the second number.
_STEPS_FOR_ALL, _LEAST_SHARE = 750, 0.72


@dataclass(frozen=True)
class Shape:
    """What is known in advance about a loss."""

    # Longest step that is tried by itself, for rows in the unit ball.
    longest_step: float
    coefficient: float  # size of coefficients that are looked for, for such rows


# A step of up to 12 times the inverse of the largest possible curvature: where a
# logistic loss has been learned it is much flatter than that, and clipping flattens it
# further. A square is as curved everywhere, and with momentum 0.9 steps beyond 1.36
# times the inverse diverge.
BINARY = Shape(12 / (0.25 * _LARGEST_SQUARE), 4.0)
SOFTMAX = Shape(12 / (0.5 * _LARGEST_SQUARE), 4.0)
SQUARE = Shape(1.2 / _LARGEST_SQUARE, 2.0)


@dataclass(frozen=True)
class DescentPlan:
    """Noisy gradient descent as planned from public quantities."""

    # Sizes; `n_features` counts the constant.
    n_units: int
    n_features: int
    n_scores: int
    # The descent.
    clip: float
    steps: int
    learning_rate: float
    momentum: float
    # The noise of one step.
    scale: float
    grid: float
    # How far one unit moves one sum, and what all the noisy sums promise.
    sensitivity: Certificate[Sensitivity]
    certificate: Certificate[ApproxDP]
    source: RandomSource  # where noise comes from

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        n_units: int,
        n_features: int,
        n_scores: int,
        shape: Shape,
        labels_from_data: bool,
    ) -> DescentPlan:
        """Check a model's parameters and fill in those that are "auto"."""
        owner = type(model).__name__
        epsilon = positive(owner, "epsilon", model.epsilon)
        delta = below_one(owner, "delta", model.delta)
        if delta == 0:
            raise InvalidParameterError(
                f"{owner} adds Gaussian noise, which needs delta > 0; got delta=0. Use "
                "OutputPerturbation or ObjectivePerturbation for a pure guarantee."
            )
        clip = _CLIP if is_auto(model.clip) else positive(owner, "clip", model.clip)
        momentum = below_one(owner, "momentum", model.momentum)
        ratio = gaussian_ratio(epsilon, delta)
        # Coefficients need this much time to be reached, and more time brings only
        # more noise: in time t noise moves a coefficient by moved t / (ratio n), where
        # one unit moves a sum by `moved`.
        relation = one_of("relation", model.relation, *RELATIONS)
        moved = 2 * clip if relation == "replace-one" else clip
        time = shape.coefficient * ratio * n_units / moved
        share = (time / shape.longest_step / _STEPS_FOR_ALL) ** 0.25
        time *= min(max(share, _LEAST_SHARE), 1.0) * (1 - momentum)
        steps, rate = _pace(model, time, shape.longest_step)
        source = noise_source(model.random_state)
        one = clipped_sum(
            n=n_units,
            clip=clip,
            dimension=n_features * n_scores,
            relation=relation,
            labels_from_data=labels_from_data,
            seeded=source.seeded,
        )
        scale = moved * math.sqrt(steps) / ratio
        grid = sum_grid(n_units, clip, scale)
        scale, certificate = _certified(one, steps, scale, grid, epsilon, delta)
        return cls(
            n_units=n_units,
            n_features=n_features,
            n_scores=n_scores,
            clip=clip,
            steps=steps,
            learning_rate=rate,
            momentum=momentum,
            scale=scale,
            grid=grid,
            sensitivity=one,
            certificate=certificate,
            source=source,
        )

    def concentrated(self) -> Certificate[Any]:
        """Return the certificate as concentrated DP."""
        return gaussian_to_zcdp(self.gaussian())

    def gaussian(self) -> Certificate[Any]:
        """Return the certificate as Gaussian DP."""
        return noisy_steps_gdp(
            self.sensitivity, steps=self.steps, scale=self.scale, grid=self.grid
        )

    def descend(self, sums: ClippedSums, residual: Residual) -> Floats:
        """Take the steps; return the average of the second half of the iterates."""
        point = np.zeros((self.n_features, self.n_scores))
        velocity, total = np.zeros_like(point), np.zeros_like(point)
        scale = self.scale / self.grid
        for step in range(self.steps):
            # Nesterov's step looks at the gradient where momentum is about to lead.
            ahead = point + self.momentum * velocity
            steps = (sums(ahead, residual) / self.grid).astype(np.int64)
            reach(
                "noisy gradient",
                steps.reshape(1, -1),
                l2=self.sensitivity.guarantee.l2 / self.grid,
                settings=(self.scale, self.grid),
            )
            noisy = draw_discrete_gaussian(steps, scale, self.source)
            mean = noisy * (self.grid / self.n_units)
            velocity = self.momentum * velocity - self.learning_rate * mean
            point = point + velocity
            if step >= self.steps // 2:
                total += point
        return total / (self.steps - self.steps // 2)


def _pace(model: Any, time: float, longest: float) -> tuple[int, float]:
    """Return the number of steps and their size, as asked or to fill `time`."""
    owner = type(model).__name__
    steps = _STEPS if is_auto(model.steps) else whole(owner, "steps", model.steps)
    rate = (
        min(longest, time / steps)
        if is_auto(model.learning_rate)
        else positive(owner, "learning_rate", model.learning_rate)
    )
    return steps, rate


def _certified(
    one: Certificate[Sensitivity],
    steps: int,
    continuous: float,
    grid: float,
    epsilon: float,
    delta: float,
) -> tuple[float, Certificate[ApproxDP]]:
    """Return a scale, a little above the continuous one, and its certificate."""
    least = math.sqrt(continuous**2 + ROUNDING_VARIANCE * grid**2)

    def certified(scale: float) -> Certificate[ApproxDP] | None:
        # The same release as Gaussian DP keeps within epsilon and delta, too.
        whole = noisy_steps_gdp(one, steps=steps, scale=scale, grid=grid).guarantee
        if gaussian_delta(whole.mu, epsilon) > delta:
            return None
        try:
            return noisy_steps(
                one, steps=steps, scale=scale, grid=grid, epsilon=epsilon, delta=delta
            )
        except RuleError:
            return None

    found = slightly_larger(least, certified, growth=2.0**-46)
    if found is None:
        raise InternalError("no noise scale near the calibrated one is enough.")
    return found


def descent_rows(X: Floats, norm_bound: Any, fit_intercept: Any) -> Floats:
    """Return rows in the unit ball, in fixed point, with the constant last."""
    rows = fixed_point(rows_in_ball(X, norm_bound, False))
    return with_constant(rows) if fit_intercept else rows


def unit_after_unit(
    rows: Floats, targets: NDArray[Any], units: UnitIds
) -> tuple[Floats, NDArray[Any], Ints | None, int]:
    """Sort rows by unit; return them, where units start (or None), and their number."""
    positions, n_units = unit_positions(units, len(rows))
    # Not by whether some unit has several rows: that is for one unit to decide.
    if units is None:
        return rows, targets, None, n_units
    order = np.argsort(positions, kind="stable")
    sizes = np.bincount(positions, minlength=n_units)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return rows[order], targets[order], starts, n_units
