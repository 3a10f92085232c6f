"""Teaching sets and identification sets, against brute force."""

from itertools import combinations, product

import numpy as np
import pytest

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from reticent.learners import identification_set, teaching_size

FAMILIES = [
    (Thresholds("up"), 1),
    (Thresholds("either"), 1),
    (Intervals(1), 1),
    (Stumps(), 1),
    (Stumps(), 2),
    (Stumps(), 3),
    (Halfspaces(), 2),
    (Rectangles(), 2),
]


def smallest_teaching_set(labels, own):
    """Return the least number of points on which no other labeling agrees."""
    differs = labels[(labels != own).any(axis=1)] != own
    for size in range(labels.shape[1] + 1):
        for chosen in combinations(range(labels.shape[1]), size):
            if differs[:, chosen].any(axis=1).all():
                return size
    raise AssertionError("labelings are not distinct")


def teaching_dimension(labels):
    return max(smallest_teaching_set(labels, own) for own in labels)


@pytest.mark.parametrize("ties", [False, True], ids=["apart", "tied"])
@pytest.mark.parametrize(
    ("family", "width"), FAMILIES, ids=[f"{f}-{w}" for f, w in FAMILIES]
)
def test_the_size_suffices_for_every_labeling(family, width, ties):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 3, (7, width)) if ties else rng.random((6, width))
        points = np.unique(points.astype(float), axis=0)
        own = family.on(width)
        labels = own.project(points).labels.astype(bool)
        needed = teaching_dimension(labels)
        assert needed <= max(1, teaching_size(own, points)) <= len(points)


def test_more_points_do_not_need_more_teaching():
    rng = np.random.default_rng(0)
    for width, most in ((1, 2), (3, 6), (50, 100)):
        points = rng.random((500, width))
        assert teaching_size(Stumps(width), points) <= most


def test_the_bound_for_stumps_holds_without_listing(monkeypatch):
    monkeypatch.setattr("reticent.learners.public.teaching_sets._MOST_COMPARED", 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = np.unique(rng.integers(0, 4, (8, 2)).astype(float), axis=0)
        labels = Stumps(2).project(points).labels.astype(bool)
        assert teaching_dimension(labels) <= teaching_size(Stumps(2), points)
        points = np.unique(rng.random((8, 2)), axis=0)
        labels = Stumps(2).project(points).labels.astype(bool)
        assert teaching_dimension(labels) <= teaching_size(Stumps(2), points) == 4


def test_all_points_teach_where_nothing_is_known():
    points = np.arange(300.0)[:, None]
    assert teaching_size(Intervals(4), points) == 300


CUBE = np.array(list(product((0.0, 1.0), repeat=4)))


@pytest.mark.parametrize(
    ("family", "domain", "size"),
    [
        (Conjunctions(negations=False), CUBE, 4),
        (Thresholds(), np.arange(6.0)[:, None], 6),
        (Stumps(), CUBE, 4),
    ],
    ids=["conjunctions", "thresholds", "stumps"],
)
def test_identification_sets_tell_all_hypotheses_apart(family, domain, size):
    found = identification_set(family, domain)
    assert len(found) == size
    own = family.on(domain.shape[1])
    everywhere = len(own.project(domain))
    assert len(own.project(found)) == everywhere
    for place in range(len(found)):  # none of them can be spared
        assert len(own.project(np.delete(found, place, axis=0))) < everywhere


def test_a_table_knows_its_domain():
    table = FiniteClass.from_table(np.arange(5.0), np.eye(5, dtype=int)[:4])
    found = identification_set(table)
    assert len(table.project(found)) == 4
    assert len(found) == 3


def test_what_cannot_be_identified_is_refused():
    with pytest.raises(InvalidParameterError, match="domain"):
        identification_set(Thresholds())
    same = FiniteClass.from_table([[0.0], [1.0]], [[0, 1], [0, 1]])
    with pytest.raises(InvalidDataError, match="agree"):
        identification_set(same)
