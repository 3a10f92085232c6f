"""The perceptron, decoded from its mistakes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from reticent._arrays import Bools, Floats, Ints
from reticent.errors import InvalidDataError
from reticent.generalization.compression.kept_examples import canonical_order
from reticent.generalization.compression.scheme import (
    Candidate,
    LabelledRows,
    Labelling,
    Scheme,
    at_least,
)
from reticent.generalization.compression.side_information import (
    BitReader,
    BitWriter,
    width,
)
from reticent.mechanisms import RandomSource

# Rows whose intermediate results stay in a processor's cache.
_CACHED_ROWS = 4096

# Neighbouring rows that stay together when a large table is shuffled, so that reading
# them costs one access to memory.
_PIECE = 16

# Rows on which every state is tried; the best are then counted on all rows.
_TRIED_ROWS = 2048

# States that are tried together, by one matrix product.
_TRIED_STATES = 64

# States with the fewest mistakes on the tried rows, which may not be the fewest of all.
_BEST_STATES = 32

# Rows have entries on this grid. Sums of them are exact in floating point as long as
# they are below 2^13, and a perceptron's weights are no longer than the root of the
# number of its mistakes: so weights do not depend on the order of up to 2^26 mistakes.
_GRID = 2.0**40


class PerceptronScheme(Scheme):
    """A linear separator: the signed sum of the examples it was wrong about.

    Each row gets a constant feature and is scaled to length one; this needs no other
    row, so the decoder can do it.

    Parameters
    ----------
    passes : int, default=10
        Passes over the data. An example counts at most once per pass, so its
        multiplicity takes ``log2(passes)`` bits of side information, rounded up.

    Notes
    -----
    Every intermediate state is a hypothesis, and the classifier keeps the best one (the
    "pocket algorithm"). In a table of up to 2048 rows all states compete; in a larger
    one, the states that do well on 2048 random rows. There are few of them, however
    large the table is, so time is linear in the number of rows.
    """

    binary_only = True

    def __init__(self, passes: int = 10) -> None:
        self.passes = passes

    def check(self) -> None:
        """Refuse fewer than one pass."""
        at_least(self, "passes", 1)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of rows: each may be a mistake."""
        return n_rows

    def sizes(self, most: int) -> int:
        """Return how many numbers of different mistakes are possible."""
        return most

    def most_bits(self, most: int) -> int:
        """Return the bits of all multiplicities."""
        return most * width(self.passes)

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield promising states of the perceptron on shuffled data."""
        order = _Order(len(data), source)
        pocket = _Pocket(data, source)
        seen = np.zeros(len(data), dtype=np.bool_)
        log = array("q")
        n_kept = 0
        for row, weights, run in _mistakes(data, order, self.passes):
            if not seen[row]:
                if n_kept >= most:
                    break
                seen[row] = True
                n_kept += 1
            log.append(row)
            pocket.offer(_State(weights, len(log), n_kept), run)
        states = pocket.chosen()
        mistaken = np.frombuffer(log, dtype=np.int64)
        for state, mistakes in zip(states, _count(data, states), strict=True):
            yield self._candidate(data, state, mistaken[: state.length], mistakes)

    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Add up the kept examples, each with its sign and multiplicity."""
        if not len(kept):
            raise InvalidDataError("a perceptron is decoded from at least one example.")
        times = [side.read(choices=self.passes) + 1 for _ in range(len(kept))]
        signs = (2 * kept.y - 1) * np.array(times, dtype=np.int64)
        # In whole numbers, because partial sums in this order may be far larger than
        # the total.
        units = (_normalised(kept.X) * _GRID).astype(np.int64)
        weights = (units * signs[:, None]).sum(axis=0) / _GRID
        return lambda X: _labels(X, weights)

    def _candidate(
        self, data: LabelledRows, state: _State, mistaken: Ints, mistakes: int
    ) -> Candidate:
        def finish() -> tuple[Ints, str]:
            rows, times = np.unique(mistaken, return_counts=True)
            own = data.take(rows)
            ranked = canonical_order(own.X, own.y)
            writer = BitWriter()
            for count in times[ranked].tolist():
                writer.write(count - 1, choices=self.passes)
            return rows[ranked], writer.bits

        bits = self.most_bits(state.n_kept)
        return Candidate(state.n_kept, bits, mistakes, finish)


@dataclass(frozen=True, slots=True)
class _State:
    """The perceptron after its first `length` mistakes, on `n_kept` different rows."""

    weights: Floats
    length: int
    n_kept: int


