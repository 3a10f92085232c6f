"""Rounded Gaussian noise: the law, and the sampler against it."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    draw_rounded_gaussian,
    rounded_gaussian_law,
)
from reticent.mechanisms.sampling import rounded_gaussian
from reticent.mechanisms.sampling.fixed_point import normal_tail_bounds
from reticent.mechanisms.sampling.inversion import Inversion
from tests.stats import assert_follows, mutant, rejects


def tail(z, precision=400):
    with mpmath.workprec(precision):
        return mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize("scale", [0.05, 0.6, 1.0, 7.3, 1000.25])
def test_law_is_the_mass_between_halves(scale):
    for k in (0, 1, -2, 5, round(4 * scale)):
        with mpmath.workprec(300):
            low, high = (mpmath.mpf(abs(k) + half) for half in (-0.5, 0.5))
            mass = tail(low / scale) - tail(high / scale)
            expected = float(mpmath.log(mass)) if mass else -np.inf
        assert rounded_gaussian_law(k, scale) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [0.3, 0.6, 2.3, 1000.25])
@pytest.mark.parametrize("served", [True, False])
def test_draws_follow_the_law(scale, served, seed):
    source = SystemSource() if served else SeededSource(seed)
    drawn = draw_rounded_gaussian(np.full(1_000_000, 5), scale, source) - 5
    width = max(1, int(scale / 2))
    edges = np.arange(-3, 4) * width
    far = np.arange(-60 * int(scale + 1), 60 * int(scale + 1))
    places = np.searchsorted(edges, far, side="right")
    chances = np.bincount(places, np.exp(rounded_gaussian_law(far, scale)), 8)
    counts = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=8)
    likely = chances * len(drawn) > 0
    assert_follows(counts[likely], chances[likely])
    assert rejects(assert_follows, counts[likely], mutant(chances[likely], by=0.02))


@pytest.mark.parametrize("scale", [2.0**-20, 0.6, 2.3, 1000.25, 2.0**33])
def test_floats_and_whole_numbers_give_the_same_size(scale, seed):
    words = SeededSource(seed).words(300) >> np.uint64(1)
    head = np.concatenate([words, words[:60] >> np.uint64(20), np.arange(20)])
    head = head.astype(np.int64)
    noise = rounded_gaussian._rounded_gaussian(scale)
    size, unsure = noise.sizes(head)
    surely = np.setdiff1d(np.arange(len(head)), unsure)
    assert len(surely) > 200
    for index in surely[::2]:
        settled = rounded_gaussian._rounded_gaussian(scale).settle(
            int(head[index]), SystemSource()
        )
        assert settled == size[index]


@pytest.mark.parametrize("scale", [2.0**-20, 0.6, 2.3, 1000.25, 2.0**33])
def test_few_draws_are_those_of_many(scale, seed):
    noise = rounded_gaussian._rounded_gaussian(scale)
    words = SeededSource(seed).words(400) >> np.uint64(1)
    low, high = rounded_gaussian._tail(1, scale, 63)
    beside = np.arange(max(low - 5, 0), min(high + 5, 2**63 - 1)).astype(np.uint64)
    head = np.concatenate(
        [words, words[:60] >> np.uint64(20), beside, np.arange(20, dtype=np.uint64)]
    ).astype(np.int64)
    size, unsure = noise.sizes(head)
    found = [noise._one_size(int(each)) for each in head]
    expected = [
        None if k in set(unsure.tolist()) else int(size[k]) for k in range(len(head))
    ]
    assert found == expected
    assert None in found
    assert sum(each is not None for each in found) > 300
    # Signs too, and draws that take further words.
    one, other = SeededSource(seed), SeededSource(seed)
    zeros = np.zeros(1, dtype=int)
    singly = [int(draw_rounded_gaussian(zeros, scale, one)[0]) for _ in range(200)]
    assert singly == draw_rounded_gaussian(np.zeros(200, int), scale, other).tolist()


@pytest.mark.parametrize("scale", [0.6, 2.3, 1000.25])
def test_starts_beside_a_threshold_are_unsure_or_right(scale):
    for size in range(1, 4):
        low, high = rounded_gaussian._tail(size, scale, 63)
        head = np.arange(low - 30, high + 30).astype(np.int64)
        found, unsure = rounded_gaussian._rounded_gaussian(scale).sizes(head)
        below, above = head + 1 <= low, head >= high
        right = np.where(below, found >= size, found < size)
        undecided = np.isin(np.arange(len(head)), unsure)
        assert (right | undecided)[below | above].all()
        assert undecided[~below & ~above].all()


@pytest.mark.parametrize("z", [0, Fraction(1, 3), 1, 5, 12, Fraction(61, 2)])
def test_tails_enclose_the_truth(z):
    with mpmath.workprec(3000):
        point = mpmath.mpf(Fraction(z).numerator) / Fraction(z).denominator
        truth = tail(point, 3000)
        for bits in (20, 63, 191, 2000):
            low, high = normal_tail_bounds(Fraction(z), bits)
            assert low <= truth * mpmath.mpf(2) ** bits <= high <= low + 2


def test_settled_draws_follow_the_law(monkeypatch, seed):
    def undecided(law, head):
        return np.zeros(len(head), dtype=np.int64), np.arange(len(head))

    monkeypatch.setattr(Inversion, "sizes", undecided)
    zeros = np.zeros(1_500, dtype=int)
    drawn = draw_rounded_gaussian(zeros, 2.3, SeededSource(seed))
    k = np.arange(-40, 41)
    counts = np.bincount(drawn + 40, minlength=81)
    assert_follows(counts, np.exp(rounded_gaussian_law(k, 2.3)))
    assert rejects(assert_follows, counts, np.exp(rounded_gaussian_law(k, 1.5)))


def test_scales_and_locations_are_checked():
    with pytest.raises(ValueError, match="scale"):
        draw_rounded_gaussian([0], float("nan"), SystemSource())
    with pytest.raises(ValueError, match="location"):
        draw_rounded_gaussian([0.5], 1.0, SystemSource())
    assert draw_rounded_gaussian(np.zeros((2, 3), int), 9.0, SystemSource()).shape == (
        2,
        3,
    )
