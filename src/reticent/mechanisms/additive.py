"""Laplace and Gaussian noise on numbers, on a public grid (G5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats, Ints
from reticent._numbers import positive, probability, up, whole
from reticent.errors import InvalidDataError, InvalidParameterError, RuleError
from reticent.guarantees import (
    AddRemove,
    ApproxDP,
    Certificate,
    Conclusion,
    ReplaceOne,
    Sample,
    Sensitivity,
    ZeroOut,
    gaussian_delta,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.sampling.gaussian_grid import grid_scale_to_continuous
from reticent.mechanisms.sampling.grid_noise import (
    GridLaw,
    discrete_gaussian_law,
    discrete_laplace_law,
    draw_discrete_gaussian,
    draw_discrete_laplace,
)
from reticent.mechanisms.sampling.inputs import floats
from reticent.mechanisms.sampling.listening import reach
from reticent.mechanisms.sampling.randomness import RandomSource

# Values are clipped here, in grid steps, so that floats hold them exactly. Clipping
# never moves two values further apart.
_LARGEST_VALUE = 2.0**53

# A move is a move, whichever two datasets it lies between.
_RELATIONS = (ReplaceOne, AddRemove, ZeroOut, Sample)


@dataclass(frozen=True, eq=False, repr=False)
class RealResponse:
    """The exact law of noisy numbers on a public grid.

    It is as secret as the data: release what `draw` returns, nothing else.
    """

    steps: Ints  #: the values before noise, in grid steps
    grid: float  #: the public grid step, a power of two
    scale_in_steps: float  #: scale of the noise, in grid steps
    law: GridLaw

    @property
    def location(self) -> Floats:
        """The values before noise, rounded to the grid."""
        return np.asarray(self.steps.astype(np.float64) * self.grid)

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return self.scale_in_steps * self.grid

    def log_probability(self, values: ArrayLike) -> Floats:
        """Return the log-probability of each value; off the grid it is -inf."""
        steps = floats("values", np.asarray(values)) / self.grid
        log_law = (
            discrete_laplace_law
            if self.law is GridLaw.LAPLACE
            else discrete_gaussian_law
        )
        logs = log_law(steps - self.steps, self.scale_in_steps)
        return np.where(steps == np.rint(steps), logs, -np.inf)

    def draw(self, source: RandomSource) -> Floats:
        """Draw noisy numbers, exactly from their law, with fresh randomness."""
        draw = (
            draw_discrete_laplace
            if self.law is GridLaw.LAPLACE
            else draw_discrete_gaussian
        )
        noisy = draw(self.steps, self.scale_in_steps, source)
        return np.asarray(noisy.astype(np.float64) * self.grid)


@dataclass(frozen=True, kw_only=True)
class GridNoise:
    """Noise that was calibrated to a sensitivity, with its certificate."""

    law: GridLaw
    grid: float  #: the public grid step, a power of two
    scale: float  #: scale of the noise, in the values' units
    dimension: int  #: numbers released together
    on_grid: bool  #: whether values must be multiples of the grid
    #: What releasing one vector of noisy numbers promises.
    certificate: Certificate[Any]

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise, before it is rounded to the grid."""
        return math.sqrt(2) * self.scale if self.law is GridLaw.LAPLACE else self.scale

    def response(self, values: ArrayLike) -> RealResponse:
        """Return the law of noisy values.

        Parameters
        ----------
        values : array-like of shape (..., dimension), or (...) if dimension is 1
            Finite numbers whose sensitivity the certificate's premise states.
        """
        numbers = floats("values", np.asarray(values))
        if self.dimension > 1 and numbers.shape[-1:] != (self.dimension,):
            raise InvalidDataError(
                f"noise for vectors of dimension={self.dimension} got values of shape "
                f"{numbers.shape}."
            )
        with np.errstate(over="ignore"):
            steps = np.clip(numbers / self.grid, -_LARGEST_VALUE, _LARGEST_VALUE)
        if self.on_grid and not (steps == np.rint(steps)).all():
            raise InvalidDataError(
                f"values must be multiples of grid={self.grid!r}, as on_grid=True said."
            )
        whole_steps = np.rint(steps).astype(np.int64)
        self._reach(whole_steps)
        return RealResponse(whole_steps, self.grid, self.scale / self.grid, self.law)

    def _reach(self, steps: Ints) -> None:
        moved = self.certificate.premises[0].guarantee  # after rounding
        norm = "l1" if self.law is GridLaw.LAPLACE else "l2"
        reach(
            f"{self.law.value} noise",
            steps.reshape(-1, self.dimension),
            **{norm: getattr(moved, norm) / self.grid},
            settings=(self.scale, self.grid),
        )


@rule(
    "G5-grid",
    name="round to a grid",
    statement="rounding d numbers to multiples of g adds at most d g in l1 and "
    "sqrt(d) g in l2 to the move",
    source="triangle inequality",
    takes=Sensitivity,
    gives=Sensitivity,
    relations=_RELATIONS,
)
def round_to_grid(
    premise: Certificate[Sensitivity],
    *,
    grid: float,
    dimension: int,
    on_grid: bool = False,
    seeded: bool = False,
) -> Conclusion[Sensitivity]:
    """Bound the move of values rounded to the nearest multiple of a public grid."""
    grid = checked_grid(grid)
    dimension = whole("rule G5-grid", "dimension", dimension)
    moved = premise.guarantee
    if not on_grid:
        moved = Sensitivity(
            up(moved.l1 + dimension * grid), up(moved.l2 + math.sqrt(dimension) * grid)
        )
    return Conclusion(moved, premise.relation, premise.scope, noise_assumptions(seeded))


@rule(
    "G5-gaussian-analytic",
    name="Gaussian noise, one release",
    statement="the analytic curve of a Gaussian whose variance is 16 grid^2 smaller",
    source="BalleWang2018, Thm. 8; randomised rounding",
    takes=Sensitivity,
    gives=ApproxDP,
    relations=_RELATIONS,
)
def gaussian_noise_analytic(
    premise: Certificate[Sensitivity],
    *,
    scale: float,
    grid: float,
    epsilon: float,
    delta: float,
) -> Conclusion[ApproxDP]:
    """Certify (epsilon, delta) for discrete Gaussian noise on a grid."""
    scale = positive("rule G5-gaussian-analytic", "scale", scale)
    grid = checked_grid(grid)
    delta = probability("rule G5-gaussian-analytic", "delta", delta)
    continuous = grid_scale_to_continuous(scale / grid) * grid
    reached = gaussian_delta(up(premise.guarantee.l2 / continuous), epsilon)
    if not reached <= delta:
        raise RuleError(
            f"rule G5-gaussian-analytic: scale={scale!r} reaches delta={reached!r} at "
            f"epsilon={epsilon!r}, not delta={delta!r}. Use calibrate_gaussian."
        )
    return Conclusion(ApproxDP(epsilon, delta), premise.relation, premise.scope)


def checked_grid(grid: Any) -> float:
    """Return a public grid step, which must be a power of two."""
    value = positive("a grid", "grid", grid)
    if math.frexp(value)[0] != 0.5 or not 2.0**-600 <= value <= 2.0**600:
        raise InvalidParameterError(
            f"a grid step must be a power of two, so that values are exact multiples; "
            f"got grid={value!r}."
        )
    return value
