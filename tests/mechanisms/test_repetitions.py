"""The number of runs is drawn by whole numbers: each prefix is decided or not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reticent._numbers import exact
from reticent.mechanisms import Repetitions


def cells(gamma, count):
    """Exact ends of the part of [0, 1] that stands for each K; geometric for eta 1."""
    ends, rest = [Fraction(0)], Fraction(1)
    for _ in range(count):
        rest *= 1 - exact(gamma)
        ends.append(1 - rest)
    return ends


@pytest.mark.parametrize("bits", [1, 5, 8, 11])
@pytest.mark.parametrize("gamma", [0.3, 0.71, 0.05])
def test_a_prefix_is_decided_where_all_numbers_with_it_agree(gamma, bits):
    """One more bit is asked for exactly where an end lies inside."""
    law, ends, seen = Repetitions(1.0, gamma), cells(gamma, 600), set()
    for drawn in range(2**bits - 1):  # infinitely many ends lie in the last part
        low, high = Fraction(drawn, 2**bits), Fraction(drawn + 1, 2**bits)
        expected = next(
            (k for k in range(1, 600) if ends[k - 1] <= low and high <= ends[k]), None
        )
        assert law._place(drawn, bits) == expected
        seen.add(expected)
    assert bits == 1 or len(seen) > 1
