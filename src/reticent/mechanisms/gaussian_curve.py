"""The analytic curve of Gaussian noise, for noise on a grid.

The curve of Balle and Wang (2018, Thm. 8) is about continuous noise. It carries over
to discrete Gaussian noise of variance s^2 on the whole numbers, in any dimension, at
the price of a continuous variance of s^2 - 16:

*Proof.* Add continuous noise of variance s^2 - 16 to a whole vector v, then round
each coordinate y at random to a whole number z with probability proportional to
exp(-(z - y)^2 / 32): post-processing. By Poisson's formula the normaliser of this
rounding is 4 sqrt(2 pi) times 1 +- h, h = 2 sum_j exp(-32 (pi j)^2) < 1e-136, whatever
y is. Integrating over y, the outcome z has the density of a Gaussian of variance s^2
at z - v, up to the same factor; and so has the discrete Gaussian around v. The two
laws differ by a factor within exp(+-3h) a coordinate. So (epsilon, delta) for
continuous noise is (epsilon + 6 d h, delta exp(3 d h)) for discrete noise on d
coordinates, which the last digits below cover for any d in use.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from mpmath.ctx_mp import MPContext

from reticent.errors import InvalidParameterError
from reticent.guarantees.numbers import nonnegative, positive, probability
from reticent.mechanisms.intervals import MPMATH_LOCK

# Variance, in squared grid steps, that random rounding takes (see the proof).
ROUNDING_VARIANCE = 16.0
_PRECISION = 600
# Against us, for 6 d h and for turning the result into a float.
_MARGIN = 2.0**-48


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
    return _delta(_context(), ratio, epsilon)


def _delta(context: Any, ratio: float, epsilon: float) -> float:
    ratio = nonnegative("Gaussian noise", "ratio", ratio)
    epsilon = nonnegative("Gaussian noise", "epsilon", epsilon)
    if ratio == 0:
        return 0.0
    if not (2.0**-100 <= ratio <= 2.0**20 and epsilon <= 2.0**20):
        raise InvalidParameterError(
            f"Gaussian noise with ratio={ratio!r}, epsilon={epsilon!r} is outside of "
            "what is computed reliably (2^-100 to 2^20)."
        )
    with MPMATH_LOCK:
        mu = context.mpf(ratio)
        level = context.mpf(epsilon) * (1 - context.mpf(_MARGIN))
        upper = _normal(context, mu / 2 - level / mu)
        lower = context.exp(level) * _normal(context, -mu / 2 - level / mu)
        # Nearly equal terms lose digits; 600 bits leave more than enough of them.
        delta = float((upper - lower) * (1 + context.mpf(_MARGIN)))
    return min(1.0, delta + 1e-300)


def _context() -> Any:
    context = MPContext()  # not the global one: its precision is everybody's
    context.prec = _PRECISION
    return context


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
    context = _context()

    def private(ratio: float) -> bool:
        return _delta(context, ratio, epsilon) <= delta

    # delta grows with the ratio; `low` is always private.
    low, high = 0.0, 1.0
    while private(high):
        low, high = high, 2 * high
    while not low:
        low, high = (high / 2, high) if private(high / 2) else (0.0, high / 2)
    while high - low > 2.0**-45 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if private(middle) else (low, middle)
    return low


def grid_scale_to_continuous(scale: float) -> float:
    """Return the continuous scale that discrete noise of `scale` grid steps is worth.

    Rounded down.
    """
    rest = scale * scale * (1 - 2.0**-50) - ROUNDING_VARIANCE
    if not rest > 0:
        raise InvalidParameterError(
            f"the analytic curve needs noise of more than 4 grid steps; got "
            f"{scale!r}. Use a finer grid."
        )
    return math.sqrt(rest) * (1 - 2.0**-50)
