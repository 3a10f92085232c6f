"""CSV and Parquet: read right, in any batches, and wrong files are explained."""

from __future__ import annotations

import gzip
import sys
import tracemalloc

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Encoder,
    FileFormat,
    Numeric,
    Schema,
    read_batches,
    read_table,
)
from reticent.schemas.arrow import ArrowColumn
from reticent.schemas.cells import ListColumn, Lookup, read_codes, read_numbers
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
    random_rows,
)

CANARY = "CANARY-731"
TEXT = csv_text(RECORDS)


def assert_clinic(table):
    np.testing.assert_array_equal(table.numbers, NUMBERS)
    np.testing.assert_array_equal(table.codes, CODES)
    assert table.label.tolist() == LABELS
    assert table.units.tolist() == UNITS


SPELLINGS = {
    "plain": TEXT.encode(),
    "windows": TEXT.replace("\n", "\r\n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "all quoted": csv_text(RECORDS, quoting=1).encode(),
    "no last line end": TEXT.rstrip("\n").encode(),
    "blank lines": TEXT.replace("\n", "\n\n").encode(),
    "spaces around numbers": TEXT.replace("37,", " 37 ,")
    .replace("2.5", " 2.5")
    .encode(),
    "plus and exponent": TEXT.replace("37,", "+3.7e1,").encode(),
    "NA and null": TEXT.replace("AB,,", "AB,NA,").encode(),
    "NaN": TEXT.replace("AB,,", "AB,NaN,").encode(),
    "codes through floats": TEXT.replace(",30,", ",30.0,").encode(),
    "lower case flags": TEXT.replace("True", "true").replace("False", "FALSE").encode(),
    "columns permuted": csv_text([dict(reversed(r.items())) for r in RECORDS]).encode(),
    "ignored column": csv_text([{"note": 'a "b", c', **r} for r in RECORDS]).encode(),
    "gzip": gzip.compress(TEXT.encode()),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_csv_is_read_however_it_is_spelt(spelling, tmp_path):
    path = tmp_path / ("c.csv.gz" if spelling == "gzip" else "c.csv")
    path.write_bytes(SPELLINGS[spelling])
    assert_clinic(read_table(path, CLINIC))
    assert_clinic(read_table(str(path), CLINIC))


def test_other_separators_are_read(tmp_path):
    (tmp_path / "c.tsv").write_text(csv_text(RECORDS, delimiter="\t"))
    assert_clinic(read_table(tmp_path / "c.tsv", CLINIC))
    (tmp_path / "c.csv").write_text(csv_text(RECORDS, delimiter=";"))
    assert_clinic(read_table(tmp_path / "c.csv", CLINIC, separator=";"))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t,
        lambda t: t.set_column(0, "age", t["age"].cast(pa.decimal128(21, 2))),
        lambda t: t.set_column(0, "age", t["age"].cast(pa.float32())),
        lambda t: t.set_column(0, "age", t["age"].cast(pa.uint8())),
        lambda t: t.set_column(1, "blood", t["blood"].cast(pa.large_string())),
        lambda t: t.set_column(1, "blood", t["blood"].dictionary_encode()),
        lambda t: t.set_column(3, "ward", t["ward"].cast(pa.float64())),
        lambda t: t.append_column("note", pa.array([[1], [2], [3]])),
    ],
)
def test_parquet_is_read_whatever_its_types(change, tmp_path):
    table = change(pa.table(columns(RECORDS)))
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    assert_clinic(read_table(tmp_path / "c.parquet", CLINIC))


