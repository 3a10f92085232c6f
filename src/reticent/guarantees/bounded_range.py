r"""Optimal adaptive composition of bounded-range steps (G25).

A step has bounded range `epsilon` if, for two neighbours, the log-ratios of the
probabilities of its outputs lie in an interval ``[t - epsilon, t]`` with
``0 <= t <= epsilon``. In an adaptive sequence an adversary chooses `t` for each step
after seeing all earlier answers. Let ``V_k(x)`` be the largest
``P(W) - e^x Q(W)`` over all events `W` of `k` such steps. Then ``V_0(x) = max(0, 1 -
e^x)`` and

``V_k(x) = sup_t p_t V_{k-1}(x - t) + (1 - p_t) V_{k-1}(x - t + epsilon)``,
``p_t = (1 - e^{t - epsilon})/(1 - e^{-epsilon})``.

*Proof.* Write ``H(u) = V_{k-1}(ln u)``, a supremum of functions that are linear in
`u`, hence convex. Given the first answer, whose likelihood ratio is `r`, the rest adds
at most ``M(r) = r H(u/r)`` under `Q`, and `M` is convex too. The ratio has mean 1 under
`Q` and lies in ``[e^{t - epsilon}, e^t]``, so the mean of `M` is at most its chord at
1, which is the recursion; two outputs at the ends attain it. [] A step without an
answer, and a step of smaller range, also have bounded range `epsilon`. So the number
covers at most `k` answers, whatever rule says when to stop.

**Ranges do not add up.** Where the second interval lies may depend on the first answer:
log-ratios of two steps reach from ``-epsilon`` to ``2 epsilon``, three epsilons.

**Ranges cannot be exchanged.** Steps of several ranges count as steps of the largest.
An adversary who chooses each range after seeing answers does more with a sum of squares
than `k` equal steps with the same sum (`tests/guarantees/test_mixed_ranges.py`). Hence
an account that adds up rhos uses zCDP.

**Rounded up.** `V` is kept at the points of a grid, with `cells` cells per epsilon.
Between two values of `t` on the grid, both terms are bounded by chords in ``s =
e^{-t}``: the ends are on the grid, `H` is convex, and ``e^{epsilon} s`` has the same
weights as `s`. What results is linear in `s` plus a multiple of ``(s_1 - s)(s -
s_2)/s``, whose maximum is a formula. Cells may have any width, so they are narrow near
the best `t` and double in width from there. Above the grid `V` is at most its last
value. Below 0, ``V(-x) = 1 - e^{-x} + e^{-x} V(x)``, because swapping `P` and `Q` swaps
`t` and ``epsilon - t``. The error falls with the square of `cells`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import (
    ceil_float,
    exact,
    positive,
    probability,
    up,
    whole,
)
from reticent._search import last_that_holds
from reticent.errors import RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.concentrated import rho_within, zcdp_epsilon
from reticent.guarantees.convert import NEIGHBOURS
from reticent.guarantees.premises import joined
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.types import ApproxDP, BoundedRange, PureDP

FloatArray = NDArray[np.float64]

# Products of steps, points and cells per curve: about half a second at most.
_WORK = 1.6e7
# With 32 cells per step, totals are within a few thousandths of the optimum.
_CELLS = (8, 32)
# Beyond this many steps, zCDP is used alone. Below this delta floats are no longer
# normal.
_LARGEST_STEP = 20.0
_SMALLEST_DELTA = 1e-250
# The grid ends where zCDP puts this share of delta; what is above adds less.
_BEYOND = 1e-5
# Each step rounds sums of non-negative products a dozen times.
_ROUNDING = 1 + 2.0**-47
# A total with a delta is named if it is smaller than the sum by more than this.
_WORTH_A_DELTA = 0.95
# The best t moves fast in the first steps.
_EARLY = 8


def _zcdp(step: float, count: int, delta: float) -> float:
    return zcdp_epsilon(up(step * step / 8 * count), delta)


def _cells(step: float, count: int, top: float) -> int:
    """Return how many cells per epsilon are affordable; 0 if too few are."""
    widths = min(top / step, count)
    least, most = _CELLS
    cells = most
    while cells >= least and _ladder(cells).size * cells * widths * count > _WORK:
        cells = min(cells - 1, int(cells * 0.9))
    return cells if cells >= least else 0


def _ladder(cells: int) -> NDArray[np.int64]:
    """Return distances from the best cell to both ends; the gaps between them grow."""
    powers = 2 ** np.arange(math.ceil(math.log2(cells)) + 1)
    away = np.unique(np.multiply.outer((4, 5, 6, 7), powers) // 4)
    away = away[: np.searchsorted(away, cells) + 1]
    return np.concatenate((-away[::-1], [0], away))


def affordable(step: float, count: int, delta: float) -> bool:
    """Return whether G25 has more to say about these steps than zCDP."""
    if count < 2 or not 0 < step <= _LARGEST_STEP or not delta >= _SMALLEST_DELTA:
        return False
    return _cells(up(step), count, _zcdp(step, count, delta * _BEYOND)) > 0


def value_iteration(step: float, top: float, cells: int) -> Iterator[FloatArray]:
    """Yield upper bounds on V_1, V_2, ... at the points ``i step / cells``.

    Parameters
    ----------
    step : float
        Range of one step.
    top : float
        Where the grid ends.
    cells : int
        Cells of the grid per `step`.
    """
    width, last = step / cells, math.ceil(top * cells / step)
    shrunk = -math.expm1(-step)
    ahead: FloatArray = np.arange(cells + 1, dtype=np.float64) * width
    ups = -np.expm1(ahead - step) / shrunk
    downs = math.exp(-step) * np.expm1(ahead) / shrunk
    shares = np.exp(-ahead)
    mirrored = shares[:0:-1]
    values: FloatArray = np.zeros(last + 1)
    first = min(last, cells)
    values[: first + 1] = np.square(np.expm1((ahead[: first + 1] - step) / 2)) / shrunk
    yield values * _ROUNDING
    ladder = _ladder(cells)[:, np.newaxis]
    best = np.minimum(cells, (np.arange(last + 1) + cells) // 2)
    count = 1
    while True:
        count += 1
        places = np.arange(min(last, count * cells) + 1)
        below = _below_zero(values, mirrored, ahead)
        padded = np.concatenate((below, values, np.full(cells, values[-1])))
        for _ in range(3 if count < _EARLY else 1):
            chosen = np.clip(best[: places.size] + ladder, 0, cells)
            at = places - chosen + cells
            higher, lower = padded[at], padded[at + cells]
            found = ups[chosen] * higher + downs[chosen] * lower
            best[: places.size] = chosen[found.argmax(axis=0), places]
        bounds = _cell_maxima(found, higher, lower, shares[chosen], step)
        values = values.copy()
        values[: places.size] = np.minimum(1.0, bounds.max(axis=0) * _ROUNDING)
        yield values


def _below_zero(
    values: FloatArray, mirrored: FloatArray, ahead: FloatArray
) -> FloatArray:
    """Return V at the grid's points from minus one step to just below 0."""
    size = mirrored.size
    reflected = values[np.minimum(np.arange(size, 0, -1), values.size - 1)]
    return np.asarray(-np.expm1(-ahead[:0:-1]) + mirrored * reflected)


