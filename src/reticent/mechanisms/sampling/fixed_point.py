"""Rigorous bounds on exp(-x) and on tails of the normal law, in whole numbers.

The slow path of every sampler rests on this file alone: no floating point, no
library function, only integers that are rounded outwards.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

# Halvings beyond what brings the argument below one: the series then gains at least
# this many bits per term. Chosen for speed; any value is correct.
_EXTRA_HALVINGS = 8
_GUARD_BITS = 16


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits * exp(-x)``, a few units apart, for `x` >= 0.

    Examples
    --------
    >>> exp_bounds(Fraction(1), 10)
    (376, 377)
    >>> exp_bounds(Fraction(10**9), 64)
    (0, 1)
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x >= bits:
        return 0, 1  # exp(-x) < 2^-x <= 2^-bits
    halvings = _EXTRA_HALVINGS + max(
        0, x.numerator.bit_length() - x.denominator.bit_length() + 1
    )
    precision = bits + halvings + _GUARD_BITS
    # step <= 2^precision x / 2^halvings < step + 1, which is below 2^(precision - 8).
    step = (x.numerator << precision) // (x.denominator << halvings)
    term = total = 1 << precision
    count = 0
    while term:
        count += 1
        # Rounding down: each term is short of the true one by less than two units.
        term = term * step // (count << precision)
        total += -term if count % 2 else term
    # Less than 2 units per term, 3 for the terms left out, 1 for rounding the step.
    error = 2 * count + 4
    low, high = max(0, total - error), total + error
    for _ in range(halvings):
        low = low * low >> precision
        high = shifted_up(high * high, precision)
    extra = precision - bits
    return low >> extra, min(1 << bits, shifted_up(high, extra))


def normal_tail_bounds(z: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits * Pr[N(0, 1) > z]``, for `z` >= 0.

    The tail is 1/2 minus the alternating series ``sum of (-1)^n t(n) / (2n + 1)`` over
    ``sqrt(2 pi)``, with ``t(0) = z`` and ``t(n) = t(n - 1) z^2 / (2n)``. Terms grow to
    ``exp(z^2 / 2)`` before they fall, so that many more bits are carried.

    Examples
    --------
    >>> normal_tail_bounds(Fraction(0), 10)
    (512, 512)
    >>> normal_tail_bounds(Fraction(2), 20)
    (23855, 23856)
    """
    if z == 0:
        return 1 << (bits - 1), 1 << (bits - 1)
    square = z * z
    extra = 2 * _GUARD_BITS + math.ceil(0.73 * float(square))
    precision = bits + extra
    low = (z.numerator << precision) // z.denominator
    high = low + 1
    sum_low, sum_high = low, high
    above, under, growing = square.numerator, square.denominator, math.ceil(square)
    count = 0
    while count < growing or high > 1:
        count += 1
        below = 2 * count * under
        low = low * above // below
        high = -(-high * above // below)
        least, most = low // (2 * count + 1), -(-high // (2 * count + 1))
        if count % 2:
            least, most = -most, -least
        sum_low, sum_high = sum_low + least, sum_high + most
    # Terms fall and alternate by now: what is left out is below the last one.
    root_low, root_high = _inverse_root_of_two_pi(precision)
    half = 1 << (precision - 1)
    tail_low = half - shifted_up((sum_high + 1) * root_high, precision)
    tail_high = half - ((sum_low - 1) * root_low >> precision)
    return max(0, tail_low >> extra), shifted_up(tail_high, extra)


@lru_cache(maxsize=16)
def _inverse_root_of_two_pi(precision: int) -> tuple[int, int]:
    """Return integers around ``2**precision / sqrt(2 pi)``, by Machin's formula."""
    fine = precision + _GUARD_BITS
    low = 16 * _arctan_bounds(5, fine)[0] - 4 * _arctan_bounds(239, fine)[1]
    high = 16 * _arctan_bounds(5, fine)[1] - 4 * _arctan_bounds(239, fine)[0]
    power = 1 << (2 * precision + fine)
    return math.isqrt(power // (2 * high)), math.isqrt(power // (2 * low)) + 1


def _arctan_bounds(inverse: int, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits * arctan(1 / inverse)``."""
    power = (1 << bits) // inverse
    total, count = 0, 0
    while power:
        term = power // (2 * count + 1)
        total += -term if count % 2 else term
        power //= inverse * inverse
        count += 1
    # Each term is short by less than two units, and what is left out by one.
    return total - 2 * count - 1, total + 2 * count + 1


def shifted_up(value: int, bits: int) -> int:
    """Return ``value / 2**bits`` rounded up."""
    return -(-value >> bits)


def scaled(value: Fraction, bits: int) -> tuple[int, int]:
    """Return ``2**bits * value`` rounded down and up."""
    numerator = value.numerator << bits
    return numerator // value.denominator, -(-numerator // value.denominator)
