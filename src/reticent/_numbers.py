"""Numbers on certificates: validation, exact sums, and rounding against us.

A number on a certificate means the shortest decimal that names its float, so ten
answers at 0.1 cost exactly 1. Sums and multiples are taken over these rationals and
rounded up once.

An upper bound on a loss is computed with :func:`up`, a lower bound with
:func:`down`. NumPy's and the C library's elementary functions are within a few units
in the last place; each step moves by `_ULPS` of them, which covers that error and the
rounding of a short chain of operations around it.
"""

from __future__ import annotations

import math
import reprlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache
from numbers import Integral, Real
from typing import Any

from mpmath.ctx_mp import MPContext

from reticent.errors import InvalidGuaranteeError

# Python neither prints nor reads whole numbers beyond 4300 digits by default, and a
# certificate has to do both.
LARGEST_WHOLE = 10**4000
#: mpmath keeps constants in tables that two threads must not grow at once.
MPMATH_LOCK = threading.RLock()

# The C library's exp, log, log1p, expm1 and tanh are within 2 units in the last
# place; the expressions passed to up() and down() round at most a dozen times more.
_ULPS = 16
_SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_FLOOR)


@contextmanager
def high_precision(bits: int) -> Iterator[Any]:
    """Give one thread at a time mpmath's functions with this many bits.

    Values must not leave the block: another thread may compute with them. The contexts
    are ours, because others set the precision of the global one, and they are kept,
    because making one takes as long as ten values of a normal tail.

    Examples
    --------
    >>> with high_precision(100) as context:
    ...     print(float(context.sqrt(2)))
    1.4142135623730951
    """
    with MPMATH_LOCK:
        context = _context(bits)
        context.prec = bits  # if a function of it was interrupted
        yield context


@cache
def _context(bits: int) -> Any:
    return MPContext()


def exact(value: float) -> Fraction:
    """Return the rational number that a float on a certificate stands for."""
    return Fraction(repr(float(value)))


def ceil_float(value: Fraction) -> float:
    """Return the smallest float that stands for at least `value`."""
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    while math.isfinite(result) and exact(result) < value:
        result = math.nextafter(result, math.inf)
    if not math.isfinite(result):
        raise InvalidGuaranteeError(
            "a total on a certificate must be a finite float; got one above "
            f"{math.nextafter(math.inf, 0.0):.2g}."
        )
    return result


def ceil_root(value: Fraction) -> float:
    """Return the smallest float whose square stands for at least `value`."""
    # A root from above, to 30 digits more than a float holds, then rounded up.
    scale = 1 << (2 * (160 + value.denominator.bit_length()))
    whole_root = math.isqrt(math.ceil(value * scale))
    candidates = (Fraction(whole_root + extra, math.isqrt(scale)) for extra in (0, 1))
    return ceil_float(next(root for root in candidates if root * root >= value))


def real(owner: str, name: str, value: Any) -> float:
    """Return `value` as a finite float or refuse it.

    Numbers that no float holds (fractions, long integers) are rounded up: what is
    promised is a loss, and a loss must not shrink on its way to the certificate.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidGuaranteeError(
            f"{owner} needs a real number for {name}; got "
            f"{name}={reprlib.repr(value)} of type {type(value).__name__}."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidGuaranteeError(
            f"{owner} needs a finite {name}; got {name}={number!r}. A value that is "
            "not finite usually means a formula was used outside its domain."
        )
    if number < value:  # type: ignore[operator]  # reals compare with floats
        number = math.nextafter(number, math.inf)
    return number + 0.0  # -0.0 becomes 0.0


def nonnegative(owner: str, name: str, value: Any) -> float:
    """Return `value` as a finite float of at least zero."""
    number = real(owner, name, value)
    if not number >= 0:
        raise InvalidGuaranteeError(
            f"{owner} needs {name} >= 0; got {name}={number!r}."
        )
    return number


def positive(owner: str, name: str, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    number = real(owner, name, value)
    if not number > 0:
        raise InvalidGuaranteeError(f"{owner} needs {name} > 0; got {name}={number!r}.")
    return number


def below_one(owner: str, name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1)."""
    number = nonnegative(owner, name, value)
    if not number < 1:
        raise InvalidGuaranteeError(f"{owner} needs {name} < 1; got {name}={number!r}.")
    return number


def probability(owner: str, name: str, value: Any) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = real(owner, name, value)
    if not 0 < number < 1:
        raise InvalidGuaranteeError(
            f"{owner} needs 0 < {name} < 1; got {name}={number!r}."
        )
    return number


def whole(owner: str, name: str, value: Any, *, least: int = 1) -> int:
    """Return `value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidGuaranteeError(
            f"{owner} needs a whole number for {name}; got "
            f"{name}={reprlib.repr(value)}."
        )
    number = int(value)
    if not abs(number) < LARGEST_WHOLE:
        raise InvalidGuaranteeError(
            f"{owner} needs {name} < 10^4000; got a number of {number.bit_length()} "
            "bits."
        )
    if not number >= least:
        raise InvalidGuaranteeError(
            f"{owner} needs {name} >= {least}; got {name}={number}."
        )
    return number


def up(value: float) -> float:
    """Return a float no smaller than the real number that `value` approximates."""
    return value + _ULPS * math.ulp(value)


def down(value: float) -> float:
    """Return a float no larger than the real number that `value` approximates."""
    return value - _ULPS * math.ulp(value)


def down_nonnegative(value: float) -> float:
    """Like :func:`down`, but never below zero."""
    return max(0.0, down(value))


def shown(value: float) -> str:
    """Show a number with six digits, rounded up: what is printed is promised too.

    Examples
    --------
    >>> shown(1 / 3), shown(1.0000000000000002)
    ('0.333334', '1')
    """
    text = f"{value:.6g}"
    # The last digits of a float are not meant: what is exact with six stays as it is.
    if not float(text) < value * (1 - 1e-12):
        return text
    return f"{float(_SIX_DIGITS.create_decimal(Decimal(value))):.6g}"


def shown_down(value: float) -> str:
    """Show a lower bound with four digits, rounded down.

    Examples
    --------
    >>> shown_down(0.99996), shown_down(0.5)
    ('0.9999', '0.5')
    """
    if not 0 < value < math.inf:
        return f"{value:.4g}"
    return f"{float(_FOUR_DIGITS.create_decimal(repr(float(value)))):.4g}"