def _cell_maxima(
    found: FloatArray,
    higher: FloatArray,
    lower: FloatArray,
    shares: FloatArray,
    step: float,
) -> FloatArray:
    """Return upper bounds on the recursion between neighbouring rows of the ladder.

    With ``s = s_2 + w (s_1 - s_2)`` the bound by chords is at most ``f_2 + w (f_1 -
    f_2) + bulge w (1 - w)``, where `bulge` comes from the chords' values at ``s = 0``.
    """
    near, far = shares[:-1], shares[1:]
    at_zero = (higher[1:] - lower[1:]) * near - (higher[:-1] - lower[:-1]) * far
    bulge = np.maximum(at_zero, 0) * (near - far) / math.expm1(step)
    bulge /= far * far * near
    apart = np.abs(found[1:] - found[:-1])
    inside = apart < bulge
    rise = np.zeros_like(bulge)
    np.divide(np.square(bulge - apart), 4 * bulge, out=rise, where=inside)
    return np.asarray(np.maximum(found[1:], found[:-1]) + rise)


@lru_cache(maxsize=128)
def _curve(step: float, count: int, top: float, cells: int) -> FloatArray:
    iteration = value_iteration(step, top, cells)
    values = next(iteration)
    for _ in range(count - 1):
        values = next(iteration)
    return values


def range_epsilon(
    step: float, count: int, delta: float, *, cells: int | None = None
) -> float:
    """Return the total epsilon of `count` adaptive bounded-range steps, rounded up.

    Parameters
    ----------
    step : float
        Range of every step.
    count : int
        The most steps.
    delta : float
        Delta of the total.
    cells : int, default=None
        Cells of the grid per step. None takes 32, or as many as half a second allows,
        and zCDP alone where these are too few.

    Returns
    -------
    float
        At most what zCDP says.

    Examples
    --------
    >>> round(range_epsilon(0.2, 200, 1e-6), 2), round(zcdp_epsilon(1.0, 1e-6), 2)
    (7.28, 7.77)
    """
    step = up(positive("range_epsilon", "step", step))
    count = whole("range_epsilon", "count", count)
    delta = probability("range_epsilon", "delta", delta)
    most = min(up(step * count), _zcdp(step, count, delta))
    if cells is None and not affordable(step, count, delta):
        return most
    # The same for all deltas of one decade, so that they share a curve.
    decade = max(_SMALLEST_DELTA, 10.0 ** math.floor(math.log10(delta)))
    top = min(step * count, _zcdp(step, count, decade * _BEYOND))
    cells = _cells(step, count, top) if cells is None else cells
    if not cells:
        return most
    values = _curve(step, count, top, cells)
    return min(most, up(_where(values, step / cells, delta)))


def _where(values: FloatArray, width: float, delta: float) -> float:
    """Return where the chords between values of a falling curve reach delta."""
    enough = np.flatnonzero(values <= delta)
    if enough.size == 0:
        return math.inf
    place = int(enough[0])
    if place == 0:
        return 0.0
    above, below = float(values[place - 1]), float(values[place])
    share = (above - delta) / (above - below)
    return (place - 1) * width + math.log1p(share * math.expm1(width))


