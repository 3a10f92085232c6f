"""Searches for the place where a condition changes: one loop of each kind.

Every bisection takes a number `inside` where the condition holds and a number
`outside` where it fails, in either order, and returns a number at which the condition
*was seen to hold* (or `inside` itself). One function finds the largest number that
is private and the smallest that is enough, and numerical doubt falls on the side where
the condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Number = TypeVar("Number", int, float)

# More halvings than there are floats between any two: the search ends by itself.
_MOST_HALVINGS = 2200


def mean(first: float, second: float) -> float:
    """Return the number halfway between two numbers."""
    return (first + second) / 2


def geometric_mean(first: float, second: float) -> float:
    """Return the number halfway between two positive numbers in their logarithms."""
    return math.sqrt(first) * math.sqrt(second)


def last_that_holds(
    holds: Callable[[float], bool],
    inside: float,
    outside: float,
    *,
    halvings: int = _MOST_HALVINGS,
    relative: float = 0.0,
    middle: Callable[[float, float], float] = mean,
) -> float:
    """Bisect for the last number, from inside to outside, at which a condition holds.

    Parameters
    ----------
    holds : callable
        A condition that changes once between the two ends. If it changes more often,
        the result still holds, but need not be the last.
    inside, outside : float
        Where the condition holds and where it fails; neither end is tested. `outside`
        may be the smaller one.
    halvings : int, default=2200
        The largest number of tests; the default continues until no float lies between.
    relative : float, default=0.0
        The search ends when the ends differ by at most this share of the larger.
    middle : callable, default=mean
        Where to test next; `geometric_mean` if the result may be of any magnitude.

    Returns
    -------
    float
        `inside`, or a number for which ``holds`` returned True.

    Examples
    --------
    >>> last_that_holds(lambda x: x * x <= 2, 0.0, 2.0)
    1.414213562373095
    >>> last_that_holds(lambda x: x * x >= 2, 2.0, 0.0)
    1.4142135623730951
    """
    for _ in range(halvings):
        if relative and abs(outside - inside) <= relative * max(inside, outside):
            break
        between = middle(inside, outside)
        if between in (inside, outside):
            break
        if holds(between):
            inside = between
        else:
            outside = between
    return inside


def last_whole_that_holds(
    holds: Callable[[int], bool], inside: int, outside: int
) -> int:
    """Bisect whole numbers for the last one at which a condition holds.

    The arguments are those of `last_that_holds`.

    Examples
    --------
    >>> last_whole_that_holds(lambda k: k * k <= 50, 0, 50)
    7
    """
    while abs(outside - inside) > 1:
        between = (inside + outside) // 2
        if holds(between):
            inside = between
        else:
            outside = between
    return inside


def doubled_until(
    condition: Callable[[Number], bool], start: Number
) -> tuple[Number, Number]:
    """Double a number until it meets a condition, which must happen at some point.

    Returns
    -------
    (Number, Number)
        The last number tried that does not meet it (0 if `start` does), and the first
        that does.

    Examples
    --------
    >>> doubled_until(lambda x: x > 10, 1)
    (8, 16)
    """
    before, number = 0 * start, start
    while not condition(number):
        before, number = number, 2 * number
    return before, number


def smallest_whole(enough: Callable[[int], bool]) -> int:
    """Return the smallest whole number, at least 1, that is enough.

    For a condition that becomes true at some number and stays true from there.

    Examples
    --------
    >>> smallest_whole(lambda k: k * k > 50)
    8
    """
    too_small, enough_already = doubled_until(enough, 1)
    return last_whole_that_holds(enough, enough_already, too_small)


def slightly_larger(
    number: float, attempt: Callable[[float], T | None], *, growth: float = 2.0**-48
) -> tuple[float, T] | None:
    """Enlarge a number until an attempt succeeds, by at most a thousandth.

    For numbers that a formula gives and a certificate, which rounds against us, then
    has to confirm.

    Parameters
    ----------
    number : float
        What the formula says.
    attempt : callable
        Returns what was achieved, or None.
    growth : float, default=2**-48
        First relative growth; it doubles with each attempt.

    Returns
    -------
    (float, T) or None
        The enlarged number and what was achieved with it.

    Examples
    --------
    >>> slightly_larger(1.0, lambda x: x if x > 1 + 1e-9 else None)[0] < 1 + 2e-9
    True
    """
    while growth < 1e-3:
        larger = number * (1 + growth)
        achieved = attempt(larger)
        if achieved is not None:
            return larger, achieved
        growth *= 2
    return None
