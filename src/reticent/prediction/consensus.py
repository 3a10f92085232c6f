"""Consensus answers: thousands of easy queries for one small price (P9)."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Ints
from reticent._numbers import probability, whole
from reticent._search import last_that_holds
from reticent._sklearn import MatrixLike
from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.guarantees import (
    CLOSED_FORMS,
    QUICK_METHODS,
    Budget,
    Certificate,
    basic_composition,
    largest_range,
    repeat,
)
from reticent.ledger import AccountId, AccountScope, Cap, Charge, Ledger, Request
from reticent.mechanisms import (
    UNSTABLE,
    Consensus,
    RandomSource,
    SystemSource,
    consensus_certificate,
    consensus_margin,
    soft_vote,
    soft_vote_certificate,
    sparse_scale,
)
from reticent.prediction.queries import canonical_rows
from reticent.prediction.sharded.base import ShardLaw
from reticent.prediction.voting import PrivateVotingClassifier

# A query whose votes agree completely should pass the noisy threshold nearly always:
# the difference of both noises exceeds this many scales once in about 10,000.
_SAFE_SCALES = 18.0


def shards_for_consensus(margin: int, *, epsilon: float, unstable: int) -> int:
    """Return how many shards, if all agree, nearly always pass the noisy threshold."""
    return 2 * int(margin + _SAFE_SCALES * sparse_scale(epsilon, unstable)) + 3


class ShardConsensus:
    """Consensus of the shards behind a law: which queries nearly all agree on (P9).

    Parameters
    ----------
    law : ShardLaw
        Whose shards vote.
    epsilon, delta : float
        What the whole sequence of queries may cost.
    queries : int
        How many queries may be asked.
    unstable : int
        How many of them may be in doubt before answering ends.
    source : RandomSource
        Where the randomness comes from.

    Attributes
    ----------
    margin : int
        How far the plurality must lead, in moved votes, to be beyond doubt.
    certificate : Certificate
        What all answers together promise over the votes; see `ShardLaw.certified`.

    Guarantee
    ---------
    P9. It is refused if there are too few shards to ever agree enough.
    """

    def __init__(
        self,
        law: ShardLaw,
        *,
        epsilon: float,
        delta: float,
        queries: int,
        unstable: int,
        source: RandomSource,
    ) -> None:
        facts: dict[str, Any] = {
            "epsilon": epsilon,
            "unstable": unstable,
            "queries": queries,
        }
        self.margin = consensus_margin(delta=delta, **facts)
        needed = shards_for_consensus(self.margin, epsilon=epsilon, unstable=unstable)
        if not law.n_shards >= needed:
            raise InvalidParameterError(
                f"consensus on queries={queries}, of which unstable={unstable} may be "
                f"in doubt, at epsilon={epsilon:g} and delta={delta:g} needs about "
                f"{needed} shards that agree; got n_shards={law.n_shards}. Use more "
                "shards, fewer queries in doubt or a larger budget; or pay for each "
                "answer by itself."
            )
        relation: Any = law.certificate.relation
        self.certificate: Certificate[Any] = consensus_certificate(
            n=relation.n, margin=self.margin, seeded=source.seeded, **facts
        )
        self._mechanism = Consensus(self.margin, source=source, **facts)

    @property
    def queries_left(self) -> int:
        """How many more queries may be asked."""
        return self._mechanism.queries_left

    @property
    def unstable_left(self) -> int:
        """How many more queries in doubt will be answered."""
        return self._mechanism.unstable_left

    def places(self, votes: Ints) -> Ints:
        """Return the place of each row's label, `UNSTABLE` where it is in doubt."""
        return self._mechanism.answer(votes)


