"""Private answers by relabeling the data with a selected hypothesis (P7)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._numbers import down
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.estimators import UnitIds, deal_units
from reticent.hypotheses import HypothesisClass
from reticent.mechanisms import Response, geometric_vote, noise_source
from reticent.prediction.law import blank_of
from reticent.prediction.selection.fresh_hypotheses import (
    FreshHypothesisClassifier,
    FreshHypothesisLaw,
)
from reticent.prediction.selection.relabeling_rules import plan_relabeling
from reticent.prediction.sharded.counts import choose_shards


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RelabelingLaw(FreshHypothesisLaw):
    """The law of answers by a vote on data relabeled by a fresh hypothesis (P7)."""

    most_subsets: ClassVar[int] = 20_000

    # Epsilon of the vote; also that of one mistake in the selection.
    vote_epsilon: float
    shards: tuple[NDArray[np.int64], ...]  # the units of each shard

    def relabeled_votes(
        self, hypothesis: Any, queries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Count the shards that vote for each label, after relabeling: not private."""
        family, rows = self.search.hypotheses, self.search.X
        relabeled_y = self.search.said(hypothesis, rows)
        ones = np.zeros(len(queries), dtype=np.int64)
        for shard in self.shards:
            try:
                learned = family.minimise(rows[shard], relabeled_y[shard]).hypothesis
            except Exception:  # noqa: BLE001 - an error would reveal rows
                learned = None
            ones += self.search.said(learned, queries)
        return np.stack([len(self.shards) - ones, ones], axis=1)

    def answers(
        self, hypothesis: Any, queries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Draw the label of a private vote."""
        return self._vote(hypothesis, queries).draw(self.source)

    def ones(self, hypothesis: Any, queries: NDArray[np.float64]) -> NDArray[Any]:
        """Return the probability that the vote is for the second label."""
        return self._vote(hypothesis, queries).probabilities[:, 1]

    def _vote(self, hypothesis: Any, queries: NDArray[np.float64]) -> Response:
        votes = self.relabeled_votes(hypothesis, queries)
        return geometric_vote(votes, self.vote_epsilon)


@dataclass(eq=False, repr=False)
class RelabelingClassifier(FreshHypothesisClassifier):
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
    P7, then G4: `epsilon`-DP for one answer; for a `FiniteClass` of functions, and a
    class of your own, under the assumption ROWWISE_QUERIES. Everything random is drawn
    again for every query. A query never fails because of a record. A shard whose
    learner fails casts the first label's vote, so one unit still moves one vote. A
    subset whose labelings cannot be listed relabels everything as the first label; that
    depends on its points alone, which the promise without a net counts as lost already.
    With a net, the subset is one that can always be listed, by the growth function. The
    constant is the proof's own; for thresholds `StableSelectionClassifier` did better
    in every setting tried.

    References
    ----------
    :cite:`DaganFeldman2020`, Thm 2; THEOREMS P7.
    """

    hypotheses: Any
    epsilon: float = 1.0
    _: KW_ONLY
    flip: float = 0.05
    n_shards: int | str = "auto"
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "flip": [Interval(Real, 0, 0.5, closed="neither")],
        "n_shards": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "classes": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Prepare the data and issue the certificate; nothing is released.

        Parameters
        ----------
        X, y, units
            As for `StableSelectionClassifier`: one row per unit, two labels.
        """
        labels, search = self._prepared(X, y, units, "Relabeling")
        n = search.n
        source = noise_source(self.random_state)
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
            # exp(-L/eta) with L the mean of mistakes: e^{1/(eta n)} per mistake.
            exponent=2 * vote_epsilon,
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
