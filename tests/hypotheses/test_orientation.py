"""Sides of hyperplanes are exact, for floats as they are."""

from fractions import Fraction

import numpy as np
import pytest

from reticent.hypotheses.oracles.orientation import paired_sides, sides


def exact_side(anchors, x):
    """The sign of the determinant in fractions."""
    rows = [
        [Fraction(c) - Fraction(o) for c, o in zip(p, anchors[0], strict=True)]
        for p in [*anchors[1:], x]
    ]
    if len(rows) == 2:
        (a, b), (c, d) = rows
        value = a * d - b * c
    else:
        (a, b, c), (d, e, f), (g, h, i) = rows
        value = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    return (value > 0) - (value < 0)


def almost_flat(rng, k, d):
    """Points that are on a plane up to a unit in the last place."""
    base, steps = (
        rng.choice([0.1, 0.2, 0.3], size=(k, 1, d)),
        rng.integers(-4, 5, (k, d, 1)),
    )
    return base + steps * rng.choice([0.1, 0.3, 0.7], size=(k, 1, d))


GENERATORS = {
    "general": lambda rng, k, d: rng.normal(size=(k, d, d)),
    "whole": lambda rng, k, d: rng.integers(-3, 4, size=(k, d, d)).astype(float),
    "halves": lambda rng, k, d: rng.integers(-3, 4, size=(k, d, d)) / 2,
    "tenths": lambda rng, k, d: rng.integers(-3, 4, size=(k, d, d)) / 10,
    "flat": almost_flat,
    "far": lambda rng, k, d: 1e15 + rng.integers(0, 3, size=(k, d, d)) / 2,
    "mixed": lambda rng, k, d: (
        rng.normal(size=(k, d, d)) * 10.0 ** rng.integers(-200, 100, size=(k, d, d))
    ),
    "tiny": lambda rng, k, d: rng.integers(-3, 4, size=(k, d, d)) * 5e-324,
    "huge": lambda rng, k, d: rng.integers(-3, 4, size=(k, d, d)) * 5e307,
}


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", GENERATORS)
def test_sides_are_signs_of_exact_determinants(kind, d, seed):
    rng = np.random.default_rng(seed)
    anchors = GENERATORS[kind](rng, 30, d)
    X = np.concatenate([GENERATORS[kind](rng, 5, d).reshape(-1, d), anchors[0]])
    expected = [[exact_side(a, x) for x in X] for a in anchors.tolist()]
    assert sides(anchors, X).tolist() == expected
    plane, point = np.indices((len(anchors), len(X))).reshape(2, -1)
    found = paired_sides(anchors[plane], X[point])
    assert found.tolist() == np.ravel(expected).tolist()


def test_naive_arithmetic_gets_some_of_these_wrong(seed):
    rng = np.random.default_rng(seed)
    anchors, X = almost_flat(rng, 300, 2), almost_flat(rng, 300, 2)[:, 0]
    edge, step = anchors[:, 1] - anchors[:, 0], X - anchors[:, 0]
    naive = np.sign(edge[:, 0] * step[:, 1] - edge[:, 1] * step[:, 0])
    truth = [exact_side(a, x) for a, x in zip(anchors, X, strict=True)]
    assert (naive != truth).any()
    assert paired_sides(anchors, X).tolist() == truth


def test_degenerate_anchors_have_no_side():
    anchors = np.array([[[0.0] * 3, [0.1] * 3, [0.2] * 3]])
    assert sides(anchors, np.eye(3)).tolist() == [[0, 0, 0]]
    assert paired_sides(np.zeros((0, 2, 2)), np.zeros((0, 2))).tolist() == []
