"""Private predictions by a vote of models on disjoint shards (P1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Ints
from reticent._numbers import below_one, positive
from reticent._sklearn import Interval, MatrixLike, StrOptions
from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.guarantees import QUICK_METHODS, Budget, Certificate, repeat
from reticent.mechanisms import (
    RandomSource,
    Response,
    gaussian_vote,
    gaussian_vote_certificate,
    gaussian_vote_scale,
    geometric_vote,
    geometric_vote_certificate,
    permute_and_flip_vote,
    permute_and_flip_vote_certificate,
    soft_vote,
    soft_vote_certificate,
)
from reticent.prediction.sharded.base import ShardLaw, TrainedShards
from reticent.prediction.sharded.counts import ShardChoice
from reticent.prediction.sharded.expectation import Expectation
from reticent.prediction.sharded.fitting import ShardedClassifier

#: How votes may become a label.
VOTE_RULES = ("soft", "geometric", "permute-and-flip", "gaussian")

# The soft vote may err twice as often as the best pure rule at one epsilon; it is worth
# that when many answers cost clearly less with it.
_WORTH = 0.9


@dataclass(eq=False, repr=False)
class PrivateVotingClassifier(ShardedClassifier):
    r"""Classifier whose every predicted label is differentially private.

    Privacy units are dealt to disjoint shards at random and one clone of any
    scikit-learn classifier or pipeline is trained on each, without noise. A query is
    answered by drawing a label from a distribution over the models' votes. Models,
    votes and `response` stay inside; what `predict` returns may be shown.

    Parameters
    ----------
    estimator : classifier or pipeline
        What is trained on each shard, preprocessing included: nothing crosses shards.
        It sees numbers of any type as float64, missing values as NaN, and columns
        with other cells as text or objects, as far as its own shard's cells show.
    epsilon : float
        Privacy cost of one predicted label.
    classes : array-like of shape (n_classes,), default=None
        The public labels. None reads them from `y`, and the certificate assumes that
        they are public.
    n_shards : int or "auto", default="auto"
        More shards: less noise, but less data for each model. "auto" chooses from
        public quantities; `shard_choice_` says why.
    rule : {"auto", "soft", "geometric", "permute-and-flip", "gaussian"}, default="auto"
        How votes become a label. "geometric" is the best pure rule for two labels,
        "permute-and-flip" a good one for more; "soft" errs a little more often, but
        many answers cost less with it; "gaussian" needs a delta. "auto" picks by the
        number of labels, and by `budget` and `queries` if given.
    delta : float, default=0.0
        Slack of one answer; used by the "gaussian" rule only.
    budget : Budget, default=None
        What all answers together may cost, for ``rule="auto"``.
    queries : int, default=None
        How many answers are expected, for ``rule="auto"``.
    public_types : bool, default=False
        Whether columns of a data frame keep types that their cells do not show, such
        as categories or dates; such columns are refused otherwise. The certificate
        then assumes that the types of all columns are public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system. Anything else is for experiments and
        makes the certificate conditional.
    n_jobs : int, default=None
        Shards trained at a time, through joblib.
    verbose : bool, default=False
        Whether to show a progress bar while fitting.

    Attributes
    ----------
    certificate_ : Certificate
        What *one* answer promises; m rows spend it m times, see `repeat`.
    classes_ : ndarray of shape (n_classes,)
        The public labels, sorted.
    n_units_ : int
        Number of privacy units; public.
    n_shards_ : int
        Number of shards.
    shard_choice_ : ShardChoice
        The number of shards and the reason for it.
    rule_ : str
        The rule that is used.
    expectation_ : Expectation
        How often answers are right if every model is, from public facts alone. `fit`
        warns with a `NearChanceWarning` if that is near chance.
    shard_errors_ : dict
        What was raised in the shards that could not be trained, by shard. Not private.
    ensemble_ : ClassifierEnsemble
        The trained models. Not private: never release them.

    Guarantee
    ---------
    For every fixed query the answer is `epsilon`-DP under replacement of one unit
    (bounded range for "soft", zCDP for "gaussian"). *Proof.* Shards are dealt by
    position alone, so one replaced unit retrains one model; each model casts one vote
    whatever happens, a fixed one if it fails; one vote moves from a label to another,
    which is what the rule's law is private for. Every answer draws fresh randomness,
    so answers compose (G22).

    References
    ----------
    :cite:`DworkFeldman2018`, Thm 4.1; THEOREMS P1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    >>> model = PrivateVotingClassifier(pipeline, epsilon=1.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for one answer, replace one unit of 569; proved
    """

    estimator: Any
    epsilon: float = 1.0
    classes: ArrayLike | None = None
    n_shards: int | str = "auto"
    _: KW_ONLY
    rule: str = "auto"
    delta: float = 0.0
    budget: Budget | None = None
    queries: int | None = None
    public_types: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ShardedClassifier._parameter_constraints,
        "rule": [StrOptions({"auto", *VOTE_RULES})],
        "budget": [Budget, None],
        "queries": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _plan(self, task: Any, n_units: int, source: RandomSource) -> VoteRule:
        return VoteRule.choose(self, len(task.classes))

    def _best_answer(self, plan: VoteRule, shards: int, labels: int) -> float:
        return plan.best_answer(shards, labels)

    def _law(self, trained: TrainedShards, plan: VoteRule) -> VotingLaw:
        return VotingLaw.of(trained, plan)

    def _adopt(self, law: Any, choice: ShardChoice) -> None:
        super()._adopt(law, choice)
        self.rule_ = law.vote.rule


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class VotingLaw(ShardLaw):
    """The law of a vote."""

    vote: VoteRule

    @classmethod
    def of(cls, trained: TrainedShards, vote: VoteRule, **named: Any) -> VotingLaw:
        """Return the law of votes of trained models, with its certificate."""
        return cls(
            certificate=trained.certified(vote.certificate(trained.n_units)),
            vote=vote,
            **trained.shared(),
            **named,
        )

    @property
    def expectation(self) -> Expectation:
        """How good answers can be, from public facts."""
        labels = 0 if self.classes is None else len(self.classes)
        return Expectation.of(
            lambda shards: self.vote.best_answer(shards, labels),
            shards=self.n_shards,
            labels=labels,
        )

    def response(self, X: MatrixLike) -> Response:
        """Return the exact law of the answers: not private."""
        return self.vote.response(self.votes(X))


@dataclass(frozen=True)
class VoteRule:
    """A rule with its parameter: law and certificate of one answer."""

    rule: str  #: "soft", "geometric", "permute-and-flip" or "gaussian"
    parameter: float  #: epsilon; for "gaussian" the scale of the noise

    @classmethod
    def choose(cls, asked: PrivateVotingClassifier, n_labels: int) -> VoteRule:
        """Resolve ``rule="auto"`` and check that the rule fits the labels."""
        owner = "PrivateVotingClassifier"
        pure = "geometric" if n_labels == 2 else "permute-and-flip"
        rule = asked.rule
        # Validated here as well: scikit-learn's checks can be switched off.
        epsilon = positive(owner, "epsilon", asked.epsilon)
        one_of("rule", rule, "auto", *VOTE_RULES)
        if rule == "auto":
            rule = _automatic_rule(asked, pure, epsilon)
        if rule == "geometric" and n_labels != 2:
            raise InvalidParameterError(
                f"rule='geometric' is for two labels; got {n_labels}. Use "
                "rule='permute-and-flip' or 'soft'."
            )
        if rule != "gaussian":
            return cls(rule, epsilon)
        delta = below_one(owner, "delta", asked.delta)
        if not delta > 0:
            raise InvalidParameterError(
                "rule='gaussian' needs delta > 0; got delta=0. Choose another rule for "
                "pure privacy."
            )
        return cls(rule, gaussian_vote_scale(epsilon, delta))

    def certificate(self, n: int) -> Certificate[Any]:
        """Certify one answer over `n` units."""
        return _certificate(self.rule, n, self.parameter)

    def best_answer(self, shards: int, labels: int) -> float:
        """Return the probability of a label that all shards vote for."""
        unanimous = np.zeros((1, labels), dtype=np.int64)
        unanimous[0, 0] = shards
        return float(self.response(unanimous).probabilities[0, 0])

    def response(self, votes: Ints) -> Response:
        """Return the law of one answer for each row of votes."""
        law: Any = {
            "soft": soft_vote,
            "geometric": geometric_vote,
            "permute-and-flip": permute_and_flip_vote,
            "gaussian": gaussian_vote,
        }[self.rule]
        return law(votes, self.parameter)


def _certificate(rule: str, n: int, parameter: float) -> Certificate[Any]:
    if rule == "gaussian":
        return gaussian_vote_certificate(n=n, scale=parameter)
    certify: Any = {
        "soft": soft_vote_certificate,
        "geometric": geometric_vote_certificate,
        "permute-and-flip": permute_and_flip_vote_certificate,
    }[rule]
    return certify(n=n, epsilon=parameter)


def _automatic_rule(asked: PrivateVotingClassifier, pure: str, epsilon: float) -> str:
    """Prefer the pure rule, unless many answers cost clearly less with the soft one."""
    if asked.queries is None or asked.budget is None or asked.budget.delta == 0:
        return pure

    def total(rule: str) -> float:
        answers = repeat(
            _certificate(rule, 1, epsilon),
            int(asked.queries or 1),
            delta=asked.budget.delta if asked.budget else 0.0,
            methods=QUICK_METHODS,
        )
        return float(answers.guarantee.epsilon)

    return "soft" if total("soft") < _WORTH * total(pure) else pure
