"""Stable and private answers by selecting a fresh hypothesis each time (P5, P6)."""

from __future__ import annotations

import math
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._sklearn import Interval, MatrixLike, fit_context
from reticent.errors import InvalidParameterError
from reticent.guarantees import Certificate
from reticent.hypotheses import HypothesisClass
from reticent.mechanisms import (
    exponential_mechanism,
    flip_labels,
    noise_source,
)
from reticent.prediction.base import (
    checked_one_row_a_unit,
    two_labels,
)
from reticent.prediction.stability import (
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


class ClassSearch:
    """Data prepared for counting mistakes of many candidates, query after query."""

    def __init__(self, hypotheses: Any, X: NDArray[Any], y: NDArray[np.int64]) -> None:
        self.hypotheses = hypotheses
        self.X = X
        self._data: tuple[Any, ...] = (X, y)
        if hasattr(hypotheses, "presort"):
            self._data = (hypotheses.presort(X).tally(y),)

    def candidates(self, subset: NDArray[np.int64]) -> Any:
        """Return one representative per labeling of the subset's points."""
        return self.hypotheses.project(self.X[subset])

    def mistakes(self, candidates: Any) -> NDArray[np.int64]:
        """Count every candidate's mistakes on all the data."""
        return np.asarray(candidates.mistakes(*self._data))


class StableSelectionClassifier(ClassifierMixin, BaseEstimator):
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
    hypothesis for two queries would cost more than the sum of both.

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
        if not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidParameterError(
                f"hypotheses={self.hypotheses!r} must be a class of "
                "reticent.hypotheses, such as Thresholds()."
            )
        rows = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels("Stable selection", self.classes, rows, y)
        n = len(rows)
        checked_one_row_a_unit("stable selection", units, n)
        source = noise_source(self.random_state)
        self.plan_ = self._plan(n)
        selected = stable_selection(
            n=n,
            subset=self.plan_.subset,
            exponent=self.plan_.exponent,
            public_labels=self.classes is None,
            seeded=source.seeded,
        )
        self.certificate_: Certificate[Any] = (
            selected
            if self.epsilon is None
            else private_from_stable(selected, p=self.plan_.flip)
        )
        self.classes_ = labels.classes
        self.n_units_ = n
        self._source = source
        self._search = ClassSearch(
            self.hypotheses.on(rows.shape[1]), rows, labels.indices(y)
        )
        return self

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one answer a row, each from its own subset and hypothesis."""
        check_is_fitted(self)
        queries = validate_data(self, X, dtype=np.float64, reset=False)
        answers = np.array([self._answer(row) for row in queries], dtype=np.int64)
        if self.plan_.flip > 0:
            answers = flip_labels(answers, self.plan_.flip, self._source)
        return np.asarray(self.classes_[answers])

    def response(self, X: MatrixLike) -> SelectionResponse:
        """Return the exact law by going through all subsets: for small data only.

        Raises
        ------
        InvalidParameterError
            If there are more than 200,000 subsets.
        """
        check_is_fitted(self)
        queries = validate_data(self, X, dtype=np.float64, reset=False)
        n, size = self.n_units_, self.plan_.subset
        if math.comb(n, size) > _MOST_SUBSETS:
            raise InvalidParameterError(
                f"the exact law needs all subsets of {size} of n={n} units, more than "
                f"{_MOST_SUBSETS}. It is for small data; use predict."
            )
        total = np.zeros(len(queries))
        for chosen in combinations(range(n), size):
            candidates = self._search.candidates(np.array(chosen))
            law = self._selection(candidates).probabilities[0]
            total += law @ candidates.predict(queries)
        ones = total / math.comb(n, size)
        return SelectionResponse(self.plan_.flip + (1 - 2 * self.plan_.flip) * ones)

    def _plan(self, n: int) -> SelectionPlan:
        if (self.stability is None) == (self.epsilon is None):
            raise InvalidParameterError(
                "give one of stability and epsilon; got "
                f"stability={self.stability!r}, epsilon={self.epsilon!r}."
            )
        if self.epsilon is None:
            return plan_for_stability(n, float(self.stability or 0.0))
        return plan_for_privacy(n, self.epsilon, self.flip)

    def _selection(self, candidates: Any) -> Any:
        mistakes = self._search.mistakes(candidates)
        return exponential_mechanism(
            -mistakes, self.plan_.exponent, bound=self.n_units_
        )

    def _hypothesis(self) -> Any:
        # Trap 2: everything random is drawn anew for every query.
        subset = self._source.subset(self.n_units_, self.plan_.subset)
        candidates = self._search.candidates(subset)
        (index,) = self._selection(candidates).draw(self._source)
        return candidates[int(index)]

    def _answer(self, row: NDArray[np.float64]) -> int:
        hypothesis = self._hypothesis()
        return int(self._search.hypotheses.predict(hypothesis, row[None, :])[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags
