"""Interval arithmetic of any precision, to verify laws."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from mpmath.ctx_iv import MPIntervalContext

# mpmath rounds exp and log of an interval's ends outwards, but from a value that it
# knows to about 14 bits more than asked, so a wrong last bit is possible. Widening by
# this many last bits makes up for that and more.
_DOUBTFUL_BITS = 6


class TooWideError(ArithmeticError):
    """An interval is too wide at this precision; a higher precision will do."""


class IntervalArithmetic:
    """Arithmetic at one precision, independent of mpmath's global contexts.

    Parameters
    ----------
    precision : int
        Bits of every interval's ends.
    """

    def __init__(self, precision: int) -> None:
        self.precision = precision
        self._context = MPIntervalContext()
        self._context.prec = precision
        step = self._context.mpf(2) ** (_DOUBTFUL_BITS - precision)
        self._doubt = self._context.mpf([-step.b, step.b])

    def real(self, value: Fraction | int | float) -> Any:
        """Return an interval around a rational number."""
        rational = Fraction(value)
        return self._context.mpf(rational.numerator) / rational.denominator

    def between(self, low: Any, high: Any) -> Any:
        """Return the interval from the lower end of `low` to the upper of `high`."""
        return self._context.mpf([low.a, high.b])

    def exp(self, x: Any) -> Any:
        """Return an interval around ``exp(x)``."""
        return self._context.exp(x) * (1 + self._doubt)

    def log(self, x: Any) -> Any:
        """Return an interval around ``log(x)`` for `x` > 0."""
        if not x.a > 0:
            raise TooWideError
        # An error relative to the argument covers logarithms near zero, too.
        return self._context.log(x * (1 + self._doubt)) * (1 + self._doubt)

    @staticmethod
    def ends(x: Any) -> tuple[Fraction, Fraction]:
        """Return the ends of an interval as exact rationals."""
        low, high = (_rational(end) for end in x._mpi_)
        return low, high


@lru_cache(maxsize=16)
def interval_arithmetic(precision: int) -> IntervalArithmetic:
    """Return the arithmetic of a precision; making one takes longer than using it.

    Use it under `MPMATH_LOCK`.
    """
    return IntervalArithmetic(precision)


def _rational(raw: tuple[int, int, int, int]) -> Fraction:
    sign, mantissa, exponent, _ = raw
    value = int(mantissa) * Fraction(2) ** int(exponent)
    return -value if sign else value
