"""Which of a holdout's averages are far from their guess, with noise or without."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.generalization.averages import GRID_BITS
from reticent.generalization.holdout_design import HoldoutDesign
from reticent.guarantees.numbers import whole
from reticent.mechanisms import RandomSource, SparseVector


class Comparison(Protocol):
    """Answers, in order, which numbers exceed a threshold; so often and no more."""

    @property
    def left(self) -> int:
        """How many more times the answer may be yes."""
        ...

    def ask(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Answer in order, and no further than the last yes that is allowed."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on."""
        ...


class ExactComparison:
    """Comparison without noise."""

    def __init__(self, threshold: int, left: int) -> None:
        self._threshold = threshold
        self.left = left

    def ask(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Answer in order, and no further than the last yes that is allowed."""
        above = values > self._threshold
        places = np.flatnonzero(above)
        if len(places) >= self.left:
            above = above[: places[self.left - 1] + 1]
        self.left -= int(above.sum())
        return above

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to go on."""
        return {"left": self.left}


def comparison(
    design: HoldoutDesign, state: dict[str, Any] | None, source: RandomSource
) -> Comparison:
    """Return the comparison that a design asks for, or continue one.

    Averages over `n` units are compared as sums in grid steps, which one unit moves by
    one step of ``2**GRID_BITS`` grid steps at most. A sparse vector of loss
    ``epsilon / 2**GRID_BITS`` for moves of 1 has loss `epsilon` for these, and then
    threshold noise of scale 2 `scale` and query noise of scale 4 `scale`, as R3 says.
    """
    threshold = round(design.threshold * design.n * 2.0**GRID_BITS)
    if design.method == "rounding":
        left = design.overfits if state is None else state["left"]
        return ExactComparison(threshold, whole("a holdout", "left", left, least=0))
    if state is not None:
        return SparseVector.resume(state, source)
    return SparseVector(
        threshold,
        epsilon=design.overfits / (design.scale * design.n * 2.0**GRID_BITS),
        positives=design.overfits,
        source=source,
    )
