"""Dates and free text, read by declaration; and checks of whole files."""

import datetime

import pytest

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    DatePart,
    DateSpan,
    Encoder,
    FileFormat,
    Numeric,
    Schema,
    TextWords,
    check_file,
    read_table,
)
from reticent.schemas.readings import reading_of

FORM = "%d.%m.%Y"
SCHEMA = Schema(
    {
        "in month": Categorical(list(range(1, 13)), missing=True),
        "in year": Numeric(2000, 2030, missing=True),
        "stay": Numeric(0, 100, missing=True),
        "since 2020": Numeric(-20, 20, missing=True),
        "note 0": Categorical([False, True]),
        "note 1": Categorical([False, True]),
        "age": Numeric(0, 120),
    },
    label=ClassLabel("ill", ["no", "yes"]),
    ignored=["doctor"],
    file=FileFormat(separator=";", decimal=","),
    readings={
        "in month": DatePart("in", "month", FORM),
        "in year": DatePart("in", "year", FORM),
        "stay": DateSpan("out", "in", "days", FORM),
        "since 2020": DateSpan("in", "2020-01-01", "years", FORM),
        "note 0": TextWords("note", 0, 2),
        "note 1": TextWords("note", 1, 2),
    },
)
HEAD = "in;out;note;age;doctor;ill\n"
ROWS = "03.02.2021;13.02.2021;hat Fieber, hoch;40,5;X;no\n2022-12-31;;;7;;yes\n"


def test_parts_spans_and_words_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + ROWS)
    table = read_table(path, SCHEMA)
    assert table["in month"].tolist() == [1, 11]  # codes of 2 and 12
    assert table["in year"].tolist() == [2021, 2022]
    assert table["stay"].tolist()[0] == 10
    assert table["since 2020"][0] == pytest.approx(399 / 365.25)
    assert table["note 0"].tolist()[1] == table["note 1"].tolist()[1] == 0
    assert SCHEMA.sources == ("in", "out", "note", "age")
    assert Encoder(SCHEMA).transform(table).shape[0] == 2


def test_clients_send_what_a_file_holds_or_what_is_computed():
    sent = {"in": "03.02.2021", "out": "2021-02-13", "note": "Fieber hoch", "age": 40}
    table = SCHEMA.rows([sent, {**sent, "note": None, "in": None}])
    assert table["stay"].tolist()[0] == 10
    own = {
        "in month": 2,
        "in year": 2021,
        "stay": 10,
        "since 2020": 1.09,
        "note 0": True,
        "note 1": False,
        "age": 40,
    }
    assert SCHEMA.rows([own])["stay"].tolist() == [10]
    with pytest.raises(InvalidDataError, match=r"rows\[0\], column 'in': the date"):
        SCHEMA.rows([{**sent, "in": "2021"}])
    with pytest.raises(InvalidDataError, match="columns 'in' are missing"):
        SCHEMA.rows([{k: v for k, v in sent.items() if k != "in"}])
    with pytest.raises(InvalidDataError, match="the value is not text"):
        SCHEMA.rows([{**sent, "note": 7}])


def test_the_same_words_fall_into_the_same_buckets_in_any_order():
    two = {f"t {i}": TextWords("text", i, 8) for i in range(8)}
    schema = Schema({name: Categorical([False, True]) for name in two}, readings=two)
    first, second, none = schema.rows(
        [{"text": "High fever, COUGH"}, {"text": "cough; high FEVER"}, {"text": "-"}]
    ).codes.tolist()
    assert first == second
    assert sum(first) in (1, 2, 3)
    assert not any(none)


def test_frames_hold_dates_as_objects():
    day = datetime.date(2021, 2, 3)
    schema = Schema(
        {"m": Numeric(1, 12)}, readings={"m": DatePart("d", "month", "%Y-%m-%d")}
    )
    assert schema.table({"d": [day, day]})["m"].tolist() == [2, 2]


def test_a_table_may_hold_computed_columns():
    schema = Schema(
        {"m": Numeric(1, 12), "x": Numeric(0, 9)},
        readings={"m": DatePart("d", "month")},
    )
    table = schema.table({"m": [3, 4], "x": [1, 2]})
    assert table["m"].tolist() == [3, 4]
    assert table.schema is schema
    raw = schema.table({"d": ["2021-03-01", "2021-04-01"], "x": [1, 2]})
    assert raw["m"].tolist() == [3, 4]
    with pytest.raises(InvalidDataError, match="columns 'd' are missing"):
        schema.table({"x": [1, 2]})


def test_readings_survive_the_schema_file(tmp_path):
    SCHEMA.write(tmp_path / "s.json")
    again = Schema.read(tmp_path / "s.json")
    assert again == SCHEMA
    assert dict(again.readings) == dict(SCHEMA.readings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"column": "a"},
        {"column": "a", "part": "era"},
        {"column": "a", "part": "month", "format": "%d %b %Y"},
        {"column": "a", "part": "month", "format": "%d.%m"},
        {"column": "a", "since": "b", "unit": "moons"},
        {"column": "a", "bucket": 2, "buckets": 2},
        {"column": "a", "bucket": 0, "buckets": 10**6},
        {"column": "a", "part": "month", "more": 1},
    ],
)
def test_impossible_readings_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        reading_of(wrong)


def test_a_column_has_one_role():
    with pytest.raises(InvalidParameterError, match="Give a column one role"):
        Schema(
            {"m": Numeric(1, 12)},
            ignored=["d"],
            readings={"m": DatePart("d", "month")},
        )


def test_a_check_names_every_bad_cell_by_column_and_line(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        HEAD
        + ROWS
        + "31.02.2021;;;7;;yes\n\nsoon;;;7;;yes\n"
        + ";;;CANARY;;CANARY\n;;;500;;no\n;;;;;no\n"
    )
    found = check_file(path, SCHEMA)
    assert not found.fits
    assert found.n_rows == 7
    told = [str(fault) for fault in found.faults]
    assert told == [
        "in: not a date written as %d.%m.%Y (lines 4, 6)",
        "age: not a number (line 7)",
        "age: missing, which is not allowed (line 9)",
        "age: outside the range, moved to its nearer end (line 8)",
        "ill: missing or not one of the classes (line 7)",
    ]
    assert not any("CANARY" in line for line in told)


def test_a_check_of_many_wrong_lines_shows_the_first_and_counts_the_rest(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "x,1\n" * 9)
    found = check_file(path, Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}))
    (fault,) = found.faults
    assert str(fault) == "a: not a number (lines 2, 3, 4, 5, 6 and 4 more)"
    assert (fault.count, fault.harmless) == (9, False)
