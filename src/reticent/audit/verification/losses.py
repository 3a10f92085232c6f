"""The distance of two laws, in the terms of each guarantee."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from reticent._arrays import Floats
from reticent._numbers import exact
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Guarantee,
    PureDP,
    UniformStability,
)

# Orders at which the Rényi divergence is compared with zCDP's line.
_ORDERS = (1.01, 1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0)


def allowed(guarantee: Guarantee) -> float:
    """Return the number that `loss` must not exceed under a guarantee."""
    if isinstance(guarantee, (PureDP, BoundedRange)):
        return guarantee.epsilon
    if isinstance(guarantee, ApproxDP):
        return guarantee.delta
    if isinstance(guarantee, ZCDP):
        return guarantee.rho
    if isinstance(guarantee, UniformStability):
        return guarantee.gamma
    raise InvalidParameterError(
        f"{guarantee} is not about neighbouring datasets, so it cannot be verified by "
        "comparing them. Verify the certificate it was derived from."
    )


def loss(guarantee: Guarantee, left: Floats, right: Floats) -> float:
    """Return how much of a guarantee one pair of laws uses up.

    The laws are log-probabilities of the same outcomes. The loss is the largest
    log-ratio for pure DP, the width of the interval of log-ratios and 0 for bounded
    range, delta at the promised epsilon for approximate DP, the largest Rényi
    divergence over its order for zCDP, and total variation for stability.
    """
    with np.errstate(invalid="ignore"):
        ratios = np.where(left == right, 0.0, left - right)
    if isinstance(guarantee, PureDP):
        return float(np.abs(ratios).max())
    if isinstance(guarantee, BoundedRange):
        return float(max(ratios.max(), 0.0) - min(ratios.min(), 0.0))
    p, q = np.exp(left), np.exp(right)
    if isinstance(guarantee, ApproxDP):
        growth = math.exp(min(guarantee.epsilon, 700.0))
        return float(
            max(
                np.maximum(p - growth * q, 0.0).sum(),
                np.maximum(q - growth * p, 0.0).sum(),
            )
        )
    if isinstance(guarantee, UniformStability):
        return float(np.abs(p - q).sum() / 2)
    if isinstance(guarantee, ZCDP):
        return max(_renyi(left, right), _renyi(right, left))
    return allowed(guarantee)  # raises: nothing to compare


def _renyi(left: Floats, right: Floats) -> float:
    """Return the largest Rényi divergence over its order, over a list of orders."""
    worst = 0.0
    for order in _ORDERS:
        terms = order * left + (1 - order) * right
        top = terms.max()
        if not math.isfinite(top):
            return math.inf
        total = top + math.log(float(np.exp(terms - top).sum()))
        worst = max(worst, total / (order - 1) / order)
    return worst


def surely_within(
    left: Any, right: Any, row: int, limit: float, *, bits: int = 96
) -> bool:
    """Return whether no log-ratio exceeds `limit`, decided in interval arithmetic.

    `left` and `right` are responses that can state their law as intervals. A ratio may
    equal the limit, which no interval can prove, so ``2**(8 - bits)`` more is allowed.
    """
    most = exact(limit) + Fraction(1, 2 ** (bits - 8))
    pairs = zip(left.exact(row, bits=bits), right.exact(row, bits=bits), strict=True)
    return all(
        max(high - other_low, other_high - low) <= most
        for (low, high), (other_low, other_high) in pairs
    )
