"""Slower steps where gradient descent would swing from side to side (L12)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats

# Accelerated descent is stable while its rate times the curvature is below about 1.36.
# Where that is exceeded it is brought well below: curvature changes on the way.
_STABLE, _CALM = 1.0, 0.2
# A change of the slope counts if its square is this many standard deviations above
# what noise adds to it.
_CLEAR = 10.0
_MOST_DIRECTIONS = 8
# How much slower all steps become when there are too many directions.
_ALL_SLOWER = 0.7


class Damping:
    """Finds the directions in which a descent swings, and goes slower along them.

    A few directions are much more curved than all others: every row's score moves
    along them. Steps that suit the others are too long for these few, so that the model
    swings around its best place, and its probabilities become too sure. A swing shows
    in the slopes: how they change from step to step says how curved a direction is.

    Only released numbers enter, slopes with their noise, so nothing here is charged.

    Parameters
    ----------
    size : int
        How many coordinates there are.
    noise : float
        Standard deviation of the noise of each coordinate of a slope.

    Attributes
    ----------
    directions : ndarray of shape (n_directions, size)
        Where steps are shorter; orthonormal.
    factors : ndarray of shape (n_directions,)
        By how much.
    pace : float
        What all steps are multiplied by; below 1 if there were too many directions.
    """

    def __init__(self, size: int, noise: float) -> None:
        self.directions: Floats = np.zeros((0, size))
        self.factors: Floats = np.zeros(0)
        self.pace = 1.0
        self._noise = noise
        self._last: tuple[Floats, Floats] | None = None

    def followed(
        self, rate: float, place: Floats, slope: Floats, velocity: Floats
    ) -> NDArray[Any]:
        """Return the slope to follow; a velocity along what swings is lost, in place.

        Parameters
        ----------
        rate : float
            What slopes are multiplied by.
        place, slope : ndarray
            Where the slope was measured, and the slope; the next call compares.
        velocity : ndarray
            Of the same shape.
        """
        here, flat = place.ravel(), slope.ravel()
        if self._last is not None:
            moved, change = here - self._last[0], flat - self._last[1]
            self._learn(rate * self.pace, moved, change, velocity.reshape(-1))
        self._last = here, flat
        if not len(self.directions) and self.pace == 1:
            return slope
        less = (self.directions @ flat) * (1 - 1 / self.factors)
        return np.asarray(self.pace * (flat - less @ self.directions)).reshape(
            slope.shape
        )

    def _learn(
        self, rate: float, moved: Floats, change: Floats, velocity: Floats
    ) -> None:
        """Slow down along a change of the slope if it shows that steps are too long."""
        noise = 2 * self._noise**2
        square = float(change @ change) - noise * len(change)
        along = float(change @ moved)
        if not (square > _CLEAR * noise * math.sqrt(2 * len(change)) and along > 0):
            return
        known = self.directions @ change
        rest = change - known @ self.directions
        length = math.sqrt(rest @ rest)
        # How much each direction, and what is outside of them, swings as it is.
        parts = np.append(known**2 / self.factors, length**2 - noise * len(change))
        factor = rate * float(parts.sum()) / along
        if not factor > _STABLE:
            return
        worst = int(np.argmax(parts))
        if worst < len(known):
            self.factors[worst] *= factor / _CALM
            direction = self.directions[worst]
        elif len(known) < _MOST_DIRECTIONS:
            direction = rest / length
            self.directions = np.vstack([self.directions, direction])
            self.factors = np.append(self.factors, factor / _CALM)
        else:
            self.pace *= _ALL_SLOWER
            velocity[:] = 0.0
            return
        velocity -= (direction @ velocity) * direction
