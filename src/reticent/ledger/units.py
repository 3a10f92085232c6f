"""Losses as whole numbers: charges round up, caps round down, sums are exact.

A float stands for the shortest decimal that names it, as on certificates: ten answers
at 0.1 cost exactly 1. Each loss is counted in a unit far below anything that matters,
so rounding a charge up costs at most one unit.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

from reticent._numbers import ceil_float, exact
from reticent.errors import InvalidParameterError

#: Units in one epsilon, one rho and a delta of one.
EPSILON_UNITS = 10**9
RHO_UNITS = 10**12
DELTA_UNITS = 10**18

#: The largest count of units: the sum of two still fits a signed 64-bit column.
MAX_UNITS = 2**62 - 1

_LONGEST_SHOWN = 40


class Spend(NamedTuple):
    """What is spent, charged or allowed, in whole units of each kind of loss.

    `epsilon` counts 1e-9, `delta` 1e-18 and `rho` (zCDP) 1e-12; `answers` counts
    answers.
    """

    epsilon: int = 0
    delta: int = 0
    rho: int = 0
    answers: int = 0

    def plus(self, other: Spend) -> Spend:
        """Return the sum."""
        epsilon, delta, rho, answers = self
        more_epsilon, more_delta, more_rho, more_answers = other
        return Spend(
            epsilon + more_epsilon,
            delta + more_delta,
            rho + more_rho,
            answers + more_answers,
        )

    def minus(self, other: Spend) -> Spend:
        """Return the difference, never below zero."""
        return Spend(
            *(max(0, mine - theirs) for mine, theirs in zip(self, other, strict=True))
        )

    def times(self, count: int) -> Spend:
        """Return `count` times this."""
        return Spend(
            self.epsilon * count,
            self.delta * count,
            self.rho * count,
            count * self.answers,
        )

    def counted(self) -> Spend:
        """Return this with epsilon and rho cut off at `MAX_UNITS`."""
        if self.epsilon <= MAX_UNITS and self.rho <= MAX_UNITS:
            return self
        return self._replace(
            epsilon=min(self.epsilon, MAX_UNITS), rho=min(self.rho, MAX_UNITS)
        )

    def within(self, limits: Spend) -> bool:
        """Return whether no kind of loss exceeds its limit."""
        return (
            self.epsilon <= limits.epsilon
            and self.delta <= limits.delta
            and self.rho <= limits.rho
            and self.answers <= limits.answers
        )


#: Nothing spent.
NO_SPEND = Spend()


def units_up(name: str, value: Any, units: int) -> int:
    """Return `value` in whole units, rounded up: for what is charged."""
    return _bounded(name, value, math.ceil(_loss(name, value) * units))


def units_down(name: str, value: Any, units: int) -> int:
    """Return `value` in whole units, rounded down: for what is allowed."""
    return _bounded(name, value, math.floor(_loss(name, value) * units))


def units_to_float(count: int, units: int) -> float:
    """Return whole units as a float that stands for at least as much."""
    return ceil_float(Fraction(count, units))


def whole(name: str, value: Any) -> int:
    """Return `value` as an int from 0 to `MAX_UNITS` or refuse it."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidParameterError(
            f"{name}={value!r} must be a whole number of units; got type "
            f"{type(value).__name__}."
        )
    return _bounded(name, value, int(value))


def _loss(name: str, value: Any) -> Fraction:
    """Read a loss exactly; refuse numbers that only a mistake or an attack produces."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameterError(
            f"{name}={value!r} must be a real number; got type {type(value).__name__}."
        )
    sign: Any = value  # numbers.Real does not promise to compare with an int
    if not sign >= 0:
        # Checked before rounding, which would turn a tiny negative loss into zero.
        raise InvalidParameterError(
            f"{name}={_shown(value)} must be a number of at least 0."
        )
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    number = float(value)
    if not math.isfinite(number):
        raise InvalidParameterError(f"{name}={number!r} must be finite.")
    if number == 0 and math.copysign(1.0, number) < 0:
        raise InvalidParameterError(
            f"{name}=-0.0 must not be negative; pass 0.0 for no loss."
        )
    if 0 < number < sys.float_info.min:
        raise InvalidParameterError(
            f"{name}={number!r} is subnormal, too small for any real loss; pass 0.0 "
            "or a larger number."
        )
    return exact(number)


def _bounded(name: str, value: Any, count: int) -> int:
    if not 0 <= count <= MAX_UNITS:
        raise InvalidParameterError(
            f"{name}={_shown(value)} must lie between 0 and what the ledger can count "
            f"({MAX_UNITS} units)."
        )
    return count


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else "(a number of many digits)"
