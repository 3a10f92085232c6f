"""How far two rows are apart, in whole numbers, by released scales of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reticent.estimators import (
    STEPS,
    CodedColumns,
    Codes,
    PartitionModel,
    Rounds,
    UnitRows,
    part_scores,
)
from reticent.mechanisms import RandomSource

Float = NDArray[np.float64]

# Squares of distances stay below this, so that they fit into 32 bits.
_LARGEST = 1 << 30
# A number is moved by this share of its range, up and down, to see what it does.
_MOVE = STEPS // 20
_MOST_UNITS = 50_000
_BITS = 12
# Without anything released, a different level counts as half a range.
_LEVEL = 0.5
# No column counts less than this share of the one that counts most; another level
# counts for more than a usual difference of numbers, so its share is less.
_LEAST, _LEAST_LEVEL = 0.03, 0.003


@dataclass(frozen=True, eq=False)
class Metric:
    """Squares of distances, added up over columns from whole numbers.

    Attributes
    ----------
    columns : CodedColumns
        The columns.
    squares : ndarray of float
        What a whole range counts, or another level, for each column.
    """

    columns: CodedColumns
    squares: Float

    def tables(self, query: NDArray[np.int16]) -> list[NDArray[np.int32]]:
        """Return for each column the square of the distance from a query's code."""
        found = []
        for column, (steps, other), at in zip(
            self.columns.columns, self._steps, query.tolist(), strict=True
        ):
            last = column.n_codes - 1
            if not column.numeric or at == last:
                table = np.full(last + 1, other, dtype=np.int32)
                table[at] = 0
            else:
                table = np.empty(last + 1, dtype=np.int32)
                table[:last] = steps[STEPS - 1 - at : 2 * STEPS - 1 - at]
                table[last] = other
            found.append(table)
        return found

    @cached_property
    def _steps(self) -> list[tuple[NDArray[np.int32], np.int32]]:
        """The square of a distance by steps of a number, and of another level.

        Steps go down to zero and up again, so that a table is a piece of them. A
        missing number is a quarter of a range away from all others.
        """
        # Rounded once, so that every processor finds the same distances.
        unit = _LARGEST / math.fsum(self.squares.tolist())
        found = []
        for column, square in zip(self.columns.columns, self.squares, strict=True):
            whole = unit * square
            steps = np.rint((np.arange(1 - STEPS, STEPS) / STEPS) ** 2 * whole)
            other = np.rint((0.0625 if column.numeric else 1.0) * whole)
            found.append((steps.astype(np.int32), np.int32(other)))
        return found


def plain_metric(columns: CodedColumns) -> Metric:
    """Return the metric of columns that are all scaled by their ranges."""
    squares = [1.0 if column.numeric else _LEVEL**2 for column in columns.columns]
    return Metric(columns, np.array(squares))


def released_metric(
    rows: UnitRows,
    columns: CodedColumns,
    model: PartitionModel,
    rounds: Rounds,
    *,
    share: float,
) -> Metric:
    """Scale columns by how much a released model depends on them.

    One round: some units, chosen by position, contribute the squared change of the
    model's answer when one of their values moves. The model is cut into two halves with
    independent noise; in the product of both results the squared noise does not appear.
    """
    n = min(rows.n_units, _MOST_UNITS)
    norm = 2.0**_BITS
    scale = rounds.budget.scale(norm, share=share, times=1, acute=False)
    codes = rows.codes[rows.starts[:n]]
    changes = _changes(codes, columns, model, rounds.source)
    lengths = np.sqrt((changes * changes).sum(axis=1)) * (1 + 2.0**-40)
    clipped = changes * (norm / np.maximum(lengths, 1.0))[:, None]
    whole = np.trunc(clipped)
    squares = np.minimum((whole * whole).sum(axis=1), norm * norm)
    speaks = rounds.admit(slice(0, n), squares, scale, acute=False)
    sums = (whole * speaks[:, None]).sum(axis=0).astype(np.int64)
    mean = rounds.noisy(sums, scale) / (norm * n)
    # From a move of two steps to the whole range.
    widths = np.array(
        [(2 * _MOVE / STEPS) ** 2 if c.numeric else 1.0 for c in columns.columns]
    )
    found = np.maximum(mean / widths, 0.0)
    largest = float(found.max())
    if not largest > 0:
        return plain_metric(columns)
    least = [_LEAST if c.numeric else _LEAST_LEVEL for c in columns.columns]
    return Metric(columns, np.maximum(found / largest, least))


def _changes(
    codes: Codes, columns: CodedColumns, model: PartitionModel, source: RandomSource
) -> Float:
    """Return squares of changes of the model's answer, for each row and column."""
    partitions, n_rows = model.partitions, len(codes)
    ends = np.cumsum(partitions.n_parts)
    slope = np.ones((len(model.values), n_rows))
    if model.logistic:
        mean = model.mean(codes)
        slope = mean * (1 - mean)
    found = np.zeros((n_rows, len(columns)))
    for place, column in enumerate(columns.columns):
        low, high = codes.copy(), codes.copy()
        if column.numeric:
            known = codes[:, place] < STEPS
            low[known, place] = np.maximum(codes[known, place] - _MOVE, 0)
            high[known, place] = np.minimum(codes[known, place] + _MOVE, STEPS - 1)
        else:
            bounds = np.full(n_rows, column.levels, dtype=np.uint64)
            high[:, place] = source.below(bounds).astype(np.int16)
        halves = []
        for half in (0, 1):
            chosen = [
                k
                for k, asked in enumerate(partitions.columns)
                if place in asked and (k // 2) % 2 == half
            ]
            total = np.zeros_like(slope)
            for k in chosen:
                own = partitions.only(k)
                values = model.values[:, ends[k] - partitions.n_parts[k] : ends[k]]
                total += part_scores(own.parts(high), own.n_parts, values)
                total -= part_scores(own.parts(low), own.n_parts, values)
            halves.append(total * slope)
        found[:, place] = 4 * (halves[0] * halves[1]).sum(axis=0)
    return found


def spread_of(metric: Metric, shares: tuple[Float | None, ...]) -> Float:
    """Return how much each column tells rows apart, by released numbers."""
    found = []
    for column, square, share in zip(
        metric.columns.columns, metric.squares, shares, strict=True
    ):
        width = 0.5
        if column.numeric:
            low, high = (0.1, 0.9)
            if share is not None:
                low, high = np.searchsorted(share, (0.1, 0.9)) / STEPS
            width = float(high - low)
        found.append(math.sqrt(square) * width)
    return np.array(found)
