"""The two-sided response decides at its boundary, on every kind of stair."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from reticent.mechanisms import geometric_vote, two_step_response
from tests.mechanisms.scripted import ScriptedSource, bits_of

mp = mpmath.MPContext()
mp.prec = 3_000


def minority_chance(response):
    base = mp.mpf(1) / 2
    if response.between[0]:
        base = 1 / (1 + mp.exp(mp.mpf(response.step)))
    return base * mp.exp(-mp.mpf(float(response.exponents[0])))


RESPONSES = {
    "even": lambda: geometric_vote([[6, 2]], 0.7),
    "tie": lambda: geometric_vote([[3, 3]], 0.7),
    "odd": lambda: geometric_vote([[1, 4]], 0.7),
    "odd, nearly tied": lambda: geometric_vote([[3, 2]], 0.1),
    "far": lambda: geometric_vote([[60, 1]], 1.0),
    "walk, even": lambda: two_step_response([-4], 0.3, bound=9),
    "walk, odd": lambda: two_step_response([5], 0.3, bound=9),
}


@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize("name", RESPONSES)
def test_draw_decides_at_its_boundary(name, n_words):
    response = RESPONSES[name]()
    depth = 53 + 64 * n_words
    at = int(mp.floor(mp.ldexp(minority_chance(response), depth)))
    minority = int(response.minority[0])
    for value, expected in ((at - 2, minority), (at + 2, 1 - minority)):
        source = ScriptedSource(bits_of(value, n_words) + bytes(8))
        assert response.draw(source)[0] == expected
        assert len(source.left) >= 8


@pytest.mark.parametrize("epsilon", [650.0, 800.0, 1e6])
def test_huge_epsilons_do_not_make_the_minority_impossible(epsilon):
    response = geometric_vote([[1, 2]], epsilon)
    assert np.isfinite(response.log_probabilities).all()
    if epsilon < 1_000:
        # The minority's probability starts with some 1,150 zeros; so does this U.
        source = ScriptedSource(bytes(4 + 8 * 25))
        assert response.draw(source)[0] == 0
    source = ScriptedSource(b"\x00\x00\x00\x01")
    assert response.draw(source)[0] == 1
