"""Hostile numbers are refused with an error of ours, before any bit is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from reticent.errors import InvalidParameterError, ReticentError
from reticent.mechanisms import (
    SystemSource,
    average_vote,
    average_vote_certificate,
    consensus_margin,
    exponential_mechanism,
    exponential_mechanism_certificate,
    flip_labels,
    flipped,
    gaussian_vote,
    gaussian_vote_certificate,
    gaussian_vote_scale,
    geometric_vote,
    geometric_vote_certificate,
    permute_and_flip,
    permute_and_flip_vote,
    replace_labels,
    replaced,
    sigmoid_response,
    soft_vote,
    soft_vote_certificate,
    stability,
    two_step_response,
)

NAN, INF = float("nan"), float("inf")
EPSILONS = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    -1.0,
    5e-324,
    1e308,
    "1",
    None,
    True,
    1 + 0j,
    [1.0],
]
TAKES_EPSILON = {
    "soft": lambda e: soft_vote([[1, 2]], e),
    "geometric": lambda e: geometric_vote([[1, 2]], e),
    "permute-and-flip": lambda e: permute_and_flip_vote([[1, 2]], e),
    "average": lambda e: average_vote([[1, 2]], e),
    "exponential": lambda e: exponential_mechanism([1, 2], e, bound=2),
    "selection": lambda e: permute_and_flip([1, 2], e, bound=2),
    "sigmoid": lambda e: sigmoid_response([1], e, bound=2),
    "two-step": lambda e: two_step_response([1], e, bound=2),
    "soft certificate": lambda e: soft_vote_certificate(n=9, epsilon=e),
    "geometric certificate": lambda e: geometric_vote_certificate(n=9, epsilon=e),
    "average certificate": lambda e: average_vote_certificate(n=9, voters=3, epsilon=e),
    "selection certificate": lambda e: exponential_mechanism_certificate(
        n=9, epsilon=e
    ),
}
VOTES = [
    [[NAN, 1]],
    [[INF, 1]],
    [[-1, 2]],
    [[0.5, 0.5]],
    [[0, 0]],
    [[]],
    [],
    [1, 2],
    [[[1, 2]]],
    [[1, 2], [3]],
    [["1", "2"]],
    [[None, 1]],
    [[1, 2], [2, 2]],
    [[2**53 + 1, 0]],
    [[2**63, 0]],
    [[2**64, 0]],
    [[10**30, 1]],
    [[2**52, 2**52]],
    [[1e999, 1]],
    [[1]],
    [[True, False]],
]
TAKES_VOTES = {
    "soft": lambda v: soft_vote(v, 1.0),
    "geometric": lambda v: geometric_vote(v, 1.0),
    "permute-and-flip": lambda v: permute_and_flip_vote(v, 1.0),
    "gaussian": lambda v: gaussian_vote(v, 1.0),
    "average": lambda v: average_vote(v, 1.0),
    "stability": stability,
}


def assert_refused(ask):
    # scikit-learn's own validation is a switch; ours is not.
    with (
        config_context(skip_parameter_validation=True),
        pytest.raises(ReticentError) as raised,
    ):
        ask()
    assert isinstance(raised.value, ValueError)
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize("epsilon", EPSILONS, ids=repr)
@pytest.mark.parametrize("name", TAKES_EPSILON)
def test_impossible_epsilons_are_refused(name, epsilon):
    assert_refused(lambda: TAKES_EPSILON[name](epsilon))


@pytest.mark.parametrize("votes", VOTES, ids=repr)
@pytest.mark.parametrize("name", TAKES_VOTES)
def test_impossible_votes_are_refused(name, votes):
    assert_refused(lambda: TAKES_VOTES[name](votes))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: geometric_vote([[1, 2, 3]], 1.0),
        lambda: average_vote([[1, 2, 3]], 1.0),
        lambda: soft_vote([[1, 2]], 1.0, voters=2),
        lambda: soft_vote([[1, 2]], 1.0, voters=0),
        lambda: soft_vote([[1, 2]], 1.0, voters=2.5),
        lambda: soft_vote([[1, 2]], 1.0, voters=2**60),
        lambda: average_vote([[10**8, 0]], 1.0),
        lambda: gaussian_vote([[1, 2]], NAN),
        lambda: gaussian_vote([[1, 2]], 0.0),
        lambda: gaussian_vote([[1, 2]], 1e20),
        lambda: gaussian_vote_scale(1.0, 1.0),
        lambda: gaussian_vote_scale(1.0, 0.0),
        lambda: gaussian_vote_scale(NAN, 0.1),
        lambda: gaussian_vote_scale(1e-20, 1e-30),
        lambda: gaussian_vote_certificate(n=0, scale=1.0),
        lambda: soft_vote_certificate(n=-1, epsilon=1.0),
        lambda: soft_vote_certificate(n=1.5, epsilon=1.0),
        lambda: exponential_mechanism([1, 2], 1.0, bound=1),
        lambda: exponential_mechanism([1, NAN], 1.0, bound=2),
        lambda: exponential_mechanism([0.5], 1.0, bound=2),
        lambda: exponential_mechanism([], 1.0, bound=2),
        lambda: exponential_mechanism([1], 1.0, bound=2**50),
        lambda: exponential_mechanism([1], 1.0, bound=-1),
        lambda: exponential_mechanism([1], 1.0, bound=2, sensitivity=0),
        lambda: exponential_mechanism([1], 1.0, bound=2, sensitivity=0.5),
        lambda: exponential_mechanism([1], 1.0, bound=2, sensitivity=2**600),
        lambda: permute_and_flip([[[1]]], 1.0, bound=2),
        lambda: permute_and_flip(np.zeros(2_000), 1.0, bound=2).probabilities,
        lambda: sigmoid_response([3], 1.0, bound=2),
        lambda: two_step_response([[1]], 1.0, bound=2),
        lambda: two_step_response([0.5], 1.0, bound=2),
        lambda: flipped(soft_vote([[1, 2, 3]], 1.0), 0.1),
        lambda: flipped(soft_vote([[1, 2]], 1.0), 0.5),
        lambda: flipped(soft_vote([[1, 2]], 1.0), 0.0),
        lambda: replaced(soft_vote([[1, 2]], 1.0), NAN),
        lambda: flip_labels([0, 2], 0.1, SystemSource()),
        lambda: flip_labels([0, 1], -0.1, SystemSource()),
        lambda: replace_labels([0, 3], 0.1, SystemSource(), n_labels=3),
        lambda: replace_labels([0], 0.1, SystemSource(), n_labels=1),
        lambda: consensus_margin(epsilon=1.0, delta=1.0, unstable=1, queries=1),
        lambda: consensus_margin(epsilon=1.0, delta=0.1, unstable=0, queries=1),
        lambda: soft_vote([[1, 2]], 1.0).exact(0, bits=0),
    ],
)
def test_other_nonsense_is_refused(ask):
    assert_refused(ask)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "uint64", "int64", "float64", "float32"]
)
def test_whole_numbers_of_any_kind_are_votes(dtype):
    votes = np.array([[1, 4]], dtype=dtype)
    assert (
        soft_vote(votes, 1.0).probabilities == soft_vote([[1, 4]], 1.0).probabilities
    ).all()


def test_messages_hold_no_vote():
    with pytest.raises(InvalidParameterError) as raised:
        soft_vote([[-987654, 3]], 1.0)
    assert "987654" not in str(raised.value)
