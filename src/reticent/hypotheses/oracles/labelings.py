"""Tables of labelings, one bit per label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Ints

# Labelings are unpacked this many labels at a time: 64 MB as floats.
_LABELS_AT_ONCE = 8_000_000


def pack(labels: NDArray[Any]) -> NDArray[np.uint8]:
    """Pack 0-1 rows into bytes; rows of bytes sort like rows of labels."""
    return np.packbits(labels.astype(bool), axis=1)


def unpack(packed: NDArray[np.uint8], n_points: int) -> NDArray[np.uint8]:
    """Return the 0-1 rows again."""
    return np.unpackbits(packed, axis=1, count=n_points)


def first_of_each(packed: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return where each distinct labeling occurs first, in ascending order."""
    order, starts = _sorted(packed)
    return np.sort(order[starts])


def distinct_labelings(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the distinct labelings, sorted from the first point on, 0 before 1."""
    order, starts = _sorted(packed)
    return packed[order[starts]]


def _sorted(packed: NDArray[np.uint8]) -> tuple[NDArray[np.intp], Bools]:
    """Sort rows stably by words of eight bytes; say where a new row begins."""
    n_words = -(-packed.shape[1] // 8)
    padded = np.zeros((len(packed), 8 * n_words), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    words = padded.view(">u8").astype(np.uint64)
    order = np.lexsort(words.T[::-1])
    ascending = words[order]
    starts = np.ones(len(packed), dtype=bool)
    starts[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    return order, starts


def ones_cost(packed: NDArray[np.uint8], n_points: int, ones: Ints) -> Ints:
    """Add up the costs where each labeling is 1."""
    step = max(1, _LABELS_AT_ONCE // n_points)
    totals = np.empty(len(packed), dtype=np.int64)
    weights = ones.astype(np.float64)
    for start in range(0, len(packed), step):
        labels = unpack(packed[start : start + step], n_points)
        # Whole numbers below 2**53: the product is exact in any order of summation.
        totals[start : start + step] = labels.astype(np.float64) @ weights
    return totals
