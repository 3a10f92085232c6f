"""The exact law of a program: all draws, each with its probability."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest

from reticent.audit import exact_law, verify_release
from reticent.errors import InvalidParameterError
from reticent.guarantees import ApproxDP, PureDP
from reticent.mechanisms import (
    SystemSource,
    draw_discrete_laplace,
    exponential_mechanism,
    flip_labels,
    replace_labels,
    soft_vote,
)
from tests.stats import assert_follows

SOURCE = SystemSource()
BINARY = list(product((0, 1), (0, 1)))


def program():
    """A bit of everything, adaptively."""
    order = SOURCE.permutation(3)
    few = SOURCE.subset(3, 2)
    digits = SOURCE.below(np.array([2, 3], dtype=np.uint64))
    (label,) = exponential_mechanism([0, order[0], 1], 1.0, bound=3).draw(SOURCE)
    if label == 2:
        (label,) = flip_labels([int(few[0] > 1)], 0.2, SOURCE)
    (last,) = replace_labels([int(label)], 0.3, SOURCE, n_labels=2)
    return int(last), int(digits.sum())


@cache
def law_of_program():
    return exact_law(program)


def test_all_probability_is_found():
    law = law_of_program()
    assert math.fsum(math.exp(log) for log in law.values()) == pytest.approx(
        1, rel=1e-12
    )


def test_draws_follow_the_law():
    law = law_of_program()
    outcomes = sorted(law)
    drawn = [program() for _ in range(3000)]
    counts = np.array([drawn.count(outcome) for outcome in outcomes])
    assert_follows(counts, np.exp([law[outcome] for outcome in outcomes]))


def test_several_rows_are_drawn_independently():
    vote = soft_vote([[1, 2], [3, 0]], 1.0)
    law = exact_law(lambda: tuple(vote.draw(SOURCE).tolist()))
    for (first, second), log in law.items():
        rows = vote.log_probabilities
        assert log == pytest.approx(rows[0, first] + rows[1, second], abs=1e-12)


def release(factor):
    def run(X, y):
        counts = np.bincount(y, minlength=2)
        return int(soft_vote([counts], factor * 0.7).draw(SOURCE)[0])

    return run


def test_a_right_program_holds_and_a_doubled_one_does_not():
    for claim in (PureDP(0.7), ApproxDP(0.7, 1e-6)):
        right = verify_release(release(1), BINARY, 4, claim=claim, symmetric=True)
        assert right.holds
        assert not verify_release(release(4), BINARY, 4, claim=claim).holds


def test_an_outcome_that_only_one_neighbour_has_is_seen():
    def run(X, y):
        labels = np.unique(y)
        return int(labels[SOURCE.below(np.array([len(labels)], dtype=np.uint64))[0]])

    report = verify_release(run, BINARY, 2, claim=PureDP(5.0))
    assert not report.holds
    assert report.worst == math.inf


def test_too_many_outcomes_of_one_draw_are_refused_before_they_are_listed():
    bounds = np.full(2, 2**31, dtype=np.uint64)
    for draw in (
        lambda: SOURCE.below(bounds).tobytes(),
        lambda: SOURCE.permutation(40).tobytes(),
        lambda: SOURCE.subset(1000, 6).tobytes(),
    ):
        with pytest.raises(InvalidParameterError, match="random_state"):
            exact_law(draw)


def test_what_has_no_table_is_refused():
    with pytest.raises(InvalidParameterError, match="infinitely many"):
        exact_law(lambda: int(draw_discrete_laplace([0], 1.0, SOURCE)[0]))
    with pytest.raises(InvalidParameterError, match="most=10"):
        exact_law(lambda: tuple(SOURCE.permutation(4).tolist()), most=10)
