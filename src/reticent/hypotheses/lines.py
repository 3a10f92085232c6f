"""The base of hypothesis classes on a line of ordered values."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidDataError
from reticent.hypotheses.base import HypothesisClass, Projection
from reticent.hypotheses.oracles.costs import Costs, signed_costs
from reticent.hypotheses.oracles.points import ordered_values
from reticent.hypotheses.oracles.sorted_columns import (
    ColumnBlocks,
    SortedColumns,
    Tally,
    as_tally,
    cost_at_or_above,
)

H = TypeVar("H")


class LineClass(HypothesisClass[H]):
    """A class of functions of one feature."""

    def on(self, n_features: int) -> Self:
        """Return this class; refuse more than one feature."""
        if n_features != 1:
            raise InvalidDataError(
                f"{type(self).__name__} work on one feature; got "
                f"n_features={n_features}. Select one, or use Stumps."
            )
        return self

    def presort(self, X: ArrayLike) -> SortedColumns:
        """Sort `X` once, for many calls of `minimise` and `mistakes`."""
        return SortedColumns.of(ordered_values(X)[:, np.newaxis])

    def _count(self, points: ArrayLike) -> int:
        return self._growth(len(np.unique(ordered_values(points))))


class LineProjection(Projection[H]):
    """Representatives whose cost follows from the costs of all ``x >= point``."""

    def mistakes(
        self,
        X: ArrayLike | SortedColumns | Tally,
        y: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Count weighted mistakes; also takes presorted data or a tally as `X`."""
        tally = as_tally(X, y, weights)
        if tally is None:
            return super().mistakes(X, y, weights)
        above = tally.at_or_above(0, self.points)
        return tally.costs.values(self._totals(above, tally.costs))

    def _rows(self, X: Any) -> NDArray[Any]:
        return ordered_values(X)

    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        return self._totals(cost_at_or_above(rows, self.points, costs.ones), costs)

    @abstractmethod
    def _totals(self, at_or_above: NDArray[Any], costs: Costs) -> NDArray[Any]:
        """Combine the cost of ``x >= point`` into the cost of each representative."""


def line_blocks(
    X: ArrayLike | SortedColumns, y: ArrayLike, weights: ArrayLike | None
) -> tuple[ColumnBlocks, Costs]:
    """Return one labelled column as blocks of equal values, with its costs."""
    if isinstance(X, SortedColumns):
        costs = signed_costs(y, weights, X.n_points)
        return X.blocks(0, costs), costs
    values = ordered_values(X)
    costs = signed_costs(y, weights, len(values))
    order = np.argsort(values)
    return ColumnBlocks.of(values[order], costs.ones[order]), costs
