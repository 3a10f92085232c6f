"""The average of models on disjoint shards, as a label or as numbers (P2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats, Ints
from reticent._numbers import real, up, whole
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.response import Response
from reticent.mechanisms.sampling.exact import draw_below
from reticent.mechanisms.sampling.fixed_point import exp_bounds
from reticent.mechanisms.sampling.inputs import checked_epsilon, exact_rate, vote_counts
from reticent.mechanisms.sampling.intervals import IntervalArithmetic
from reticent.mechanisms.sampling.listening import reach
from reticent.mechanisms.sampling.randomness import RandomSource

# What the float formula below may lose, relative to the smaller probability: a
# dozen operations of 2^-53 each and exp's error, taken tenfold.
_DOUBT = 2.0**-44
_LARGEST_POOL = 10**7


@dataclass(frozen=True, eq=False, repr=False)
class AverageResponse(Response):
    r"""The label of a clipped noisy average, :math:`k/r` plus Laplace noise.

    The probability of label 1 is the mean of that average.
    """

    ones: Ints  # shape (n,); votes `k` for label 1
    voters: int  # their public number `r`
    rate: float  # the epsilon of the Laplace noise, exact when multiplied with counts

    @property
    def n_labels(self) -> int:
        """Number of labels: two."""
        return 2

    def __len__(self) -> int:
        return len(self.ones)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        # Draw the label of the smaller probability, whose interval is narrow.
        fewer = np.minimum(self.ones, self.voters - self.ones)
        chance = _smaller_half(fewer, self.voters, self.rate)
        low, high = chance * (1 - _DOUBT), np.minimum(chance * (1 + _DOUBT), 1.0)

        def refine(index: int, bits: int) -> tuple[int, int]:
            return _bounds(int(fewer[index]), self.voters, Fraction(self.rate), bits)

        minority = np.where(2 * self.ones <= self.voters, 1, 0)
        chosen = draw_below(low, high, refine, source)
        return np.where(chosen, minority, 1 - minority)

    def _log_probabilities(self) -> Floats:
        fewer = np.minimum(self.ones, self.voters - self.ones)
        small = _smaller_half(fewer, self.voters, self.rate)
        pair = np.stack([np.log1p(-small), np.log(small)], axis=1)
        return np.where((2 * self.ones <= self.voters)[:, None], pair, pair[:, ::-1])

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        rate = Fraction(self.rate)
        chances = []
        for votes in (self.voters - int(self.ones[row]), int(self.ones[row])):
            near = arithmetic.exp(arithmetic.real(-votes * rate))
            far = arithmetic.exp(arithmetic.real(-(self.voters - votes) * rate))
            noise = (near - far) * arithmetic.real(1 / (2 * self.voters * rate))
            chances.append(arithmetic.real(Fraction(votes, self.voters)) + noise)
        return [arithmetic.log(chance) for chance in chances]


def _smaller_half(votes: Ints, voters: int, rate: float) -> Floats:
    """Return the probability of a label with at most half of the votes.

    Both summands are then nonnegative, and the difference of exponentials is taken
    without cancellation, so the result is accurate relative to its size.
    """
    near, spread = votes * rate, (voters - 2 * votes) * rate
    with np.errstate(under="ignore"):
        noise = np.exp(-near) * -np.expm1(-spread)
    return np.asarray(votes / voters + noise / (2 * voters * rate))


def _bounds(votes: int, voters: int, rate: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits`` times the same probability, in integers."""
    # Dividing by a small rate magnifies the error of exp; more bits make up for it.
    divisor = 2 * voters * rate
    extra = max(0, -divisor.numerator.bit_length() + divisor.denominator.bit_length())
    fine = bits + extra + 8
    near = exp_bounds(votes * rate, fine)
    far = exp_bounds((voters - votes) * rate, fine)
    share = Fraction(votes, voters) * 2**bits
    unit = Fraction(2) ** (bits - fine) / divisor
    low, high = share + (near[0] - far[1]) * unit, share + (near[1] - far[0]) * unit
    return low.numerator // low.denominator, -(-high.numerator // high.denominator)


def average_vote(votes: ArrayLike, epsilon: float) -> Response:
    r"""Return the law of a label drawn from the noisy average vote.

    With :math:`v = k/r` and :math:`s = 1/(r\varepsilon)`, label 1 has probability
    :math:`v + \frac s2 (e^{-v/s} - e^{-(1-v)/s})`, the mean of the clipped average with
    Laplace noise; so one Bernoulli draw is enough, and no noise has to be drawn.

    Parameters
    ----------
    votes : array-like of shape (n, 2)
        How many models voted for each label, one row per query; every row holds the
        same number of votes.
    epsilon : float
        Epsilon of the noise. The answer costs less: see `average_vote_certificate`.

    Guarantee
    ---------
    ``PureDP`` of the largest log-ratio between neighbouring counts, at most `epsilon`
    (1.42 at epsilon = 2).

    Examples
    --------
    >>> average_vote([[1, 4]], 1.0).probabilities.round(4).tolist()
    [[0.235, 0.765]]
    """
    epsilon = checked_epsilon("average vote", epsilon)
    counts, public = vote_counts(votes, n_labels=2)
    reach("average vote", counts, largest=1, l1=2, settings=(epsilon, public))
    _check_pool(public)
    return AverageResponse(counts[:, 1], public, exact_rate(epsilon, bound=public))


def _check_pool(voters: int) -> None:
    if not voters <= _LARGEST_POOL:
        raise InvalidParameterError(
            f"the average vote is for at most 10^7 voters; got voters={voters}."
        )


def average_vote_epsilon(voters: int, epsilon: float) -> float:
    """Return what one answer of `average_vote` really costs, rounded up."""
    voters = whole("average vote", "voters", voters)
    epsilon = checked_epsilon("average vote", epsilon)
    _check_pool(voters)
    return _cost(voters, epsilon)


@lru_cache(maxsize=256)
def _cost(voters: int, epsilon: float) -> float:
    rate = exact_rate(epsilon, bound=voters)
    ones = np.arange(voters + 1)
    log_chance = AverageResponse(ones, voters, rate).log_probabilities[:, 1]
    # Label 0 is label 1 with the votes reversed, so one side is enough.
    worst = float(np.diff(log_chance).max())
    # Each logarithm is good to 2^-44; the noise before clipping costs epsilon.
    return min(epsilon, up(worst + 4 * _DOUBT))


@rule(
    "P2",
    name="noisy average to a label",
    statement="the largest log-ratio of E[clip(k/r + Lap(1/(r eps)), 0, 1)] over k",
    source="S1 Cor. 4.7",
    paper="eps",
    gives=PureDP,
)
def average_vote_certificate(
    *, n: int, voters: int, epsilon: float, seeded: bool = False
) -> Conclusion[PureDP]:
    """Certify one answer of `average_vote` of `voters` models on shards."""
    cost = average_vote_epsilon(voters, epsilon)
    return Conclusion(
        PureDP(cost), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )


@rule(
    "P2-mean",
    name="mean of bounded outputs",
    statement="the mean of r outputs in [low, high] on disjoint shards moves by "
    "(high - low) / r",
    source="S1 Lemma 4.6 and Cor. 4.7",
    gives=Sensitivity,
)
def mean_sensitivity(
    *, n: int, voters: int, low: float, high: float
) -> Conclusion[Sensitivity]:
    """Certify how far one unit moves the mean of clipped outputs."""
    voters = whole("rule P2-mean", "voters", voters)
    low = real("rule P2-mean", "low", low)
    high = real("rule P2-mean", "high", high)
    if not low < high:
        raise RuleError(f"rule P2-mean needs low < high; got low={low}, high={high}.")
    width = Fraction(high) - Fraction(low)
    moved = up(float(width / voters))
    return Conclusion(Sensitivity(moved), ReplaceOne(n), Scope.ANSWER)


@rule(
    "P2-probabilities",
    name="mean of probability vectors",
    statement="the mean of r probability vectors moves by 2/r in l1, sqrt(2)/r in l2",
    source="S1 Lemma 4.6 and Cor. 4.7",
    gives=Sensitivity,
)
def probability_sensitivity(*, n: int, voters: int) -> Conclusion[Sensitivity]:
    """Certify how far one unit moves the mean of class probabilities."""
    voters = whole("rule P2-probabilities", "voters", voters)
    moved = Sensitivity(up(2 / voters), up(2**0.5 / voters))
    return Conclusion(moved, ReplaceOne(n), Scope.ANSWER)
