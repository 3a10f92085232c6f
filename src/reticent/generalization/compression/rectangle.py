"""Axis-aligned boxes, decoded from at most two examples per feature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats, Ints
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.generalization.compression.scheme import (
    Candidate,
    LabelledRows,
    Labelling,
    Scheme,
    kept_rows,
)
from reticent.generalization.compression.side_information import BitReader
from reticent.mechanisms import RandomSource

# Every move saves a mistake, but noisy data could need many moves; chosen for speed.
_MOST_MOVES = 200


class RectangleScheme(Scheme):
    """A box around the examples of one label, decoded from those on its faces.

    Rows inside the smallest box around the kept examples get their label, the others
    the other label.

    Notes
    -----
    The encoder starts with the smallest box around all examples of a label, which is
    right if a box fits the data. It then moves one face at a time inwards, to where the
    mistakes are fewest, as long as this helps. After each move the box shrinks to the
    examples of its label inside, so that every face touches one of them.
    """

    binary_only = True

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of faces."""
        return 2 * n_features

    def sizes(self, most: int) -> int:
        """Return the number of faces: every number from one up to it is possible."""
        return most

    def most_bits(self, most: int) -> int:
        """Return 0: the label of the kept examples is that of the inside."""
        return 0

    def lower_most(self, natural: int, asked: int) -> int:
        """Refuse a cap below the number of faces."""
        if asked < natural:
            raise InvalidParameterError(
                f"max_kept={asked} is less than the {natural} examples that a box with "
                "as many faces may keep; choose another scheme or fewer features."
            )
        return natural

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield a box around each of the labels."""
        for label in (0, 1):
            own = data.y == label
            if not own.any():
                continue
            inside = _tightened(data.X, own, np.ones(len(data), dtype=np.bool_))
            for _ in range(_MOST_MOVES):
                moved = _best_move(data.X, own, inside)
                if moved is None:
                    break
                inside = moved
            rows = _faces(data.X, inside & own)
            mistakes = int(np.count_nonzero(inside != own))
            yield kept_rows(rows, mistakes)

    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Return the smallest box around the kept examples."""
        if not len(kept) or len(np.unique(kept.y)) != 1:
            raise InvalidDataError("a box is decoded from examples of one label.")
        label, low, high = int(kept.y[0]), kept.X.min(axis=0), kept.X.max(axis=0)

        def labels(X: Floats) -> Ints:
            inside = _within(X, low, high)
            return np.where(inside, label, 1 - label)

        return labels


def _tightened(X: Floats, own: Bools, inside: Bools) -> Bools:
    """Return the rows inside the smallest box around own rows that are inside."""
    held = X[inside & own]
    return _within(X, held.min(axis=0), held.max(axis=0))


def _within(X: Floats, low: Floats, high: Floats) -> Bools:
    """Return which rows lie in a box."""
    return np.asarray(np.logical_and(low <= X, high >= X).all(axis=1))


def _best_move(X: Floats, own: Bools, inside: Bools) -> Bools | None:
    """Move the face that saves the most mistakes, or return None."""
    rows = np.flatnonzero(inside)
    gain = np.where(own[rows], -1, 1)
    best = 0
    dropped: NDArray[np.intp] | None = None
    for feature in range(X.shape[1]):
        column = X[rows, feature]
        order = np.argsort(column, kind="stable")
        # A cut is possible only where the value changes.
        ends = np.flatnonzero(np.diff(column[order])) + 1
        if not len(ends):
            continue
        sums = np.cumsum(gain[order])
        low, high = sums[ends - 1], sums[-1] - sums[ends - 1]
        if low.max() > best:
            best, dropped = int(low.max()), order[: ends[low.argmax()]]
        if high.max() > best:
            best, dropped = int(high.max()), order[ends[high.argmax()] :]
    if dropped is None:
        return None
    left = inside.copy()
    left[rows[dropped]] = False
    return _tightened(X, own, left) if (left & own).any() else None


def _faces(X: Floats, held: Bools) -> Ints:
    """Return one of the held rows for every face of the box around them."""
    rows = np.flatnonzero(held)
    lowest, highest = X[rows].argmin(axis=0), X[rows].argmax(axis=0)
    return np.unique(rows[np.concatenate([lowest, highest])])
