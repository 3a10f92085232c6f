"""Arithmetic that rounds against us.

An upper bound on a loss is computed with :func:`up`, a lower bound with
:func:`down`. NumPy's and the C library's elementary functions are within a few units
in the last place; each step below moves by `_ULPS` of them, which covers that error
and the rounding of a short chain of operations around it.
"""

from __future__ import annotations

import math

# The C library's exp, log, log1p, expm1 and tanh are within 2 units in the last
# place; the expressions passed to up() and down() round at most a dozen times more.
_ULPS = 16


def up(value: float) -> float:
    """Return a float surely at least the real number that `value` approximates."""
    return value + _ULPS * math.ulp(value)


def down(value: float) -> float:
    """Return a float surely at most the real number that `value` approximates."""
    return value - _ULPS * math.ulp(value)


def down_nonnegative(value: float) -> float:
    """Like :func:`down`, but never below zero."""
    return max(0.0, down(value))


def truncate(value: float, *, bits: int) -> float:
    """Round a positive float towards zero to `bits` significant bits.

    The product of a float of `b` bits and an integer below ``2**(53 - b)`` is exact,
    so a truncated epsilon times a vote count is a real number without rounding.
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)