def test_unlabelled_files_need_no_label(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(csv_text([{n: r[n] for n in CLINIC.columns} for r in RECORDS]))
    table = read_table(path, CLINIC, labelled=False)
    np.testing.assert_array_equal(table.numbers, NUMBERS)
    assert table.label is table.units is None
    path.write_text(csv_text(changed(1, ill=CANARY)))  # there, and not looked at
    assert read_table(path, CLINIC, labelled=False).label is None


def many_records(seed, n_rows):
    rng = np.random.default_rng(seed)
    rows = random_rows(CLINIC, rng, n_rows)
    for i, row in enumerate(rows):
        row["heat"] = 30 + 15 * rng.random()
        row["ill"] = ["no", "yes"][rng.integers(2)]
        row["patient"] = f"p{i // 3}"
    return rows


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("rows", [1, 7, 100, 250, 10**9])
def test_batches_put_together_are_the_whole(ending, rows, tmp_path, seed):
    records = many_records(seed, 250)
    path = tmp_path / f"c.{ending}"
    if ending == "parquet":
        pl.DataFrame(columns(records)).write_parquet(path, row_group_size=64)
    else:
        text = csv_text(records).encode()
        path.write_bytes(gzip.compress(text) if ending == "csv.gz" else text)
    batches = list(read_batches(path, CLINIC, rows=rows))
    sizes = [len(batch) for batch in batches]
    assert sizes[:-1] == [rows] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= rows
    whole = CLINIC.table(columns(records), labelled=True)
    for name in ("numbers", "codes", "label", "units"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(batch, name) for batch in batches]),
            getattr(whole, name),
        )
    encoder = Encoder(CLINIC, basis="splines")
    np.testing.assert_array_equal(
        np.vstack([encoder.transform(batch) for batch in batches]),
        encoder.transform(whole),
    )


def test_line_numbers_count_over_batches(tmp_path, seed):
    records = many_records(seed, 250)
    records[199]["blood"] = CANARY
    path = tmp_path / "c.csv"
    path.write_text(csv_text(records))
    batches = read_batches(path, CLINIC, rows=64)
    assert [len(next(batches)) for _ in range(3)] == [64] * 3
    with pytest.raises(InvalidDataError, match="line 201, column 'blood'"):
        next(batches)


def test_memory_does_not_grow_with_the_file(tmp_path):
    schema = Schema({"a": Numeric(0, 1), "b": Categorical(["x", "y"])})
    line, path = "0.123456789012345,x\n", tmp_path / "long.csv"

    def peak(n_rows):
        path.write_text("a,b\n" + line * n_rows)
        pool = pa.default_memory_pool()
        tracemalloc.start()
        highest = 0
        for batch in read_batches(path, schema, rows=10_000):
            highest = max(highest, pool.bytes_allocated())
            assert batch.numbers.shape[1] == 1
        _, of_python = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest + of_python

    # 60 MB on disk against 180 MB; with everything in memory, three times the peak.
    assert peak(9_000_000) < 1.5 * peak(3_000_000)


WRONG_CELLS = {
    "number": ({"age": CANARY}, "line 3, column 'age': a number is needed"),
    "digits of others": ({"age": "\u0663\u0667"}, "column 'age': a number is needed"),
    "underscore": ({"age": "3_7"}, "column 'age': a number is needed"),
    "hexadecimal": ({"age": "0x1F"}, "column 'age': a number is needed"),
    "comma": ({"age": "3,7"}, "column 'age': a number is needed"),
    "word for infinity": ({"age": "inf"}, "column 'age': a number is needed"),
    "1e999": ({"age": "1e999"}, "column 'age': the number is not finite"),
    "400 digits": ({"age": "7" * 400}, "column 'age': the number is not finite"),
    "flag": ({"age": "true"}, "column 'age': a number is needed"),
    "gap": ({"age": ""}, "line 3, column 'age': the value is missing"),
    "NaN": ({"age": "NaN"}, "line 3, column 'age': the value is missing"),
    "outside": ({"heat": 731.731}, "column 'heat': the number is outside the public"),
    "level": ({"blood": CANARY}, "line 3, column 'blood': the value is not one of"),
    "level gap": ({"blood": ""}, "line 3, column 'blood': the value is missing"),
    "space": ({"blood": " A"}, "column 'blood': the value is not one of the levels"),
    "NA is no gap": ({"blood": "NA"}, "column 'blood': the value is not one of"),
    "code": ({"ward": 731}, "column 'ward': the value is not one of the levels"),
    "code fraction": ({"ward": "1.5"}, "column 'ward': the value is not one of"),
    "code text": ({"ward": CANARY}, "column 'ward': the value is not one of"),
    "flag text": ({"smoker": "yes"}, "column 'smoker': the value is not one of"),
    "label": (
        {"ill": CANARY},
        "column 'ill': the label is missing or not one of the classes",
    ),
    "label gap": ({"ill": ""}, "column 'ill': the label is missing or not"),
    "unit gap": ({"patient": ""}, "line 3, column 'patient': the unit is missing"),
}