class _Order:
    """An order of the rows for all passes, as chunks that fit into a cache.

    Small tables are shuffled uniformly. Of large ones, pieces of neighbours are
    shuffled, and so are the rows of a few hundred pieces at a time: every chunk is a
    sample of the whole table, however that is sorted.
    """

    def __init__(self, n_rows: int, source: RandomSource) -> None:
        self._n_rows = n_rows
        self._within = source.permutation(min(n_rows, _CACHED_ROWS))
        n_pieces = -(-n_rows // _PIECE)
        large = n_rows > _CACHED_ROWS
        self._pieces = source.permutation(n_pieces) if large else np.arange(n_pieces)

    def __iter__(self) -> Iterator[Ints]:
        together = _CACHED_ROWS // _PIECE
        for start in range(0, len(self._pieces), together):
            first = self._pieces[start : start + together, None] * _PIECE
            rows = (first + np.arange(_PIECE)).ravel()
            rows = rows[rows < self._n_rows]
            yield rows[self._within[self._within < len(rows)]]


class _Pocket:
    """Choose states that are worth counting on all rows.

    Every state is tried on a sample. A state is chosen if it makes fewer mistakes there
    than all states before it. If the sample is the whole table, no other state can be
    better than an earlier one, which is never longer. Otherwise the runners-up are
    chosen as well. A sample cannot tell states apart that are wrong about less than one
    row in its size, so a state is also chosen if it was right on a longer run of rows
    than the sample's size and than every state before it.
    """

    def __init__(self, data: LabelledRows, source: RandomSource) -> None:
        n = len(data)
        rows = np.arange(n) if n <= _TRIED_ROWS else source.subset(n, _TRIED_ROWS)
        ranked = rows[np.argsort(-data.y[rows], kind="stable")]
        self._sample = np.ascontiguousarray(_normalised(data.X[ranked]).T)
        self._positive = int(np.count_nonzero(data.y[rows]))
        self._waiting: list[_State] = []
        self._chosen: dict[int, _State] = {}
        self._best: list[tuple[int, int, _State]] = []
        self._n_best = 0 if n <= _TRIED_ROWS else _BEST_STATES
        self._fewest = len(rows) + 1
        self._longest = len(rows)

    def offer(self, state: _State, run: int) -> None:
        """Consider a state; the one before it was right on `run` rows."""
        if run > self._longest:
            self._longest = run
            self._choose(self._waiting[-1])
        if len(self._waiting) >= _TRIED_STATES:
            self._try()
        self._waiting.append(state)

    def chosen(self) -> list[_State]:
        """Return what was chosen, the last state included, in their order."""
        self._choose(self._waiting[-1])
        self._try()
        for *_, state in self._best:
            self._choose(state)
        return [self._chosen[length] for length in sorted(self._chosen)]

    def _choose(self, state: _State) -> None:
        self._chosen[state.length] = state

    def _try(self) -> None:
        waiting, self._waiting = self._waiting, []
        above = np.stack([state.weights for state in waiting]) @ self._sample > 0
        for state, labels in zip(waiting, above, strict=True):
            found = np.count_nonzero(labels[: self._positive])
            false = np.count_nonzero(labels[self._positive :])
            mistakes = int(self._positive - found + false)
            if mistakes < self._fewest:
                self._fewest = mistakes
                self._choose(state)
            # Of equally good states the shorter one; no two have the same length.
            heappush(self._best, (-mistakes, -state.length, state))
            if len(self._best) > self._n_best:
                heappop(self._best)


def _mistakes(
    data: LabelledRows, order: _Order, passes: int
) -> Iterator[tuple[int, Floats, int]]:
    """Yield each mistaken row, the weights after it, and the length of the run before.

    Ends after a pass without mistakes.
    """
    weights = np.zeros(data.X.shape[1] + 1)
    run = gap = 0
    for _ in range(passes):
        clean = True
        for rows in order:
            signed = _normalised(data.X[rows])
            signed *= (2 * data.y[rows] - 1)[:, None]
            place = 0
            while place < len(rows):
                found = _next_mistake(signed, weights, place, 16 + 2 * gap)
                run += found - place
                gap = run
                place = found + 1
                if found < len(rows):
                    clean = False
                    weights = weights + signed[found]
                    yield int(rows[found]), weights, run
                    run = 0
        if clean:
            return


def _next_mistake(signed: Floats, weights: Floats, place: int, window: int) -> int:
    """Return the first place from `place` on that is on the wrong side, or the end.

    Tries `window` rows at first, then twice as many each time.
    """
    while place < len(signed):
        wrong = signed[place : place + window] @ weights <= 0
        first = int(wrong.argmax())
        if wrong[first]:
            return place + first
        place += window
        window *= 2
    return len(signed)


def _count(data: LabelledRows, states: list[_State]) -> list[int]:
    """Return the number of mistakes that each state's decoder makes on all rows."""
    totals = [0] * len(states)
    for start in range(0, len(data), _CACHED_ROWS):
        rows = _normalised(data.X[start : start + _CACHED_ROWS])
        y = data.y[start : start + _CACHED_ROWS] > 0
        for place, state in enumerate(states):
            totals[place] += int(np.count_nonzero(_above(rows, state.weights) != y))
    return totals


def _normalised(X: Floats) -> Floats:
    """Append a constant feature, scale each row to length one, round to the grid."""
    n_rows, d = X.shape
    rows = np.empty((n_rows, d + 1))
    for start in range(0, n_rows, _CACHED_ROWS):
        some = rows[start : start + _CACHED_ROWS]
        some[:, :d] = X[start : start + _CACHED_ROWS]
        some[:, d] = 1.0
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", some, some)
        huge = np.isinf(squares)
        if huge.any():
            some[huge] /= np.abs(some[huge]).max(axis=1, keepdims=True)
            squares[huge] = np.einsum("ij,ij->i", some[huge], some[huge])
        some *= (_GRID / np.sqrt(squares))[:, None]
        np.rint(some, out=some)
        some /= _GRID
    return rows


def _above(rows: Floats, weights: Floats) -> Bools:
    """Return which rows lie on the positive side.

    Computed row by row, so that a row's label does not depend on other rows.
    """
    scores: Floats = np.einsum("ij,j->i", rows, weights)
    return scores > 0


def _labels(X: Floats, weights: Floats) -> Ints:
    """Return the label of each row."""
    labels = np.empty(len(X), dtype=np.int64)
    for start in range(0, len(X), _CACHED_ROWS):
        some = slice(start, start + _CACHED_ROWS)
        labels[some] = _above(_normalised(X[some]), weights)
    return labels
