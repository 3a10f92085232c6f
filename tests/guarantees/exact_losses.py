"""Slow, obvious totals: every sequence of outcomes, or many digits."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
from numpy.typing import NDArray

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def response(epsilon: float, delta: float = 0.0) -> Pair:
    """Return the worst pair of (epsilon, delta)-DP: randomized response with a leak."""
    high = (1 - delta) / (1 + math.exp(-epsilon))
    low = (1 - delta) / (1 + math.exp(epsilon))
    return np.array([delta, high, low, 0.0]), np.array([0.0, low, high, delta])


def odds_pair(epsilon: float, cells: int) -> Pair:
    """Return the odds pair of a bounded range, its outcomes lumped into cells.

    Lumping loses information, so totals of these are never above the true ones.
    """
    edges = np.linspace(0.0, 1.0, cells + 1)
    reached = edges / (math.exp(-epsilon) + -math.expm1(-epsilon) * edges)
    return np.diff(reached), np.diff(edges)


def ranged(epsilon: float, top: float) -> Pair:
    """Return a binary mechanism of bounded range with largest loss `top`."""
    low = math.exp(top - epsilon)
    q = (1 - low) / (math.exp(top) - low)
    return np.array([math.exp(top) * q, low * (1 - q)]), np.array([q, 1 - q])


def joint(pairs: list[Pair]) -> Pair:
    """Return the laws of all sequences of outcomes."""
    first, second = np.ones(1), np.ones(1)
    for one, other in pairs:
        first = np.multiply.outer(first, one).ravel()
        second = np.multiply.outer(second, other).ravel()
    return first, second


def slack_at(pair: Pair, epsilon: float) -> float:
    """Return the delta of two laws at `epsilon`, both ways round."""
    first, second = pair
    factor = math.exp(epsilon)
    return max(
        float(np.maximum(first - factor * second, 0).sum()),
        float(np.maximum(second - factor * first, 0).sum()),
    )


def pure_slack(epsilon: float, step: float, count: int) -> mpmath.mpf:
    """Return the delta of `count` randomized responses, in fifty digits."""
    with mpmath.workdps(50):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(repr(step))
        p = 1 / (1 + mpmath.exp(-s))
        ratio = p / (1 - p)
        # From the first loss above epsilon upwards, until terms no longer matter.
        least = int(mpmath.floor((e / s + count) / 2)) + 1
        if least > count:
            return mpmath.mpf(0)
        least = max(0, least)
        log_term = (
            mpmath.loggamma(count + 1)
            - mpmath.loggamma(least + 1)
            - mpmath.loggamma(count - least + 1)
            + least * mpmath.log(p)
            + (count - least) * mpmath.log1p(-p)
        )
        term, total = mpmath.exp(log_term), mpmath.mpf(0)
        for hits in range(least, count + 1):
            total += term * -mpmath.expm1(e - (2 * hits - count) * s)
            term *= ratio * (count - hits) / (hits + 1)
            if hits > count * p and term < total * mpmath.mpf("1e-25"):
                break
        return total


def sequences_slack(epsilon: float, step: float, count: int) -> float:
    """Return the same for few steps, sequence by sequence."""
    high = 1 / (1 + math.exp(-step))
    total = 0.0
    for bits in product((0, 1), repeat=count):
        ones = sum(bits)
        first = high**ones * (1 - high) ** (count - ones)
        second = high ** (count - ones) * (1 - high) ** ones
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


def conversion(rho, delta):
    """Minimise the bound of Canonne, Kamath and Steinke over the order in 60 digits."""
    with mpmath.workdps(60):
        rho = rho if isinstance(rho, mpmath.mpf) else mpmath.mpf(repr(rho))
        delta = mpmath.mpf(repr(delta))

        def bound(order):
            return (
                rho * order
                + mpmath.log(1 / (order * delta)) / (order - 1)
                + mpmath.log1p(-1 / order)
            )

        def slope(log_excess):
            x = mpmath.exp(log_excess)
            return rho * x * x + mpmath.log1p(x) + mpmath.log(delta)

        low, high = mpmath.mpf(-800), mpmath.mpf(800)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        best = bound(1 + mpmath.exp(low))
        for nudge in ("-0.01", "0.01"):  # a minimum indeed
            assert bound(1 + mpmath.exp(low + mpmath.mpf(nudge))) >= best
        return max(mpmath.mpf(0), best)
