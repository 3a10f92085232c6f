r"""Confidence intervals for shares and means behind sums with Laplace noise.

An interval is about the population that the units are independent draws from, and
covers the drawn units and the noise together. It holds what a test at its level does
not reject: a bound on the probability of a sum as large as the one seen, or as small.

The noise `Z` is discrete Laplace of scale `b`. For :math:`0 \le \lambda < 1/b`,
:math:`E e^{\lambda Z} = 1/(1 - \sinh^2(\lambda/2)/\sinh^2(1/2b)) \le
1/(1 - \lambda^2 b^2)`, because :math:`\sinh(x)/x` grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtrc

from reticent._search import last_that_holds

# Where exponential bounds are tried, as shares of the largest exponent. Every one of
# them is valid.
_EXPONENTS = np.geomspace(1e-6, 0.999, 300)
# Noise beyond this many scales is counted as if it were as bad as can be.
_REACH = 40
_HALVINGS = 26


def count_interval(
    noisy: float, n: int, scale: float, failure: float
) -> tuple[float, float]:
    """Return an interval for a share, from the noisy number of units that have it.

    The law of count and noise together is summed up, so the level is exact except for
    the steps of the law.

    Parameters
    ----------
    noisy : float
        The count with noise, a whole number.
    n : int
        Number of units.
    scale : float
        Scale of the noise.
    failure : float
        Probability that the share is outside, both sides together.
    """
    reach = math.ceil(_REACH * scale)
    noise = np.arange(-reach, reach + 1)
    masses = np.exp(-np.abs(noise) / scale)
    masses /= masses.sum()
    # What the cut leaves out, and what floats lose.
    doubt = math.exp(-_REACH) + 1e-12

    def least(seen: float) -> float:
        needed = np.clip(seen - noise - 1, -1.0, n)  # the count exceeds this

        def rejected(share: float) -> bool:
            tail = float(masses @ bdtrc(needed, n, share)) + doubt
            return tail <= failure / 2

        return _last(rejected)

    return least(noisy), 1 - least(n - noisy)


def mean_interval(
    noisy: float, n: int, scale: float, failure: float
) -> tuple[float, float]:
    r"""Return an interval for the mean of numbers in [0, 1], from their noisy sum.

    Parameters
    ----------
    noisy : float
        The sum with noise.
    n : int
        How many independent numbers were added up.
    scale : float
        Scale of the noise, in units of the numbers.
    failure : float
        Probability that the mean is outside, both sides together.

    Notes
    -----
    For numbers in [0, 1] with mean `p`, :math:`E e^{\lambda X} \le 1 + p(e^\lambda -
    1)` by convexity; Markov's inequality for :math:`e^{\lambda (S + Z)}` does the rest.
    """
    # Without noise large exponents pay off; with it they end at one over its scale.
    exponents = _EXPONENTS * min(1 / scale, 50.0)
    noise = -np.log1p(-((exponents * scale) ** 2) * (1 - 1e-12))

    def least(seen: float) -> float:
        def rejected(mean: float) -> bool:
            logs = n * np.log1p(mean * np.expm1(exponents)) - exponents * seen + noise
            return float(logs.min()) <= math.log(failure / 2)

        return _last(rejected)

    return least(noisy), 1 - least(n - noisy)


def share_interval(
    hits: float, misses: float, scale: float, failure: float
) -> tuple[float, float]:
    r"""Return an interval for a share, from noisy numbers of hits and misses.

    Parameters
    ----------
    hits, misses : float
        Both counts, each with its own noise; how many there are in total is not known.
    scale : float
        Scale of each noise.
    failure : float
        Probability that the share is outside, both sides together.

    Notes
    -----
    A tenth of the failure probability bounds how many there are, `N`. For a share `p`,
    :math:`(1-p)(H + Z) - p(M + Z')` is a sum of `N` centred terms and noise, and its
    exponential moment grows in `N`.
    """
    exponents = _EXPONENTS * min(1 / scale, 50.0)
    squares = (exponents * scale) ** 2 * (1 - 1e-12)
    part = 0.1 * failure
    # Two noises exceed t with probability at most e^(-x t) / (1 - x^2 b^2)^2.
    beyond = float(((-math.log(part) - 2 * np.log1p(-squares)) / exponents).min())
    most = max(0.0, hits + misses + beyond)

    def least(one: float, two: float) -> float:
        def rejected(share: float) -> bool:
            rest = 1 - share
            seen = rest * one - share * two
            each = np.log(
                share * np.exp(exponents * rest) + rest * np.exp(-exponents * share)
            )
            noise = -np.log1p(-squares * rest**2) - np.log1p(-squares * share**2)
            logs = most * np.maximum(each, 0.0) - exponents * seen + noise
            return float(logs.min()) <= math.log((failure - part) / 2)

        return _last(rejected)

    return least(hits, misses), 1 - least(misses, hits)


def _last(rejected: Callable[[float], bool]) -> float:
    """Return the end of the rejected shares that begin at 0."""
    if not rejected(0.0):
        return 0.0
    return (
        1.0
        if rejected(1.0)
        else last_that_holds(rejected, 0.0, 1.0, halvings=_HALVINGS)
    )
