"""The exact privacy curve of Gaussian noise (Balle and Wang 2018, Thm. 8)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from reticent._numbers import high_precision, nonnegative, positive, probability
from reticent._search import doubled_until, last_that_holds
from reticent.errors import InvalidParameterError

_PRECISION = 600
# A margin against us: for turning results into floats, and for the difference between
# noise on a grid and continuous noise (see
# `reticent.mechanisms.sampling.gaussian_grid`).
_MARGIN = 2.0**-48
# Relative precision of ratios and epsilons that are found by bisection.
_SEARCH_PRECISION = 2.0**-45


def gaussian_delta(ratio: float, epsilon: float) -> float:
    r"""Return the smallest delta of Gaussian noise at `epsilon`, rounded up.

    Parameters
    ----------
    ratio : float
        Sensitivity over standard deviation, :math:`\mu`.
    epsilon : float
        Privacy loss.

    Returns
    -------
    float
        :math:`\Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\Phi(-\mu/2 -
        \varepsilon/\mu)`, computed in high precision.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    ratio = nonnegative("Gaussian noise", "ratio", ratio)
    epsilon = nonnegative("Gaussian noise", "epsilon", epsilon)
    if ratio == 0:
        return 0.0
    if not (2.0**-100 <= ratio <= 2.0**20 and epsilon <= 2.0**20):
        raise InvalidParameterError(
            f"Gaussian noise with ratio={ratio!r}, epsilon={epsilon!r} is outside "
            "what is computed reliably (2^-100 to 2^20)."
        )
    with high_precision(_PRECISION) as context:
        mu = context.mpf(ratio)
        level = context.mpf(epsilon) * (1 - context.mpf(_MARGIN))
        upper = _normal(context, mu / 2 - level / mu)
        lower = context.exp(level) * _normal(context, -mu / 2 - level / mu)
        # Nearly equal terms lose digits; 600 bits leave more than enough of them.
        delta = float((upper - lower) * (1 + context.mpf(_MARGIN)))
    return min(1.0, delta + 1e-300)


def _normal(context: Any, x: Any) -> Any:
    return context.erfc(-x / context.sqrt(2)) / 2


def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Return the largest ratio of sensitivity to standard deviation that is private.

    Examples
    --------
    >>> round(1 / gaussian_ratio(1.0, 1e-5), 4)
    3.7306
    """
    epsilon = positive("Gaussian noise", "epsilon", epsilon)
    delta = probability("Gaussian noise", "delta", delta)
    return _ratio(epsilon, delta)


@lru_cache(maxsize=256)
def _ratio(epsilon: float, delta: float) -> float:
    def private(ratio: float) -> bool:
        return gaussian_delta(ratio, epsilon) <= delta

    # delta grows with the ratio.
    low, high = doubled_until(lambda ratio: not private(ratio), 1.0)
    return last_that_holds(private, low, high, relative=_SEARCH_PRECISION)


@lru_cache(maxsize=256)
def gaussian_epsilon(ratio: float, delta: float) -> float:
    """Return the smallest epsilon of Gaussian noise at `delta`, rounded up.

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 0.126937), 4)
    1.0
    """
    ratio = nonnegative("Gaussian noise", "ratio", ratio)
    delta = probability("Gaussian noise", "delta", delta)

    def enough(epsilon: float) -> bool:
        return gaussian_delta(ratio, epsilon) <= delta

    if enough(0.0):
        return 0.0
    # delta falls in epsilon.
    low, high = doubled_until(enough, 1.0)
    return last_that_holds(enough, high, low, relative=_SEARCH_PRECISION)
