"""Schemes that refit an estimator on the examples they keep."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from reticent._arrays import Ints
from reticent.errors import InvalidParameterError
from reticent.generalization.compression.kept_examples import canonical_order
from reticent.generalization.compression.scheme import (
    Candidate,
    LabelledRows,
    Labelling,
    Scheme,
    at_least,
    fitted,
    kept_rows,
)
from reticent.generalization.compression.side_information import BitReader
from reticent.mechanisms import RandomSource

# Rows of a large table on which machines are compared.
_TRIED_ROWS = 5000

# One row in this many of a machine is reserved for the classes, in equal parts: a
# random set may have no row of a rare class.
_RARE_SHARE = 20


class _RefittingScheme(Scheme):
    """A scheme whose decoder only fits an estimator on the kept examples."""

    def sizes(self, most: int) -> int:
        """Return how many numbers of kept examples are possible."""
        return most

    def most_bits(self, most: int) -> int:
        """Return 0: the examples suffice."""
        return 0

    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Fit the estimator on the kept examples."""
        return fitted(self._estimator(), kept)

    @abstractmethod
    def _estimator(self) -> Any:
        """Return the estimator that is fitted on the kept examples."""

    def _candidate(self, data: LabelledRows, rows: Ints) -> Candidate:
        mistakes = data.mistakes(self._decoded(data, rows)(data.X))
        own = data.take(rows)
        return kept_rows(rows[canonical_order(own.X, own.y)], mistakes)

    def _decoded(self, data: LabelledRows, rows: Ints) -> Labelling:
        """Return the hypothesis that is decoded from these rows."""
        own = data.take(rows)
        return self.decode(own.take(canonical_order(own.X, own.y)), BitReader(""))

    def _subsets(
        self, data: LabelledRows, size: int, draws: int, source: RandomSource
    ) -> Iterator[Candidate]:
        for _ in range(draws):
            yield self._candidate(data, np.sort(source.subset(len(data), size)))


