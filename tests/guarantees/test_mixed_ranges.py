"""Why accounts that several models share count rhos instead of G25's totals.

G25 is about steps of one largest range. An adversary who also chooses each step's range
after seeing earlier answers, within a sum of ``range^2 / 8``, can do more with the same
sum. So the total of equal steps is no total of an account that adds up rhos.
"""

import math

import numpy as np
import pytest

from reticent.guarantees import range_epsilon, zcdp_epsilon

WIDTH = 0.1


def free_adversary(rho, ranges, top):
    """Return points and what P(W) - e^x Q(W) reaches there by steps of these ranges.

    Ranges are given in units of `WIDTH`. Intervals begin on the grid as well, so this
    is the value of strategies that exist: a lower bound on what can be reached.
    """
    budget = math.floor(rho / (WIDTH**2 / 8) + 1e-9)
    most = max(ranges)
    x = np.arange(-most, round(top / WIDTH) + most + 1) * WIDTH
    inside, values = slice(most, x.size - most), [np.maximum(0, -np.expm1(x))]
    mirrored = np.arange(1, most + 1)
    for spent in range(1, budget + 1):
        best = values[-1][inside].copy()
        for units in (units for units in ranges if units**2 <= spent):
            after = values[spent - units**2]
            for begin in range(units + 1):
                up = math.expm1((begin - units) * WIDTH) / math.expm1(-units * WIDTH)
                low = slice(most - begin, x.size - most - begin)
                high = slice(low.start + units, low.stop + units)
                np.maximum(best, up * after[low] + (1 - up) * after[high], out=best)
        reached = values[-1].copy()
        reached[inside] = best
        # V(-x) = 1 - e^-x + e^-x V(x); swapping P and Q swaps both ends of intervals.
        share = np.exp(-mirrored * WIDTH)
        reached[most - mirrored] = 1 - share + share * best[mirrored]
        values.append(reached)
    return x[inside], values[-1][inside]


@pytest.fixture(scope="module")
def mixed():
    return free_adversary(200 * 0.2**2 / 8, (2, 3, 4, 6, 8, 12, 16), 8.5)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_ranges_chosen_on_the_way_exceed_the_total_of_equal_ones(mixed, delta):
    x, values = mixed
    reached = float(x[values > delta][-1])
    assert reached > range_epsilon(0.2, 200, delta) + 0.02
    assert reached < zcdp_epsilon(200 * 0.2**2 / 8, delta)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_ranges_that_are_equal_do_not(delta):
    x, values = free_adversary(200 * 0.2**2 / 8, (2,), 8.5)
    reached = float(x[values > delta][-1])
    total = range_epsilon(0.2, 200, delta)
    assert total - 0.2 < reached <= total
