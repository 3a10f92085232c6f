"""Compares a holdout's averages with their guesses, with noise or without."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent.generalization.averages import GRID_BITS
from reticent.generalization.holdout.design import HoldoutDesign
from reticent.mechanisms import RandomSource, SparseLine, sparse_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactThreshold:
    """A threshold without noise, as an immutable value: `answer` returns a new one."""

    threshold: int
    draws: int

    @property
    def left(self) -> int:
        """How many more times the answer may be yes."""
        return self.draws

    def answer(
        self, queries: NDArray[np.int64], source: RandomSource
    ) -> tuple[NDArray[np.bool_], ExactThreshold]:
        """Answer in order, up to the last yes allowed, and return what is left."""
        above = queries > self.threshold
        places = np.flatnonzero(above)
        if len(places) >= self.draws:
            above = above[: places[self.draws - 1] + 1]
        return above, replace(self, draws=self.draws - int(above.sum()))


#: Says which numbers exceed a threshold, with a limited number of yes answers.
Comparison: TypeAlias = SparseLine | ExactThreshold


def first_comparison(design: HoldoutDesign) -> Comparison:
    """Return the comparison of a design before the first query.

    Averages over `n` units are compared as sums in grid steps, which one unit moves by
    at most ``2**GRID_BITS`` grid steps. A sparse vector of loss
    ``epsilon / 2**GRID_BITS`` for moves of 1 has loss `epsilon` for these, and then
    threshold noise of scale 2 `scale` and query noise of scale 4 `scale`, as R3 says.
    """
    threshold = round(design.threshold * design.n * 2.0**GRID_BITS)
    if design.method == "rounding":
        return ExactThreshold(threshold=threshold, draws=design.overfits)
    epsilon = design.overfits / (design.scale * design.n * 2.0**GRID_BITS)
    return SparseLine(
        threshold=threshold,
        scale=sparse_scale(epsilon, design.overfits),
        draws=design.overfits,
    )
