"""Searches: what is returned was seen to hold, and is the last that does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent._search import (
    doubled_until,
    geometric_mean,
    last_that_holds,
    last_whole_that_holds,
    slightly_larger,
    smallest_whole,
)

places = st.floats(1e-9, 1e9)


class Asked:
    """A condition that remembers where it was asked, and what it said."""

    def __init__(self, condition):
        self.condition, self.said = condition, {}

    def __call__(self, x):
        return self.said.setdefault(x, self.condition(x))


@given(places)
def test_a_full_search_ends_at_the_last_float_that_holds(edge):
    upwards = last_that_holds(lambda x: x <= edge, 0.0, 2e9)
    assert upwards == edge
    downwards = last_that_holds(lambda x: x >= edge, 2e9, 0.0)
    assert downwards == edge
    # The other side of the same edge: strictly beyond it.
    beyond = last_that_holds(lambda x: x > edge, 2e9, 0.0)
    assert beyond == math.nextafter(edge, math.inf)


@given(places, st.integers(1, 60), st.booleans())
def test_what_is_returned_was_seen_to_hold(edge, halvings, upwards):
    holds = Asked((lambda x: x <= edge) if upwards else (lambda x: x >= edge))
    ends = (0.0, 2e9) if upwards else (2e9, 0.0)
    found = last_that_holds(holds, *ends, halvings=halvings)
    assert found == ends[0] or holds.said[found]
    assert len(holds.said) <= halvings
    assert abs(found - edge) <= 2e9 * 2.0**-halvings


def test_a_condition_that_fails_everywhere_leaves_the_end_that_holds():
    assert last_that_holds(lambda x: False, 1.0, 2.0) == 1.0
    assert last_that_holds(lambda x: True, 1.0, 2.0) == math.nextafter(2.0, 0.0)
    assert last_whole_that_holds(lambda k: False, 3, 9) == 3
    assert last_whole_that_holds(lambda k: True, 3, 9) == 8


@given(places, st.sampled_from([1e-2, 1e-6, 2.0**-45]))
def test_a_relative_search_ends_within_its_share(edge, relative):
    holds = Asked(lambda x: x >= edge)
    found = last_that_holds(holds, 2e9, 0.0, relative=relative)
    assert edge <= found <= edge * (1 + 1.01 * relative)
    full = Asked(holds.condition)
    last_that_holds(full, 2e9, 0.0)
    assert len(holds.said) < len(full.said)


@given(places)
def test_a_geometric_search_reaches_every_size_in_as_many_steps(edge):
    found = last_that_holds(
        lambda x: x >= edge, 1e12, 1e-12, halvings=60, middle=geometric_mean
    )
    assert found == pytest.approx(edge, rel=1e-14)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_whole_searches_find_the_edge(edge, below, above):
    up = last_whole_that_holds(lambda k: k <= edge, edge - below + 1, edge + above)
    down = last_whole_that_holds(lambda k: k >= edge, edge + above, edge - below)
    assert up == down == edge


@given(st.integers(1, 10**12))
def test_the_smallest_whole_number_is_the_first_that_is_enough(edge):
    assert smallest_whole(lambda k: k >= edge) == edge


def test_doubling_names_both_sides():
    assert doubled_until(lambda x: x >= 1, 1.0) == (0.0, 1.0)
    assert doubled_until(lambda x: x > 5, 1.5) == (3.0, 6.0)
    before, first = doubled_until(lambda k: k > 5, 1)
    assert (before, first) == (4, 8)
    assert isinstance(first, int)


def test_a_number_grows_only_as_far_as_it_must():
    tried = []

    def attempt(x):
        tried.append(x)
        return "done" if x >= 3.0 * (1 + 1e-12) else None

    larger, achieved = slightly_larger(3.0, attempt)
    assert achieved == "done"
    assert 3.0 * (1 + 1e-12) <= larger <= 3.0 * (1 + 2e-12)
    assert tried == sorted(tried)
    assert tried[0] == 3.0 * (1 + 2.0**-48)
    assert slightly_larger(3.0, lambda x: None) is None
