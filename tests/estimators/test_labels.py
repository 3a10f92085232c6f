"""Labels: what is not public is no ballot, and fixed ballots favour nobody."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.estimators import Labels, fixed_ballots


@pytest.mark.parametrize(
    ("classes", "answers", "expected"),
    [
        ([0, 1], [1, 0, 2, -1], [1, 0, -1, -1]),
        ([1, 0], [1, 0, 1], [0, 1, 0]),
        ([0, 1], [1.0, 0.5, np.nan], [1, -1, -1]),
        (["no", "yes"], ["yes", "no", "maybe", "zzz"], [1, 0, -1, -1]),
        (["yes", "no"], ["yes", "no"], [0, 1]),
        ([False, True], [True, False], [1, 0]),
        ([0, 1], ["1", "0"], [-1, -1]),
        (["0", "1"], [1, 0], [-1, -1]),
        (np.array(["a", 3], dtype=object), np.array([3, "a", "3"], object), [1, 0, -1]),
        ([0.5, 1.5], [1.5, 0.5, 1], [1, 0, -1]),
    ],
)
def test_answers_are_found_in_the_public_list(classes, answers, expected):
    assert Labels(classes).indices(answers).tolist() == expected


@pytest.mark.parametrize("classes", [[], [1], [1, 1], ["a", "a"], [[0, 1]]])
def test_a_list_that_is_no_label_set_is_refused(classes):
    with pytest.raises(InvalidParameterError, match="classes"):
        Labels(classes)


def test_fixed_ballots_are_spread_over_the_labels():
    assert np.bincount(fixed_ballots(12, 3)).tolist() == [4, 4, 4]
    assert fixed_ballots(5, 2).tolist() == [0, 1, 0, 1, 0]
