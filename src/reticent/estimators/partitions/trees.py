"""Random partitions: drawn without looking at the data (L12)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent.estimators.partitions.codes import STEPS, CodedColumns, Codes
from reticent.mechanisms import RandomSource

#: How many parts a numeric column by itself has, besides that of missing values: two
#: columns together then have as many parts as 16 bits can count.
VALUES = 255
#: The part of each code of a numeric column by itself.
VALUE_OF_CODE = np.arange(STEPS) * VALUES // STEPS
#: The part of each row in each partition, of shape (n_partitions, n_rows).
Parts: TypeAlias = NDArray[np.uint16]
#: For each numeric column, the share of rows at or below each code; None elsewhere.
Shares: TypeAlias = "tuple[NDArray[np.float64] | None, ...]"

# Up to this many rows, one call for all questions is faster than one for each.
_FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class Partitions:
    """Several ways to divide all possible rows into parts.

    A partition asks some columns one question each; the answers, in order, name the
    part. What a question answers is a table over the codes of its column.
    """

    #: For each partition, the columns that it asks.
    columns: tuple[NDArray[np.int64], ...]
    #: For each question, the answer to each code, shifted to its place in the name.
    tables: tuple[tuple[NDArray[np.uint16], ...], ...]
    n_parts: NDArray[np.int64]  #: how many parts each partition has

    def __len__(self) -> int:
        return len(self.columns)

    def parts(self, codes: Codes) -> Parts:
        """Return the part of each row in each partition."""
        if len(codes) <= _FEW_ROWS:
            return self._parts_of_few(codes)
        by_column = np.ascontiguousarray(codes.T)
        found = np.zeros((len(self), len(codes)), dtype=np.uint16)
        for place, out in enumerate(found):
            out += self.part(place, by_column)
        return found

    def part(self, place: int, by_column: Codes) -> NDArray[np.uint16]:
        """Return the part of each row in one of the partitions, from columns."""
        found = np.zeros(by_column.shape[1], dtype=np.uint16)
        for column, table in zip(self.columns[place], self.tables[place], strict=True):
            found += table[by_column[column]]
        return found

    def _parts_of_few(self, codes: Codes) -> Parts:
        """Return the same for few rows, all questions at once."""
        answers, firsts, columns, starts = self._flat
        found = answers[firsts[:, None] + codes.T[columns].astype(np.int64)]
        return np.asarray(np.add.reduceat(found, starts, axis=0, dtype=np.uint16))

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """All tables in one array, where each begins, its column, and partitions."""
        tables = [table for own in self.tables for table in own]
        sizes = [len(table) for table in tables]
        firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        asked = [len(own) for own in self.columns]
        starts = np.concatenate([[0], np.cumsum(asked)[:-1]])
        return np.concatenate(tables), firsts, np.concatenate(self.columns), starts

    def only(self, place: int) -> Partitions:
        """Return one of the partitions by itself."""
        one = slice(place, place + 1)
        return Partitions(self.columns[one], self.tables[one], self.n_parts[one])

    def joined(self, other: Partitions) -> Partitions:
        """Return the partitions of both."""
        return Partitions(
            self.columns + other.columns,
            self.tables + other.tables,
            np.concatenate([self.n_parts, other.n_parts]),
        )


def single_columns(columns: CodedColumns) -> Partitions:
    """Return partitions that ask one column each: for its level, or its fine bin.

    The last part of each is for missing values.
    """
    asked, tables, sizes = [], [], []
    for place, column in enumerate(columns.columns):
        way = np.arange(column.n_codes)
        if column.numeric:
            way = np.append(VALUE_OF_CODE, VALUES)
        asked.append(np.array([place]))
        tables.append((way.astype(np.uint16),))
        sizes.append(int(way[-1]) + 1)
    return Partitions(tuple(asked), tuple(tables), np.array(sizes, dtype=np.int64))


def random_trees(
    columns: CodedColumns,
    shares: Shares,
    *,
    n_trees: int,
    depth: int,
    source: RandomSource,
    weights: NDArray[np.float64] | None = None,
) -> Partitions:
    """Draw trees that ask `depth` questions of random columns, whatever the rows are.

    A question to a number is whether it is above a random cut. Every second tree draws
    its cuts evenly from the range; the others draw them by `shares`, so that they fall
    where rows are. A question to a category is whether its level is in a random half.
    Missing values answer at random, the same for all. A column is asked as often as
    its share of `weights`, which are public or released; None asks all as often.
    """
    if weights is None:
        weights = np.ones(len(columns))
    # Public randomness: it needs no secrecy, only independence of the rows.
    ends = np.cumsum(weights / weights.sum())
    drawn = _uniform(source, n_trees * depth)
    asked = np.searchsorted(ends[:-1], drawn, side="right").reshape(n_trees, depth)
    cuts = _uniform(source, n_trees * depth).reshape(n_trees, depth)
    tables = []
    for tree in range(n_trees):
        questions = []
        for level in range(depth):
            column = columns.columns[asked[tree, level]]
            share = shares[asked[tree, level]] if tree % 2 else None
            if column.numeric:
                position = np.arange(STEPS) / STEPS if share is None else share
                above = position > cuts[tree, level]
                side = _uniform(source, 1) < 0.5
                bits = np.append(above, side)
            else:
                bits = _uniform(source, column.n_codes) < 0.5
            questions.append(bits.astype(np.uint16) << np.uint16(level))
        tables.append(tuple(questions))
    sizes = np.full(n_trees, 1 << depth, dtype=np.int64)
    return Partitions(tuple(asked), tuple(tables), sizes)


def _uniform(source: RandomSource, count: int) -> NDArray[np.float64]:
    return (source.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
