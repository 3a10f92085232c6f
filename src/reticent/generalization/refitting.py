"""Schemes that refit an estimator on the examples they keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from reticent.errors import InvalidParameterError
from reticent.generalization.bits import BitReader
from reticent.generalization.kept import canonical
from reticent.generalization.scheme import (
    Candidate,
    Examples,
    Labelling,
    Scheme,
    at_least,
    fitted,
    kept_rows,
)
from reticent.mechanisms.randomness import RandomSource


class _RefittingScheme(Scheme):
    """A scheme whose decoder fits an estimator on the kept examples, and no more."""

    def sizes(self, most: int) -> int:
        """Return how many numbers of kept examples are possible."""
        return most

    def most_bits(self, most: int) -> int:
        """Return 0: the examples say it all."""
        return 0

    def decode(self, kept: Examples, side: BitReader) -> Labelling:
        """Fit the estimator on the kept examples."""
        return fitted(self._estimator(), kept)

    def _estimator(self) -> Any:
        """Return what is fitted on the kept examples: each scheme has its own."""
        raise NotImplementedError

    def _candidate(self, data: Examples, rows: NDArray[np.int64]) -> Candidate:
        own = data.take(rows)
        rows = rows[canonical(own.X, own.y)]
        decoded = self.decode(data.take(rows), BitReader(""))
        mistakes = data.mistakes(decoded(data.X))
        return kept_rows(rows, mistakes)

    def _subsets(
        self, data: Examples, size: int, draws: int, source: RandomSource
    ) -> Iterator[Candidate]:
        for _ in range(draws):
            yield self._candidate(data, np.sort(source.subset(len(data), size)))


class SVMScheme(_RefittingScheme):
    """A support vector machine, decoded from its support vectors.

    Parameters
    ----------
    estimator : SVC-like or None, default=None
        Has a `support_` after fitting. None is scikit-learn's `SVC()`.
    draws : int, default=20
        If there are more support vectors than may be kept, so many random sets of
        examples are tried instead.

    Notes
    -----
    Examples that are no support vectors have multiplier zero in the dual problem, so
    the support vectors alone have the same solution. What predicts is the machine that
    was fitted on them, never the one that saw the rest.
    """

    def __init__(self, estimator: Any = None, *, draws: int = 20) -> None:
        self.estimator = estimator
        self.draws = draws

    def check(self) -> None:
        """Refuse fewer than one draw."""
        at_least(self, "draws", 1)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of rows: each may be a support vector."""
        return n_rows

    def compress(
        self, data: Examples, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield the support vectors, or random sets if there are too many."""
        if len(np.unique(data.y)) < 2:
            yield self._candidate(data, np.zeros(1, dtype=np.int64))
            return
        model = self._estimator().fit(data.X, data.y)
        support = getattr(model, "support_", None)
        if support is None:
            raise InvalidParameterError(
                f"estimator={type(model).__name__} has no support_ after fitting; "
                "SVMScheme needs a machine like sklearn.svm.SVC."
            )
        rows = np.sort(np.asarray(support, dtype=np.int64))
        if len(rows) <= most:
            yield self._candidate(data, rows)
        else:
            yield from self._subsets(data, most, self.draws, source)

    def _estimator(self) -> Any:
        return SVC() if self.estimator is None else clone(self.estimator)


class SubsampleScheme(_RefittingScheme):
    """Any estimator, fitted on a few examples that happen to suit it.

    Parameters
    ----------
    estimator : estimator or None, default=None
        What is fitted; None is a decision tree of depth 3.
    examples : int or None, default=None
        Number of kept examples; None is the square root of the number of rows.
    draws : int, default=20
        Random sets that are tried. The certificate covers all sets at once, so trying
        more of them costs time only.

    Notes
    -----
    Every class of finite VC dimension is learned in this way (S3 Remark 27), with a
    rate worse than that of boosting.
    """

    def __init__(
        self, estimator: Any = None, *, examples: int | None = None, draws: int = 20
    ) -> None:
        self.estimator = estimator
        self.examples = examples
        self.draws = draws

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
        self, data: Examples, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield random sets of examples."""
        yield from self._subsets(data, most, self.draws, source)

    def _estimator(self) -> Any:
        if self.estimator is None:
            return DecisionTreeClassifier(max_depth=3)
        return self.estimator
