"""Answers by a hypothesis that is drawn again for every query (P5, P6, P7)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidParameterError
from reticent.estimators import Labels, UnitIds, require_one_row_per_unit, two_labels
from reticent.hypotheses import HypothesisClass, cover_of
from reticent.mechanisms import exponential_mechanism, flip_labels
from reticent.prediction.law import AnswerLaw, LawfulPredictor, Locked


@dataclass(frozen=True, eq=False, repr=False)
class ClassSearch(Locked):
    """Data prepared for counting mistakes of many candidates, query after query."""

    hypotheses: Any  # a copy of the class, for rows with the columns of `X`
    X: NDArray[np.float64]  # shape (n, d); a copy of the rows
    data: tuple[Any, ...]  # what a projection counts mistakes on
    # Share of a subset's points by which labelings may differ from a candidate's.
    cover: float = 0.0

    @classmethod
    def of(
        cls, owner: str, hypotheses: Any, X: NDArray[Any], y: NDArray[np.int64]
    ) -> Self:
        """Copy and prepare rows and labels in {0, 1}."""
        if not isinstance(hypotheses, HypothesisClass):
            raise InvalidParameterError(
                f"hypotheses={hypotheses!r} of {owner} must be a class of "
                "reticent.hypotheses, such as Thresholds()."
            )
        family = deepcopy(hypotheses.on(X.shape[1]))
        rows = np.array(X)
        if hasattr(family, "presort"):
            return cls(family, rows, (family.presort(rows).tally(y),))
        return cls(family, rows, (rows, np.array(y)))

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.X)

    def rehearse(self, size: int) -> None:
        """Refuse, at fit, rows that the class does not take or cannot list.

        Otherwise a query would meet them later, and a failure would then reveal
        something about a record.
        """
        first = self.hypotheses.project(self.X[:size])
        first.mistakes(*self.data)
        self.hypotheses.predict(first[0], self.X)

    def check_queries(self, rows: NDArray[np.float64]) -> None:
        """Refuse queries that the class does not take, which is public."""
        for row in rows:
            self.hypotheses.project(row[None, :])

    def candidates(
        self, subset: NDArray[np.int64]
    ) -> tuple[Any, NDArray[np.int64]] | None:
        """Return representatives of the labelings of a subset, and their mistakes.

        One for each labeling, or a cover: a function of the subset's points alone. None
        if the labelings of the subset's points cannot be listed, because an error would
        reveal something about a record. That depends on the points of the subset alone.
        """
        try:
            found = self.hypotheses.project(self.X[subset])
            mistakes = np.asarray(found.mistakes(*self.data))
            kept = cover_of(found, self.cover) if self.cover > 0 else None
        except Exception:  # noqa: BLE001
            return None
        if kept is None:
            return found, mistakes
        return [found[int(place)] for place in kept], mistakes[kept]

    def said(self, hypothesis: Any, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what a hypothesis says to rows; 0 to all of them if it cannot."""
        silent = np.zeros(len(rows), dtype=np.int64)
        if hypothesis is None:
            return silent
        try:
            return silent + self.hypotheses.predict(hypothesis, rows)
        except Exception:  # noqa: BLE001 - which hypothesis was drawn is private
            return silent


