"""Scores and sums over partitions: by gathering and counting, never a dense matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reticent.estimators.partitions.trees import Parts

# Rows whose scores are added up at a time: few enough to stay in the cache.
_BLOCK = 1 << 15
# For so few rows, one call for all partitions is faster than one call for each.
_FEW_ROWS = 8


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
        # Partition after partition, as below: sums must not depend on who is beside.
        return np.asarray(np.add.accumulate(found, axis=1)[:, -1])
    total = np.zeros((len(values), n_rows))
    for start in range(0, n_rows, _BLOCK):
        block = slice(start, start + _BLOCK)
        for own, size, end in zip(parts, sizes, ends, strict=True):
            place = own[block]
            for sums, value in zip(total, values, strict=True):
                sums[block] += np.take(value[end - size : end], place)
    return total


def part_sums(
    parts: Parts, sizes: NDArray[np.int64], numbers: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the sums of numbers over the rows of each part, in the order of values.

    Parameters
    ----------
    parts : ndarray of shape (n_partitions, n_rows)
        The part of each row.
    sizes : ndarray of int
        How many parts each partition has.
    numbers : ndarray of shape (n_scores, n_rows)
        Whole numbers, as floats; sums must stay below 2^53, so that they are exact in
        any order.
    """
    found = [
        [np.bincount(own, weights=row, minlength=size) for row in numbers]
        for own, size in zip(parts, sizes, strict=True)
    ]
    return np.concatenate([np.stack(sums) for sums in found], axis=1).astype(np.int64)
