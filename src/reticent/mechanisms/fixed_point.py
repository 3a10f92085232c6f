"""Rigorous bounds on exp(-x) in whole numbers.

The slow path of every sampler rests on this file alone: no floating point, no
library function, only integers that are rounded outwards.
"""

from __future__ import annotations

from fractions import Fraction

# Halvings beyond what brings the argument below one: the series then gains at least
# this many bits a term. Chosen for speed; any value is correct.
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
    # Less than 2 units a term, 3 for the terms left out, 1 for rounding the step.
    error = 2 * count + 4
    low, high = max(0, total - error), total + error
    for _ in range(halvings):
        low = low * low >> precision
        high = shifted_up(high * high, precision)
    extra = precision - bits
    return low >> extra, min(1 << bits, shifted_up(high, extra))


def shifted_up(value: int, bits: int) -> int:
    """Return ``value / 2**bits`` rounded up."""
    return -(-value >> bits)


def scaled(value: Fraction, bits: int) -> tuple[int, int]:
    """Return ``2**bits * value`` rounded down and up."""
    numerator = value.numerator << bits
    return numerator // value.denominator, -(-numerator // value.denominator)
