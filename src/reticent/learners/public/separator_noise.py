"""Whole-number noise on public points, calibrated so that a minimiser is private."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._arrays import Ints
from reticent._numbers import probability, up
from reticent._search import slightly_larger
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import Certificate, gaussian_ratio
from reticent.learners.public.separator_rules import (
    gaussian_room,
    gaussian_separator,
    laplace_room,
    laplace_separator,
)
from reticent.mechanisms import (
    ROUNDING_VARIANCE,
    GridLaw,
    RandomSource,
    checked_epsilon,
    draw_discrete_gaussian,
    draw_discrete_laplace,
)

NOISES = ("laplace", "gaussian")

# A mistake counts at most this many steps of the noise's grid. Breaking ties costs half
# a step in this many, so finer steps would save very little.
_FINEST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class SeparatorFacts:
    """The public facts that the noise is calibrated to."""

    n: int  # number of private units
    points: int  # number of distinct public points
    taught: int  # number of points that distinguish any labeling from all others
    # Number of labelings of the points, or an upper bound; for Gaussian noise.
    labelings: int
    # The largest sum of the costs of all points for which the oracle is exact.
    room: int
    oracle: str  # its name
    exact_oracle: bool  # whether its minimiser is proved
    own_functions: bool = False  # whether it labels rows by functions of the caller
    frozen: bool = False  # whether parts of it came already fitted
    slack: float = 0.0  # by how many mistakes its result may exceed the minimum

    def shift(self, steps: int) -> int:
        """Return how much teaching points must gain for a labeling to win again."""
        return 2 * steps + 2 * self.slack_steps(steps) + 1

    def slack_steps(self, steps: int) -> int:
        """Return the slack in steps of the noise."""
        return math.ceil(up(self.slack * steps)) if self.slack else 0


@dataclass(frozen=True, kw_only=True)
class SeparatorNoise:
    """Calibrated noise with its certificate."""

    law: GridLaw
    steps: int  # the cost of one mistake, in steps of the noise
    scale: float  # in steps
    points: int  # number of public points
    limit: int  # noise that adds up to more is drawn again
    certificate: Certificate[Any]  # what the labels of the public points promise

    def draw(self, source: RandomSource) -> Ints:
        """Draw the cost of label 1 at each public point, in steps."""
        draw = (
            draw_discrete_laplace
            if self.law is GridLaw.LAPLACE
            else draw_discrete_gaussian
        )
        nothing = np.zeros(self.points, dtype=np.int64)
        while True:
            noise = draw(nothing, self.scale, source)
            # As floats: a saturated sum of integers could pass for a small one.
            if np.abs(noise.astype(np.float64)).sum() <= self.limit:
                return noise


def laplace_separator_noise(
    facts: SeparatorFacts, *, epsilon: float, labels_from_data: bool, seeded: bool
) -> SeparatorNoise:
    """Return discrete Laplace noise that makes the labels epsilon-private (M4)."""
    epsilon = checked_epsilon("separator noise", epsilon)

    def scale_at(steps: int) -> float:
        return facts.shift(steps) * facts.taught / epsilon

    steps = _steps(facts, scale_at, laplace_room)

    def certify(scale: float) -> Certificate[Any]:
        return laplace_separator(
            **_shared(facts, steps),
            scale=scale,
            labels_from_data=labels_from_data,
            seeded=seeded,
        )

    scale, certificate = _smallest(
        scale_at(steps), certify, lambda guarantee: guarantee.epsilon <= epsilon
    )
    return _noise(GridLaw.LAPLACE, facts, steps, scale, certificate)


def gaussian_separator_noise(
    facts: SeparatorFacts,
    *,
    epsilon: float,
    delta: float,
    labels_from_data: bool,
    seeded: bool,
) -> SeparatorNoise:
    """Return discrete Gaussian noise that makes the labels private (M4)."""
    epsilon = checked_epsilon("separator noise", epsilon)
    delta = probability("separator noise", "delta", delta)
    top, bottom = delta.as_integer_ratio()
    # Slightly less, for rounding of the curve and of the product with the labelings.
    share = (top / (bottom * facts.labelings)) * (1 - 2.0**-40)
    if not share >= 1e-280:
        raise InvalidParameterError(
            f"delta={delta!r} over {float(math.log10(facts.labelings)):.0f} digits of "
            "labelings is too small to compute with. Use noise='laplace' or fewer "
            "public points."
        )
    ratio = gaussian_ratio(epsilon, share)

    def scale_at(steps: int) -> float:
        moved = facts.shift(steps) * math.sqrt(facts.taught) / ratio
        return math.sqrt(moved**2 + ROUNDING_VARIANCE)

    steps = _steps(facts, scale_at, gaussian_room)

    def certify(scale: float) -> Certificate[Any]:
        return gaussian_separator(
            **_shared(facts, steps),
            labelings=facts.labelings,
            scale=scale,
            epsilon=epsilon,
            labels_from_data=labels_from_data,
            seeded=seeded,
        )

    scale, certificate = _smallest(
        scale_at(steps), certify, lambda guarantee: guarantee.delta <= delta
    )
    return _noise(GridLaw.GAUSSIAN, facts, steps, scale, certificate)


def _steps(
    facts: SeparatorFacts, scale_at: Callable[[int], float], room: Callable[..., int]
) -> int:
    """Return the finest steps, a power of two, at which all sums are exact."""
    steps = _FINEST
    while steps >= 1:
        # A little more, because the scale grows until its certificate holds.
        scale = scale_at(steps) * (1 + 1e-3)
        needed = room(
            n=facts.n,
            points=facts.points,
            steps=steps,
            scale=scale,
            slack=facts.slack_steps(steps),
        )
        if needed <= facts.room:
            return steps
        steps //= 2
    raise InvalidParameterError(
        f"n={facts.n} units and {facts.points} public points with a noise scale of "
        f"{scale_at(1):.3g} mistakes do not fit into exact sums of at most "
        f"{facts.room}. Use fewer public points or a larger epsilon."
    )


def _smallest(
    scale: float,
    certify: Callable[[float], Certificate[Any]],
    enough: Callable[[Any], bool],
) -> tuple[float, Certificate[Any]]:
    """Raise a scale, a little, until its certificate says what is needed."""

    def certified(candidate: float) -> Certificate[Any] | None:
        certificate = certify(candidate)
        return certificate if enough(certificate.guarantee) else None

    found = slightly_larger(scale, certified)
    if found is None:
        raise RuleError(
            f"no noise scale near {scale!r} reaches the target. Use a larger epsilon."
        )
    return found


def _shared(facts: SeparatorFacts, steps: int) -> dict[str, Any]:
    return {
        "n": facts.n,
        "steps": steps,
        "slack": facts.slack_steps(steps),
        "points": facts.points,
        "taught": facts.taught,
        "room": facts.room,
        "oracle": facts.oracle,
        "exact_oracle": facts.exact_oracle,
        "own_functions": facts.own_functions,
        "frozen": facts.frozen,
    }


def _noise(
    law: GridLaw,
    facts: SeparatorFacts,
    steps: int,
    scale: float,
    certificate: Certificate[Any],
) -> SeparatorNoise:
    return SeparatorNoise(
        law=law,
        steps=steps,
        scale=scale,
        points=facts.points,
        limit=facts.room - facts.n * steps,
        certificate=certificate,
    )
