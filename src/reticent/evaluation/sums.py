"""Sums and counts over units with exact noise: what every private metric is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import whole
from reticent.guarantees import (
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    Sensitivity,
    rule,
)
from reticent.mechanisms import GridNoise, RandomSource, calibrate_laplace

#: A value of a unit in [0, 1] is counted in this many steps.
UNIT_STEPS = 1 << 20


@rule(
    "E-sums",
    name="sums over units",
    statement="each of n units adds a whole number from 0 to s to each of d sums, so "
    "replacing one moves each by at most s",
    source="triangle inequality; sums in whole numbers",
    gives=Sensitivity,
)
def unit_sums(*, n: int, steps: int, dimension: int = 1) -> Conclusion[Sensitivity]:
    """Bound how far one replaced unit moves sums over `n` units."""
    steps = whole("rule E-sums", "steps", steps)
    dimension = whole("rule E-sums", "dimension", dimension)
    # Only Laplace noise is added to them, so their l1 norm is what counts.
    moved = Sensitivity(float(steps * dimension))
    return Conclusion(moved, ReplaceOne(n), Scope.ANSWER)


@rule(
    "E-counts",
    name="counts of units by kind",
    statement="each of n units belongs to one unit or pair that is counted in one of d "
    "counts at most, so replacing it moves two of them by one",
    source="triangle inequality",
    gives=Sensitivity,
)
def unit_counts(*, n: int, dimension: int) -> Conclusion[Sensitivity]:
    """Bound how far one replaced unit moves the counts of `n` units, or of pairs."""
    whole("rule E-counts", "dimension", dimension, least=2)
    return Conclusion(Sensitivity(2.0), ReplaceOne(n), Scope.ANSWER)


@dataclass(frozen=True)
class NoisySums:
    """Whole numbers with exact discrete Laplace noise.

    Attributes
    ----------
    values : ndarray
        The noisy numbers.
    noise : GridNoise
        The law of the noise.
    certificate : Certificate
        What releasing them promises.
    """

    values: NDArray[np.float64]
    noise: GridNoise
    certificate: Certificate[Any]

    @classmethod
    def drawn(
        cls,
        sums: NDArray[np.int64],
        sensitivity: Certificate[Sensitivity],
        epsilon: float,
        source: RandomSource,
    ) -> NoisySums:
        """Draw noise for sums of a known sensitivity.

        Parameters
        ----------
        sums : ndarray of int
            One number, or several that are released together.
        sensitivity : Certificate
            How far one unit moves them.
        epsilon : float
            Privacy cost of all of them together.
        source : RandomSource
            Where the noise comes from.
        """
        noise = score_noise(sensitivity, epsilon, len(sums), seeded=source.seeded)
        drawn = noise.response(sums.astype(np.float64)).draw(source)
        return cls(np.asarray(drawn), noise, noise.certificate)


def score_noise(
    sensitivity: Certificate[Sensitivity],
    epsilon: float,
    dimension: int,
    *,
    seeded: bool,
) -> GridNoise:
    """Calibrate discrete Laplace noise for whole numbers."""
    return calibrate_laplace(
        sensitivity,
        epsilon=epsilon,
        dimension=dimension,
        grid=1.0,
        on_grid=True,
        seeded=seeded,
    )


def in_steps(
    values: NDArray[np.float64], positions: NDArray[np.int64] | None, n_units: int
) -> NDArray[np.int64]:
    """Return what each unit adds: the mean of its rows' values, in whole steps.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        In [0, 1]; what is not finite counts as 0.
    positions : ndarray of shape (n_rows,) or None
        The unit of each row; None if every row is a unit.
    n_units : int
        Number of units.
    """
    kept = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)
    if positions is not None:
        # Sums of a unit's own rows in their own order: nobody else's rows matter.
        rows = np.bincount(positions, minlength=n_units)
        kept = np.bincount(positions, kept, minlength=n_units) / rows
    steps = np.floor(kept * UNIT_STEPS).astype(np.int64)
    return np.minimum(steps, UNIT_STEPS)
