"""Rows sent by clients: strict types, no value in any message, same result as files."""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np
import pytest

from reticent.errors import InvalidDataError
from reticent.schemas import (
    Categorical,
    Numeric,
    PackedRows,
    Schema,
    packed_rows,
    unpacked,
)
from tests.schemas.clinic import (
    CLINIC,
    CODES,
    NUMBERS,
    RECORDS,
    assert_says,
    features,
    random_rows,
)

ROWS = [features(record) for record in RECORDS]
CANARY = "CANARY-731"


def test_rows_are_clipped_and_coded():
    table = CLINIC.rows(ROWS)
    np.testing.assert_array_equal(table.numbers, NUMBERS)
    np.testing.assert_array_equal(table.codes, CODES)
    assert len(table) == 3
    assert table.label is None
    assert table.units is None


def test_few_rows_are_read_as_many_are(monkeypatch):
    """One row is checked value by value, many by NumPy: to the bit the same."""
    odd = [
        0,
        -0.0,
        1e308,
        -1e308,
        5e-324,
        2**70,
        10**400,
        True,
        None,
        "1",
        1e999,
        [],
        {},
    ]
    columns = {
        "strict": Numeric(-2, 3, outside="error"),
        "wide": Numeric(-1e300, 1e300),
        "zero": Numeric(0, 1),
        "text": Categorical(["a", "b"]),
    }
    schema = Schema(columns)
    usual = {"strict": 1, "wide": 2.5, "zero": 0.5, "text": "b"}
    cases = [usual] + [{**usual, name: value} for name in usual for value in odd]

    def outcome(row, clip):
        try:
            table = schema.rows([row], clip=clip)
        except InvalidDataError as error:
            return str(error)
        return table.numbers.tobytes(), table.codes.tobytes(), table.codes.dtype

    quick = [outcome(row, clip) for row in cases for clip in (True, False)]
    assert sum(isinstance(found, tuple) for found in quick) > 20
    monkeypatch.setattr("reticent.schemas.rows._FEW", 0)
    assert [outcome(row, clip) for row in cases for clip in (True, False)] == quick


def test_packed_rows_are_the_same_rows():
    schema = Schema(
        {"x": Numeric(0, 9), "y": Numeric(0, 1), "text": Categorical(["a", "b"])}
    )
    rows = [{"x": n, "y": -0.0, "text": "ab"[n % 2]} for n in range(3)]
    packed, table = packed_rows(schema, rows, clip=False), schema.rows(rows, clip=False)
    assert isinstance(packed, PackedRows)
    assert len(packed) == len(table) == 3
    for built in (packed.table(), unpacked([packed_rows(schema, [r]) for r in rows])):
        assert built.numbers.tobytes() == table.numbers.tobytes()
        assert built.codes.tobytes() == table.codes.tobytes()
        assert built.numbers.flags.writeable
        assert built.codes.dtype == table.codes.dtype
    # What a query is recognised by is the same, however the rows came.
    whole = table.numbers.astype("<f8"), table.codes.astype("<i4")
    expected = [a.tobytes() + b.tobytes() for a, b in zip(*whole, strict=True)]
    assert packed.queries() == expected
    assert [packed_rows(schema, [row]).queries() for row in rows] == [
        [query] for query in expected
    ]
    # Anything special takes the long way, which says what is wrong with it.
    outside = [{**rows[0], "x": 10}]
    assert packed_rows(schema, outside, clip=True).queries() == (
        packed_rows(schema, [{**rows[0], "x": 9}]).queries()
    )
    with pytest.raises(InvalidDataError, match="outside the public range"):
        packed_rows(schema, outside, clip=False)
    assert not isinstance(packed_rows(schema, rows * 2), PackedRows)


def test_columns_of_a_table_are_found_by_name():
    table = CLINIC.rows(ROWS)
    np.testing.assert_array_equal(table["age"], [37, 62, 120])
    np.testing.assert_array_equal(table["blood"], [0, 2, 3])
    with pytest.raises(InvalidDataError, match="'ill' is not in the schema"):
        table["ill"]


def test_each_row_alone_gives_what_the_batch_gives(seed):
    rng = np.random.default_rng(seed)
    rows = random_rows(CLINIC, rng, 200)
    for row in rows:
        row["heat"] = 30 + 15 * rng.random()
    batch = CLINIC.rows(rows)
    single = [CLINIC.rows([row]) for row in rows]
    np.testing.assert_array_equal(batch.numbers, np.vstack([t.numbers for t in single]))
    np.testing.assert_array_equal(batch.codes, np.vstack([t.codes for t in single]))


def one(**cells):
    return [{**ROWS[0], **cells}]


def without(name):
    return [{key: value for key, value in ROWS[0].items() if key != name}]


WRONG_ROWS = {
    "no list": ({"age": 3}, "must be a list"),
    "text": (CANARY, "must be a list"),
    "none": (None, "must be a list"),
    "empty": ([], "rows is empty"),
    "row of text": ([CANARY], "rows[0]: a row must be an object"),
    "row of list": ([[1, 2]], "rows[0]: a row must be an object"),
    "absent column": (without("heat"), "rows[0]: the columns 'heat' are missing"),
    "absent though optional": (without("dose"), "null for a missing value"),
    "surplus key": (one(**{CANARY: 1}), "rows[0]: 1 keys are not columns"),
    "label sent": (one(ill="no"), "1 keys are not columns"),
    "number as text": (one(age="37"), "rows[0], column 'age': a number is needed"),
    "true as number": (one(age=True), "column 'age': a number is needed"),
    "list as number": (one(age=[37]), "column 'age': a number is needed"),
    "object as number": (one(age={}), "column 'age': a number is needed"),
    "text as number": (one(age=CANARY), "column 'age': a number is needed"),
    "null": (one(age=None), "column 'age': the value is missing"),
    "NaN": (one(age=float("nan")), "column 'age': the number is not finite"),
    "NaN though optional": (one(dose=float("nan")), "'dose': the number is not finite"),
    "infinity": (one(age=float("inf")), "column 'age': the number is not finite"),
    "1e999": (one(age=json.loads("-1e999")), "column 'age': the number is not finite"),
    "10^400": (one(age=10**400), "column 'age': the number is not finite"),
    "outside": (one(heat=45.5), "outside the public range 30 to 45. Send a number"),
    "subnormal outside": (one(heat=5e-324), "outside the public range 30 to 45"),
    "unknown level": (one(blood=CANARY), "(text): 'A', 'B', 'AB', '0'. Send one"),
    "case of a level": (one(blood="ab"), "column 'blood': the value is not one of"),
    "space in a level": (one(blood="A "), "column 'blood': the value is not one of"),
    "number as level": (one(blood=0), "column 'blood': the value is not one of"),
    "list as level": (one(blood=["A"]), "column 'blood': the value is not one of"),
    "null as level": (one(blood=None), "column 'blood': the value is missing"),
    "empty level": (one(blood=""), "column 'blood': the value is missing"),
    "NaN as level": (one(ward=float("nan")), "column 'ward': the value is not one of"),
    "text as code": (one(ward="1"), "(whole numbers): 1, 2, 30"),
    "fraction as code": (one(ward=1.5), "column 'ward': the value is not one of"),
    "true as code": (one(ward=True), "column 'ward': the value is not one of"),
    "list as code": (one(ward=[1]), "column 'ward': the value is not one of"),
    "one as flag": (one(smoker=1), "(true or false): False, True"),
    "text as flag": (one(smoker="true"), "column 'smoker': the value is not one of"),
    "second row": ([ROWS[0], *one(age="x")], "rows[1], column 'age'"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_wrong_rows_name_row_and_column(case):
    rows, part = WRONG_ROWS[case]
    with pytest.raises(InvalidDataError) as caught:
        CLINIC.rows(rows)
    assert_says(caught.value, part, never=CANARY)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (-0.0, 0.0),
        (5e-324, 5e-324),
        (-5e-324, 0.0),
        (2**63, 120.0),
        (-(10**300), 0.0),
        (np.float32(7), 7.0),
        (np.int64(7), 7.0),
    ],
)
def test_unusual_numbers_are_read(given, read):
    (number,) = CLINIC.rows(one(age=given))["age"]
    assert str(number) == str(read)  # tells 0.0 from -0.0


@pytest.mark.parametrize(
    ("cells", "column", "code"),
    [
        ({"ward": 30.0}, "ward", 2),  # JSON has one kind of number
        ({"ward": None}, "ward", -1),
        ({"job": None}, "job", None),
        ({"job": "baker"}, "job", 2),
        ({"job": 7}, "job", 2),
        ({"smoker": True}, "smoker", 1),
    ],
)
def test_levels_are_coded(cells, column, code):
    if code is None:  # "other" is a value outside the list, not the lack of one
        with pytest.raises(InvalidDataError, match="the value is missing"):
            CLINIC.rows(one(**cells))
    else:
        assert CLINIC.rows(one(**cells))[column] == [code]


@pytest.mark.parametrize(
    "schema",
    [
        Schema({"only": Numeric(0, 1)}),
        Schema({"only": Categorical(["a"])}),
        Schema({"only": Categorical([1])}),
    ],
)
def test_schemas_of_one_column_work(schema):
    value = 1 if isinstance(schema.columns["only"], Numeric) else None
    value = value or schema.columns["only"].levels[0]
    table = schema.rows([{"only": value}] * 2)
    assert table.numbers.shape[0] == table.codes.shape[0] == len(table) == 2


def test_rows_may_be_any_dictionary():
    table = CLINIC.rows(tuple(OrderedDict(reversed(row.items())) for row in ROWS))
    np.testing.assert_array_equal(table.numbers, NUMBERS)


def test_a_surplus_key_may_not_hide_an_absent_column():
    with pytest.raises(InvalidDataError, match="'age' are missing"):
        CLINIC.rows([{**without("age")[0], "Age": 3}])