@pytest.mark.parametrize("case", WRONG_CELLS)
def test_wrong_cells_of_csv_name_file_line_and_column(case, tmp_path):
    cells, part = WRONG_CELLS[case]
    path = tmp_path / "march.csv"
    path.write_text(csv_text(changed(2, **cells)))
    with pytest.raises(InvalidDataError) as caught:
        read_table(path, CLINIC)
    assert_says(caught.value, f"{path}, line 3, ", part, never=CANARY)
    assert "731.731" not in str(caught.value)


WRONG_CSV = {
    "nothing": (b"", "the file is empty"),
    "only line ends": (b"\n\n\n", "the file is empty"),
    "header only": (TEXT.split("\n")[0].encode() + b"\n", "there are no rows"),
    "header without line end": (TEXT.split("\n")[0].encode(), "there are no rows"),
    "no header": (
        TEXT.split("\n", 1)[1].replace("p1", CANARY).encode(),
        "0 of 9 were found. The first line must hold the columns' names.",
    ),
    "column missing": (TEXT.replace("heat", "hat").encode(), "'heat' are missing; 8"),
    "capitals": (TEXT.replace("age", "Age").encode(), "'age' are missing"),
    "surplus column": (
        csv_text([{**r, "extra": CANARY} for r in RECORDS]).encode(),
        "'extra' are not in the schema",
    ),
    "column twice": (
        TEXT.replace("age,", "age,age,", 1).replace("\n37", "\n37,37").encode(),
        "'age' occurs twice",
    ),
    "unnamed column": (
        TEXT.replace("\n", ",\n").encode(),
        "'column 10' are not in the schema",
    ),
    "semicolons": (
        csv_text(RECORDS, delimiter=";").encode(),
        "The fields look separated by ';'",
    ),
    "field too many": (
        TEXT.replace("62,", f"62,{CANARY},").encode(),
        "line 3: the row has 10 fields, the header 9",
    ),
    "field too few": (TEXT.replace("62,", "").encode(), "line 3: the row has 8 fields"),
    "Latin-1": (
        TEXT.replace("baker", f"b\u00e4cker{CANARY}").encode("latin-1"),
        "not UTF-8 text (line 3 of the file)",
    ),
    "Latin-1 header": (
        TEXT.replace("age", "\u00e4ge").encode("latin-1"),
        "not UTF-8 text (line 1 of the file)",
    ),
    "quote never closed": (
        TEXT.replace("baker", f'"baker{CANARY}').encode(),
        "line 3: the line is not one whole row",
    ),
    "damaged gzip": (gzip.compress(TEXT.encode())[:-20], "damaged or incomplete"),
    "gzip of nothing": (gzip.compress(b""), "the file is empty"),
    "spreadsheet": (b"PK\x03\x04" + CANARY.encode(), "a spreadsheet. Save the table"),
    "parquet inside": (b"PAR1" + CANARY.encode(), "Give it the ending .parquet"),
    "picture": (b"\x89PNG\r\n\x1a\n\x00\xff" + CANARY.encode(), "not UTF-8 text"),
}


@pytest.mark.parametrize("case", WRONG_CSV)
def test_wrong_csv_files_are_explained(case, tmp_path):
    content, part = WRONG_CSV[case]
    path = tmp_path / "march.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError) as caught:
        read_table(path, CLINIC)
    assert_says(caught.value, str(path), part, never=CANARY)


def test_damage_far_into_a_compressed_file_is_noticed(tmp_path):
    path = tmp_path / "march.csv.gz"
    records = many_records(0, 3000)
    path.write_bytes(gzip.compress(csv_text(records).encode())[:-20])
    with pytest.raises(InvalidDataError, match="damaged or incomplete") as caught:
        read_table(path, CLINIC)
    assert caught.value.__context__ is None


def test_bytes_far_into_a_file_are_checked(tmp_path):
    path = tmp_path / "march.csv"
    records = many_records(0, 3000)
    records[2500]["job"] = "baecker"
    path.write_bytes(csv_text(records).encode().replace(b"baecker", b"b\xe4cker"))
    with pytest.raises(InvalidDataError, match=r"not UTF-8 text \(line 2502 of"):
        read_table(path, CLINIC)


@pytest.mark.parametrize("mark", ["", '"'])
def test_a_row_without_end_is_explained(mark, tmp_path):
    path = tmp_path / "march.csv"
    path.write_text(TEXT.replace("baker", mark + "baker" * 500_000))
    with pytest.raises(
        InvalidDataError, match=r"line 3: .* or the line is longer than 1 MB"
    ):
        read_table(path, CLINIC)


def test_a_header_without_end_is_explained(tmp_path):
    (tmp_path / "march.csv").write_text("a" * 200_000)
    with pytest.raises(InvalidDataError, match="this is not a CSV file"):
        read_table(tmp_path / "march.csv", CLINIC)


def test_a_header_that_was_read_by_a_wrong_encoding_is_told(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("Größe,ill\n1,2\n", encoding="utf-8")
    schema = Schema({"Größe": Numeric(0, 9)})
    for encoding in ("cp1252", "latin-1"):
        written = FileFormat(encoding=encoding)
        with pytest.raises(InvalidDataError, match=f"not be {encoding}: try --encod"):
            read_table(path, schema, written=written)
    path.write_text("Gröse,ill\n1,2\n", encoding="cp1252")
    with pytest.raises(InvalidDataError) as caught:
        read_table(path, schema, written=FileFormat(encoding="cp1252"))
    assert "--encoding" not in str(caught.value)


def test_an_empty_line_is_a_value_where_there_is_one_column(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a\n0.5\n\n1\n")
    table = read_table(path, Schema({"a": Numeric(0, 1, missing=True)}))
    np.testing.assert_array_equal(table["a"], [0.5, np.nan, 1])
    with pytest.raises(InvalidDataError, match="line 3, column 'a': the value is miss"):
        read_table(path, Schema({"a": Numeric(0, 1)}))


def test_an_unclosed_quote_in_an_ignored_column_loses_no_rows(tmp_path):
    path = tmp_path / "march.csv"
    path.write_text(csv_text([{**r, "note": "fine"} for r in RECORDS]))
    assert len(read_table(path, CLINIC)) == 3
    path.write_text(path.read_text().replace("fine", '"fine', 1))
    with pytest.raises(InvalidDataError, match="line 2: the line is not one whole row"):
        read_table(path, CLINIC)


def parquet_bytes(**replaced):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({**columns(RECORDS), **replaced}), sink)
    return sink.getvalue().to_pybytes()


WRONG_PARQUET = {
    "CSV inside": (TEXT.encode(), "not a Parquet file"),
    "nothing": (b"", "not a Parquet file"),
    "cut off": (parquet_bytes()[:-9], "not a Parquet file"),
    "magic only": (b"PAR1" * 3, "not a Parquet file"),
    "text for numbers": (
        parquet_bytes(age=["37", CANARY, "1"]),
        "row 1, column 'age': a number is needed",
    ),
    "flags for numbers": (
        parquet_bytes(age=[True, False, True]),
        "row 1, column 'age': a number is needed",
    ),
    "gap": (parquet_bytes(age=[1, None, 2]), "row 2, column 'age': the value is miss"),
    "infinity": (
        parquet_bytes(age=[1.0, 2.0, float("inf")]),
        "row 3, column 'age': the number is not finite",
    ),
    "level": (
        parquet_bytes(blood=["A", "B", CANARY]),
        "row 3, column 'blood': the value is not one of",
    ),
    "numbers for text": (
        parquet_bytes(blood=[1, 2, 3]),
        "row 1, column 'blood': the value is not one of",
    ),
    "text for codes": (
        parquet_bytes(ward=["1", "2", CANARY]),
        "row 1, column 'ward': the value is not one of",
    ),
    "lists": (parquet_bytes(blood=[[1], [2], [3]]), "row 1, column 'blood'"),
    "column missing": (
        parquet_bytes().replace(b"heat", b"haet"),
        "'heat' are missing",
    ),
    "surplus column": (parquet_bytes(extra=[1, 2, 3]), "'extra' are not in the schema"),
}


@pytest.mark.parametrize("case", WRONG_PARQUET)
def test_wrong_parquet_files_are_explained(case, tmp_path):
    content, part = WRONG_PARQUET[case]
    path = tmp_path / "march.parquet"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError) as caught:
        read_table(path, CLINIC)
    assert_says(caught.value, str(path), part, never=CANARY)


