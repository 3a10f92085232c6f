"""Privacy profiles: the delta at each epsilon that a promise implies, rounded up."""

from __future__ import annotations

import math

from reticent._numbers import down, up
from reticent._search import geometric_mean, last_that_holds
from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    Guarantee,
    PureDP,
    gaussian_delta,
    zcdp_epsilon,
)

# Bisection ends when it is this close, relatively.
_CLOSE = 1e-9
_SMALLEST = 1e-300


def profile(guarantee: Guarantee, epsilon: float) -> float:
    """Return a delta such that (epsilon, delta)-DP follows from a guarantee.

    Parameters
    ----------
    guarantee : PureDP, BoundedRange, ApproxDP, ZCDP or GaussianDP
        The guarantee.
    epsilon : float
        Not negative.
    """
    if isinstance(guarantee, (PureDP, BoundedRange)):
        return _pure(guarantee.epsilon, epsilon)
    if isinstance(guarantee, ApproxDP):
        # The worst pair reveals all with probability delta (Kairouz et al. 2015).
        rest = _pure(guarantee.epsilon, epsilon)
        return up(guarantee.delta + up((1 - guarantee.delta) * rest))
    if isinstance(guarantee, ZCDP):
        return _concentrated(guarantee.rho, epsilon)
    if isinstance(guarantee, GaussianDP):
        return float(gaussian_delta(guarantee.mu, epsilon)) if guarantee.mu else 0.0
    raise RuleError(f"{guarantee!r} has no privacy profile.")


def _pure(own: float, epsilon: float) -> float:
    """Return the delta of randomized response, the worst pure pair."""
    if epsilon >= own:
        return 0.0
    return up(up(-math.expm1(epsilon - own)) / down(1 + math.exp(-own)))


def _concentrated(rho: float, epsilon: float) -> float:
    """Return the delta of zCDP: by the best order, or Pinsker's ``sqrt(rho / 2)``.

    The second is a bound on the total variation, which no delta exceeds; it is better
    at small epsilons.
    """
    if rho == 0:
        return 0.0
    variation = up(math.sqrt(up(rho / 2)))
    most = min(variation, math.nextafter(1.0, 0.0))

    def enough(delta: float) -> bool:
        return zcdp_epsilon(rho, delta) <= epsilon

    if not enough(most):
        return variation
    return last_that_holds(
        enough, most, _SMALLEST, relative=_CLOSE, middle=geometric_mean
    )
