"""Numbers on certificates: validation, and sums that are exact.

A number on a certificate means the shortest decimal that names its float, so ten
answers at 0.1 cost exactly 1. Sums and multiples are taken over these rationals and
rounded up once.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from reticent.errors import InvalidGuaranteeError


def exact(value: float) -> Fraction:
    """Return the rational number that a float on a certificate stands for."""
    return Fraction(repr(float(value)))


def ceil_float(value: Fraction) -> float:
    """Return the smallest float that stands for at least `value`."""
    result = float(value)
    while exact(result) < value:
        result = math.nextafter(result, math.inf)
    return result


def real(owner: str, name: str, value: Any) -> float:
    """Return `value` as a finite float or refuse it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidGuaranteeError(
            f"{owner} needs a real number for {name}; got {name}={value!r} of type "
            f"{type(value).__name__}."
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
            f"{owner} needs a whole number for {name}; got {name}={value!r}."
        )
    number = int(value)
    if not number >= least:
        raise InvalidGuaranteeError(
            f"{owner} needs {name} >= {least}; got {name}={number}."
        )
    return number
