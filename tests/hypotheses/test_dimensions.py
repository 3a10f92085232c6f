"""VC dimensions and growth functions, against shattering by brute force."""

from itertools import combinations, product

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    sauer_shelah,
)


def shatters(family, X):
    return family.growth(points=X) == 2 ** len(X)


def largest_shattered(family, domain):
    """Try every subset of a finite domain."""
    best = 0
    for size in range(1, len(domain) + 1):
        if not any(
            shatters(family, list(chosen)) for chosen in combinations(domain, size)
        ):
            break
        best = size
    return best


LINE = [[float(x)] for x in range(7)]
PLANE = [
    [float(x), float(y)] for x, y in [(0, 1), (1, 3), (2, 0), (3, 2), (1, 1), (4, 4)]
]


@pytest.mark.parametrize(
    ("family", "domain", "expected"),
    [
        (Thresholds("up"), LINE, 1),
        (Thresholds("down"), LINE, 1),
        (Thresholds("either"), LINE, 2),
        (Intervals(0), LINE, 1),
        (Intervals(2), LINE, 3),
        (Intervals(3, "0"), LINE, 3),
        (Intervals(4, "1"), LINE, 4),
        (Stumps(1), LINE, 2),
        (Stumps(2), PLANE, 3),
        (Rectangles(), PLANE, 4),
        (Halfspaces(1), LINE, 2),
        (Halfspaces(2), PLANE, 3),
        (Conjunctions(1), list(product((0, 1), repeat=1)), 2),
        (Conjunctions(2), list(product((0, 1), repeat=2)), 2),
        (Conjunctions(3), list(product((0, 1), repeat=3)), 3),
        (Conjunctions(1, negations=False), list(product((0, 1), repeat=1)), 1),
        (Conjunctions(3, negations=False), list(product((0, 1), repeat=3)), 3),
    ],
    ids=repr,
)
def test_vc_dimension_is_the_size_of_the_largest_shattered_set(
    family, domain, expected
):
    assert family.vc_dimension == expected
    assert largest_shattered(family, domain) == expected


# One order of the points per feature. Together the first and the last points meet every
# single point, and the first and the last two every pair: ten pairs in five disjoint
# couples for five points.
ORDERS = {
    1: ["ab"],
    2: ["abc", "bac"],
    3: ["abcd", "cadb", "adbc"],
    5: ["abecd", "cadeb", "dabce", "aecbd", "bcade"],
}


@pytest.mark.parametrize("d", ORDERS)
def test_stumps_shatter_as_many_points_as_their_formula_says(d):
    names = sorted(ORDERS[d][0])
    assert Stumps(d).vc_dimension == len(names)
    X = [[order.index(name) for order in ORDERS[d]] for name in names]
    assert shatters(Stumps(d), X)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_no_set_above_the_formula_is_shattered_by_stumps(d, seed):
    rng = np.random.default_rng(seed)
    m = Stumps(d).vc_dimension + 1
    for _ in range(500):
        X = np.column_stack([rng.permutation(m) for _ in range(d)])
        assert not shatters(Stumps(d), X)


@pytest.mark.parametrize("m", range(1, 9))
def test_growth_function_is_met_by_points_in_general_position(m, seed):
    rng = np.random.default_rng(seed)
    line = rng.permutation(m).astype(float)
    for family in (Thresholds(), Thresholds("either"), Intervals(2), Intervals(3, "1")):
        assert family.growth(m) == family.growth(points=line)
    for d in (1, 2, 3):
        X = rng.normal(size=(m, d))
        assert Halfspaces(d).growth(m) == Halfspaces(d).growth(points=X)


def test_growth_in_many_dimensions_is_the_formula_for_general_position(seed):
    X = np.random.default_rng(seed).normal(size=(9, 5))
    assert (
        Halfspaces(5).growth(points=X)
        == Halfspaces(5).growth(9)
        == 2 * (1 + 8 + 28 + 56 + 70 + 56)
    )


def test_sauer_shelah_counts_subsets():
    assert [sauer_shelah(m, 2) for m in range(6)] == [1, 2, 4, 7, 11, 16]
    assert sauer_shelah(1_000, 1_000) == 2**1_000


def test_classes_that_depend_on_features_ask_for_their_number():
    for family in (Stumps(), Halfspaces(), Conjunctions()):
        with pytest.raises(InvalidParameterError, match="n_features"):
            _ = family.vc_dimension
        with pytest.raises(InvalidParameterError, match="n_features"):
            family.growth(5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Thresholds("sideways"), "direction='sideways'"),
        (lambda: Intervals(-1), "k=-1"),
        (lambda: Intervals(1.5), "k=1.5"),
        (lambda: Intervals(True), "k=True"),
        (lambda: Intervals(2, start="2"), "start='2'"),
        (lambda: Stumps(0), "n_features=0"),
        (lambda: Halfspaces(2, method="guess"), "method='guess'"),
        (lambda: Halfspaces(float("nan")), "n_features=nan"),
        (lambda: Halfspaces(2, time_limit=float("nan")), "time_limit=nan"),
        (lambda: Conjunctions(2, method="guess"), "method='guess'"),
        (lambda: Conjunctions(2, time_limit=0), "time_limit=0"),
        (lambda: FiniteClass([]), "at least one"),
        (lambda: sauer_shelah(-1, 2), "m=-1"),
        (lambda: sauer_shelah(1, -2), "vc_dimension=-2"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


def test_lists_that_would_not_fit_are_refused():
    with pytest.raises(InvalidParameterError, match="labelings"):
        Intervals(8).project(np.arange(1_000.0))
    with pytest.raises(InvalidParameterError, match="labelings"):
        Halfspaces().project(np.random.default_rng(0).normal(size=(4_000, 2)))
    with pytest.raises(InvalidParameterError, match="three dimensions"):
        Halfspaces().project(np.zeros((2, 4)))
    with pytest.raises(InvalidParameterError, match="three dimensions"):
        Halfspaces(method="enumerate").minimise(np.zeros((2, 4)), [0, 1])
