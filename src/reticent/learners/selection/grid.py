"""A public grid of values on a line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidParameterError

# Grid indices must be exact as floats.
_MOST_VALUES = 2**53


@dataclass(frozen=True, slots=True)
class Grid:
    """`size` public values from `low` to `high`, evenly spaced up to rounding."""

    low: float
    high: float
    size: int

    def __post_init__(self) -> None:
        if not (
            math.isfinite(self.low)
            and math.isfinite(self.high)
            and 0 < self.high - self.low < math.inf
        ):
            raise InvalidParameterError(
                f"bounds=({self.low!r}, {self.high!r}) must be two finite numbers, the "
                "smaller one first."
            )
        if not 2 <= self.size <= _MOST_VALUES:
            raise InvalidParameterError(
                f"resolution={self.size} must lie between 2 and 2^53 values."
            )

    def value(self, index: Ints) -> Floats:
        """Return the grid's values; they never fall as the index rises."""
        step = (self.high - self.low) / (self.size - 1)
        # Each operation rounds monotonically, and so does their composition.
        return np.minimum(self.low + index.astype(np.float64) * step, self.high)

    def ranks(self, values: Floats) -> Ints:
        """Return how many grid values are at or below each value, by bisection."""
        low = np.zeros(len(values), dtype=np.int64)
        high = np.full(len(values), self.size, dtype=np.int64)
        for _ in range(self.size.bit_length()):
            middle = (low + high) // 2
            open_ = low < high
            passed = open_ & (self.value(middle) <= values)
            low = np.where(passed, middle + 1, low)
            high = np.where(open_ & ~passed, middle, high)
        return low
