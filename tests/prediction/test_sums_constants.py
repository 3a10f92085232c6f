"""How far one retrained model moves a sum: attained at corners, never rounded down."""

from itertools import permutations

import mpmath
import numpy as np
import pytest

from reticent.prediction.sharded.sums import sums_sensitivity


@pytest.mark.parametrize("steps", [1, 3, 7, 100, 2**20, 2**20 - 1, 10**9 + 7])
def test_a_sum_moves_from_corner_to_corner(steps):
    one = sums_sensitivity(n=50, steps=steps, dimension=1).guarantee
    assert (one.l1, one.l2) == (steps, steps)
    moved = sums_sensitivity(n=50, steps=steps, dimension=3).guarantee
    corners = steps * np.eye(3)
    moves = [before - after for before, after in permutations(corners, 2)]
    assert moved.l1 == max(np.abs(move).sum() for move in moves)
    with mpmath.workdps(40):
        exact = steps * mpmath.sqrt(2)
        assert exact <= moved.l2 <= exact * (1 + 1e-12)