@dataclass(eq=False, repr=False)
class SVMScheme(_RefittingScheme):
    """A support vector machine, decoded from its support vectors.

    Parameters
    ----------
    estimator : SVC-like or None, default=None
        Has a `support_` after fitting. None is scikit-learn's `SVC()`.
    draws : int, default=20
        Number of random sets of examples that are tried instead if there are more
        support vectors than may be kept.
    working : int, default=2000
        The largest number of rows that a machine is fitted on, except for a few of rare
        classes. So at most this many are kept of a larger table.
    rounds : int, default=4
        How often the machine of a larger table is fitted again, on its support vectors
        and new rows.

    Notes
    -----
    Examples that are not support vectors have multiplier zero in the dual problem, so
    the support vectors alone have the same solution. Predictions come from the machine
    that was fitted on them, never from the one that saw the rest.

    The time of a machine grows with the square of its rows or faster, so the whole of a
    table of more than `working` rows is only read to count mistakes. Fewer support
    vectors also give a better certificate.
    """

    estimator: Any = None
    _: KW_ONLY
    draws: int = 20
    working: int = 2000
    rounds: int = 4

    def check(self) -> None:
        """Refuse fewer than one draw, two working rows or no round."""
        at_least(self, "draws", 1)
        at_least(self, "working", 2)
        at_least(self, "rounds", 0)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of rows: each may be a support vector."""
        return n_rows

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield support vectors, or random sets if there are too many."""
        if len(np.unique(data.y)) < 2:
            yield self._candidate(data, np.zeros(1, dtype=np.int64))
            return
        if len(data) <= self.working:
            sets = [self._support(data, np.arange(len(data)))]
        else:
            sets = list(self._rounds(data, source))
        small = [rows for rows in sets if len(rows) <= most]
        if not small:
            yield from self._subsets(data, most, self.draws, source)
        for rows in self._promising(data, small, source):
            yield self._candidate(data, rows)

    def _rounds(self, data: LabelledRows, source: RandomSource) -> Iterator[Ints]:
        """Yield the support vectors of machines, each of which sees new rows."""
        most_fresh = min(len(data), self.working * (self.rounds + 1))
        fresh = source.subset(len(data), most_fresh)
        fewest = -(-self.working // (_RARE_SHARE * data.n_classes))
        support = fresh[:0]
        for _ in range(self.rounds + 1):
            new = max(self.working - len(support), -(-self.working // 10))
            kept = source.subset(len(support), min(len(support), self.working - new))
            rows = np.concatenate([support[kept], fresh[:new]])
            fresh = fresh[new:]
            rows = np.append(rows, _rare(data, rows, fewest, source))
            support = self._support(data, rows)
            yield support
            if not len(fresh):
                return

    def _promising(
        self, data: LabelledRows, sets: list[Ints], source: RandomSource
    ) -> list[Ints]:
        """Return the set that does best on some rows, and the smallest."""
        if len(sets) < 2:
            return sets
        some = data.take(source.subset(len(data), min(len(data), _TRIED_ROWS)))
        mistakes = [some.mistakes(self._decoded(data, rows)(some.X)) for rows in sets]
        best = int(np.argmin(mistakes))
        smallest = min(range(len(sets)), key=lambda place: len(sets[place]))
        return [sets[place] for place in sorted({best, smallest})]

    def _support(self, data: LabelledRows, rows: Ints) -> Ints:
        """Return which of the rows are support vectors of a machine fitted on them."""
        own = data.take(rows)
        model = self._estimator().fit(own.X, own.y)
        support = getattr(model, "support_", None)
        if support is None:
            raise InvalidParameterError(
                f"estimator={type(model).__name__} has no support_ after fitting; "
                "SVMScheme needs a machine like sklearn.svm.SVC."
            )
        return np.sort(rows[np.asarray(support, dtype=np.int64)])

    def _estimator(self) -> Any:
        return SVC() if self.estimator is None else clone(self.estimator)


def _rare(data: LabelledRows, rows: Ints, fewest: int, source: RandomSource) -> Ints:
    """Return other rows of the classes that have fewer than `fewest` of `rows`."""
    counts = np.bincount(data.y[rows], minlength=data.n_classes)
    missing = np.maximum(fewest - counts, 0)
    wanted = missing[data.y] > 0
    wanted[rows] = False
    others = np.flatnonzero(wanted)
    others = others[source.permutation(len(others))]
    others = others[np.argsort(data.y[others], kind="stable")]
    labels = data.y[others]
    place = np.arange(len(others)) - np.searchsorted(labels, labels)
    return others[place < missing[labels]]


@dataclass(eq=False, repr=False)
class SubsampleScheme(_RefittingScheme):
    """Any estimator, fitted on the best of several random sets of few examples.

    Parameters
    ----------
    estimator : estimator or None, default=None
        What is fitted; None is a decision tree of depth 3.
    examples : int or None, default=None
        Number of kept examples; None is the square root of the number of rows.
    draws : int, default=20
        Random sets that are tried. The certificate covers all sets at once, so more
        draws cost only time.

    Notes
    -----
    Every class of finite VC dimension is learned in this way (S3 Remark 27), with a
    rate worse than that of boosting.
    """

    estimator: Any = None
    _: KW_ONLY
    examples: int | None = None
    draws: int = 20

    def check(self) -> None:
        """Refuse fewer than one draw or example."""
        at_least(self, "draws", 1)
        if self.examples is not None:
            at_least(self, "examples", 1)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of examples of each draw."""
        asked = self.examples
        return min(n_rows, round(n_rows**0.5) if asked is None else asked)

    def sizes(self, most: int) -> int:
        """Return 1: the number of examples is fixed."""
        return 1

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield random sets of examples."""
        yield from self._subsets(data, most, self.draws, source)

    def _estimator(self) -> Any:
        if self.estimator is None:
            return DecisionTreeClassifier(max_depth=3)
        return self.estimator
