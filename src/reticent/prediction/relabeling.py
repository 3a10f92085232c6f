"""Private answers by relabeling the data with a selected hypothesis (P7)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from reticent._numbers import down
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.estimators import deal_units, require_one_row_per_unit, two_labels
from reticent.hypotheses import HypothesisClass
from reticent.mechanisms import (
    exponential_mechanism,
    flip_labels,
    geometric_vote,
    noise_source,
)
from reticent.prediction.class_search import ClassSearch, all_subsets
from reticent.prediction.law import AnswerLaw, LawfulPredictor, blank_of
from reticent.prediction.relabeling_rules import RelabelingPlan, plan_relabeling
from reticent.prediction.selection import SelectionResponse
from reticent.prediction.sharded.counts import choose_shards

_MOST_SUBSETS = 20_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RelabelingLaw(AnswerLaw):
    """The law of answers by a vote on data relabeled by a fresh hypothesis (P7).

    Attributes
    ----------
    blank : object
        Number and names of the columns of queries, see `blank_of`.
    plan : RelabelingPlan
        Size of the subset and `eta`.
    flip : float
        Probability of a flipped answer.
    vote_epsilon : float
        Epsilon of the vote; also that of one mistake in the selection.
    shards : tuple of ndarray
        The units of each shard.
    search : ClassSearch
        The class and the data. Not private.
    """

    blank: Any
    plan: RelabelingPlan
    flip: float
    vote_epsilon: float
    shards: tuple[NDArray[np.int64], ...]
    search: ClassSearch

    def queries(self, X: MatrixLike) -> NDArray[np.float64]:
        """Check queries, by public facts alone."""
        rows = validate_data(self.blank, X, dtype=np.float64, reset=False)
        self.search.check_queries(rows)
        return np.asarray(rows)

    def draw(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one answer per row, each from its own subset, hypothesis and vote."""
        queries = self.queries(X)
        answers = np.array([self._answer(row) for row in queries], dtype=np.int64)
        return self._named(flip_labels(answers, self.flip, self.source))

    def response(self, X: MatrixLike) -> SelectionResponse:
        """Return the exact law by going through all subsets: for small data only."""
        queries = self.queries(X)
        subsets = all_subsets(self.search.n, self.plan.subset, _MOST_SUBSETS)
        total, count = np.zeros(len(queries)), 0
        for subset in subsets:
            count += 1
            listed = self.search.candidates(subset)
            if listed is None:
                total += self._ones(self.votes(None, queries))
                continue
            candidates, mistakes = listed
            law = self.selection(mistakes).probabilities[0]
            for chance, hypothesis in zip(law, candidates, strict=True):
                total += chance * self._ones(self.votes(hypothesis, queries))
        return SelectionResponse(self.flip + (1 - 2 * self.flip) * total / count)

    def selection(self, mistakes: NDArray[np.int64]) -> Any:
        """Return the law of the candidate that is picked, by their mistakes."""
        # exp(-L/eta) with L the mean of mistakes: a factor e^{1/(eta n)} a mistake.
        return exponential_mechanism(
            -mistakes, 2 * self.vote_epsilon, bound=self.search.n
        )

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

    def votes(self, hypothesis: Any, queries: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the shards that vote for each label, after relabeling: not private."""
        family, rows = self.search.hypotheses, self.search.X
        relabeled_y = self.search.said(hypothesis, rows)
        ones = np.zeros(len(queries), dtype=np.int64)
        for shard in self.shards:
            try:
                learned = family.minimise(rows[shard], relabeled_y[shard]).hypothesis
            except Exception:  # noqa: BLE001 - an error would tell of the shard's rows
                learned = None
            ones += self.search.said(learned, queries)
        return np.stack([len(self.shards) - ones, ones], axis=1)

    def _ones(self, votes: NDArray[np.int64]) -> NDArray[np.float64]:
        return geometric_vote(votes, self.vote_epsilon).probabilities[:, 1]

    def _answer(self, row: NDArray[np.float64]) -> int:
        votes = self.votes(self.hypothesis(), row[None, :])
        (answer,) = geometric_vote(votes, self.vote_epsilon).draw(self.source)
        return int(answer)


class RelabelingClassifier(ClassifierMixin, LawfulPredictor):
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
    query. A query never fails because of a record. A shard whose learner fails casts
    the first label's vote, so one unit still moves one vote. A subset whose labelings
    cannot be listed relabels everything as the first label; that depends on its points
    alone, which the promise without a net counts as lost already. With a net, the
    subset is one that can always be listed, by the growth function. The constant is the
    proof's own; for thresholds `StableSelectionClassifier` did better in every setting
    tried.

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
        rows = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels("Relabeling", self.classes, rows, y)
        n = len(rows)
        require_one_row_per_unit("relabeling", units, n)
        source = noise_source(self.random_state)
        search = ClassSearch.of(
            "RelabelingClassifier", self.hypotheses, rows, labels.indices(y)
        )
        flip = float(self.flip)
        plan, certificate = plan_relabeling(
            n,
            self.epsilon,
            flip,
            search.hypotheses,
            labels_from_data=self.classes is None,
            seeded=source.seeded,
        )
        search.rehearse(plan.subset)
        # The vote's epsilon is one of the three steps of size 1/(eta n).
        vote_epsilon = down(1 / (plan.eta * n))
        choice = choose_shards(
            self.n_shards,
            n_units=n,
            n_labels=2,
            epsilon=vote_epsilon,
            estimator=search.hypotheses,
        )
        shard_of_row = deal_units(n, choice.n_shards, source)
        self.law_: RelabelingLaw = RelabelingLaw(
            certificate=certificate,
            source=source,
            classes=labels.classes,
            blank=blank_of(self),
            plan=plan,
            flip=flip,
            vote_epsilon=vote_epsilon,
            shards=tuple(
                np.flatnonzero(shard_of_row == s) for s in range(choice.n_shards)
            ),
            search=search,
        )
        self.plan_ = plan
        self.n_shards_ = choice.n_shards
        self.classes_ = self.law_.classes
        self.n_units_ = n
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags
