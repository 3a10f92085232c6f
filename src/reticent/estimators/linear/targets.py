"""Numeric targets: public bounds, and the map of these bounds to -1 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from reticent._arrays import Floats
from reticent.errors import InvalidParameterError


def check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return `bounds` as two finite floats in order, or refuse them."""
    low, high = (float(bound) for bound in bounds)
    if not (isfinite(low) and isfinite(high) and high / 2 - low / 2 > 0):
        raise InvalidParameterError(
            f"bounds=({low}, {high}) must be finite numbers with low < high, known "
            "without looking at the records."
        )
    return low, high


@dataclass(frozen=True)
class TargetRange:
    """The affine map from the bounds of a target to -1 and 1, and back."""

    #: The bounds, from `check_bounds`.
    low: float
    high: float

    @property
    def middle(self) -> float:
        """What 0 stands for."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """What a difference of 1 stands for."""
        return self.high / 2 - self.low / 2

    def centred(self, targets: Floats) -> Floats:
        """Clip targets to their bounds and map them into [-1, 1]."""
        inside = np.clip(targets, self.low, self.high)
        return np.clip((inside - self.middle) / self.half, -1.0, 1.0)

    def restored(self, values: Any) -> Any:
        """Map values in [-1, 1] back to the units of the target."""
        return self.middle + self.half * values
