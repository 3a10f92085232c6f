r"""Intervals for the truth behind one answer of a holdout without noise (R3).

A question is a function of the answers before it. Among at most `m` questions, those
that follow `b` values (answers that contradicted their guess, of `k` kinds) have at
most ``sum_j C(j - 1, b) k^b = C(m, b + 1) k^b`` different histories. Give each a share
``1/((b + 1)(b + 2))`` of `beta`, divided by that number; these shares add up to `beta`.
Put ``L = ln(2 C(m, b + 1) k^b (b + 1)(b + 2) / beta) / n``. *Except with probability*
`beta`, *the truth `q` of every answer ever given satisfies* ``kl(a, q) <= L`` *for an
average `a` within the answer's own distance of it*, where `kl` is the relative entropy
of two coins.

*Proof.* For each history there is one fixed question. Its average `a` on the data has
``n kl(a, q) > n L`` with probability at most ``e^{-n L}`` on each side, by the Chernoff
and Hoeffding inequality; add up over histories. The average is within the threshold of
a guess that passed, and within half a level of a value. Questions that are asked at
once have the history of the first. []

By Pinsker's inequality the interval is never wider than by Hoeffding's inequality; near
0 and 1 it is much narrower. With few wrong guesses so far, few histories are possible:
this is what makes Guess and Check (Rogers et al. 2020) narrower than a bound for all
transcripts at once.
"""

from __future__ import annotations

import math

from reticent._numbers import down, up
from reticent._search import last_that_holds

# The relative entropy rounds a few times; this much is added for it.
_DOUBT = 1e-12


def divergence(a: float, q: float) -> float:
    """Return the relative entropy of a coin with mean `a` from one with mean `q`."""
    if q in (0.0, 1.0):
        return 0.0 if a == q else math.inf
    ones = a * math.log(a / q) if a > 0 else 0.0
    zeros = (1 - a) * math.log((1 - a) / (1 - q)) if a < 1 else 0.0
    return max(0.0, ones + zeros)


def weighted_prefixes(queries: int, kinds: int, before: int) -> int:
    """Return the number of histories with this many values, over their share of beta.

    Parameters
    ----------
    queries : int
        The largest number of questions.
    kinds : int
        Kinds of values.
    before : int
        Values among the answers so far.
    """
    share = (before + 1) * (before + 2)
    return math.comb(queries, min(before + 1, queries)) * kinds**before * share


def truth_interval(
    value: float, distance: float, *, n: int, prefixes: int, beta: float
) -> tuple[float, float]:
    """Return where the truth of an answer is, except with chance `beta` in total.

    Parameters
    ----------
    value : float
        The answer.
    distance : float
        How far the average on the data may be from the answer.
    n, prefixes : int
        Units of the holdout, and the number of histories (`weighted_prefixes`).
    beta : float
        Failure probability for all answers together.

    Examples
    --------
    >>> low, high = truth_interval(0.95, 0.01, n=5000, prefixes=10**6, beta=0.05)
    >>> round(low, 3), round(high, 3)
    (0.918, 0.974)
    """
    limit = up((math.log(2 * prefixes) - math.log(beta)) / n) + _DOUBT
    least, most = max(0.0, value - distance), min(1.0, value + distance)
    low = last_that_holds(lambda q: divergence(least, q) <= limit, least, 0.0)
    high = last_that_holds(lambda q: divergence(most, q) <= limit, most, 1.0)
    return max(0.0, down(low)), min(1.0, up(high))
