"""Answers by a hypothesis that is drawn again for every query (P5, P6, P7)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from reticent._sklearn import MatrixLike
from reticent.estimators import Labels, require_one_row_per_unit, two_labels
from reticent.mechanisms import exponential_mechanism, flip_labels
from reticent.prediction.class_search import ClassSearch, all_subsets
from reticent.prediction.law import AnswerLaw, LawfulPredictor


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
    """A law that draws a subset and a hypothesis for every query.

    Attributes
    ----------
    blank : object
        Number and names of the columns of queries, see `blank_of`.
    plan : SelectionPlan or RelabelingPlan
        Size of the subset, among others.
    flip : float
        Probability of a flipped answer.
    exponent : float
        Exponent of the exponential mechanism that picks a hypothesis.
    search : ClassSearch
        The class and the data. Not private.
    """

    #: More subsets than this are not enumerated for an exact law.
    most_subsets: ClassVar[int]

    blank: Any
    plan: Any
    flip: float
    exponent: float
    search: ClassSearch

    @abstractmethod
    def answers(
        self, hypothesis: Any, queries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Draw what a hypothesis leads to, before flips: 0 or 1 per query.

        The hypothesis is None if the drawn subset has no candidates.
        """

    @abstractmethod
    def ones(self, hypothesis: Any, queries: NDArray[np.float64]) -> NDArray[Any]:
        """Return the probability that `answers` are 1."""

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
        self, X: MatrixLike, y: MatrixLike, units: Any, what: str
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
