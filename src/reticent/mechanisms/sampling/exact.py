"""Exact samplers: the one place where a probability becomes an outcome.

A real number U, uniform on [0, 1), is known through its random bits. Its first 32
bits are compared, for a whole batch at once, with an interval of floats that is certain
to hold the probability; where that is not enough, its first 53 bits. The few
comparisons that are then still undecided (about one in 10^12) draw more bits and a
tighter interval, in whole numbers, until they are decided. So an outcome has exactly
its probability, however small, and no rounding of a float is part of any law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Bools, Floats
from reticent.errors import InternalError, InvalidParameterError
from reticent.mechanisms.sampling.fixed_point import exp_bounds, scaled
from reticent.mechanisms.sampling.inputs import floats, nearest_float, rational
from reticent.mechanisms.sampling.listening import audible
from reticent.mechanisms.sampling.randomness import RandomSource

#: Bounds on ``2**bits * p`` for one element: called with its index and `bits`.
Refine: TypeAlias = Callable[[int, int], tuple[int, int]]

HEAD_BITS = 32
FLOAT_BITS = 53
UNIT = 2.0**-FLOAT_BITS

# NumPy's exp is within 4 units in the last place (its own accuracy tests ask for
# less), that is 8 * 2^-53 of the value; twice that is allowed for here. Arguments
# below DEEPEST are cut off there: exp(-700) < 2^-1000.
EXP_ERROR = 16 * UNIT
DEEPEST = -700.0
TINY = 2.0**-1000

# Rows worked on at a time, so that they stay in the processor's cache.
_BLOCK = 1 << 13


@audible("bernoulli")
def draw_below(
    low: Floats, high: Floats, refine: Refine, source: RandomSource
) -> Bools:
    """Draw independent Bernoulli variables whose probabilities lie in intervals.

    Parameters
    ----------
    low, high : ndarray of shape (n,)
        Floats with ``low <= p <= high``.
    refine : callable
        ``refine(i, bits)`` returns integers around ``2**bits * p[i]`` that close in
        on it as `bits` grows.
    source : RandomSource
        Where bits come from.

    Guarantee
    ---------
    Element `i` is True with probability exactly ``p[i]``, independently of all others.
    """
    outcome = np.empty(low.size, dtype=bool)
    for start in range(0, low.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        heads = first_bits(len(low[part]), source)
        sure, unsure = _compare(heads, HEAD_BITS, low[part], high[part])
        # Always done, also for none: the time taken must not tell.
        longer = more_bits(heads[unsure], source)
        bounds = low[part][unsure], high[part][unsure]
        sure[unsure], still = _compare(longer, FLOAT_BITS, *bounds)
        for index in still:
            at = int(unsure[index])
            sure[at] = _settle(int(longer[index]), start + at, refine, source)
        outcome[part] = sure
    return outcome


def first_bits(count: int, source: RandomSource) -> NDArray[np.uint32]:
    """Return the first 32 bits of `count` random numbers."""
    return np.frombuffer(source.bytes(4 * count), dtype=np.uint32)


def more_bits(heads: NDArray[np.uint32], source: RandomSource) -> NDArray[np.uint64]:
    """Return the same numbers to 53 bits, as many as a float holds."""
    more = FLOAT_BITS - HEAD_BITS
    tails = source.words(heads.size) >> np.uint64(64 - more)
    return heads.astype(np.uint64) << np.uint64(more) | tails


def _compare(
    heads: NDArray[np.unsignedinteger[Any]], bits: int, low: Floats, high: Floats
) -> tuple[Bools, NDArray[np.intp]]:
    """Return which numbers are certainly below, and the indices of undecided ones."""
    leading = heads.astype(np.float64)
    # Scaling by a power of two, and adding 1 below 2^53, is exact in floats.
    surely_not = leading >= high * 2.0**bits
    leading += 1.0
    surely = np.asarray(leading <= low * 2.0**bits)
    return surely, np.flatnonzero(surely == surely_not)


def _settle(head: int, index: int, refine: Refine, source: RandomSource) -> bool:
    """Decide ``U < p`` for the number U that starts with the 53 bits of `head`."""
    for bits, drawn in longer_prefixes(head, FLOAT_BITS, source):
        low, high = refine(index, bits)
        if drawn + 1 <= low:
            return True
        if drawn >= high:
            return False
    raise InternalError("a source of random bits ran dry.")


def longer_prefixes(
    head: int, bits: int, source: RandomSource
) -> Iterator[tuple[int, int]]:
    """Yield ever longer prefixes of U as (number of bits, their value).

    `head` holds the first `bits` bits.
    """
    drawn = head
    while True:
        drawn = drawn << 64 | int(source.words(1)[0])
        bits += 64
        yield bits, drawn


def draw_bernoulli(p: ArrayLike | Fraction, source: RandomSource) -> Bools:
    """Draw independent Bernoulli variables.

    Parameters
    ----------
    p : array-like of floats or of Fractions
        Probabilities. A float is read as the exact binary fraction.
    source : RandomSource
        Where bits come from.

    Returns
    -------
    ndarray of bool, of the shape of `p`

    Guarantee
    ---------
    True with probability exactly `p`.
    """
    values = np.asarray(p)
    if values.dtype == object:
        rationals = [rational(value) for value in values.flat]
        within = all(0 <= value <= 1 for value in rationals)
        near = np.array([float(value) for value in rationals])
        # float() of a rational rounds to the nearest, so it is one step off at most.
        low, high = np.nextafter(near, -1.0), np.nextafter(near, 2.0)
    else:
        low = high = floats("p", values).ravel()
        within = bool(((low >= 0) & (low <= 1)).all())
    if not within:
        raise InvalidParameterError("draw_bernoulli needs 0 <= p <= 1 for every p.")

    def refine(index: int, bits: int) -> tuple[int, int]:
        exact = rationals[index] if values.dtype == object else Fraction(low[index])
        return scaled(exact, bits)

    return draw_below(low, high, refine, source).reshape(values.shape)


def draw_bernoulli_exp(x: ArrayLike, source: RandomSource) -> Bools:
    """Draw independent Bernoulli variables of probability ``exp(-x)``.

    Parameters
    ----------
    x : array-like of floats >= 0, or of Fractions >= 0
        Exponents, taken exactly.
    source : RandomSource
        Where bits come from.

    Guarantee
    ---------
    True with probability exactly ``exp(-x)``; never impossible, however large `x`.
    """
    values = np.asarray(x)
    if values.dtype == object:
        rationals = [rational(value) for value in values.flat]
        within = all(value >= 0 for value in rationals)
        near = np.array([nearest_float(value) for value in rationals])
        # Half a unit in the last place of an exponent up to 700.
        error = -DEEPEST * UNIT
    else:
        near, error = floats("x", values).ravel(), 0.0
        within = bool((near >= 0).all())
    if not within:
        raise InvalidParameterError("draw_bernoulli_exp needs x >= 0 for every x.")

    def exact(index: int) -> Fraction:
        return rationals[index] if values.dtype == object else Fraction(near[index])

    return draw_exp(near, error, exact, source).reshape(values.shape)


@audible("bernoulli exp")
def draw_exp(
    near: Floats, error: float, exact: Callable[[int], Fraction], source: RandomSource
) -> Bools:
    """Draw Bernoulli variables of probability ``exp(-exact(i))``.

    Parameters
    ----------
    near : ndarray of shape (n,)
        Floats within `error` of the exponents; those above 700 need only be above
        699 in truth.
    error : float
        At most ``2**-20``; the smaller, the fewer calls of `exact`.
    exact : callable
        Returns the exponent of one element, at least 0.
    source : RandomSource
        Where bits come from.
    """

    def refine(index: int, bits: int) -> tuple[int, int]:
        return exp_bounds(exact(index), bits)

    outcome = np.empty(near.size, dtype=bool)
    # In units of 2^-32 of U: exp(t) - 1 < 2t for small t, and TINY vanishes.
    slack = (EXP_ERROR + 2.0 * error) * 2.0**HEAD_BITS + UNIT
    for start in range(0, near.size, _BLOCK):
        x = near[start : start + _BLOCK]
        heads = first_bits(len(x), source)
        ahead = np.exp(np.maximum(-x, DEEPEST))
        ahead *= 2.0**HEAD_BITS
        ahead -= heads
        sure = ahead >= 1 + slack
        if not error:
            sure |= x == 0  # exp(0) is known: no more bits needed
        unsure = np.flatnonzero((ahead > -slack) & ~sure)
        # Always done, also for none: the time taken must not tell.
        longer = more_bits(heads[unsure], source)
        low, high = exp_interval(x[unsure], error)
        sure[unsure], still = _compare(longer, FLOAT_BITS, low, high)
        for index in still:
            at = int(unsure[index])
            sure[at] = _settle(int(longer[index]), start + at, refine, source)
        outcome[start : start + _BLOCK] = sure
    return outcome


def exp_interval(x: Floats, error: float = 0.0) -> tuple[Floats, Floats]:
    """Return floats in [0, 1] around ``exp(-y)``, for `y` within `error` of `x`."""
    value = np.exp(np.maximum(-x, DEEPEST))
    doubt = EXP_ERROR + 2.0 * error  # exp(t) - 1 < 2t for small t
    low = np.maximum(value * (1.0 - doubt) - TINY, 0.0)
    high = np.minimum(value * (1.0 + doubt) + TINY, 1.0)
    if not error:
        low[x == 0] = 1.0  # exp(0) is known: no more bits needed
    return low, high
