"""What counts as a point, and which points are the same."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from reticent.errors import InvalidDataError
from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    LinearBall,
    Rectangles,
    SquaredLoss,
    Stumps,
    Thresholds,
)
from reticent.hypotheses.oracles.points import distinct_rows

MATRIX_CLASSES = [Stumps(), Rectangles(), Halfspaces(), Conjunctions()]
LINE_CLASSES = [Thresholds(), Intervals(2)]


def test_distinct_rows_are_sorted_and_found_again(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        rows = rng.integers(0, 3, size=(rng.integers(1, 12), rng.integers(1, 4)))
        found, where = distinct_rows(rows)
        expected = sorted({tuple(row) for row in rows.tolist()})
        assert [tuple(row) for row in found.tolist()] == expected
        assert (found[where] == rows).all()


@pytest.mark.parametrize("family", MATRIX_CLASSES, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite_are_refused(family, bad):
    X = np.array([[0.0, 1.0], [1.0, bad]])
    good = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InvalidDataError, match="finite"):
        family.project(X)
    with pytest.raises(InvalidDataError, match="finite"):
        family.minimise(X, [0, 1])
    with pytest.raises(InvalidDataError, match="finite"):
        family.predict(family.minimise(good, [0, 1]).hypothesis, X)
    with pytest.raises(InvalidDataError, match="finite"):
        family.project(good).mistakes(X, [0, 1])


@pytest.mark.parametrize("family", LINE_CLASSES, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(family, bad):
    for call in (family.project, lambda X: family.minimise(X, [0, 1]), family.presort):
        with pytest.raises(InvalidDataError, match="finite"):
            call([0.0, bad])


def test_messages_hold_no_value_of_a_record():
    with pytest.raises(InvalidDataError) as caught:
        Conjunctions().project([[0.0, 123.456]])
    assert "123" not in str(caught.value)
    with pytest.raises(InvalidDataError) as caught:
        Stumps().minimise([[1.0]], [7])
    assert "7" not in str(caught.value)


@pytest.mark.parametrize("family", MATRIX_CLASSES, ids=lambda f: type(f).__name__)
def test_zero_has_no_sign(family):
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
    assert len(family.project(X).points) == 2
    plus, minus = family.project(np.abs(X)), family.project(X)
    assert plus.hypotheses.tobytes() == minus.hypotheses.tobytes()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 2)), "at least one row"),
        (np.zeros((2, 0)), "at least one row"),
        (np.zeros((2, 2, 2)), "shape"),
        ([["a", "b"]], "dtype"),
        (np.array([["a", 1]], dtype=object), "not numbers"),
        (np.array([[1 + 2j, 0]]), "dtype"),
    ],
)
def test_matrices_of_the_wrong_kind_are_refused(X, message):
    with pytest.raises(InvalidDataError, match=message):
        Stumps().project(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "at least one row"),
        (np.zeros((2, 2)), "one column"),
        (np.array([1j]), "no order"),
        (np.array([1, "a", None], dtype=object), "cannot be ordered"),
        (np.array([Decimal(1), Decimal("nan")], dtype=object), "missing"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), "NaT"),
    ],
)
def test_lines_of_the_wrong_kind_are_refused(X, message):
    with pytest.raises(InvalidDataError, match=message):
        Thresholds().project(X)


@pytest.mark.parametrize(
    ("family", "n_features"),
    [
        (Thresholds(), 2),
        (Intervals(1), 2),
        (Stumps(3), 2),
        (Rectangles(), 3),
        (Halfspaces(3), 2),
        (Conjunctions(3), 2),
        (FiniteClass.from_table([0.0], [[1]]), 2),
    ],
)
def test_class_refuses_points_of_another_dimension(family, n_features):
    with pytest.raises(InvalidDataError, match=f"{n_features}"):
        family.on(n_features)
    with pytest.raises(InvalidDataError):
        family.project(np.zeros((1, n_features)))


def test_on_fixes_the_number_of_features():
    assert Stumps().on(4) == Stumps(4)
    assert Halfspaces(method="milp").on(4) == Halfspaces(4, method="milp")
    assert Conjunctions(negations=False).on(4) == Conjunctions(4, negations=False)
    assert Rectangles().on(2) == Rectangles()
    assert Thresholds("down").on(1) == Thresholds("down")
    assert Intervals(3).on(1) == Intervals(3)
    assert len(FiniteClass.from_table([0.0], [[1]]).on(1)) == 1


ORDERED = {
    "strings": ["ant", "bee", "cat", "dog"],
    "bytes": [b"ant", b"bee", b"cat", b"dog"],
    "dates": np.array(
        ["2020-01-01", "2020-02-01", "2021-01-01", "2022-01-01"], "M8[D]"
    ),
    "spans": np.array([1, 2, 3, 4], "m8[s]"),
    "objects": np.array([datetime.date(2020, 1, day) for day in (1, 2, 3, 4)]),
    "decimals": np.array([Decimal(i) / 10 for i in (1, 2, 3, 4)]),
    "floats as objects": np.array([1.0, 2, 3.5, 4], dtype=object),
    "booleans": np.array([False, False, True, True]),
    "large integers": np.array([2**62, 2**62 + 1, 2**62 + 2, 2**62 + 3]),
    "unsigned": np.array([1, 2, 3, 4], dtype=np.uint8),
    "a column": np.array([[1.0], [2.0], [3.0], [4.0]]),
}


@pytest.mark.parametrize("values", ORDERED.values(), ids=ORDERED)
def test_anything_ordered_can_be_cut(values):
    values = np.asarray(values)[[2, 0, 3, 1]]
    y = [1, 0, 1, 0]
    for family in (Thresholds(), Intervals(2), Thresholds("either")):
        best = family.minimise(values, y)
        assert best.value == 0
        assert family.predict(best.hypothesis, values).tolist() == y
        sorted_once = family.presort(values)
        assert family.minimise(sorted_once, y) == best
        projection = family.project(values)
        counted = projection.mistakes(values, y)
        assert counted.min() == 0
        assert (projection.mistakes(sorted_once, y) == counted).all()
        assert (projection.mistakes(sorted_once.tally(y)) == counted).all()


def test_linear_ball_checks_its_points():
    with pytest.raises(InvalidDataError, match="finite"):
        LinearBall(1.0).minimise([[np.nan]], [0.0], loss=SquaredLoss(), gap=1e-6)
