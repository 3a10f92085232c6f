"""Boosting any weak learner, decoded from the few examples of each round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from math import comb, log
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from reticent._arrays import Floats, Ints
from reticent.generalization.compression.kept_examples import canonical_order
from reticent.generalization.compression.scheme import (
    Candidate,
    LabelledRows,
    Labelling,
    Scheme,
    at_least,
    fitted,
)
from reticent.generalization.compression.side_information import (
    BitReader,
    BitWriter,
    width,
)
from reticent.mechanisms import RandomSource

# Vote weights lie in (0, _HEAVIEST), the weight of a weighted error of 2 %.
_HEAVIEST = 4.0
_FLOAT_BITS = 53


@dataclass(eq=False, repr=False)
class BoostingScheme(Scheme):
    """A weighted vote of weak learners, each fitted on a few examples.

    Parameters
    ----------
    estimator : estimator or None, default=None
        The weak learner, any scikit-learn classifier; None is a decision tree of
        depth 2.
    rounds : int, default=10
        The largest number of rounds.
    examples : int, default=5
        Examples that each weak learner is fitted on.
    weight_bits : int, default=3
        Bits that each vote weight takes; 0 makes all votes equal.
    draws : int, default=10
        Sets of examples that are tried in each round.

    Notes
    -----
    Rounds follow AdaBoost, in the form for several classes (SAMME): examples that the
    vote gets wrong weigh more, and the next round's examples are drawn by these
    weights. Every class of finite VC dimension is learned in this way from O(d log n)
    examples (S3 Thm 25 and 26). The kept examples are the distinct examples of all
    rounds. Side information states the number of rounds, which of the kept examples
    each round was fitted on, and the rounded vote weights.
    """

    estimator: Any = None
    _: KW_ONLY
    rounds: int = 10
    examples: int = 5
    weight_bits: int = 3
    draws: int = 10

    def check(self) -> None:
        """Refuse numbers below what a vote needs."""
        for name in ("rounds", "examples", "draws"):
            at_least(self, name, 1)
        at_least(self, "weight_bits", 0)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the examples of all rounds together."""
        return min(n_rows, self.rounds * self.examples)

    def sizes(self, most: int) -> int:
        """Return how many numbers of kept examples are possible."""
        return most

    def most_bits(self, most: int) -> int:
        """Return the bits of as many rounds as there may be."""
        return width(self.rounds) + self.rounds * self._round_bits(most)

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield the vote after each round."""
        size = min(self.examples, len(data), most)
        importance = np.ones(len(data))
        scores = np.zeros((len(data), data.n_classes))
        rounds: list[_Round] = []
        used: set[int] = set()
        for _ in range(self.rounds):
            pool = importance
            if len(used) + size > most:  # no room for new examples
                pool = np.zeros(len(data))
                pool[list(used)] = importance[list(used)]
            found = self._best_round(data, importance, pool, size, source)
            if rounds and not found.level >= 0:
                break  # no better than guessing
            rounds.append(found)
            used |= set(found.rows.tolist())
            vote = self._weight(max(found.level, 0))
            scores[np.arange(len(data)), found.labels] += vote
            importance = importance * np.exp(vote * (found.labels != data.y))
            importance /= importance.max()
            labels = scores.argmax(axis=1)
            yield self._vote(data, tuple(rounds), len(used), data.mistakes(labels))

    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Fit every weak learner again and let them vote."""
        size = min(self.examples, len(kept))
        voters: list[tuple[float, Labelling]] = []
        for _ in range(side.read(choices=self.rounds) + 1):
            rows = side.read_subset(size, of=len(kept))
            level = side.read(choices=2**self.weight_bits)
            voters.append((self._weight(level), self._fit(kept.take(rows))))

        def labels(X: Floats) -> Ints:
            scores = np.zeros((len(X), kept.n_classes))
            for weight, voter in voters:
                scores[np.arange(len(X)), voter(X)] += weight
            return scores.argmax(axis=1)

        return labels

    def _best_round(
        self,
        data: LabelledRows,
        importance: Floats,
        pool: Floats,
        size: int,
        source: RandomSource,
    ) -> _Round:
        """Return the set of examples with the least weighted error among several."""
        tried = []
        for _ in range(self.draws):
            rows = _drawn(pool, size, source)
            own = data.take(rows)
            rows = rows[canonical_order(own.X, own.y)]
            labels = self._fit(data.take(rows))(data.X)
            error = float(importance[labels != data.y].sum() / importance.sum())
            tried.append((error, rows, labels))
        error, rows, labels = min(tried, key=lambda attempt: attempt[0])
        return _Round(rows, labels, self._level(error, data.n_classes))

    def _fit(self, kept: LabelledRows) -> Labelling:
        weak = DecisionTreeClassifier(max_depth=2)
        return fitted(weak if self.estimator is None else self.estimator, kept)

    def _level(self, error: float, n_classes: int) -> int:
        """Round SAMME's vote weight down to a level; negative if it is not positive."""
        error = min(max(error, 1e-9), 1 - 1e-9)
        weight = log((1 - error) / error) + log(n_classes - 1)
        if not weight > 1e-9:
            return -1
        levels = 2**self.weight_bits
        return min(levels - 1, int(weight / _HEAVIEST * levels))

    def _weight(self, level: int) -> float:
        """Return the vote weight of a level: the middle of its range."""
        return float((level + 0.5) * _HEAVIEST / 2**self.weight_bits)

    def _round_bits(self, n_kept: int) -> int:
        size = min(self.examples, n_kept)
        return width(comb(n_kept, size)) + self.weight_bits

    def _vote(
        self, data: LabelledRows, rounds: tuple[_Round, ...], n_kept: int, mistakes: int
    ) -> Candidate:
        def finish() -> tuple[Ints, str]:
            kept = np.unique(np.concatenate([found.rows for found in rounds]))
            own = data.take(kept)
            kept = kept[canonical_order(own.X, own.y)]
            place = {int(row): index for index, row in enumerate(kept)}
            writer = BitWriter()
            writer.write(len(rounds) - 1, choices=self.rounds)
            for found in rounds:
                members = [place[int(row)] for row in found.rows]
                writer.write_subset(members, of=len(kept))
                writer.write(max(found.level, 0), choices=2**self.weight_bits)
            return kept, writer.bits

        bits = width(self.rounds) + len(rounds) * self._round_bits(n_kept)
        return Candidate(n_kept, bits, mistakes, finish)


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """One weak learner: its training rows, its labels, the level of its vote weight."""

    rows: Ints
    labels: Ints
    level: int


def _drawn(importance: Floats, size: int, source: RandomSource) -> Ints:
    """Draw different rows, one after the other, with chances by importance.

    The smallest of independent exponential waiting times come first (Efraimidis and
    Spirakis 2006). The certificate does not depend on how examples are drawn.
    """
    words = source.words(len(importance)) >> np.uint64(64 - _FLOAT_BITS)
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-_FLOAT_BITS
    waiting = -np.log(uniform) / np.maximum(importance, 1e-300)  # zero: last
    return np.sort(np.argpartition(waiting, size - 1)[:size]).astype(np.int64)
