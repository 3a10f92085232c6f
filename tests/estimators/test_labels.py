"""Labels: what is not public is no ballot, and fixed ballots favour nobody."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import Labels, checked_labels, fixed_ballots


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


@pytest.mark.parametrize(
    ("classes", "y", "rows", "declared"),
    [
        ([0, 1], [0, 731, 1, 731], "2 of 4 rows", "Declared were 0, 1;"),
        (["no", "yes"], ["no", "731"], "1 of 2 rows", "Declared were 'no', 'yes';"),
        (range(12), [731, 3], "1 of 2 rows", "8, 9, and 2 more;"),
    ],
)
def test_labels_that_nobody_declared_are_counted_and_not_named(
    classes, y, rows, declared
):
    with pytest.raises(InvalidDataError, match=rows) as refused:
        checked_labels(list(classes), np.array(y))
    assert declared in str(refused.value)
    assert "731" not in str(refused.value)
