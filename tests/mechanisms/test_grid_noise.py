"""Whole-number noise: closed forms, and the sampler against them."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from opendp import domains, measurements, metrics, mod

from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    discrete_gaussian_law,
    discrete_laplace_law,
    draw_discrete_gaussian,
    draw_discrete_laplace,
)
from reticent.mechanisms.sampling import grid_noise
from reticent.mechanisms.sampling.inversion import Inversion
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
    check_draws(kind, scale, SeededSource(seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.6, 2.3, 1000.25])
def test_served_draws_follow_the_law(kind, scale):
    check_draws(kind, scale, SystemSource())


@pytest.mark.parametrize("kind", KINDS)
def test_opendp_draws_from_the_same_law(kind):
    # The oracle: samplers that were proved and reviewed elsewhere.
    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    if kind == "laplace":
        oracle = measurements.make_laplace(domain, metrics.l1_distance(T="i64"), 2.3)
    else:
        oracle = measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), 2.3)
    law, _ = KINDS[kind]
    counts, chances = binned(np.array(oracle([0] * 20_000)), law, 2.3)
    assert_follows(counts, chances)


def binned(drawn, law, scale):
    """Count draws in bins of equal width around zero, and everything further out."""
    width = max(1, int(scale / 2))
    edges = np.arange(-5, 6) * width
    far = np.arange(-60 * int(scale + 1), 60 * int(scale + 1))
    places = np.searchsorted(edges, far, side="right")
    chances = np.bincount(places, np.exp(law(far, scale)), 12)
    return np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=12), (
        chances
    )


def check_draws(kind, scale, source):
    law, draw = KINDS[kind]
    drawn = draw(np.full(1_000_000, 5), scale, source) - 5
    counts, chances = binned(drawn, law, scale)
    assert_follows(counts, chances)
    assert rejects(assert_follows, counts, mutant(chances, by=0.02))
    assert drawn.min() < 0 < drawn.max()


SCALES = [2.0**-20, 0.05, 0.6, 1.0, 2.3, 1000.25, 1e6, 2.0**33, 2.0**50]


@pytest.mark.parametrize("scale", SCALES)
def test_floats_and_whole_numbers_give_the_same_size(scale, seed):
    # Small and large starts of V, most of them random.
    words = SeededSource(seed).words(1_500) >> np.uint64(1)
    head = np.concatenate([words, words[:300] >> np.uint64(20), np.arange(40)])
    head = head.astype(np.int64)
    size, unsure = grid_noise._laplace(scale).sizes(head)
    surely = np.setdiff1d(np.arange(len(head)), unsure)
    assert len(surely) > 1_000 or scale > 1e12
    for index in surely[:: max(1, len(surely) // 400)]:
        settled = grid_noise._laplace(scale).settle(int(head[index]), SystemSource())
        assert settled == size[index]


@pytest.mark.parametrize("scale", [0.6, 2.3, 1000.25])
def test_starts_beside_a_threshold_are_unsure_or_right(scale):
    rate = 1 / Fraction(scale)
    for size in range(1, 6):
        tail = grid_noise._laplace_tail(size, rate, 63)
        head = np.arange(tail[0] - 30, tail[1] + 30).astype(np.int64)
        found, unsure = grid_noise._laplace(scale).sizes(head)
        below, above = head + 1 <= tail[0], head >= tail[1]
        right = np.where(below, found >= size, found < size)
        undecided = np.isin(np.arange(len(head)), unsure)
        assert (right | undecided)[below | above].all()
        assert undecided[~below & ~above].all()


@pytest.mark.parametrize("scale", [0.05, 0.6, 2.3, 1000.25, 2.0**50])
def test_tails_of_the_size_enclose_the_truth(scale):
    mp = mpmath.MPContext()
    mp.prec = 400
    for size in (0, 1, 2, 7, math.ceil(30 * scale)):
        for bits in (63, 127, 191):
            q = mp.exp(-1 / mp.mpf(scale))
            truth = min(mp.mpf(1), 2 * q**size / (1 + q)) * mp.mpf(2) ** bits
            low, high = grid_noise._laplace_tail(size, 1 / Fraction(scale), bits)
            assert low <= truth <= high <= low + 4


def test_draws_settled_in_whole_numbers_follow_the_law(monkeypatch, seed):
    def undecided(law, head):
        return np.zeros(len(head), dtype=np.int64), np.arange(len(head))

    monkeypatch.setattr(Inversion, "sizes", undecided)
    drawn = draw_discrete_laplace(np.zeros(4_000, dtype=int), 2.3, SeededSource(seed))
    k = np.arange(-150, 151)
    counts = np.bincount(drawn + 150, minlength=301)
    assert_follows(counts, np.exp(discrete_laplace_law(k, 2.3)))
    wrong = np.exp(discrete_laplace_law(k, 1.15))
    assert rejects(assert_follows, counts, wrong)


def test_the_largest_scale_is_drawn_in_64_bits(seed):
    for _, draw in KINDS.values():
        drawn = draw(np.zeros(40, dtype=int), 2.0**50, SeededSource(seed))
        assert len(np.unique(drawn)) == 40
        assert np.abs(drawn).max() < 2**60


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


def test_forked_children_draw_different_noise():
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
