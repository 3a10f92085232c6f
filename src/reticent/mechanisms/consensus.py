"""Consensus answers: release the plurality itself while it is stable (P9)."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Ints
from reticent._numbers import positive, probability, up, whole
from reticent._search import smallest_whole
from reticent.errors import BudgetExhaustedError, InvalidDataError, RuleError
from reticent.guarantees import (
    ApproxDP,
    Conclusion,
    ReplaceOne,
    Scope,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.sampling.inputs import checked_epsilon, vote_counts
from reticent.mechanisms.sampling.randomness import RandomSource
from reticent.mechanisms.sparse import SparseVector, sparse_scale

#: The answer to a query on which the voters do not agree enough.
UNSTABLE = -1


def stability(votes: ArrayLike) -> Ints:
    """Return ``max(0, ceil(gap / 2) - 1)`` for the two leading labels of each row.

    One moved vote changes it by at most 1. If it is at least 1, no moved vote changes
    the plurality (ties go to the first label).
    """
    counts, _ = vote_counts(votes)
    ordered = np.sort(counts, axis=1)
    gap = ordered[:, -1] - ordered[:, -2]
    return np.asarray(np.maximum(0, -(-gap // 2) - 1))


def false_stability(scale: float, margin: int) -> float:
    r"""Return the chance that an unstable query counts as stable, rounded up.

    A query of stability 0 passes if :math:`\nu - \rho > w` with discrete Laplace
    noise of scales `2 s` and `s`. Continuous noise would exceed `w` with probability
    :math:`(4 e^{-w/2s} - e^{-w/s})/6`; the larger of the two is returned (the discrete
    one was the smaller in every case tried, because a query must exceed `w` strictly to
    pass).

    Parameters
    ----------
    scale : float
        Scale `s` of the threshold's noise.
    margin : int
        The threshold `w` >= 1.
    """
    scale = positive("consensus", "scale", scale)
    margin = whole("consensus", "margin", margin)
    continuous = (4 * math.exp(-margin / (2 * scale)) - math.exp(-margin / scale)) / 6
    return min(
        1.0, up(max(continuous, _discrete_tail(scale, margin + 1)) * (1 + 1e-12))
    )


def _discrete_tail(scale: float, w: int) -> float:
    """Return ``Pr[nu - rho >= w]`` for `w` >= 1, a sum of positive terms.

    With ``a = exp(-1/(2 s))`` and ``b = a^2``: sum over rho = -j the chances
    ``Pr[nu >= w - j]``, which are ``a^(w-j)/(1+a)`` for j < w and
    ``1 - a^(j-w+1)/(1+a)`` from there on, times ``Pr[rho = j] ~ b^|j|``.
    """
    half = 1 / (2 * scale)
    a = math.exp(-half)
    rho_zero = math.tanh(half)  # (1 - b)/(1 + b)
    one_less_a, one_less_b = -math.expm1(-half), -math.expm1(-2 * half)
    one_less_ab = -math.expm1(-3 * half)
    far = math.exp(-w * half)  # a^w
    # rho >= 0, where nu must reach w + rho
    outward = far / one_less_ab / (1 + a)
    # rho = -1, ..., -(w - 1)
    inward = far * a * -math.expm1(-(w - 1) * half) / one_less_a / (1 + a)
    # rho <= -w, where nu may be negative
    deep = far * far * (1 / one_less_b - a / ((1 + a) * one_less_ab))
    return rho_zero * (outward + inward + deep)


class Consensus:
    """Answer queries by their plurality, as long as the voters agree.

    Parameters
    ----------
    margin : int
        Threshold `w` on the stability of a query.
    epsilon : float
        Privacy cost of the whole sequence.
    unstable : int
        How many queries may come back as `UNSTABLE` before answering stops.
    queries : int
        How many queries may be asked; delta is proportional to it.
    source : RandomSource
        Where bits come from.

    Guarantee
    ---------
    ``ApproxDP(epsilon, delta)`` for all answers together, with `delta` from
    `consensus_delta`. *Proof.* A sparse vector says which queries are unstable. If a
    plurality differs between neighbours the query's stability is 0 on both, and it
    passes for stable with probability at most `false_stability`; else the answer is the
    same.
    """

    def __init__(
        self,
        margin: int,
        *,
        epsilon: float,
        unstable: int,
        queries: int,
        source: RandomSource,
    ) -> None:
        self.margin = whole("consensus", "margin", margin)
        self.queries = whole("consensus", "queries", queries)
        # "Unstable" is the yes that costs: u + noise <= w + noise is, negated,
        # -u + noise > -w - 1 + noise on whole numbers with symmetric noise.
        self._vector = SparseVector(
            -self.margin - 1, epsilon=epsilon, positives=unstable, source=source
        )
        self._asked = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        raise InvalidDataError(
            "a consensus cannot be copied or pickled, because two copies would ask as "
            "many queries each; use state() and Consensus.resume()."
        )

    @property
    def unstable_left(self) -> int:
        """How many more answers may be unstable."""
        return self._vector.left

    @property
    def queries_left(self) -> int:
        """How many more queries may be asked."""
        return self.queries - self._asked

    def answer(self, votes: ArrayLike) -> Ints:
        """Answer rows of votes in order, until unstable answers or queries run out.

        Returns
        -------
        ndarray of int64
            Labels, or `UNSTABLE`; shorter than `votes` if the budget ran out.

        Raises
        ------
        BudgetExhaustedError
            If nothing is left at all.
        """
        counts, _ = vote_counts(votes)
        with self._lock:
            if len(counts) and not self.queries_left:
                raise BudgetExhaustedError(f"all queries={self.queries} are used.")
            agreement = stability(counts)[: self.queries_left]
            torn = self._vector.ask(-agreement)
            self._asked += len(torn)
        return np.where(torn, UNSTABLE, counts[: len(torn)].argmax(axis=1))

    def state(self) -> dict[str, Any]:
        """Return what is needed to resume, as plain JSON, without any noise.

        Save it after each call of `answer`, *before* showing what it returned.
        """
        vector = self._vector.state()
        return {"queries": self.queries, "asked": self._asked, "vector": vector}

    @classmethod
    def resume(cls, state: dict[str, Any], source: RandomSource) -> Consensus:
        """Continue from a saved state with fresh noise."""
        try:
            vector = SparseVector.resume(state["vector"], source)
            asked = whole("consensus", "asked", state["asked"], least=0)
            resumed = cls(
                -1 - vector.threshold,
                epsilon=vector.epsilon,
                unstable=vector.positives,
                queries=state["queries"],
                source=source,
            )
        except (KeyError, TypeError):
            raise InvalidDataError("this is not the state of a consensus.") from None
        if not asked <= resumed.queries:
            raise InvalidDataError("a saved state cannot have asked > queries.")
        resumed._vector, resumed._asked = vector, asked
        return resumed


def consensus_delta(
    *, margin: int, epsilon: float, unstable: int, queries: int
) -> float:
    """Return the delta of `queries` answers of a `Consensus`, rounded up.

    Examples
    --------
    >>> consensus_delta(margin=120, epsilon=1.0, unstable=1, queries=100) < 1e-10
    True
    """
    queries = whole("consensus", "queries", queries)
    once = false_stability(sparse_scale(epsilon, unstable), margin)
    return min(1.0, up(queries * once))


def consensus_margin(
    *, epsilon: float, delta: float, unstable: int, queries: int
) -> int:
    """Return the smallest margin whose `consensus_delta` is at most `delta`."""
    delta = probability("consensus", "delta", delta)

    def enough(margin: int) -> bool:
        reached = consensus_delta(
            margin=margin, epsilon=epsilon, unstable=unstable, queries=queries
        )
        return reached <= delta

    return smallest_whole(enough)


@rule(
    "P9",
    name="consensus answers",
    statement="sparse vector on u = max(0, ceil(gap/2) - 1); delta = m times the "
    "chance that noise hides u = 0",
    source="S1 Sec. 2.4; BassilyThakkarThakurta2018",
    gives=ApproxDP,
    adaptivity="adaptive",
)
def consensus_certificate(
    *,
    n: int,
    margin: int,
    epsilon: float,
    unstable: int,
    queries: int,
    seeded: bool = False,
) -> Conclusion[ApproxDP]:
    """Certify all answers of a `Consensus` over disjoint shards of `n` units."""
    epsilon = checked_epsilon("rule P9", epsilon)
    delta = consensus_delta(
        margin=margin, epsilon=epsilon, unstable=unstable, queries=queries
    )
    if not delta < 1:
        raise RuleError(
            f"rule P9: margin={margin} is too small for queries={queries}; delta "
            "would not be below 1. Use consensus_margin."
        )
    return Conclusion(
        ApproxDP(epsilon, delta),
        ReplaceOne(n),
        Scope.INTERFACE,
        noise_assumptions(seeded),
    )
