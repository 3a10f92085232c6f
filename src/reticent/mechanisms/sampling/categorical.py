"""Exact draws of labels: one of several outcomes, each with its own probability."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats, Ints
from reticent.errors import InternalError, InvalidParameterError
from reticent.mechanisms.sampling.exact import (
    DEEPEST,
    FLOAT_BITS,
    HEAD_BITS,
    UNIT,
    first_bits,
    longer_prefixes,
    more_bits,
)
from reticent.mechanisms.sampling.fixed_point import exp_bounds
from reticent.mechanisms.sampling.inputs import floats
from reticent.mechanisms.sampling.listening import audible
from reticent.mechanisms.sampling.randomness import RandomSource

# Numbers, and rows, worked on at a time, so that they stay in the processor's cache.
_WORKSPACE = 1 << 17
_BLOCK = 1 << 13
# Above this many labels a row is searched by bisection instead of label by label.
_MANY_LABELS = 512


@audible("categorical")
def draw_categorical(log_weights: ArrayLike, source: RandomSource) -> Ints:
    """Draw one label per row with probabilities proportional to ``exp(log_weights)``.

    Parameters
    ----------
    log_weights : array-like of shape (n, n_labels)
        Finite floats, read as exact real numbers.
    source : RandomSource
        Where bits come from.

    Returns
    -------
    ndarray of shape (n,)
        Indices of labels.

    Guarantee
    ---------
    The law of each row is exactly the softmax of its log-weights; no label is
    impossible, however far it is behind.
    """
    rows = floats("log_weights", np.asarray(log_weights))
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidParameterError(
            "draw_categorical needs log_weights of shape (n, n_labels) with at least "
            f"one label; got shape {rows.shape}."
        )
    if rows.size and not np.abs(rows).max() < 2.0**1000:
        raise InvalidParameterError("draw_categorical needs log_weights below 2^1000.")
    labels = np.empty(len(rows), dtype=np.int64)
    if rows.shape[1] > _MANY_LABELS:
        for index, row in enumerate(rows):
            labels[index] = _draw_from_many(row, source)
        return labels
    size = min(_BLOCK, _WORKSPACE // rows.shape[1])
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        labels[part] = _draw_block(rows[part], source)
    return labels


# Let T be the sum of a row's exact weights exp(l - max l), and C_j that of its first
# j. What is computed instead is off by at most k T, k = (760 + 2 n_labels) 2^-53:
# subtracting the maximum loses 700 * 2^-53 of a weight at most (smaller weights are
# below TINY, and T >= 1), exp loses EXP_ERROR, a sum of n_labels terms loses
# n_labels * 2^-53, and products of such factors the rest. U lies in
# [head, head + 1) 2^-bits. Comparing head 2^-bits T with C_j therefore errs by less
# than (2k + 16 * 2^-53) T, in addition to the 2^-bits T that are not drawn yet. Where
# the two are further apart than that, the comparison of U T with C_j is certain.
def _slack(n_labels: int) -> float:
    return (2 * (760 + 2 * n_labels) + 16) * UNIT


def _draw_block(rows: Floats, source: RandomSource) -> Ints:
    n_labels = rows.shape[1]
    # A copy, in which one label's weights lie together: each step then runs over all
    # rows at once, and the caller's array stays as it is.
    sums = np.array(rows.T, order="C")
    sums -= sums.max(axis=0)
    np.maximum(sums, DEEPEST, out=sums)
    np.exp(sums, out=sums)
    for label in range(1, n_labels):
        sums[label] += sums[label - 1]
    heads = first_bits(len(rows), source)
    labels, unsure = _search(sums, heads, HEAD_BITS)
    # Always done, also for no rows: the time taken must not reveal their number.
    longer = more_bits(heads[unsure], source)
    labels[unsure], still = _search(sums[:, unsure], longer, FLOAT_BITS)
    for index in still:
        at = int(unsure[index])
        labels[at] = _settle_label(rows[at], int(longer[index]), source)
    return labels


def _search(
    sums: Floats, heads: NDArray[np.unsignedinteger[Any]], bits: int
) -> tuple[Ints, NDArray[np.intp]]:
    """Return the labels where U falls, and the indices of rows that are undecided."""
    total = sums[-1]
    point = heads * (total * 2.0**-bits)
    slack = total * _slack(len(sums))
    low = point - slack
    high = np.add(point, slack, out=point)
    high += total * 2.0**-bits
    # Counting in bytes is fastest, as long as the labels fit.
    passed, perhaps = np.zeros(
        (2, len(heads)), np.int8 if len(sums) < 128 else np.int16
    )
    for end in sums[:-1]:
        passed += (end <= low).view(np.int8)
        perhaps += (end <= high).view(np.int8)
    return passed.astype(np.int64), np.flatnonzero(passed != perhaps)


def _draw_from_many(row: Floats, source: RandomSource) -> int:
    sums = row - row.max()
    np.maximum(sums, DEEPEST, out=sums)
    np.exp(sums, out=sums)
    np.cumsum(sums, out=sums)
    head = int(more_bits(first_bits(1, source), source)[0])
    point, slack = head * (sums[-1] * UNIT), sums[-1] * _slack(len(row))
    ends = np.array([point - slack, point + slack + sums[-1] * UNIT])
    first, last = np.searchsorted(sums[:-1], ends, side="right")
    return int(first) if first == last else _settle_label(row, head, source)


def _settle_label(row: Floats, head: int, source: RandomSource) -> int:
    """Find the label of the number U that starts with the 53 bits of `head`."""
    values, kinds = np.unique(row, return_inverse=True)
    gaps = [Fraction(values[-1]) - Fraction(value) for value in values]
    for bits, drawn in longer_prefixes(head, FLOAT_BITS, source):
        # Sums of weights are then as precise as the bits drawn.
        fine = bits + len(row).bit_length() + 2
        bounds = [exp_bounds(gap, fine) for gap in gaps]
        label = _locate(kinds, bounds, drawn, bits)
        if label is not None:
            return label
    raise InternalError("a source of random bits ran dry.")


def _locate(
    kinds: NDArray[np.intp], bounds: list[tuple[int, int]], drawn: int, bits: int
) -> int | None:
    """Bisect for the first label whose cumulative probability certainly exceeds U."""

    def sums(count: int) -> tuple[int, int]:
        tally = np.bincount(kinds[:count], minlength=len(bounds)).tolist()
        pairs = list(zip(tally, bounds, strict=True))
        return sum(t * b[0] for t, b in pairs), sum(t * b[1] for t, b in pairs)

    total_low, total_high = sums(len(kinds))
    first, last = 0, len(kinds) - 1
    while first < last:
        middle = (first + last) // 2
        low, high = sums(middle + 1)
        if (drawn + 1) * total_high <= low << bits:
            last = middle
        elif drawn * total_low >= high << bits:
            first = middle + 1
        else:
            return None
    return first
