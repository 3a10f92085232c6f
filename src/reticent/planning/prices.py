"""The largest price of one answer at which all answers stay within the budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from reticent._numbers import exact
from reticent.guarantees import QUICK_METHODS, ApproxDP, Certificate, PureDP, repeat
from reticent.ledger import Cap
from reticent.planning.facts import Facts

# A small part of the budget is left, because certificates round up.
_ROUNDING_RESERVE = 1e-9
_MARGIN = 1e-6
# For more queries, composing privacy loss distributions takes too long.
_FEW_QUERIES = 300


def epsilon_by_sum(facts: Facts) -> float:
    """Return the largest epsilon of one answer if epsilons are added up."""
    queries = int(facts.queries)
    step = facts.epsilon / queries
    while exact(step) * queries > exact(facts.epsilon):
        step = math.nextafter(step, 0.0)
    return step


def _rho(facts: Facts) -> float:
    return (
        _total_rho(facts.epsilon, facts.delta) * (1 - _ROUNDING_RESERVE) / facts.queries
    )


@lru_cache(maxsize=256)
def _total_rho(epsilon: float, delta: float) -> float:
    """Return the rho that an account opened with this budget may spend."""
    return Cap.either(epsilon=epsilon, delta=delta).filter.rho


def epsilon_by_zcdp(facts: Facts, per_square: float) -> float:
    """Return the largest epsilon of one answer if rhos are added up; 0 without delta.

    Parameters
    ----------
    facts : Facts
        Budget and number of queries.
    per_square : float
        Rho of a step per square of its epsilon: 1/8 for bounded range, 1/2 for pure DP.
    """
    if facts.delta == 0:
        return 0.0
    return math.sqrt(_rho(facts) / per_square)


def gaussian_noise(facts: Facts) -> tuple[float, float]:
    """Return the epsilon of an answer with Gaussian noise at the budget's delta.

    Return also the ratio of sensitivity to noise; both are 0 without delta.
    """
    if facts.delta == 0:
        return 0.0, 0.0
    ratio = math.sqrt(2 * _rho(facts))
    if ratio == 0:  # a delta too small for an account to count
        return 0.0, 0.0
    return _epsilon_of(ratio * (1 - _MARGIN), facts.delta), ratio


def _epsilon_of(ratio: float, delta: float) -> float:
    """Return the epsilon of Gaussian noise by its exact curve, in plain floats."""

    def slack(epsilon: float) -> float:
        near, far = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
        log_far = epsilon + float(log_ndtr(far))
        return float(ndtr(near)) - math.exp(log_far) - delta

    if slack(0.0) <= 0:
        # More noise than needed: any tiny epsilon will do.
        return ratio * _MARGIN
    high = ratio
    while slack(high) > 0:
        high *= 2
    return float(brentq(slack, 0.0, high, xtol=1e-300, rtol=1e-12))


def total_price(
    facts: Facts, certify: Callable[[], Certificate[Any]], *, basic: bool
) -> tuple[Any, str]:
    """Return the total of all answers, and the rule that proves it.

    Parameters
    ----------
    facts : Facts
        Budget and number of queries.
    certify : callable
        Makes the certificate of one answer.
    basic : bool
        Whether epsilons are added up and no delta is spent.
    """
    total = repeat(
        certify(),
        int(facts.queries),
        delta=0.0 if basic else facts.delta,
        methods=(*QUICK_METHODS, "pld")
        if facts.queries <= _FEW_QUERIES
        else QUICK_METHODS,
    )
    return total.guarantee, total.rule


def whole_budget(facts: Facts, delta: float, rule: str) -> tuple[Any, str]:
    """Return the budget as the total, pure without a delta, and the rule."""
    if delta:
        return ApproxDP(facts.epsilon, facts.delta), rule
    return PureDP(facts.epsilon), rule
