"""What accuracy answers over shards can have, from public facts alone (P1, P2).

With `r` shards and noise for `epsilon`, an answer is right with a known probability if
every model is right. No data are needed for it, and no training. If it is near that of
guessing then the answers are noise, whatever was learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from reticent._search import smallest_whole
from reticent.errors import NearChanceWarning, OnlyNoiseWarning
from reticent.estimators import REFUSED, WARNED
from reticent.mechanisms import GridLaw, GridNoise

# What the advice aims at.
_ENOUGH = 0.9
# Points at which integrals are evaluated.
_STEPS = 2000


@dataclass(frozen=True)
class Expectation:
    """How good answers can be, from public facts."""

    #: For labels, the probability that an answer is right if every model is. For
    #: numbers, the R2 of the answers if every model is exact and the targets are spread
    #: evenly over their bounds.
    best: float
    #: The same for guessing: one over the number of labels, or an R2 of 0.
    chance: float
    shards: int  #: number of shards
    #: The number of shards with which, at the same epsilon, answers keep nine tenths of
    #: what the models know; None if they keep half of it already.
    enough: int | None
    labels: int  #: number of labels; 1 for numbers

    @classmethod
    def of(
        cls, best_with: Callable[[int], float], *, shards: int, labels: int
    ) -> Expectation:
        """Return what to expect.

        Parameters
        ----------
        best_with : callable
            Maps a number of shards to `best`.
        shards : int
            The number of shards.
        labels : int
            Number of labels; 1 for numbers.
        """
        chance = 0.0 if labels == 1 else 1 / labels
        found = cls(best_with(shards), chance, shards, None, labels)
        if found.kept >= WARNED:
            return found

        def enough(count: int) -> bool:
            return (best_with(count) - chance) / (1 - chance) >= _ENOUGH

        return replace(found, enough=smallest_whole(enough))

    @property
    def kept(self) -> float:
        """Share of what the models know that the answers keep; 0 is guessing."""
        return (self.best - self.chance) / (1 - self.chance)

    @property
    def near_chance(self) -> bool:
        """Whether answers keep less than half of what the models know."""
        return self.kept < WARNED

    def __str__(self) -> str:
        if self.labels == 1:
            return (
                f"R2 is at most {self.best:.2f} for targets spread evenly over their "
                "bounds, even if every model is exact; a constant answer has 0"
            )
        return (
            f"an answer is right at most {100 * self.best:.0f} times in 100, even if "
            f"every model is right; guessing is right {100 * self.chance:.0f} times"
        )

    def advice(self, epsilon: float, units: int) -> str:
        """Say what would work instead.

        Parameters
        ----------
        epsilon : float
            Privacy cost of one answer.
        units : int
            Number of units in the data.
        """
        enough = self.enough or self.shards
        factor = enough / self.shards
        return (
            f"It takes about {enough} shards at this epsilon: {units} units would "
            f"leave each model {units // enough}. Take more units, an epsilon "
            f"near {epsilon * factor:.2g}, a linear model (it needs fewer rows per "
            "shard, so set n_shards higher), or a learner of reticent.learners, which "
            "releases one model for one price."
        )

    def warn(self, epsilon: float, units: int) -> None:
        """Warn if answers will be near chance; `advice` has the parameters."""
        if not self.near_chance:
            return
        shards = "1 shard" if self.shards == 1 else f"{self.shards} shards"
        kind = OnlyNoiseWarning if self.kept < REFUSED else NearChanceWarning
        warnings.warn(
            kind(
                f"with {shards} and epsilon={epsilon:g}, {self}. "
                f"{self.advice(epsilon, units)}"
            ),
            stacklevel=6,
        )


def noisy_r2(noise: GridNoise, span: float) -> float:
    """Return the R2 of exact sums with noise, for targets spread evenly over bounds.

    `span` is the range of a sum; answers are clipped to it.
    """
    # An answer at distance u from a bound moves towards it by min(noise, u). With u
    # uniform on [0, 1], the mean square is the integral of 2t (1-t) Pr[|noise| > t].
    t = (np.arange(_STEPS) + 0.5) / _STEPS
    moved = float(np.mean(2 * t * (1 - t) * _beyond(noise, t * span)))
    return 1 - 12 * moved  # the variance of a uniform target is 1/12


def largest_stays(noise: GridNoise, lead: float, rivals: int) -> float:
    """Return the probability that a sum with a lead stays the largest under noise.

    It is ahead of all `rivals`, which are equal; each sum has noise of its own.
    """
    # By the quantiles of the leader's noise, each as likely as the next.
    q = (np.arange(_STEPS) + 0.5) / _STEPS
    if noise.law is GridLaw.LAPLACE:
        own = np.where(q < 0.5, np.log(2 * q), -np.log(2 * (1 - q))) * noise.scale
    else:
        own = ndtri(q) * noise.scale
    at = own + lead
    over = _beyond(noise, np.abs(at)) / 2
    below = np.where(at >= 0, 1 - over, over)
    return float(np.mean(below**rivals))


def _beyond(noise: GridNoise, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that noise is larger than each size, on either side."""
    if noise.law is GridLaw.LAPLACE:
        return np.asarray(np.exp(-size / noise.scale))
    return np.asarray(2 * ndtr(-size / noise.scale))