class ConsensusInterface:
    r"""Answer many queries for one fixed price while nearly all shards agree.

    The sparse vector technique finds the queries on which the plurality is beyond
    doubt and releases it as it is; the few others, at most `unstable` of them, are
    answered by a private vote. What the whole sequence costs is known in advance and
    does not grow with the queries.

    Parameters
    ----------
    predictor : fitted PrivateVotingClassifier
        Whose shards vote; its own epsilon and rule are not used. Its law is taken as
        it is now, whatever happens to the predictor later.
    budget : Budget
        What all answers together may cost; needs a delta.
    queries : int
        How many different queries may be asked.
    unstable : int
        How many of them may be in doubt before answering ends.
    vote_share : float, default=0.3
        Part of the budget that pays for the votes on queries in doubt.
    ledger : Ledger, default=None
        Charged the whole price once, before the first answer. Without one, nobody
        adds this price to what else is spent on the data.
    dataset : str, default="data"
        The account that is charged, which other models may share. It is opened under
        `budget` if it is not open; an open one must keep enough of its delta for
        answers with a delta of their own.

    Attributes
    ----------
    certificate : Certificate
        What all answers together promise, whatever is asked.
    margin : int
        How far the plurality must lead, in moved votes, to be beyond doubt.
    vote_epsilon : float
        Privacy cost of a vote on a query in doubt.

    Guarantee
    ---------
    All answers together satisfy `budget`, for adaptively chosen queries. *Proof.* P9
    for the consensus part, G22 for the votes, added up. A repeated query is answered
    from memory.

    Notes
    -----
    The margin is about ``4 unstable / epsilon * ln(queries / delta)`` votes, so this
    pays off with hundreds of shards or more, and is refused with too few shards to ever
    agree enough.
    """

    def __init__(
        self,
        predictor: PrivateVotingClassifier,
        budget: Budget,
        *,
        queries: int,
        unstable: int = 1,
        vote_share: float = 0.3,
        ledger: Ledger | None = None,
        dataset: str = "data",
    ) -> None:
        law = getattr(predictor, "law_", None)
        if not (isinstance(law, ShardLaw) and law.classes is not None):
            raise InvalidParameterError(
                "consensus answers need a fitted PrivateVotingClassifier; got "
                f"{type(predictor).__name__}(...)."
            )
        if not budget.delta > 0:
            raise InvalidParameterError(
                f"consensus answers need a budget with delta > 0; got {budget}."
            )
        self.law = law
        self.predictor = predictor
        self.budget = budget
        self.queries = whole("ConsensusInterface", "queries", queries)
        self.unstable = whole("ConsensusInterface", "unstable", unstable)
        share = probability("ConsensusInterface", "vote_share", vote_share)
        half = budget.delta / 2
        self._source = SystemSource()
        self._consensus = ShardConsensus(
            law,
            epsilon=(1 - share) * budget.epsilon,
            delta=half,
            queries=self.queries,
            unstable=self.unstable,
            source=self._source,
        )
        self.margin = self._consensus.margin
        self.vote_epsilon = _largest_vote(self.unstable, share * budget.epsilon, half)
        self.certificate = self._certify(half)
        self._memory: dict[bytes, int] = {}
        self._lock = threading.Lock()
        if ledger is not None:
            self._pay(ledger, dataset)

    @property
    def charge(self) -> Charge:
        """What the whole sequence of answers is charged."""
        return Charge.of(self.certificate)

    @property
    def capacity(self) -> int:
        """How many different queries may be asked in total."""
        return self.queries

    def remaining(self, *, client: str | None = None) -> int:
        """Return how many new queries are left, for all clients together."""
        return self.queries_left if self.unstable_left else 0

    def spent(self, *, client: str | None = None) -> Certificate[Any]:
        """Return what all answers together promise: the price is paid in advance.

        All clients share it, so it is also what any one of them has seen.
        """
        return self.certificate

    @property
    def queries_left(self) -> int:
        """How many more different queries may be asked."""
        return self._consensus.queries_left

    @property
    def unstable_left(self) -> int:
        """How many more queries in doubt will be answered."""
        return self._consensus.unstable_left

    def predict(
        self, X: MatrixLike, *, client: str = "anyone", key: str | None = None
    ) -> NDArray[Any]:
        """Return one private label per row.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            The queries.
        client, key : str
            As for `PredictionInterface`. All clients share the answers and their
            price, and a repeated query costs nothing, so neither changes an answer.

        Raises
        ------
        BudgetExhaustedError
            If queries or doubtful answers run out. Its attribute `answers` holds the
            labels of the rows answered before that; they are paid for.
        """
        keys = canonical_rows(X)
        votes = self.law.votes(X)
        with self._lock:
            self._learn(keys, votes)
            answers = [self._memory.get(key) for key in keys]
        given = [answer for answer in answers if answer is not None]
        labels = np.asarray(self.law.classes)[np.array(given, dtype=np.int64)]
        if len(given) < len(answers):
            raise BudgetExhaustedError(
                f"{len(given)} of {len(answers)} rows were answered; "
                f"{self.queries_left} queries and {self.unstable_left} answers in "
                "doubt are left. Make an interface with more of them, or ask fewer "
                "queries.",
                answers=labels,
            )
        return labels

    def _learn(self, keys: list[bytes], votes: Ints) -> None:
        """Answer the queries that are new, as far as the budget goes."""
        fresh = {key: row for row, key in reversed(list(enumerate(keys)))}
        rows = sorted(row for key, row in fresh.items() if key not in self._memory)
        if not rows or not (self.queries_left and self.unstable_left):
            return
        places = self._consensus.places(votes[rows])
        torn = np.flatnonzero(places == UNSTABLE)
        if torn.size:
            doubtful = votes[np.array(rows)[torn]]
            places[torn] = soft_vote(doubtful, self.vote_epsilon).draw(self._source)
        for row, place in zip(rows, places.tolist(), strict=False):
            self._memory[keys[row]] = int(place)

    def _certify(self, half: float) -> Certificate[Any]:
        consensus = self._consensus.certificate
        relation: Any = consensus.relation
        votes = repeat(
            soft_vote_certificate(n=relation.n, epsilon=self.vote_epsilon),
            self.unstable,
            delta=half,
            methods=QUICK_METHODS,
        )
        return self.law.certified(basic_composition(consensus, votes, counts=(1, 1)))

    def _pay(self, ledger: Ledger, dataset: str) -> None:
        account = AccountId(AccountScope.DATASET, dataset)
        charge = self.charge
        cap = Cap.within(self.budget, relation=charge.relation, charge=charge)
        with contextlib.suppress(InvalidParameterError):  # open, under its own cap
            ledger.open_account(account, cap)
        ledger.charge(
            Request(
                key=f"consensus-{self.certificate.id}-{SystemSource().name(8)}",
                accounts=(account,),
                charge=charge,
                queries=(b"consensus",),
            )
        )


def _largest_vote(count: int, epsilon: float, delta: float) -> float:
    """Return the largest epsilon of `count` soft votes that total `epsilon`."""

    def fits(vote: float) -> bool:
        total = repeat(
            soft_vote_certificate(n=1, epsilon=vote),
            count,
            delta=delta,
            methods=CLOSED_FORMS,
        )
        return bool(total.guarantee.epsilon <= epsilon)

    least = epsilon / count * (1 - 1e-12)
    found = last_that_holds(fits, least, 8 * epsilon, halvings=40)
    return max(found, largest_range(count, epsilon, delta))
