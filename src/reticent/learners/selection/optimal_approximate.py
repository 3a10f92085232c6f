"""Linear programs over tables that are private up to a delta (L8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reticent._numbers import exact
from reticent.learners.selection.optimal_programs import Privacy, whole_of_one
from reticent.mechanisms import exp_bounds

# Bits of exp(-epsilon), rounded up, where floats cannot decide.
_BITS = 256


@dataclass(frozen=True)
class ApproximatePrivacy(Privacy):
    """(epsilon, delta)-DP of a table of probabilities, one row per dataset.

    For neighbours `S` and `S'` the sum over a group's columns of what `p_S` has above
    ``e^epsilon p_S'`` is at most `delta`: that sum is the largest excess of any event.
    """

    delta: float = 0.0  # the largest excess

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """All ordered pairs of neighbours."""
        found = {
            pair
            for row in self.completions.tolist()
            for pair in permutations(sorted(set(row)), 2)
        }
        return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)

    def rows(self) -> sparse.csr_matrix:
        """Write privacy with one variable per pair and output: the excess there."""
        n_pairs, width = len(self.pairs), self.n_datasets * self.n_outputs
        n_excess = n_pairs * self.n_outputs
        outputs = np.arange(self.n_outputs)
        first, second = (
            (self.pairs[:, side, None] * self.n_outputs + outputs).ravel()
            for side in (0, 1)
        )
        excess = width + np.arange(n_excess)
        growth = math.exp(min(self.epsilon, self.steepest))
        places = np.arange(n_excess)
        total = width + n_excess
        # Divided by the growth, so that no coefficient is large.
        above = sparse.csr_matrix(
            (
                np.tile([1 / growth, -1.0, -1 / growth], n_excess),
                (np.repeat(places, 3), np.stack([first, second, excess], 1).ravel()),
            ),
            shape=(n_excess, total),
        )
        groups = np.arange(n_excess) // self.group
        summed = sparse.csr_matrix(
            (np.ones(n_excess), (groups, excess)),
            shape=(n_excess // self.group, total),
        )
        return sparse.vstack([above, summed])

    def limits(self, n_rows: int) -> NDArray[np.float64]:
        """Return zero for each excess, and delta for their sums."""
        n_sums = len(self.pairs) * self.n_outputs // self.group
        return np.concatenate([np.zeros(n_rows - n_sums), np.full(n_sums, self.delta)])

    def holds(self, units: NDArray[np.int64]) -> bool:
        """Return whether whole multiples of one unit are exactly private.

        In whole numbers, multiplied by a lower bound on ``exp(-epsilon)``:
        ``sum max(0, p e^-epsilon - p') <= delta e^-epsilon``.
        """
        low, high = exp_bounds(exact(self.epsilon), _BITS)
        allowed = exact(self.delta) * whole_of_one() * low
        grouped = units.reshape(len(units), -1, self.group).tolist()
        for one, other in self.pairs.tolist():
            for mine, theirs in zip(grouped[one], grouped[other], strict=True):
                excess = sum(
                    max(0, p * high - (q << _BITS))
                    for p, q in zip(mine, theirs, strict=True)
                )
                if excess > allowed:
                    return False
        return True
