"""Whole-number noise: closed forms, and both samplers against them."""

from __future__ import annotations

import subprocess
import sys

import mpmath
import numpy as np
import pytest

from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    discrete_gaussian_law,
    discrete_laplace_law,
    draw_discrete_gaussian,
    draw_discrete_laplace,
)
from tests.stats import assert_follows, mutant, rejects

KINDS = {
    "laplace": (discrete_laplace_law, draw_discrete_laplace),
    "gaussian": (discrete_gaussian_law, draw_discrete_gaussian),
}


def reference(kind, k, scale):
    """Return the probability of `k` by summing over all whole numbers."""
    mp = mpmath.MPContext()
    mp.prec = 200

    def weight(j):
        if kind == "laplace":
            return mp.exp(-mp.mpf(abs(j)) / mp.mpf(scale))
        return mp.exp(-(mp.mpf(j) ** 2) / (2 * mp.mpf(scale) ** 2))

    return weight(k) / mp.fsum(weight(j) for j in range(-3_000, 3_001))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.3, 0.99, 1.0, 1.5, 7.3, 40.0])
def test_law_is_normalised_and_right(kind, scale):
    law, _ = KINDS[kind]
    for k in (0, 1, -2, 5):
        expected = reference(kind, k, scale)
        assert law(k, scale) == pytest.approx(float(mpmath.log(expected)), abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.6, 2.3, 1000.25])
def test_seeded_draws_follow_the_law(kind, scale, seed):
    check_draws(kind, scale, SeededSource(seed), 1_000_000)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_through_opendp_follow_the_law(kind):
    check_draws(kind, 2.3, SystemSource(), 100_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.6, 2.3, 1000.25])
def test_a_million_draws_through_opendp_follow_the_law(kind, scale):
    check_draws(kind, scale, SystemSource(), 1_000_000)


def check_draws(kind, scale, source, count):
    law, draw = KINDS[kind]
    drawn = draw(np.full(count, 5), scale, source) - 5
    # Bins of equal width around zero, and everything further out.
    width = max(1, int(scale / 4))
    edges = np.arange(-10, 11) * width
    bins = np.searchsorted(edges, drawn, side="right")
    far = np.arange(-60 * int(scale + 1), 60 * int(scale + 1))
    chances = np.bincount(
        np.searchsorted(edges, far, side="right"), np.exp(law(far, scale)), 22
    )
    counts = np.bincount(bins, minlength=22)
    assert_follows(counts, chances)
    # What a sample of this size can tell from the law.
    by = 0.05 if count == 1_000_000 and width == 1 else 0.2
    assert rejects(assert_follows, counts, mutant(chances, by=by))
    assert drawn.min() < 0 < drawn.max()


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_scale_is_caught(kind, seed):
    law, draw = KINDS[kind]
    drawn = draw(np.zeros(200_000, dtype=int), 3.0, SeededSource(seed))
    k = np.arange(-150, 151)
    counts = np.bincount(drawn + 150, minlength=301)
    assert_follows(counts, np.exp(law(k, 3.0)))
    half = np.exp(law(k, 1.5))
    assert rejects(assert_follows, counts, half / half.sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeded", [True, False])
def test_every_cell_gets_its_own_noise(kind, seeded):
    # One draw broadcast to many cells is a known mistake of others.
    _, draw = KINDS[kind]
    source = SeededSource(0) if seeded else SystemSource()
    noise = draw(np.zeros((20, 50), dtype=int), 1e6, source)
    assert noise.shape == (20, 50)
    assert len(np.unique(noise)) > 900
    assert (draw(np.zeros(50, dtype=int), 1e6, source) != noise[0]).any()


FORKING = """
import os, sys
import numpy as np
from reticent.mechanisms import SystemSource, draw_discrete_laplace
zeros = np.zeros(4, dtype=int)
draw_discrete_laplace(zeros, 1e15, SystemSource())
for child in range(6):
    if os.fork() == 0:
        noise = draw_discrete_laplace(zeros, 1e15, SystemSource())
        os.write(1, (" ".join(map(str, noise)) + "\\n").encode())
        os._exit(0)
for child in range(6):
    os.wait()
"""


def test_forked_children_draw_different_noise_through_opendp():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, check=True
    )
    draws = done.stdout.split()
    assert len(draws) == 24
    assert len(set(draws)) == 24


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "scale", [0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e300]
)
def test_impossible_scales_are_refused(kind, scale):
    for function in KINDS[kind]:
        arguments = (
            ([0], scale, SystemSource())
            if "draw" in function.__name__
            else ([0], scale)
        )
        with pytest.raises(ValueError, match="scale"):
            function(*arguments)


@pytest.mark.parametrize("location", [[0.5], [float("nan")], [2.0**54], ["a"], [2**63]])
def test_impossible_locations_are_refused(location):
    with pytest.raises(ValueError, match="location"):
        draw_discrete_laplace(location, 1.0, SystemSource())
