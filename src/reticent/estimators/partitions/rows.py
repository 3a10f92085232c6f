"""Rows of units, unit after unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from reticent._arrays import Floats
from reticent.estimators.partitions.codes import Codes
from reticent.mechanisms import RandomSource


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of all units, unit after unit.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        The rows.
    targets : ndarray of shape (n_scores, n_rows)
        0 or 1 for each score, or a number between -1 and 1.
    unit : ndarray of int
        The unit of each row, not decreasing.
    starts : ndarray of int
        The first row of each unit, and the number of rows.
    weights : ndarray of shape (n_rows,), optional
        The factor of each row's slope, from 0 to 1: a function of the row and of
        released numbers. None is one for all.
    """

    codes: Codes
    targets: Floats
    unit: NDArray[np.int64]
    starts: NDArray[np.int64]
    weights: Floats | None = None

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each unit has."""
        return np.diff(self.starts)

    @classmethod
    def of(
        cls,
        codes: Codes,
        targets: Floats,
        positions: NDArray[np.int64],
        n_units: int,
        source: RandomSource,
    ) -> UnitRows:
        """Sort rows by unit, units in random order, so that any part is like the whole.

        Parameters
        ----------
        codes, targets
            Rows in any order.
        positions : ndarray of int
            The unit of each row.
        n_units : int
            Number of units.
        source : RandomSource
            The source of the order.
        """
        check_consistent_length(codes, targets.T)
        shuffled = source.permutation(n_units)[positions]
        order = np.argsort(shuffled, kind="stable")
        unit = shuffled[order]
        starts = np.searchsorted(unit, np.arange(n_units + 1))
        return cls(codes[order], targets[:, order], unit, starts)

    def per_unit(self, numbers: Floats) -> Floats:
        """Return the sum of a number over the rows of each unit."""
        if len(numbers) == self.n_units:
            return numbers
        return np.asarray(np.add.reduceat(numbers, self.starts[:-1]))
