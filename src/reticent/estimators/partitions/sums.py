"""Scores and sums over partitions: by gathering and counting, never a dense matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.estimators.partitions.codes import Codes
from reticent.estimators.partitions.trees import Partitions, Parts

# Rows whose scores are added up at a time: few enough to stay in the cache.
_BLOCK = 1 << 15
# Up to this many rows, one call for all partitions is faster than one for each.
_FEW_ROWS = 8
# What fits into 16 bits; a table of this size stays in a cache.
_MOST_PACKED = 1 << 16


def part_scores(
    parts: Parts, sizes: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum over partitions of the value of each row's part.

    Parameters
    ----------
    parts : ndarray of shape (n_partitions, n_rows)
        The part of each row.
    sizes : ndarray of int
        How many parts each partition has.
    values : ndarray of shape (n_scores, n_parts_in_all)
        The values of all parts, partition after partition.

    Returns
    -------
    ndarray of shape (n_scores, n_rows)
        Each row's scores depend on its own parts and the values alone.
    """
    n_rows, ends = parts.shape[1], np.cumsum(sizes)
    if n_rows <= _FEW_ROWS:
        found = values[:, (ends - sizes)[:, None] + parts]
        # Partition after partition, as below: a row's sum must not depend on other
        # rows.
        return np.asarray(np.add.accumulate(found, axis=1)[:, -1])
    total = np.zeros((len(values), n_rows))
    for start in range(0, n_rows, _BLOCK):
        block = slice(start, start + _BLOCK)
        for own, size, end in zip(parts, sizes, ends, strict=True):
            place = own[block]
            for sums, value in zip(total, values, strict=True):
                sums[block] += np.take(value[end - size : end], place)
    return total


@dataclass(frozen=True, eq=False)
class PackedParts:
    """The parts of rows, several small partitions in one number.

    Adjacent partitions form one partition whose number of parts is the product of
    theirs, so that rows are gathered and counted once for all of them.

    Attributes
    ----------
    groups : tuple of tuple of int
        For each number, how many parts its partitions have.
    parts : ndarray of shape (n_groups, n_rows)
        The numbers of each row.
    """

    groups: tuple[tuple[int, ...], ...]
    parts: Parts

    @classmethod
    def of(cls, partitions: Partitions, codes: Codes, *, most: int) -> PackedParts:
        """Pack partitions up to a number of parts.

        Parameters
        ----------
        partitions : Partitions
            How rows are divided.
        codes : ndarray of shape (n_rows, n_columns)
            The rows.
        most : int
            More parts are packed together only if they fit into one partition.
        """
        groups: list[list[int]] = []
        limit = min(max(most, 1), _MOST_PACKED)
        for place, size in enumerate(partitions.n_parts.tolist()):
            own = [int(partitions.n_parts[each]) for each in (groups[-1:] or [[]])[0]]
            if groups and math.prod(own) * size <= limit:
                groups[-1].append(place)
            else:
                groups.append([place])
        by_column = np.ascontiguousarray(codes.T)
        packed = np.zeros((len(groups), len(codes)), dtype=np.uint16)
        for out, places in zip(packed, groups, strict=True):
            for place in places:
                out *= np.uint16(partitions.n_parts[place] & 0xFFFF)
                out += partitions.part(place, by_column)
        sizes = [tuple(partitions.n_parts[places].tolist()) for places in groups]
        return cls(tuple(sizes), packed)

    def scores(self, values: Floats) -> Floats:
        """Return the sum over partitions of the value of each row's part.

        As `part_scores`, except for the order of addition, which `groups` decides, and
        the sum over a group, which is rounded to 24 bits: small tables are read faster.
        """
        n_rows = self.parts.shape[1]
        total = np.zeros((len(values), n_rows))
        found = np.empty(_BLOCK, dtype=np.float32)
        start = 0
        for own, sizes in zip(self.parts, self.groups, strict=True):
            table = values[:, start : start + sizes[0]]
            start += sizes[0]
            for size in sizes[1:]:
                more = values[:, None, start : start + size]
                table = (table[:, :, None] + more).reshape(len(values), -1)
                start += size
            table = table.astype(np.float32)
            for first in range(0, n_rows, _BLOCK):
                block = slice(first, first + _BLOCK)
                place = own[block].astype(np.intp)
                here = found[: len(place)]
                for sums, value in zip(total, table, strict=True):
                    # Parts are below the size of the table, so that nothing is clipped;
                    # without a check this is faster.
                    np.take(value, place, out=here, mode="clip")
                    sums[block] += here
        return total

    def sums(self, numbers: Floats) -> Ints:
        """Return the sums of numbers over the rows of each part, in order of values.

        Parameters
        ----------
        numbers : ndarray of shape (n_scores, n_rows)
            Whole numbers, as floats; sums must stay below 2^53, so that they are exact
            in any order.
        """
        found = []
        for own, sizes in zip(self.parts, self.groups, strict=True):
            place = own.astype(np.intp)
            counts = [
                np.bincount(place, weights=row, minlength=math.prod(sizes))
                for row in numbers
            ]
            table = np.stack(counts).reshape(len(numbers), *sizes)
            axes = range(1, len(sizes) + 1)
            for kept in axes:
                others = tuple(axis for axis in axes if axis != kept)
                found.append(table.sum(axis=others))
        return np.concatenate(found, axis=1).astype(np.int64)
