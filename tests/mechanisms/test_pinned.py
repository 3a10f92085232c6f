"""Numbers of mechanisms that other tests take for granted."""

import pytest

from reticent.mechanisms import (
    average_vote,
    geometric_vote,
    sigmoid_response,
    two_step_response,
)


@pytest.mark.parametrize(
    "response",
    [
        average_vote([[3, 2]], 1.0),
        geometric_vote([[3, 2]], 1.0),
        sigmoid_response([1], 1.0, bound=5),
        two_step_response([1], 1.0, bound=5),
    ],
    ids=["average", "geometric", "sigmoid", "two-step"],
)
def test_binary_answers_have_two_labels(response):
    assert response.n_labels == 2
    assert response.probabilities.shape == (1, 2)
