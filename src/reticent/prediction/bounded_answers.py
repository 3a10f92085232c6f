"""Noisy numbers in the units of a target, clipped to its public bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._arrays import Floats
from reticent.mechanisms import RandomSource, RealResponse


@dataclass(frozen=True, eq=False, repr=False)
class BoundedAnswers:
    """The exact law of ``offset + unit * noisy``, before clipping to the bounds."""

    noisy: RealResponse
    offset: float
    unit: float
    bounds: tuple[float, float]

    @classmethod
    def centred(
        cls, noisy: RealResponse, bounds: tuple[float, float]
    ) -> BoundedAnswers:
        """Return answers for targets whose bounds were mapped to -1 and 1."""
        low, high = bounds
        return cls(noisy, low / 2 + high / 2, high / 2 - low / 2, bounds)

    @property
    def location(self) -> Floats:
        """The numbers before noise."""
        return np.asarray(self.offset + self.unit * self.noisy.location)

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return self.unit * self.noisy.scale

    @property
    def law(self) -> Any:
        """Law of the noise."""
        return self.noisy.law

    def draw(self, source: RandomSource) -> Floats:
        """Draw noisy numbers, clipped to the public bounds."""
        with np.errstate(over="ignore"):  # beyond the bounds in any case
            numbers = self.offset + self.unit * self.noisy.draw(source)
        return np.clip(numbers, *self.bounds)
