"""Votes of models on disjoint shards: soft, geometric, permute-and-flip (P1)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from reticent.guarantees import (
    BoundedRange,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.permute_and_flip import PermuteAndFlipResponse
from reticent.mechanisms.response import Response, SoftmaxResponse
from reticent.mechanisms.sampling.inputs import (
    checked_epsilon,
    exact_products,
    exact_rate,
    vote_counts,
)
from reticent.mechanisms.sampling.listening import reach
from reticent.mechanisms.two_sided import TwoSidedResponse


def soft_vote(
    votes: ArrayLike, epsilon: float, *, voters: int | None = None
) -> Response:
    r"""Return the law :math:`\Pr[b] \propto e^{\varepsilon\,\mathrm{votes}_b/2}`.

    Parameters
    ----------
    votes : array-like of shape (n, n_labels)
        How many models voted for each label, one row per query.
    epsilon : float
        Privacy cost of one answer.
    voters : int, default=None
        Public number of voters, if some may abstain; None reads it off the rows,
        which then must agree.

    Guarantee
    ---------
    ``BoundedRange(epsilon)`` for one row's answer if replacing a unit changes one
    voter. *Proof.* One vote moves from a label to another, so two log-weights move by
    at most :math:`\varepsilon/2` each, and the odds of any event by at most
    :math:`e^{\varepsilon}`. The products of epsilon and votes are exact: epsilon is
    rounded down to few bits first. Twice the exponent is the rule that is often
    quoted, and costs twice the epsilon.

    Examples
    --------
    >>> soft_vote([[1, 4]], 1.0).probabilities.round(4).tolist()
    [[0.1824, 0.8176]]
    """
    epsilon = checked_epsilon("soft vote", epsilon)
    counts, public = vote_counts(votes, voters=voters)
    reach("soft vote", counts, largest=1, l1=2, settings=(epsilon, public))
    return SoftmaxResponse(
        exact_products(counts, exact_rate(epsilon, divisor=2, bound=public))
    )


def geometric_vote(votes: ArrayLike, epsilon: float) -> Response:
    r"""Return the optimal pure law for two labels.

    With `k` of `r` votes for label 1 and :math:`t = |k - r/2|`, the minority label has
    probability :math:`e^{-\varepsilon(t-1/2)}/(1+e^{\varepsilon})` for odd `r` and
    :math:`e^{-\varepsilon t}/2` for even `r`.

    Parameters
    ----------
    votes : array-like of shape (n, 2)
        How many models voted for each label, one row per query; every row holds the
        same number of votes.
    epsilon : float
        Privacy cost of one answer.

    Guarantee
    ---------
    ``PureDP(epsilon)`` for one row's answer if replacing a unit changes one voter;
    attained, and no pure rule errs less. Not of bounded range. *Proof.* Each
    probability is one step of a staircase of ratio :math:`e^{\varepsilon}` on its
    minority side, and moves less on the other.

    Examples
    --------
    >>> geometric_vote([[1, 4]], 1.0).probabilities.round(4).tolist()
    [[0.0989, 0.9011]]
    """
    epsilon = checked_epsilon("geometric vote", epsilon)
    counts, public = vote_counts(votes, n_labels=2)
    reach("geometric vote", counts, largest=1, l1=2, settings=(epsilon, public))
    step = exact_rate(epsilon, bound=public)
    margins = abs(counts[:, 1] - counts[:, 0])  # 2t, of the parity of r
    return TwoSidedResponse(
        minority=(counts[:, 0] > counts[:, 1]).astype("int64"),
        exponents=exact_products(margins // 2, step),
        between=margins % 2 == 1,
        step=step,
    )


def permute_and_flip_vote(
    votes: ArrayLike, epsilon: float, *, voters: int | None = None
) -> Response:
    r"""Return the law of permute-and-flip on votes.

    Labels are tried in random order; label `b` is accepted with probability
    :math:`e^{-\varepsilon(\max_c v_c - v_b)/2}`, and the first accepted is the answer.

    Parameters
    ----------
    votes, epsilon, voters
        As for `soft_vote`.

    Guarantee
    ---------
    ``PureDP(epsilon)`` for one row's answer if replacing a unit changes one voter.
    Never errs more than the soft vote at the same epsilon, but is not of bounded
    range: many answers cost more. :cite:`McKennaSheldon2020`, Thm. 1.

    Examples
    --------
    >>> permute_and_flip_vote([[1, 4]], 1.0).probabilities.round(4).tolist()
    [[0.1116, 0.8884]]
    """
    epsilon = checked_epsilon("permute-and-flip", epsilon)
    counts, public = vote_counts(votes, voters=voters)
    reach("permute-and-flip", counts, largest=1, l1=2, settings=(epsilon, public))
    gaps = counts.max(axis=1, keepdims=True) - counts
    return PermuteAndFlipResponse(
        exact_products(gaps, exact_rate(epsilon, divisor=2, bound=public))
    )


@rule(
    "P1-soft",
    name="soft vote",
    statement="Pr[b] ~ exp(eps votes_b / 2); one replaced unit moves one vote",
    source="S1 Thm 4.1",
    paper="exp(eps votes_b) where it is introduced, which costs 2 eps",
    gives=BoundedRange,
)
def soft_vote_certificate(
    *, n: int, epsilon: float, seeded: bool = False
) -> Conclusion[BoundedRange]:
    """Certify one answer of `soft_vote` over disjoint shards of `n` units."""
    epsilon = checked_epsilon("rule P1-soft", epsilon)
    return Conclusion(
        BoundedRange(epsilon), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )


@rule(
    "P1-geometric",
    name="geometric vote",
    statement="minority label: e^{-eps(t-1/2)}/(1+e^eps), or e^{-eps t}/2 for even r",
    source="S1 Thm 4.1; GhoshRoughgardenSundararajan2012",
    gives=PureDP,
)
def geometric_vote_certificate(
    *, n: int, epsilon: float, seeded: bool = False
) -> Conclusion[PureDP]:
    """Certify one answer of `geometric_vote` over disjoint shards of `n` units."""
    epsilon = checked_epsilon("rule P1-geometric", epsilon)
    return Conclusion(
        PureDP(epsilon), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )


@rule(
    "P1-permute-and-flip",
    name="permute-and-flip vote",
    statement="labels in random order, accepted w.p. exp(-eps (max - votes_b) / 2)",
    source="McKennaSheldon2020, Thm. 1; S1 Thm 4.1",
    gives=PureDP,
)
def permute_and_flip_vote_certificate(
    *, n: int, epsilon: float, seeded: bool = False
) -> Conclusion[PureDP]:
    """Certify one answer of `permute_and_flip_vote` over shards of `n` units."""
    epsilon = checked_epsilon("rule P1-permute-and-flip", epsilon)
    return Conclusion(
        PureDP(epsilon), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )
