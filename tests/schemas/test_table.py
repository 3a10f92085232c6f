"""Tables in memory: every library gives the same rows, and wrong ones are named."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Encoder,
    Numeric,
    NumericTarget,
    Schema,
    read_table,
)
from tests.schemas.clinic import (
    CLINIC,
    CODES,
    LABELS,
    NUMBERS,
    RECORDS,
    UNITS,
    assert_says,
    changed,
    columns,
    csv_text,
    features,
)

CANARY = "CANARY-731"


def arrays(records):
    return {name: np.array(v, dtype=object) for name, v in columns(records).items()}


def pandas_categories(records):
    frame = pd.DataFrame(columns(records))
    return frame.astype({"blood": "category", "ward": "Int64", "smoker": "boolean"})


def polars_categories(records):
    frame = pl.DataFrame(columns(records))
    return frame.with_columns(
        pl.col("blood").cast(pl.Categorical), pl.col("heat").cast(pl.Decimal(9, 3))
    )


def arrow_dictionaries(records):
    table = pa.table(columns(records))
    place = table.schema.get_field_index("blood")
    return table.set_column(place, "blood", table["blood"].dictionary_encode())


IN_MEMORY = {
    "lists": columns,
    "arrays": arrays,
    "pandas": lambda records: pd.DataFrame(columns(records)),
    "pandas, special types": pandas_categories,
    "polars": lambda records: pl.DataFrame(columns(records)),
    "polars, special types": polars_categories,
    "pyarrow": lambda records: pa.table(columns(records)),
    "pyarrow, batch": lambda records: pa.table(columns(records)).to_batches()[0],
    "pyarrow, dictionaries": arrow_dictionaries,
    "matrix": lambda records: np.array(
        [[r[name] for name in CLINIC.needed(labelled=True)] for r in records],
        dtype=object,
    ),
}


def as_csv(path, records):
    path = path / "clinic.csv"
    path.write_text(csv_text(records))
    return path


def as_parquet(path, records):
    path = path / "clinic.parquet"
    pl.DataFrame(columns(records)).write_parquet(path)
    return path


@pytest.mark.parametrize("library", IN_MEMORY)
def test_every_library_gives_the_same_rows(library):
    table = CLINIC.table(IN_MEMORY[library](RECORDS), labelled=True)
    np.testing.assert_array_equal(table.numbers, NUMBERS)
    np.testing.assert_array_equal(table.codes, CODES)
    assert table.label.tolist() == LABELS
    assert table.units.tolist() == UNITS


@pytest.mark.parametrize("write", [as_csv, as_parquet])
@pytest.mark.parametrize("style", ["dense", "ordinal"])
def test_files_clients_and_frames_give_the_same_matrix(write, style, tmp_path):
    encoder = Encoder(CLINIC, style=style)
    from_file = encoder.transform(read_table(write(tmp_path, RECORDS), CLINIC))
    from_client = encoder.transform(CLINIC.rows([features(r) for r in RECORDS]))
    np.testing.assert_array_equal(from_file, from_client)
    for build in (IN_MEMORY["pandas"], IN_MEMORY["polars"]):
        table = CLINIC.table(build(RECORDS))
        np.testing.assert_array_equal(encoder.transform(table), from_client)


def test_label_and_unit_are_read_only_when_asked_for():
    table = CLINIC.table(columns(RECORDS))
    assert table.label is None
    assert table.units is None
    assert len(CLINIC.table(columns([features(r) for r in RECORDS]))) == 3
    with pytest.raises(InvalidDataError, match="'ill', 'patient' are missing; 7 of 9"):
        CLINIC.table(columns([features(r) for r in RECORDS]), labelled=True)


WRONG_CELLS = {
    "text": ({"age": CANARY}, "column 'age': a number is needed"),
    "true": ({"age": True}, "column 'age': a number is needed"),
    "gap": ({"age": None}, "column 'age': the value is missing"),
    "NaN": ({"age": float("nan")}, "column 'age': the value is missing"),
    "infinity": ({"age": float("-inf")}, "column 'age': the number is not finite"),
    "huge": ({"age": 10**400}, "column 'age': the number is not finite"),
    "outside": ({"heat": 731.731}, "outside the public range 30 to 45. Correct it"),
    "level": ({"blood": CANARY}, "'A', 'B', 'AB', '0'. Correct it, add the level"),
    "level gap": ({"blood": None}, "column 'blood': the value is missing"),
    "code": ({"ward": 731}, "(whole numbers): 1, 2, 30"),
    "label": ({"ill": CANARY}, "not one of the classes of the schema: 'no', 'yes'"),
    "label gap": ({"ill": None}, "column 'ill': the label is missing"),
    "unit gap": ({"patient": None}, "column 'patient': the unit is missing"),
    "unit empty": ({"patient": ""}, "column 'patient': the unit is missing"),
    "unit fraction": ({"patient": 1.5}, "neither text nor an exact whole number"),
    "unit flag": ({"patient": True}, "neither text nor an exact whole number"),
}


@pytest.mark.parametrize("case", WRONG_CELLS)
@pytest.mark.parametrize("build", [columns, arrays])
def test_wrong_cells_name_row_and_column(build, case):
    cells, part = WRONG_CELLS[case]
    with pytest.raises(InvalidDataError) as caught:
        CLINIC.table(build(changed(2, **cells)), labelled=True, name="march")
    assert_says(caught.value, "march, row 2, column ", part, never="731.731")
    assert CANARY not in str(caught.value)


WRONG_TABLES = {
    "nothing": (None, "a table is needed"),
    "text": (CANARY, "a table is needed"),
    "list of lists": ([[1, 2]], "a table is needed"),
    "empty mapping": ({}, "0 of 7 were found"),
    "no rows": ({name: [] for name in CLINIC.columns}, "there are no rows"),
    "narrow matrix": (np.zeros((2, 3)), "a matrix of 3 columns was given"),
    "lengths": (
        {**columns([features(r) for r in RECORDS]), "age": [1]},
        "different lengths",
    ),
    "two dimensions": (
        {**columns([features(r) for r in RECORDS]), "age": np.zeros((3, 2))},
        "one dimension",
    ),
    "scalar": ({**columns([features(r) for r in RECORDS]), "age": 3}, "got int"),
    "surplus": (
        {**columns(RECORDS), "extra": [1, 2, 3]},
        "the columns 'extra' are not in the schema. Remove them, or list them under",
    ),
}


@pytest.mark.parametrize("case", WRONG_TABLES)
def test_wrong_tables_are_refused(case):
    table, part = WRONG_TABLES[case]
    with pytest.raises(InvalidDataError) as caught:
        CLINIC.table(table)
    assert_says(caught.value, part, never=CANARY)


def test_repeated_columns_are_refused():
    frame = pd.DataFrame(columns(RECORDS))
    frame = pd.concat([frame, frame[["age"]]], axis=1)
    with pytest.raises(InvalidDataError, match="'age' occurs twice"):
        CLINIC.table(frame)


def test_declared_columns_are_ignored():
    with_note = [{**record, "note": CANARY} for record in RECORDS]
    table = CLINIC.table(pl.DataFrame(columns(with_note)), labelled=True)
    np.testing.assert_array_equal(table.numbers, NUMBERS)


@pytest.mark.parametrize(("digits", "kind"), [(24, "float32"), (53, "float64")])
def test_units_that_floating_point_may_have_rounded_are_refused(digits, kind):
    schema = Schema({"a": Numeric(0, 1)}, unit="u")
    largest = np.array([2**digits - 1], dtype=kind)
    rounded = np.array([2**digits], dtype=kind)
    assert rounded[0] == np.array([2**digits + 1], dtype=kind)[0]
    for make in (np.array, pd.Series, pl.Series, pa.array):
        table = schema.table({"a": [0.5], "u": make(largest)}, labelled=True)
        assert table.units.tolist() == [str(2**digits - 1)]
        with pytest.raises(InvalidDataError, match="neither text nor an exact whole"):
            schema.table({"a": [0.5], "u": make(rounded)}, labelled=True)
    # Whole numbers that never were floats are exact at any size.
    table = schema.table({"a": [0.5], "u": [2**digits + 1]}, labelled=True)
    assert table.units.tolist() == [str(2**digits + 1)]


@pytest.mark.parametrize("unit", [7, 7.0, np.int64(7), "7"])
def test_units_are_text(unit):
    schema = Schema({"a": Numeric(0, 1)}, unit="u")
    table = schema.table({"a": [0.5], "u": [unit]}, labelled=True)
    assert table.units.tolist() == ["7"]


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float32, np.longdouble])
def test_units_and_numbers_of_every_type_are_read(kind):
    schema = Schema({"a": Numeric(0, 100), "b": Categorical([5, 7])}, unit="u")
    cells = np.array([5, 7], dtype=kind)
    table = schema.table({"a": cells, "b": cells, "u": cells.astype(np.int64)})
    assert table["a"].tolist() == [5, 7]
    assert table["b"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("cell", "read"),
    [
        (Decimal("1.5"), 1.5),
        (Decimal("1e999"), "not finite"),
        (Decimal("sNaN"), "missing"),
    ],
)
def test_decimals_are_numbers(cell, read):
    schema = Schema({"a": Numeric(0, 2)})
    if isinstance(read, str):
        with pytest.raises(InvalidDataError, match=read):
            schema.table({"a": [cell]})
    else:
        assert schema.table({"a": [cell]})["a"] == [read]


def test_take_keeps_rows_together():
    table = CLINIC.table(columns(RECORDS), labelled=True)
    some = table.take([2, 0])
    assert some["age"].tolist() == [120, 37]
    assert some.label.tolist() == [1, 0]
    assert some.units.tolist() == ["p1", "p1"]
    assert len(table.take(np.array([True, False, False]))) == 1


@pytest.mark.parametrize(
    ("classes", "given", "codes"),
    [
        (["no", "yes"], np.array(["yes", "no"]), [1, 0]),
        (["no", "yes"], pd.Series(["yes", "no"]), [1, 0]),
        ([2, 1], [1, 2.0, np.int32(2)], [1, 0, 0]),
        ([2, 1], pl.Series([1, 2]), [1, 0]),
        ([False, True], np.array([True, False]), [1, 0]),
    ],
)
def test_labels_are_positions_in_the_classes(classes, given, codes):
    schema = Schema({"a": Numeric(0, 1)}, label=ClassLabel("y", classes))
    encoded = schema.encode_label(given)
    assert encoded.tolist() == codes
    assert encoded.dtype == np.int64
    assert schema.classes[encoded].tolist() == [classes[code] for code in codes]


@pytest.mark.parametrize("label", [CANARY, None, 1, True, float("nan")])
def test_labels_outside_the_classes_are_refused(label):
    with pytest.raises(InvalidDataError) as caught:
        CLINIC.encode_label(["no", label])
    assert_says(caught.value, "labels, row 2, column 'ill'", never=CANARY)


def test_targets_are_clipped_to_their_bounds():
    schema = Schema({"a": Numeric(0, 1)}, label=NumericTarget("y", -1, 2))
    assert schema.encode_label([-5, 0.5, 7]).tolist() == [-1, 0.5, 2]
    for wrong in (float("nan"), float("inf"), None, "1", True):
        with pytest.raises(InvalidDataError, match="labels, row 1, column 'y'"):
            schema.encode_label([wrong])


def test_labels_need_a_declared_label():
    schema = Schema({"a": Numeric(0, 1)})
    with pytest.raises(InvalidParameterError, match="no label"):
        schema.encode_label([1])
    with pytest.raises(InvalidParameterError, match="no classes"):
        schema.classes  # noqa: B018  # the access is the act