class SelectionResponse:
    """The exact law of answers, averaged over all subsets.

    Attributes
    ----------
    probabilities, log_probabilities : ndarray of shape (n, 2)
        Of the two labels.
    """

    def __init__(self, ones: NDArray[np.float64]) -> None:
        self.probabilities = np.stack([1 - ones, ones], axis=1)

    @property
    def log_probabilities(self) -> NDArray[np.float64]:
        """Natural logarithms; minus infinity for a label that cannot occur."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FreshHypothesisLaw(AnswerLaw):
    """A law that draws a subset and a hypothesis for every query."""

    #: More subsets than this are not enumerated for an exact law.
    most_subsets: ClassVar[int]

    blank: Any  # number and names of the columns of queries, see `blank_of`
    plan: Any  # size of the subset, among others
    flip: float  # probability of a flipped answer
    exponent: float  # exponent of the exponential mechanism that picks a hypothesis
    search: ClassSearch  # The class and the data. Not private.

    @abstractmethod
    def answers(
        self, hypothesis: Any, queries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Draw the answers of a hypothesis, before flips: 0 or 1 per query.

        The hypothesis is None if the drawn subset has no candidates.
        """

    @abstractmethod
    def ones(self, hypothesis: Any, queries: NDArray[np.float64]) -> NDArray[Any]:
        """Return the probability that `answers` are 1."""

    def check(self, X: MatrixLike) -> None:
        """Refuse rows that the class of hypotheses does not take."""
        self.queries(X)

    def queries(self, X: MatrixLike) -> NDArray[np.float64]:
        """Check queries, by public facts alone."""
        rows = validate_data(self.blank, X, dtype=np.float64, reset=False)
        self.search.check_queries(rows)
        return np.asarray(rows)

    def draw(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one answer per row, each from its own subset and hypothesis."""
        rows = self.queries(X)
        answers = [self.answers(self.hypothesis(), row[None, :])[0] for row in rows]
        return self.flipped(np.array(answers, dtype=np.int64))

    def response(self, X: MatrixLike) -> SelectionResponse:
        """Return the exact law by going through all subsets: for small data only.

        Raises
        ------
        InvalidParameterError
            If there are more than `most_subsets`.
        """
        queries = self.queries(X)
        subsets = all_subsets(self.search.n, self.plan.subset, self.most_subsets)
        total, count = np.zeros(len(queries)), 0
        for subset in subsets:
            count += 1
            listed = self.search.candidates(subset)
            if listed is None:
                total += self.ones(None, queries)
                continue
            candidates, mistakes = listed
            law = self.selection(mistakes).probabilities[0]
            total += law @ [self.ones(each, queries) for each in candidates]
        return SelectionResponse(self.flip + (1 - 2 * self.flip) * total / count)

    def selection(self, mistakes: NDArray[np.int64]) -> Any:
        """Return the law of the candidate that is picked, by their mistakes."""
        return exponential_mechanism(-mistakes, self.exponent, bound=self.search.n)

    def hypothesis(self) -> Any:
        """Draw a subset and a hypothesis; None if the subset has no candidates."""
        # Trap 2: everything random is drawn again for every query.
        listed = self.search.candidates(
            self.source.subset(self.search.n, self.plan.subset)
        )
        if listed is None:
            return None
        candidates, mistakes = listed
        (index,) = self.selection(mistakes).draw(self.source)
        return candidates[int(index)]

    def flipped(self, answers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the labels of answers, each flipped with its probability."""
        if self.flip > 0:
            answers = flip_labels(answers, self.flip, self.source)
        return self._named(answers)


class FreshHypothesisClassifier(ClassifierMixin, LawfulPredictor):
    """A binary classifier whose law draws a hypothesis for every query.

    Subclasses set the constructor parameters `hypotheses` and `classes`.
    """

    def _prepared(
        self, X: MatrixLike, y: MatrixLike, units: UnitIds, what: str
    ) -> tuple[Labels, ClassSearch]:
        """Check rows, labels and units; prepare the class for counting mistakes."""
        rows = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels(what, self.classes, rows, y)
        require_one_row_per_unit(what.lower(), units, len(rows))
        name = type(self).__name__
        return labels, ClassSearch.of(name, self.hypotheses, rows, labels.indices(y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags


def all_subsets(n: int, size: int, most: int) -> Iterator[NDArray[np.int64]]:
    """Return all subsets of `size` of `n` units, or refuse more than `most`."""
    if math.comb(n, size) > most:
        raise InvalidParameterError(
            f"the exact law needs all subsets of {size} of n={n} units, more than "
            f"{most}. It is for small data; use predict."
        )
    return (np.array(chosen) for chosen in combinations(range(n), size))
