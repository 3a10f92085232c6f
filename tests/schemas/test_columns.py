"""Column specifications refuse what promises nothing."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.schemas import Categorical, ClassLabel, Numeric, NumericTarget, Schema

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (NAN, 1),
        (0, NAN),
        (-INF, 1),
        (0, INF),
        (1, 1),
        (2, 1),
        (0.0, -0.0),
        (-1e308, 1e308),  # the width is not finite
        (True, 2),
        ("0", "1"),
        (None, 1),
        (0, 10**400),
    ],
)
@pytest.mark.parametrize("kind", [Numeric, lambda a, b: NumericTarget("y", a, b)])
def test_ranges_must_be_finite_and_in_order(kind, low, high):
    with pytest.raises(InvalidParameterError, match=r"low|high"):
        kind(low, high)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"transform": "log"}, "transform needs one of 'none', 'log1p'"),
        ({"transform": None}, "transform needs"),
        ({"missing": 1}, "missing needs true or false"),
        ({"outside": "wrap"}, "outside needs one of"),
        ({"transform": "log1p", "low": -1}, "needs low > -1"),
        (
            {"transform": "log1p", "low": 1e300, "high": np.nextafter(1e300, 2e300)},
            "become equal",
        ),
    ],
)
def test_numeric_columns_refuse(arguments, part):
    with pytest.raises(InvalidParameterError, match=part):
        Numeric(**{"low": 0, "high": 1, **arguments})


@pytest.mark.parametrize(
    "levels",
    [
        [],
        "abc",
        None,
        7,
        ["a", "a"],
        ["a", 1],
        [1, True],
        [1.0, 2.0],
        [None],
        ["a", ""],
        [" a"],
        ["a\n"],
        ["\ud800"],  # half of a pair: no file can hold it
        [2**53],
        [["a"]],
    ],
)
@pytest.mark.parametrize("kind", [Categorical, lambda v: ClassLabel("y", v)])
def test_levels_must_be_distinct_and_of_one_kind(kind, levels):
    with pytest.raises(InvalidParameterError, match=r"levels|classes"):
        kind(levels)


def test_levels_may_come_from_an_array():
    assert Categorical(np.array([3, 1])).levels == (3, 1)
    assert type(Categorical(np.array([True, False])).levels[0]) is bool
    assert ClassLabel("y", np.array(["b", "a"])).classes == ("b", "a")


def test_a_label_needs_two_classes():
    with pytest.raises(InvalidParameterError, match="at least two labels"):
        ClassLabel("y", ["only"])


def test_negative_zero_is_zero():
    assert str(Numeric(-0.0, 1).low) == "0.0"


COLUMN = Numeric(0, 1)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"columns": {}}, "at least one column"),
        ({"columns": [COLUMN]}, "mapping"),
        ({"columns": {"a": (0, 1)}}, "needs Numeric"),
        ({"columns": {3: COLUMN}}, "printable text"),
        ({"columns": {"": COLUMN}}, "printable text"),
        ({"label": "y"}, "label needs ClassLabel"),
        ({"label": ClassLabel("a", [0, 1])}, "'a' is in columns and in label"),
        ({"unit": "a"}, "'a' is in columns and in unit"),
        ({"unit": 5}, "printable text"),
        ({"ignored": ["a"]}, "'a' is in columns and in ignored"),
        ({"ignored": ["b", "b"]}, "in ignored and in ignored"),
        ({"ignored": "ab"}, "ignored needs a list"),
    ],
)
def test_schemas_refuse(arguments, part):
    with pytest.raises(InvalidParameterError, match=part):
        Schema(**{"columns": {"a": COLUMN}, **arguments})


def test_a_schema_cannot_be_changed():
    given = {"a": COLUMN}
    schema = Schema(given)
    given["b"] = COLUMN
    assert list(schema.columns) == ["a"]
    with pytest.raises(TypeError):
        schema.columns["b"] = COLUMN
    with pytest.raises(AttributeError):
        schema.unit = "b"
