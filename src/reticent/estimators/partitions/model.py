"""A model whose scores add up over partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from reticent._arrays import Floats
from reticent.estimators.partitions.codes import Codes
from reticent.estimators.partitions.sums import part_scores
from reticent.estimators.partitions.trees import Partitions

# Values are multiples of a power of two and bounded, so that their sums are exact: they
# are the same in any order, and on any machine.
_VALUE_BITS, _LARGEST_VALUE = 30, 2.0**10
# Rows whose scores are computed at a time.
_BLOCK = 1 << 15
#: The bound on slopes of the logistic loss while a model is learned.
CLIP = 0.5


@dataclass(frozen=True, eq=False)
class PartitionModel:
    """Scores that add up over partitions.

    Attributes
    ----------
    partitions : Partitions
        How rows are divided.
    values : ndarray of shape (n_scores, n_parts)
        What each part adds to the scores, partition after partition.
    logistic : bool
        Whether scores are log-odds; otherwise they are numbers between -1 and 1.
    """

    partitions: Partitions
    values: Floats
    logistic: bool

    @classmethod
    def of(
        cls, partitions: Partitions, values: Floats, logistic: bool
    ) -> PartitionModel:
        """Return a model with values on a grid, whose sums have no rounding."""
        cut = np.clip(values, -_LARGEST_VALUE, _LARGEST_VALUE)
        whole = np.rint(cut * 2.0**_VALUE_BITS)
        return cls(partitions, whole * 2.0**-_VALUE_BITS, logistic)

    def averaged(self, other: PartitionModel, weight: float) -> PartitionModel:
        """Return a model whose scores are averages of both.

        Parameters
        ----------
        other : PartitionModel
            Of the same columns and scores.
        weight : float
            That of `other`, from 0 to 1.
        """
        values = [(1 - weight) * self.values, weight * other.values]
        both = self.partitions.joined(other.partitions)
        return PartitionModel.of(both, np.concatenate(values, axis=1), self.logistic)

    def scores(self, codes: Codes) -> Floats:
        """Return the scores of rows, of shape (n_scores, n_rows)."""
        found = np.empty((len(self.values), len(codes)))
        # Some rows at a time: the parts of all rows at once would take much memory.
        for start in range(0, len(codes), _BLOCK):
            block = slice(start, start + _BLOCK)
            parts = self.partitions.parts(codes[block])
            found[:, block] = part_scores(parts, self.partitions.n_parts, self.values)
        return found

    def mean(self, codes: Codes) -> Floats:
        """Return predicted probabilities or numbers, of shape (n_scores, n_rows)."""
        return self.from_scores(self.scores(codes))

    def from_scores(self, scores: Floats) -> Floats:
        r"""Return probabilities or numbers for scores.

        Slopes :math:`p - y` were clipped at :math:`\pm 1/2`. Where the truth is
        :math:`q \le 1/2`, they balance at :math:`(1-q)p = q/2`, so that
        :math:`q = p/(p + 1/2)`, and likewise above.
        """
        if not self.logistic:
            return np.asarray(np.clip(scores, -1, 1))
        low = expit(-np.abs(scores))
        low /= low + CLIP
        return np.asarray(np.where(scores > 0, 1 - low, low))
