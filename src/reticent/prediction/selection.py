"""Stable and private answers by selecting a fresh hypothesis each time (P5, P6)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from reticent._sklearn import Interval, MatrixLike, fit_context
from reticent.errors import InvalidParameterError
from reticent.estimators import require_one_row_per_unit, two_labels
from reticent.hypotheses import HypothesisClass
from reticent.mechanisms import (
    exponential_mechanism,
    flip_labels,
    noise_source,
)
from reticent.prediction.class_search import ClassSearch, all_subsets
from reticent.prediction.law import AnswerLaw, LawfulPredictor, blank_of
from reticent.prediction.selection_rules import (
    SelectionPlan,
    plan_for_privacy,
    plan_for_stability,
    private_from_stable,
    stable_selection,
)

# More subsets than this are not enumerated for an exact law.
_MOST_SUBSETS = 200_000


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
class SelectionLaw(AnswerLaw):
    """The law of answers by a fresh subset and a fresh hypothesis (P5, P6).

    Attributes
    ----------
    blank : object
        Number and names of the columns of queries, see `blank_of`.
    plan : SelectionPlan
        Size of the subset, exponent and flip probability.
    search : ClassSearch
        The class and the data. Not private.
    """

    blank: Any
    plan: SelectionPlan
    search: ClassSearch

    def queries(self, X: MatrixLike) -> NDArray[np.float64]:
        """Check queries, by public facts alone."""
        rows = validate_data(self.blank, X, dtype=np.float64, reset=False)
        self.search.check_queries(rows)
        return np.asarray(rows)

    def draw(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one answer per row, each from its own subset and hypothesis."""
        queries = self.queries(X)
        answers = [self.said(self.hypothesis(), row[None, :])[0] for row in queries]
        return self.flipped(np.array(answers, dtype=np.int64))

    def response(self, X: MatrixLike) -> SelectionResponse:
        """Return the exact law by going through all subsets: for small data only.

        Raises
        ------
        InvalidParameterError
            If there are more than 200,000 subsets.
        """
        queries = self.queries(X)
        subsets = all_subsets(self.search.n, self.plan.subset, _MOST_SUBSETS)
        total, count = np.zeros(len(queries)), 0
        for subset in subsets:
            count += 1
            listed = self.search.candidates(subset)
            if listed is not None:
                candidates, mistakes = listed
                law = self.selection(mistakes).probabilities[0]
                total += law @ [self.said(each, queries) for each in candidates]
        flip = self.plan.flip
        return SelectionResponse(flip + (1 - 2 * flip) * total / count)

    def selection(self, mistakes: NDArray[np.int64]) -> Any:
        """Return the law of the candidate that is picked, by their mistakes."""
        return exponential_mechanism(-mistakes, self.plan.exponent, bound=self.search.n)

    def hypothesis(self) -> Any:
        """Draw a subset and a hypothesis; None if the subset has no candidates."""
        # Trap 2: everything random is drawn anew for every query.
        listed = self.search.candidates(
            self.source.subset(self.search.n, self.plan.subset)
        )
        if listed is None:
            return None
        candidates, mistakes = listed
        (index,) = self.selection(mistakes).draw(self.source)
        return candidates[int(index)]

    def said(self, hypothesis: Any, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what a hypothesis says to rows; the first label if it cannot."""
        return self.search.said(hypothesis, rows)

    def flipped(self, answers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the labels of answers, each flipped with its probability."""
        if self.plan.flip > 0:
            answers = flip_labels(answers, self.plan.flip, self.source)
        return self._named(answers)


class StableSelectionClassifier(ClassifierMixin, LawfulPredictor):
    r"""Binary classifier that draws a subset and a hypothesis anew for each answer.

    A uniform subset of the units gives the candidates: one hypothesis for each way the
    class labels its points. The exponential mechanism picks one by its mistakes on all
    the data, and it answers. Given `stability`, that is all; given `epsilon`, the
    answer is flipped with a small probability, which makes it private.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, from `reticent.hypotheses`.
    stability : float, default=None
        Certify an answer whose law moves by at most this much.
    epsilon : float, default=None
        Certify an `epsilon`-DP answer instead; give one of the two.
    flip : float, default=0.05
        Probability of a flipped answer, if `epsilon` is given. It adds to the error,
        and a smaller one leaves less room for the rest.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises: `UniformStability`, or `PureDP`.
    plan_ : SelectionPlan
        Size of the subset, exponent and flip probability; public.
    classes_, n_units_
        As for the other predictors.

    Guarantee
    ---------
    P5 and P6. Every query redraws the subset, the hypothesis and the flip: reusing one
    hypothesis for two queries would cost more than the sum of both. A query never
    fails because of a record: if the labelings of the drawn subset cannot be listed,
    or the drawn hypothesis has no answer, the answer is the first label. *Proof* that
    this costs nothing. Whether a subset can be listed depends on its own points alone.
    A unit outside of it moves nothing then; a unit inside is already counted, with the
    share `q`, as moving everything. What a hypothesis says is post-processing.

    References
    ----------
    :cite:`DaganFeldman2020`, Thm 1 and Cor. 1; THEOREMS P5, P6.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = (X[:, 0] > 0.3).astype(int)
    >>> model = StableSelectionClassifier(Thresholds(), epsilon=1.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for one answer, replace one unit of 400; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass],
        "stability": [Interval(Real, 0, 1, closed="neither"), None],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "flip": [Interval(Real, 0, 0.5, closed="neither")],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        hypotheses: Any,
        stability: float | None = None,
        epsilon: float | None = None,
        *,
        flip: float = 0.05,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.stability = stability
        self.epsilon = epsilon
        self.flip = flip
        self.classes = classes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Prepare the data and issue the certificate; nothing is released.

        Parameters
        ----------
        X : array-like of shape (n_units, n_features)
            One row a unit.
        y : array-like of shape (n_units,)
            Two labels.
        units : array-like of shape (n_units,), default=None
            Ids of units, all different.
        """
        rows = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels("Stable selection", self.classes, rows, y)
        n = len(rows)
        require_one_row_per_unit("stable selection", units, n)
        source = noise_source(self.random_state)
        plan = self._plan(n)
        search = ClassSearch.of(
            "StableSelectionClassifier", self.hypotheses, rows, labels.indices(y)
        )
        search.rehearse(plan.subset)
        selected = stable_selection(
            n=n,
            subset=plan.subset,
            exponent=plan.exponent,
            labels_from_data=self.classes is None,
            seeded=source.seeded,
        )
        self.law_ = SelectionLaw(
            certificate=(
                selected
                if self.epsilon is None
                else private_from_stable(selected, p=plan.flip)
            ),
            source=source,
            classes=labels.classes,
            blank=blank_of(self),
            plan=plan,
            search=search,
        )
        self.plan_ = plan
        self.classes_ = self.law_.classes
        self.n_units_ = n
        return self

    def _plan(self, n: int) -> SelectionPlan:
        if (self.stability is None) == (self.epsilon is None):
            raise InvalidParameterError(
                "give one of stability and epsilon; got "
                f"stability={self.stability!r}, epsilon={self.epsilon!r}."
            )
        if self.epsilon is None:
            return plan_for_stability(n, float(self.stability or 0.0))
        return plan_for_privacy(n, self.epsilon, self.flip)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags
