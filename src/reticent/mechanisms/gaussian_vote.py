"""Noisy argmax of votes with discrete Gaussian noise (P1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats, Ints
from reticent._numbers import nonnegative, positive, probability, up
from reticent._search import doubled_until, last_that_holds
from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    Conclusion,
    ReplaceOne,
    Scope,
    gaussian_delta,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.response import Response
from reticent.mechanisms.sampling.gaussian_grid import grid_scale_to_continuous
from reticent.mechanisms.sampling.grid_noise import (
    checked_scale,
    discrete_gaussian_law,
    draw_discrete_gaussian,
    log_theta,
)
from reticent.mechanisms.sampling.inputs import vote_counts
from reticent.mechanisms.sampling.intervals import IntervalArithmetic
from reticent.mechanisms.sampling.listening import reach
from reticent.mechanisms.sampling.randomness import RandomSource

# Noise beyond this many scales has probability below exp(-800).
_REACH = 40.0
# Up to this scale the curve is summed over the discrete noise itself.
_FINE = 512.0


@dataclass(frozen=True, eq=False, repr=False)
class GaussianArgmaxResponse(Response):
    """The label with the most votes after noise; the first of several equal ones."""

    votes: Ints  # shape (n, n_labels); whole numbers
    scale: float  # scale of the discrete Gaussian noise on every count

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.votes.shape[1])

    def __len__(self) -> int:
        return len(self.votes)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        noisy = draw_discrete_gaussian(self.votes, self.scale, source)
        return np.asarray(noisy.argmax(axis=1))

    def _log_probabilities(self) -> Floats:
        if not len(self):
            return np.empty(self.votes.shape)
        rows, back = np.unique(self.votes, axis=0, return_inverse=True)
        spread = int((rows.max(axis=1) - rows.min(axis=1)).max())
        reach = math.ceil(_REACH * self.scale) + 1
        # Tables over every distance that can come up: reach beyond both ends.
        steps = np.arange(-(spread + reach + 1), spread + reach + 1)
        log_pmf = discrete_gaussian_law(steps, self.scale)
        log_cdf = _log_cdf(log_pmf)
        laws = np.array([self._row_law(row, reach, log_pmf, log_cdf) for row in rows])
        return np.asarray(laws[back.ravel()])

    @staticmethod
    def _row_law(row: Ints, reach: int, log_pmf: Floats, log_cdf: Floats) -> Floats:
        """Sum over the winning height: own noise hits it, the others stay below."""
        heights = np.arange(row.min() - reach, row.max() + reach + 1)
        centre = len(log_pmf) // 2
        at = heights - row[:, None] + centre
        reached, up_to, under = log_pmf[at], log_cdf[at], log_cdf[at - 1]
        # Labels before the winner must stay under its height, later ones may tie.
        zero = np.zeros((1, heights.size))
        before = np.concatenate([zero, np.cumsum(under, axis=0)[:-1]])
        after = np.concatenate([np.cumsum(up_to[::-1], axis=0)[::-1][1:], zero])
        joint = reached + before + after
        top = joint.max(axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            logs = np.log(np.exp(joint - top).sum(axis=1)) + top[:, 0]
            # The probabilities of the others are more accurate than that of a clear
            # winner.
            lead = int(logs.argmax())
            others = np.exp(np.delete(logs, lead)).sum()
        if others < 0.5:
            logs[lead] = np.log1p(-others)
        return np.asarray(logs)

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        votes = [int(count) for count in self.votes[row]]
        variance = Fraction(self.scale) ** 2
        # Beyond `edge` weights are below 2^-precision and at least halve each step,
        # so all of them on one side together are below the weight at `edge`.
        edge = (
            math.ceil(self.scale * math.sqrt(2 * arithmetic.precision) + variance) + 2
        )
        spread = max(votes) - min(votes)
        reach = edge + spread + 1

        def weight(k: int) -> Any:
            return arithmetic.exp(arithmetic.real(-Fraction(k * k) / (2 * variance)))

        weights = [weight(k) for k in range(-reach, reach + 1)]
        rest = arithmetic.between(arithmetic.real(0), weight(reach))
        below = [rest]  # weight of everything up to a height
        for value in weights:
            below.append(below[-1] + value)
        total = below[-1] + rest
        result = []
        for label, own in enumerate(votes):
            mass = arithmetic.between(arithmetic.real(0), 2 * weight(edge))
            for k in range(-edge, edge + 1):
                term = weights[k + reach] / total
                for other, count in enumerate(votes):
                    if other != label:
                        height = own + k - count - (other < label)
                        term *= below[height + reach + 1] / total
                mass += term
            result.append(arithmetic.log(mass))
        return result


def _log_cdf(log_pmf: Floats) -> Floats:
    """Return ``ln Pr[X <= k]`` for ``k = -c, ..., c - 1``, accurate at both ends."""
    centre = len(log_pmf) // 2
    below = np.logaddexp.accumulate(log_pmf[:centre])
    with np.errstate(under="ignore"):
        return np.concatenate([below, np.log1p(-np.exp(below[::-1]))])


def gaussian_vote(
    votes: ArrayLike, scale: float, *, voters: int | None = None
) -> Response:
    r"""Return the law of the noisy argmax with discrete Gaussian noise.

    Parameters
    ----------
    votes : array-like of shape (n, n_labels)
        How many models voted for each label, one row per query.
    scale : float
        Scale of the noise, in votes; see `gaussian_vote_scale`.
    voters : int, default=None
        As for `soft_vote`.

    Guarantee
    ---------
    ``ZCDP(1 / scale**2)`` for one row's answer if replacing a unit changes one voter.
    *Proof.* One vote moves, so the counts move by :math:`\sqrt 2` in Euclidean norm;
    :cite:`CanonneKamathSteinke2020`, Thm. 14, and post-processing. The accounting
    never looks at the votes.

    Examples
    --------
    >>> gaussian_vote([[1, 4]], 2.0).probabilities.round(4).tolist()
    [[0.1871, 0.8129]]
    """
    counts, _ = vote_counts(votes, voters=voters)
    reach("Gaussian vote", counts, largest=1, l1=2, settings=(scale,))
    return GaussianArgmaxResponse(counts, checked_scale(scale))


def gaussian_vote_delta(scale: float, epsilon: float) -> float:
    r"""Return the exact delta of one answer at `epsilon`, rounded up.

    One vote moves from one label to another. With `x`, `y` the noise on their counts,
    the loss is :math:`(1 + x - y)/\sigma^2`, and :math:`D = x - y` has
    :math:`\Pr[d] \propto e^{-d^2/4\sigma^2} \sum_k e^{-(k - d/2)^2/\sigma^2}`, whose
    sum depends on the parity of `d` alone. Hence
    :math:`\delta = \sum_d \Pr[d]\,(1 - e^{\varepsilon - (1+d)/\sigma^2})_+`, a sum of
    positive terms.
    """
    scale = checked_scale(scale)
    epsilon = nonnegative("Gaussian vote", "epsilon", epsilon)
    if scale > _FINE:
        # Sums get long; continuous noise is as good (see gaussian_grid).
        ratio = up(math.sqrt(2) / grid_scale_to_continuous(scale))
        return gaussian_delta(ratio, epsilon)
    # delta falls in epsilon: a slightly smaller one covers the rounding of losses.
    level = epsilon * (1 - 2.0**-40)
    variance = scale * scale
    first = math.floor(level * variance) - 2
    d = np.arange(first, first + math.ceil(80 * scale) + 80, dtype=np.float64)
    parities = [log_theta(scale / math.sqrt(2), shift=s) for s in (0.0, 0.5)]
    sums = np.where(d % 2 == 0, *parities)
    excess = np.maximum((1 + d) / variance - level, 0.0)
    with np.errstate(under="ignore"):
        chances = np.exp(-d * d / (4 * variance) + sums - 2 * log_theta(scale))
        total = float((chances * -np.expm1(-excess)).sum())
    # Terms are good to 1e-12 of their size; those left out sum to exp(-1500).
    return min(1.0, up(total * (1 + 1e-11) + 1e-300))


def gaussian_vote_scale(epsilon: float, delta: float) -> float:
    """Return a small scale whose single answers are (epsilon, delta)-DP.

    Examples
    --------
    >>> round(gaussian_vote_scale(1.0, 1e-6), 2)
    5.98
    """
    epsilon = positive("Gaussian vote", "epsilon", epsilon)
    delta = probability("Gaussian vote", "delta", delta)

    def enough(scale: float) -> bool:
        return scale >= 2.0**-10 and gaussian_vote_delta(scale, epsilon) <= delta

    low, high = doubled_until(enough, 1.0)
    return last_that_holds(enough, high, low, halvings=40)


@rule(
    "P1-gaussian",
    name="Gaussian vote",
    statement="rho = 1 / scale^2: counts move by sqrt 2 in Euclidean norm",
    source="CanonneKamathSteinke2020, Thm. 14",
    gives=ZCDP,
)
def gaussian_vote_certificate(
    *, n: int, scale: float, seeded: bool = False
) -> Conclusion[ZCDP]:
    """Certify one answer of `gaussian_vote` over disjoint shards of `n` units."""
    scale = checked_scale(scale)
    return Conclusion(
        ZCDP(up(1 / scale**2)), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )


@rule(
    "P1-gaussian-approx",
    name="Gaussian vote, one answer",
    statement="delta is summed over the loss of the discrete noise on two counts",
    source="BalleWang2018, Thm. 5, for the discrete Gaussian",
    gives=ApproxDP,
)
def gaussian_vote_approx_certificate(
    *, n: int, scale: float, epsilon: float, delta: float, seeded: bool = False
) -> Conclusion[ApproxDP]:
    """Certify (epsilon, delta) for one answer; many answers compose by rho."""
    delta = probability("rule P1-gaussian-approx", "delta", delta)
    reached = gaussian_vote_delta(scale, epsilon)
    if not reached <= delta:
        raise RuleError(
            f"rule P1-gaussian-approx: scale={scale!r} reaches delta={reached!r} at "
            f"epsilon={epsilon!r}, not delta={delta!r}. Use gaussian_vote_scale."
        )
    return Conclusion(
        ApproxDP(epsilon, delta),
        ReplaceOne(n),
        Scope.ANSWER,
        noise_assumptions(seeded),
    )
