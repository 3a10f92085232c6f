"""Bounds on the excess error of a release through public points (M4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reticent._numbers import positive, probability, up, whole
from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.hypotheses import HypothesisClass, Stumps, Thresholds
from reticent.learners.public.teaching_sets import most_labelings


@dataclass(frozen=True)
class ExcessErrorBound:
    """A bound on the excess error of a release over the best of its class, in parts."""

    noise: float  #: mistakes that the noise on public points makes the oracle accept
    #: Difference between the private sample and its population; without privacy it
    #: would be the same.
    sampling: float
    #: How often two hypotheses that agree on all public points may differ on private
    #: rows.
    disagreement: float

    @property
    def total(self) -> float:
        """The bound on the excess error, at most 1."""
        return min(1.0, up(self.noise + self.sampling + self.disagreement))


def rrspm_error_at_most(
    hypotheses: HypothesisClass[Any],
    *,
    n: int,
    m: int,
    epsilon: float,
    sigma: float = 1.0,
    failure: float = 0.05,
    n_features: int = 1,
    scale_by: str = "teaching",
) -> ExcessErrorBound:
    r"""Bound the excess error of `RRSPMClassifier` with Laplace noise.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class.
    n, m : int
        Numbers of private units and public points, each independent and identically
        distributed.
    epsilon : float
        Privacy cost.
    sigma : float, default=1.0
        No set of rows is more than :math:`1/\sigma` times as likely in private as in
        public; 1 if both have one distribution. It does not affect privacy.
    failure : float, default=0.05
        Probability, over samples and noise, that the bound fails.
    n_features : int, default=1
        Width of the rows.
    scale_by : {"teaching", "points"}, default="teaching"
        As for `RRSPMClassifier`. If the size of teaching sets depends on the points,
        the bound is for "points".

    Guarantee
    ---------
    Except with probability `failure`, a quarter of it for each step, the error of
    the release exceeds that of the best hypothesis of the class by at most the sum:

    - noise: sums of at most :math:`m` Laplace costs of scale :math:`b`, for each of
      :math:`N` labelings against the best one, by Chernoff with
      :math:`E e^{\lambda c} \le e^{2\lambda^2 b^2}` for :math:`\lambda b \le
      1/\sqrt 2`;
    - sampling: :math:`\sqrt{8\ln(4\Pi(2n)/\beta)/n}` for the release (Vapnik and
      Chervonenkis) and :math:`\sqrt{\ln(1/\beta)/2n}` for the best (Hoeffding);
    - disagreement: sets of differences that no public point hits have public
      probability below :math:`(2/m)\log_2(2\Pi(2m)^2/\beta)` (epsilon-nets), and
      private probability at most :math:`1/\sigma` times that.

    References
    ----------
    :cite:`BlockEtAl2024`, Thm. 4, with constants; THEOREMS M4.

    Examples
    --------
    >>> from reticent.hypotheses import Thresholds
    >>> bound = rrspm_error_at_most(Thresholds(), n=100_000, m=500, epsilon=1.0)
    >>> round(bound.noise, 4), round(bound.disagreement, 3)
    (0.0082, 0.109)
    """
    owner = "rrspm_error_at_most"
    n, m = whole(owner, "n", n), whole(owner, "m", m)
    epsilon = positive(owner, "epsilon", epsilon)
    sigma = positive(owner, "sigma", sigma)
    if not sigma <= 1:
        raise InvalidParameterError(
            f"sigma={sigma!r} must be in (0, 1]: private rows cannot be less likely "
            "than public ones everywhere."
        )
    beta = probability(owner, "failure", failure) / 4
    family = hypotheses.on(whole(owner, "n_features", n_features))
    taught = m
    one_of("scale_by", scale_by, "teaching", "points")
    if scale_by == "teaching" and isinstance(family, Thresholds | Stumps):
        taught = min(m, 2 * n_features)
    # With at least 512 steps per mistake, ties cost less than this factor.
    scale = 1.001 * 2 * taught / epsilon
    labelings = math.log(most_labelings(family, m))
    return ExcessErrorBound(
        noise=up(_largest_sum(m, scale, labelings - math.log(beta)) / n),
        sampling=up(
            math.sqrt(8 * (math.log(4 / beta) + _log_labelings(family, 2 * n)) / n)
            + math.sqrt(math.log(1 / beta) / (2 * n))
        ),
        disagreement=up(
            2
            / m
            * (math.log(2 / beta) + 2 * _log_labelings(family, 2 * m))
            / math.log(2)
            / sigma
        ),
    )


def _log_labelings(family: HypothesisClass[Any], points: int) -> float:
    return math.log(most_labelings(family, points))


def _largest_sum(count: int, scale: float, exponent: float) -> float:
    r"""Return what a sum of Laplace noise exceeds with probability ``exp(-exponent)``.

    By the Chernoff bound with the best :math:`\lambda` that is allowed.
    """
    best = min(math.sqrt(exponent / (2 * count)), math.sqrt(0.5))
    return scale * (exponent + 2 * count * best**2) / best
