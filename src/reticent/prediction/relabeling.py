"""Private answers by relabeling the data with a selected hypothesis (P7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._rounding import down, up
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import deal_units
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ApproxDP,
    Assumption,
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    flip_private,
    rule,
)
from reticent.guarantees.numbers import positive, probability, whole
from reticent.hypotheses import HypothesisClass
from reticent.mechanisms import (
    exponential_mechanism,
    flip_labels,
    geometric_vote,
    noise_source,
)
from reticent.prediction.base import (
    checked_one_row_a_unit,
    two_labels,
)
from reticent.prediction.selection import ClassSearch, SelectionResponse
from reticent.prediction.shards import choose_shards

_MOST_SUBSETS = 20_000
# Part of epsilon for selection and vote together; the rest pays for the subset.
_SHARE = 0.5


def net_failure(n: int, subset: int, eta: float, growth: tuple[int, int]) -> float:
    """Return the chance that a subset is no `eta`-net, rounded up.

    `growth` bounds the labelings of ``2 (subset - 1)`` and of ``n - 1`` points.
    """
    m = subset - 1
    if m < 1:
        return 1.0
    log_vc = math.log(2) + 2 * math.log(growth[0]) - eta * m / 2 * math.log(2)
    others, marked = n - 1, math.floor(down(eta * (n - 1))) + 1
    if others - marked < m:
        return 0.0
    pairs = math.log(growth[1]) + math.log(max(1, growth[1] - 1)) - math.log(2)
    missed = (
        math.lgamma(others - marked + 1)
        - math.lgamma(others - marked - m + 1)
        - math.lgamma(others + 1)
        + math.lgamma(others - m + 1)
    )
    # lgamma is good to about 1e-14 of its size, here at most n ln n.
    doubt = 1e-13 * others * math.log(others + 2)
    return min(1.0, up(math.exp(min(0.0, min(log_vc, pairs + missed) + doubt))))


@rule(
    "P7",
    name="relabel and re-learn",
    statement="(3/(eta n) + ln(1 + 4 e^{3c} n'/(n - n')), (n'/n) beta_net), or "
    "(3/(eta n), n'/n) without a net",
    source="S2 Thm 2",
    paper="c = 2",
    gives=ApproxDP,
)
def relabeled(
    *,
    n: int,
    subset: int,
    eta: float,
    growth: tuple[int, int],
    net: bool,
    public_labels: bool,
    seeded: bool,
) -> Conclusion[ApproxDP]:
    """Certify one answer of a vote over data relabeled by a selected hypothesis."""
    n, subset = whole("rule P7", "n", n), whole("rule P7", "subset", subset)
    eta = positive("rule P7", "eta", eta)
    if not subset < n:
        raise RuleError(f"rule P7 needs subset < n; got subset={subset}, n={n}.")
    epsilon, delta = 3 / (eta * n), subset / n
    if net:
        c = (eta * (n - 1) + 1) / (eta * n)
        if c > 200:
            raise RuleError(f"rule P7 says nothing with a net at eta={eta!r}, n={n}.")
        epsilon += math.log1p(4 * math.exp(3 * c) * subset / (n - subset))
        first, second = (whole("rule P7", "growth", count) for count in growth)
        delta *= net_failure(n, subset, eta, (first, second))
    return Conclusion(
        ApproxDP(up(epsilon), up(delta)),
        ReplaceOne(n),
        Scope.ANSWER,
        Assumption.collect((PUBLIC_LABELS, public_labels), (SEEDED_NOISE, seeded)),
    )


@dataclass(frozen=True)
class RelabelingPlan:
    """Size of the subset, `eta`, and whether the certificate uses the net."""

    subset: int
    eta: float
    net: bool


class RelabelingClassifier(ClassifierMixin, BaseEstimator):
    r"""Binary classifier that relabels the data by a fresh hypothesis and votes.

    Each answer draws a subset, picks one of the hypotheses that tell its points apart
    by the exponential mechanism, relabels all data with it, lets learners on disjoint
    shards learn the relabeled data, and votes privately; the answer is flipped with a
    small probability.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, from `reticent.hypotheses`.
    epsilon : float
        Privacy cost of one answer.
    flip : float, default=0.05
        Probability of a flipped answer, which makes the promise a pure one.
    n_shards : int or "auto", default="auto"
        Number of shards of the vote.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises.
    plan_ : RelabelingPlan
        Size of the subset and `eta`; public.
    classes_, n_units_, n_shards_
        As for the other predictors.

    Guarantee
    ---------
    P7, then G4: `epsilon`-DP for one answer. Everything random is drawn anew for every
    query. The constant is the proof's own; for thresholds `StableSelectionClassifier`
    did better in every setting tried.

    References
    ----------
    :cite:`DaganFeldman2020`, Thm 2; THEOREMS P7.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "flip": [Interval(Real, 0, 0.5, closed="neither")],
        "n_shards": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        hypotheses: Any,
        epsilon: float = 1.0,
        *,
        flip: float = 0.05,
        n_shards: int | str = "auto",
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.flip = flip
        self.n_shards = n_shards
        self.classes = classes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Prepare the data and issue the certificate; nothing is released.

        Parameters
        ----------
        X, y, units
            As for `StableSelectionClassifier`: one row a unit, two labels.
        """
        if not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidParameterError(
                f"hypotheses={self.hypotheses!r} must be a class of "
                "reticent.hypotheses, such as Thresholds()."
            )
        rows = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels("Relabeling", self.classes, rows, y)
        n = len(rows)
        checked_one_row_a_unit("relabeling", units, n)
        source = noise_source(self.random_state)
        family = self.hypotheses.on(rows.shape[1])
        facts = {"public_labels": self.classes is None, "seeded": source.seeded}
        self.plan_, self.certificate_ = _plan(
            n, self.epsilon, self.flip, family, **facts
        )
        # The vote's epsilon is one of the three steps of size 1/(eta n).
        self._vote_epsilon = down(1 / (self.plan_.eta * n))
        choice = choose_shards(
            self.n_shards,
            n_units=n,
            n_labels=2,
            epsilon=self._vote_epsilon,
            estimator=family,
        )
        self.n_shards_ = choice.n_shards
        shard_of_row = deal_units(n, choice.n_shards, source)
        self._shards = [
            np.flatnonzero(shard_of_row == s) for s in range(self.n_shards_)
        ]
        self.classes_ = labels.classes
        self.n_units_ = n
        self._source = source
        self._search = ClassSearch(family, rows, labels.indices(y))
        return self

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one answer a row, each from its own subset, hypothesis and vote."""
        check_is_fitted(self)
        queries = validate_data(self, X, dtype=np.float64, reset=False)
        answers = np.array([self._answer(row) for row in queries], dtype=np.int64)
        flipped = flip_labels(answers, self.flip, self._source)
        return np.asarray(self.classes_[flipped])

    def response(self, X: MatrixLike) -> SelectionResponse:
        """Return the exact law by going through all subsets: for small data only."""
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
            for chance, hypothesis in zip(law, candidates, strict=True):
                votes = self._votes(hypothesis, queries)
                answer = geometric_vote(votes, self._vote_epsilon)
                total += chance * answer.probabilities[:, 1]
        ones = total / math.comb(n, size)
        return SelectionResponse(self.flip + (1 - 2 * self.flip) * ones)

    def _selection(self, candidates: Any) -> Any:
        # exp(-L/eta) with L the mean of mistakes: a factor e^{1/(eta n)} a mistake.
        mistakes = self._search.mistakes(candidates)
        return exponential_mechanism(
            -mistakes, 2 * self._vote_epsilon, bound=self.n_units_
        )

    def _votes(
        self, hypothesis: Any, queries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        family, rows = self._search.hypotheses, self._search.X
        relabeled_y = family.predict(hypothesis, rows)
        ones = np.zeros(len(queries), dtype=np.int64)
        for shard in self._shards:
            learned = family.minimise(rows[shard], relabeled_y[shard]).hypothesis
            ones += family.predict(learned, queries)
        return np.stack([self.n_shards_ - ones, ones], axis=1)

    def _hypothesis(self) -> Any:
        # Trap 2: everything random is drawn anew for every query.
        subset = self._source.subset(self.n_units_, self.plan_.subset)
        candidates = self._search.candidates(subset)
        (index,) = self._selection(candidates).draw(self._source)
        return candidates[int(index)]

    def _answer(self, row: NDArray[np.float64]) -> int:
        votes = self._votes(self._hypothesis(), row[None, :])
        (answer,) = geometric_vote(votes, self._vote_epsilon).draw(self._source)
        return int(answer)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags


def _plan(
    n: int,
    epsilon: float,
    flip: float,
    family: Any,
    *,
    public_labels: bool,
    seeded: bool,
) -> tuple[RelabelingPlan, Certificate[Any]]:
    """Return the largest subset whose flipped certificate is at most `epsilon`."""
    epsilon = positive("RelabelingClassifier", "epsilon", epsilon)
    flip = probability("RelabelingClassifier", "flip", flip)
    eta = 3 / (_SHARE * epsilon * n)

    def certify(subset: int, net: bool) -> Certificate[Any]:
        growth = (
            (family.growth(max(1, 2 * (subset - 1))), family.growth(max(1, n - 1)))
            if net
            else (1, 1)
        )
        premise = relabeled(
            n=n,
            subset=subset,
            eta=eta,
            growth=growth,
            net=net,
            public_labels=public_labels,
            seeded=seeded,
        )
        return flip_private(premise, p=flip)

    def largest(net: bool) -> int:
        low, high = 0, n
        while high - low > 1:
            middle = (low + high) // 2
            try:
                fits = certify(middle, net).guarantee.epsilon <= epsilon
            except RuleError:
                fits = False
            low, high = (middle, high) if fits else (low, middle)
        return low

    # With a net the promise first improves with the subset, so the search finds a
    # subset that fits, not always the largest; without, it is monotone.
    best = max(((largest(net), net) for net in (False, True)), key=lambda pair: pair[0])
    if best[0] < 1:
        raise InvalidParameterError(
            f"epsilon={epsilon!r} with flip={flip!r} leaves no subset of n={n} units. "
            "Use more units, a larger epsilon or a larger flip."
        )
    subset, net = best
    return RelabelingPlan(subset, eta, net), certify(subset, net)