def range_answers(step: float, epsilon: float, delta: float) -> int:
    """Return about how many steps of this range a total of (epsilon, delta) covers.

    Check the number with `range_epsilon`, which uses a different grid.
    """
    fewest = max(1, int(rho_within(epsilon, delta) / (step * step / 8)))
    count = fewest + fewest // 4 + 2
    top = min(step * count, _zcdp(step, count, delta * _BEYOND))
    cells = _cells(up(step), count, top)
    if not cells:
        return fewest
    place = min(math.floor(epsilon * cells / step), math.ceil(top * cells / step))
    for number, values in enumerate(value_iteration(up(step), top, cells), start=1):
        if values[place] > delta or number > 4 * count:
            return max(fewest, number - 1)
    raise AssertionError("a value iteration does not end")


def largest_range(count: int, epsilon: float, delta: float) -> float:
    """Return the largest range of `count` steps within (epsilon, delta), or a bit less.

    It is within a thousandth of the largest; each trial is a value iteration.
    """
    count = whole("largest_range", "count", count)
    summed = epsilon / count
    while exact(summed) * count > exact(epsilon):
        summed = math.nextafter(summed, 0.0)
    rho = rho_within(epsilon, delta) / count if delta > 0 else 0.0
    inside = max(summed, math.sqrt(8 * rho) * (1 - 1e-9))
    if not (delta > 0 and affordable(inside, count, delta)):
        return inside

    def fits(step: float) -> bool:
        return range_epsilon(step, count, delta) <= epsilon

    return last_that_holds(fits, inside, 1.25 * inside, relative=1e-3)


@rule(
    "G25",
    name="optimal composition of bounded-range steps",
    statement="value iteration over the adversary's choice of intervals",
    source="DongDurfeeRogers2020; reticent.guarantees.bounded_range",
    takes=BoundedRange,
    gives=ApproxDP,
    relations=NEIGHBOURS,
    adaptivity="adaptive",
)
def range_composition(
    *premises: Certificate[Any],
    counts: Sequence[int],
    delta: float,
    answers: int | None = None,
) -> Conclusion[ApproxDP]:
    """Compose steps in any order; each counts as the one of the largest range."""
    numbers, relation, scope = joined("G25", premises, counts, answers)
    probability("rule G25", "delta", delta)
    step = max(premise.guarantee.epsilon for premise in premises)
    epsilon = range_epsilon(step, sum(numbers), delta) if step > 0 else 0.0
    return Conclusion(ApproxDP(epsilon, delta), relation, scope)


def range_levels(most: int) -> tuple[int, ...]:
    """Return the numbers of answers whose totals hold even if chosen afterwards."""
    return tuple(sorted({math.ceil(most / 2 ** (power / 4)) for power in range(25)}))


@rule(
    "G25-odometer",
    name="a total of bounded-range steps that holds at every moment",
    statement="the sum of epsilons, the next level of a fixed list, or the cap",
    source="DongDurfeeRogers2020; reticent.guarantees.bounded_range",
    takes=BoundedRange,
    gives=(PureDP, ApproxDP),
    relations=NEIGHBOURS,
    adaptivity="adaptive",
)
def range_running_total(
    premise: Certificate[Any],
    *,
    counts: Sequence[int],
    most: int,
    delta: float,
    totals: float,
    answers: int | None = None,
) -> Conclusion[Any]:
    """Conclude a total that holds even if its moment was chosen after seeing answers.

    For an account that admits at most `most` answers, all of them under this one
    certificate, with both fixed before the first. *Proof.* Transcripts that are stopped
    within `k` answers are transcripts of `k` steps (G25), for each `k` of a list that
    `most` fixes. With ``totals / len(list)`` as the delta of each, and ``delta -
    totals`` for `most` itself, all of them hold at once. The sum of epsilons bounds
    every transcript. []
    """
    (count,), relation, scope = joined("G25-odometer", [premise], counts, answers)
    most = whole("rule G25-odometer", "most", most)
    probability("rule G25-odometer", "delta", delta)
    probability("rule G25-odometer", "totals", totals)
    if not (count <= most and totals < delta):
        raise RuleError(
            f"rule G25-odometer needs at most most={most} answers and totals < delta; "
            f"got {count} answers, totals={totals!r}, delta={delta!r}."
        )
    step = premise.guarantee.epsilon
    summed = ceil_float(exact(step) * count)
    if step == 0:
        return Conclusion(PureDP(summed), relation, scope)
    levels = range_levels(most)
    level = levels[bisect_left(levels, count)]
    rest = math.nextafter(float(exact(delta) - exact(totals)), 0.0)
    named = min(
        range_epsilon(step, level, math.nextafter(totals / len(levels), 0.0)),
        range_epsilon(step, most, rest),
    )
    total: Any = ApproxDP(named, delta)
    if _WORTH_A_DELTA * summed <= named:
        total = PureDP(summed)
    return Conclusion(total, relation, scope)
