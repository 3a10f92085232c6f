"""Which of a holdout's averages are far from their guess, with noise or without."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent.generalization.averages import GRID_BITS
from reticent.generalization.holdout.design import HoldoutDesign
from reticent.mechanisms import RandomSource, SparseLine, sparse_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLine:
    """A threshold without noise, as a value: answering makes another one."""

    threshold: int
    draws: int

    @property
    def left(self) -> int:
        """How many more times the answer may be yes."""
        return self.draws

    def answer(
        self, queries: NDArray[np.int64], source: RandomSource
    ) -> tuple[NDArray[np.bool_], ExactLine]:
        """Answer in order, no further than the last yes, and return what is left."""
        above = queries > self.threshold
        places = np.flatnonzero(above)
        if len(places) >= self.draws:
            above = above[: places[self.draws - 1] + 1]
        return above, replace(self, draws=self.draws - int(above.sum()))


#: What says which numbers exceed a threshold; yes so often and no more.
Line: TypeAlias = SparseLine | ExactLine


def first_line(design: HoldoutDesign) -> Line:
    """Return the comparison that a design asks for, before anything was asked.

    Averages over `n` units are compared as sums in grid steps, which one unit moves by
    one step of ``2**GRID_BITS`` grid steps at most. A sparse vector of loss
    ``epsilon / 2**GRID_BITS`` for moves of 1 has loss `epsilon` for these, and then
    threshold noise of scale 2 `scale` and query noise of scale 4 `scale`, as R3 says.
    """
    threshold = round(design.threshold * design.n * 2.0**GRID_BITS)
    if design.method == "rounding":
        return ExactLine(threshold=threshold, draws=design.overfits)
    epsilon = design.overfits / (design.scale * design.n * 2.0**GRID_BITS)
    return SparseLine(
        threshold=threshold,
        scale=sparse_scale(epsilon, design.overfits),
        draws=design.overfits,
    )
