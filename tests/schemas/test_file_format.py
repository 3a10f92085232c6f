"""Files as hospitals write them: separators, encodings, commas in numbers, headers."""

import gzip

import numpy as np
import pytest

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas import Categorical, FileFormat, Numeric, Schema, read_table
from reticent.schemas.file_format import ENCODINGS, distinct_names

TEXT = "größe;name\n1.234,5;Jörg\n-0,25;Zoë\n12;Jörg\n"
WRITTEN = FileFormat(separator=";", decimal=",", thousands=".")
COLUMNS = {"größe": Numeric(-10, 5000), "name": Categorical(["Jörg", "Zoë"])}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_every_encoding_is_read(encoding, ending, tmp_path):
    path = tmp_path / f"rows.{ending}"
    data = TEXT.encode(encoding)
    path.write_bytes(gzip.compress(data) if ending == "csv.gz" else data)
    written = FileFormat(**{**WRITTEN.as_dict(), "encoding": encoding})
    table = read_table(path, Schema(COLUMNS, file=written))
    assert table.numbers[:, 0].tolist() == [1234.5, -0.25, 12.0]
    assert table.codes[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("codec", ["utf-16", "utf-8-sig"])
def test_a_byte_order_mark_says_enough(codec, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT.encode(codec))
    assert len(read_table(path, Schema(COLUMNS, file=WRITTEN))) == 3


def test_a_long_file_in_another_encoding_is_read_to_its_end(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"{i % 97},5;{'Jörg' if i % 2 else 'Zoë'}" for i in range(40_000)]
    path.write_text("größe;name\n" + "\n".join(lines), encoding="utf-16")
    table = read_table(path, Schema(COLUMNS, file=WRITTEN))
    assert table.numbers[:, 0].tolist() == [i % 97 + 0.5 for i in range(40_000)]


def test_an_encoding_that_is_not_that_of_the_file_is_said(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT.encode("latin-1"))
    with pytest.raises(InvalidDataError, match="--encoding with cp1252 or latin-1"):
        read_table(path, Schema(COLUMNS, file=WRITTEN))
    path.write_bytes(b"name\n\x81\n")  # stands for nothing in cp1252
    schema = Schema({"name": COLUMNS["name"]}, file=FileFormat(encoding="cp1252"))
    with pytest.raises(InvalidDataError, match="not CP1252 text"):
        read_table(path, schema)


@pytest.mark.parametrize(
    ("decimal", "thousands", "good", "bad"),
    [
        (",", ".", {"1.234,5": 1234.5, "12": 12, ",5": 0.5, "1e3": 1e3}, "1.5 1.23,4"),
        (",", "", {"0,5": 0.5, "-3,": -3.0}, "1.5 1.234,5"),
        (".", ",", {"1,234.5": 1234.5, "1234": 1234.0}, "1,5 12,34 ,123"),
        (",", " ", {"1 234,5": 1234.5, "1\u00a0000": 1000.0}, "1.5"),
        (".", "'", {"1'000.25": 1000.25, "1\u2019000": 1000.0}, "1,000"),
    ],
)
def test_numbers_are_read_in_one_way_or_refused(
    decimal, thousands, good, bad, tmp_path
):
    written = FileFormat(separator=";", decimal=decimal, thousands=thousands)
    schema = Schema({"x": Numeric(-1e6, 1e6), "y": Numeric(0, 1)}, file=written)
    path = tmp_path / "rows.csv"
    path.write_text("x;y\n" + "".join(f"{text};1\n" for text in good))
    assert read_table(path, schema).numbers[:, 0].tolist() == list(good.values())
    for text in bad.split():
        path.write_text(f"x;y\n{next(iter(good))};1\n{text};1\n")
        with pytest.raises(InvalidDataError, match="line 3, column 'x': a number"):
            read_table(path, schema)


def test_fast_and_careful_reading_agree(tmp_path):
    # One word for a missing number makes the whole column take the careful pass.
    written = FileFormat(decimal=",", thousands=".", separator=";")
    schema = Schema({"x": Numeric(0, 1e9, missing=True)}, file=written)
    cells = ["1.234.567,25", " 5 ", "0,125", "", "7"]
    path = tmp_path / "rows.csv"
    path.write_text("x\n" + "\n".join(cells) + "\n")
    fast = read_table(path, schema).numbers[:, 0]
    path.write_text("x\n" + "\n".join([*cells, "NA"]) + "\n")
    careful = read_table(path, schema).numbers[:, 0]
    np.testing.assert_array_equal(fast, careful[:-1])


def test_repeated_blank_and_spaced_headers_get_plain_names():
    header = [" age ", "weight", "weight", "", "weight (2)", "weight"]
    assert distinct_names(header) == [
        *("age", "weight", "weight (3)", "column 4", "weight (2)", "weight (4)")
    ]


def test_a_repeated_column_is_ignored_or_used_by_declaration(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,x\n1,2\n")
    one = {"x": Numeric(0, 9)}
    with pytest.raises(InvalidDataError, match=r"the second one is called 'x .2.'"):
        read_table(path, Schema(one))
    assert read_table(path, Schema(one, ignored=["x (2)"])).numbers.tolist() == [[1]]
    both = Schema({**one, "x (2)": Numeric(0, 9)})
    assert read_table(path, both).numbers.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"encoding": "klingon"},
        {"decimal": ";"},
        {"thousands": "x"},
        {"decimal": ",", "thousands": ","},
        {"separator": "ab"},
    ],
)
def test_impossible_formats_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        FileFormat(**wrong)


def test_the_format_survives_the_schema_file(tmp_path):
    schema = Schema(COLUMNS, file=WRITTEN)
    schema.write(tmp_path / "s.json")
    assert Schema.read(tmp_path / "s.json").file == WRITTEN
    # A schema with the usual format is the same file, and the same digest, as before.
    assert "file" not in Schema(COLUMNS).as_dict()
    assert Schema(COLUMNS).digest != schema.digest
