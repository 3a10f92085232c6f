"""The perceptron, decoded from its mistakes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError
from reticent.generalization.bits import BitReader, BitWriter, width
from reticent.generalization.kept import canonical
from reticent.generalization.scheme import (
    Candidate,
    Examples,
    Labelling,
    Scheme,
    at_least,
)
from reticent.mechanisms.randomness import RandomSource

# Rows whose intermediate results stay in a processor's cache.
_CACHED_ROWS = 4096


class PerceptronScheme(Scheme):
    """A linear separator: the signed sum of the examples it was wrong about.

    Rows get a constant feature and length one, which is done row by row and so belongs
    to the decoder.

    Parameters
    ----------
    passes : int, default=10
        Passes over the data. An example counts at most once a pass, so its multiplicity
        takes ``log2(passes)`` bits of side information, rounded up.

    Notes
    -----
    Every state on the way is a hypothesis of its own; the classifier keeps the one
    that it likes best (the "pocket"). The weights do not depend on the order of the
    mistakes but for rounding, and the decoder adds them up in canonical order.
    """

    binary_only = True

    def __init__(self, passes: int = 10) -> None:
        self.passes = passes

    def check(self) -> None:
        """Refuse fewer than one pass."""
        at_least(self, "passes", 1)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of rows: each may be mistaken."""
        return n_rows

    def sizes(self, most: int) -> int:
        """Return how many numbers of different mistakes are possible."""
        return most

    def most_bits(self, most: int) -> int:
        """Return the bits of all multiplicities."""
        return most * width(self.passes)

    def compress(
        self, data: Examples, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield every state of the perceptron on its way through shuffled data."""
        rows = _normalised(data.X)
        order = source.permutation(len(data))
        rank = np.empty(len(data), dtype=np.int64)
        rank[order] = np.arange(len(data))
        signs = np.asarray(2.0 * data.y - 1.0, dtype=np.float64)
        scores = np.zeros(len(data))
        times: dict[int, int] = {}
        weights = np.zeros(rows.shape[1])
        for _ in range(self.passes):
            clean = True
            place = 0
            while (place := _next_mistake(signs * scores, rank, place)) >= 0:
                row = int(order[place])
                if row not in times and len(times) >= most:
                    return
                clean = False
                times[row] = times.get(row, 0) + 1
                weights = weights + signs[row] * rows[row]
                scores = rows @ weights
                yield self._state(data, dict(times), scores)
                place += 1
            if clean:
                return

    def decode(self, kept: Examples, side: BitReader) -> Labelling:
        """Add up the kept examples, each with its sign and multiplicity."""
        if not len(kept):
            raise InvalidDataError("a perceptron is decoded from at least one example.")
        times = [side.read(choices=self.passes) + 1 for _ in range(len(kept))]
        signs = (2.0 * kept.y - 1.0) * np.array(times, dtype=np.float64)
        weights = (_normalised(kept.X) * signs[:, None]).sum(axis=0)
        return lambda X: _labels(X, weights)

    def _state(
        self, data: Examples, times: dict[int, int], scores: NDArray[np.float64]
    ) -> Candidate:
        kept = np.array(sorted(times), dtype=np.int64)

        def finish() -> tuple[NDArray[np.int64], str]:
            own = data.take(kept)
            rows = kept[canonical(own.X, own.y)]
            writer = BitWriter()
            for row in rows:
                writer.write(times[int(row)] - 1, choices=self.passes)
            return rows, writer.bits

        mistakes = data.mistakes((scores > 0).astype(np.int64))
        return Candidate(len(kept), self.most_bits(len(kept)), mistakes, finish)


def _normalised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Append a constant feature and scale each row to length one."""
    n_rows, d = X.shape
    rows = np.empty((n_rows, d + 1))
    for start in range(0, n_rows, _CACHED_ROWS):
        some = rows[start : start + _CACHED_ROWS]
        some[:, :d] = X[start : start + _CACHED_ROWS]
        some[:, d] = 1.0
        # The largest entry first, so that huge values do not overflow when squared.
        some /= np.abs(some).max(axis=1, keepdims=True)
        some /= np.sqrt((some * some).sum(axis=1, keepdims=True))
    return rows


def _labels(X: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return which rows lie on the positive side.

    Row by row, so that a row's label does not depend on its neighbours.
    """
    labels = np.empty(len(X), dtype=np.int64)
    for start in range(0, len(X), _CACHED_ROWS):
        some = slice(start, start + _CACHED_ROWS)
        labels[some] = np.einsum("ij,j->i", _normalised(X[some]), weights) > 0
    return labels


def _next_mistake(
    agreement: NDArray[np.float64], rank: NDArray[np.int64], place: int
) -> int:
    """Return the next place whose row is not on the side of its sign, or -1.

    Rows are looked at in the order of the table, which is quick; ranks of mistakes
    say which of them comes first in the order of the pass.
    """
    wrong = rank[agreement <= 0]
    later = wrong[wrong >= place]
    return int(later.min()) if len(later) else -1