def test_damage_in_the_middle_of_parquet_is_noticed(tmp_path):
    path = tmp_path / "march.parquet"
    schema = Schema({"a": Numeric(0, 1)})
    numbers = np.random.default_rng(0).random(50_000)
    pq.write_table(pa.table({"a": numbers}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[1000:200_000] = bytes(199_000)
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match="damaged"):
        read_table(path, schema)


def test_wrong_paths_are_named(tmp_path):
    with pytest.raises(InvalidDataError, match=r"gone\.csv: cannot be read \(No such"):
        read_batches(tmp_path / "gone.csv", CLINIC)
    with pytest.raises(InvalidDataError, match="cannot be read"):
        read_batches(tmp_path, CLINIC)
    (tmp_path / "data.xls").write_bytes(b"12345")
    with pytest.raises(InvalidDataError, match="the kind of file is unknown"):
        read_batches(tmp_path / "data.xls", CLINIC)


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, None, "9"])
def test_batches_need_a_size(rows, tmp_path):
    (tmp_path / "c.csv").write_text(TEXT)
    with pytest.raises(InvalidParameterError, match="needs a whole number >= 1"):
        read_batches(tmp_path / "c.csv", CLINIC, rows=rows)


@pytest.mark.parametrize("separator", ["", ";;", '"', 3, "\n", "\r", "\0", "\u00a7"])
def test_separators_are_one_character(separator, tmp_path):
    (tmp_path / "c.csv").write_text(TEXT)
    with pytest.raises(InvalidParameterError, match="separator needs one character"):
        read_table(tmp_path / "c.csv", CLINIC, separator=separator)


def test_a_lack_of_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "c.csv").write_text(TEXT)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidParameterError, match=r"reticent\[cli\]"):
        read_table(tmp_path / "c.csv", CLINIC)


FIELDS = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from(
        ["NA", "nan", "-nan", "inf", "1_0", " 7", "7 ", "+1", "1e5", "0x1"]
    ),
    st.text(st.sampled_from("0123456789.eE+- "), max_size=6),
)


@given(st.lists(st.one_of(st.none(), FIELDS.filter(bool)), min_size=1, max_size=8))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_fast_reading_agrees_with_careful_reading(fields):
    fast = ArrowColumn(pa.array(fields, type=pa.string()), untyped=True)
    careful = ListColumn(fields, untyped=True)
    (a, bad_a), (b, bad_b) = read_numbers(fast), read_numbers(careful)
    assert bad_a == bad_b
    np.testing.assert_array_equal(a[:bad_a], b[:bad_b])
    for levels in (["7", "1e5", "NA"], [7, 100000, 0], [True, False]):
        lookup = Lookup(levels)
        assert read_codes(fast, lookup).tolist() == read_codes(careful, lookup).tolist()


def test_classes_from_csv_may_be_numbers(tmp_path):
    schema = Schema({"a": Numeric(0, 1)}, label=ClassLabel("y", [1, 0]))
    (tmp_path / "c.csv").write_text("a,y\n0.5,1\n0.5,0.0\n0.5, 1\n")
    assert read_table(tmp_path / "c.csv", schema).label.tolist() == [0, 1, 0]
