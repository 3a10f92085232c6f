"""Noisy predictions of targets whose bounds were mapped to -1 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import RealResponse


@dataclass(frozen=True, eq=False, repr=False)
class CentredAnswers:
    """The exact law of noisy predictions in the units of the target.

    Attributes
    ----------
    location : ndarray of shape (n,)
        The predictions before noise.
    scale : float
        Scale of the noise.
    law : GridLaw
        Its law.
    """

    noisy: RealResponse
    bounds: tuple[float, float]

    @property
    def location(self) -> NDArray[np.float64]:
        """The predictions before noise."""
        return self._in_units(self.noisy.location)

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        low, high = self.bounds
        return (high / 2 - low / 2) * self.noisy.scale

    @property
    def law(self) -> Any:
        """Law of the noise."""
        return self.noisy.law

    def draw(self, source: Any) -> NDArray[np.float64]:
        """Draw noisy predictions, clipped to the public bounds."""
        # Clipped on both sides of the change of units: rounding stays in bounds.
        inside = np.clip(self.noisy.draw(source), -1.0, 1.0)
        return np.clip(self._in_units(inside), *self.bounds)

    def _in_units(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = self.bounds
        return np.asarray((low / 2 + high / 2) + (high / 2 - low / 2) * values)
