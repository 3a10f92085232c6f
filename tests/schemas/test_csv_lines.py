"""One line of a CSV file is one row; a file where that fails is refused by line."""

from __future__ import annotations

import gzip
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidDataError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Numeric,
    Schema,
    csv_file,
    read_batches,
    read_table,
)
from reticent.schemas.csv_lines import CsvLines

NOTES = Schema(
    {"age": Numeric(0, 120)}, label=ClassLabel("ill", [0, 1]), ignored=("note",)
)
CANARY = "CANARY-731"


def lines_of(n_rows, **notes):
    """A header and rows whose note is 'ok', or as given by the number of the line."""
    rows = [
        f"{i % 90},{i % 2},{notes.get(f'line_{i + 2}', 'ok')}" for i in range(n_rows)
    ]
    return ["age,ill,note", *rows]


def refused_line(path, schema=NOTES, **arguments):
    """The number of the line that is refused; nothing else differs between errors."""
    with pytest.raises(InvalidDataError) as caught:
        read_table(path, schema, **arguments)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    where, _, rest = str(error).removeprefix(f"{path}, line ").partition(": ")
    assert rest == csv_file.NO_ROW
    return int(where)


STRAY = {
    "a legitimate quote closes it": ('"' + CANARY, '"fine"'),
    "two stray marks": ('"' + CANARY, CANARY + '"'),
    "a doubled mark between them": ('"' + CANARY, '"fine ""and"" quoted"'),
    "inside a field": (CANARY + '"x', '"fine"'),
    "behind a quoted field": (f'"{CANARY}"x', '"fine"'),
    "a line break inside a field": (f'"{CANARY}\nmore"', '"fine"'),
    "a return inside a field": (f'"{CANARY}\rmore"', '"fine"'),
    "a return in the line": (f"{CANARY}\r7,1,more", "fine"),
    "a NUL": (CANARY + "\0", "fine"),
}


@pytest.mark.parametrize("case", STRAY)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_stray_mark_never_swallows_rows(case, ending, tmp_path):
    stray, later = STRAY[case]
    path = tmp_path / "march.csv"
    lines = lines_of(50, line_10=stray, line_27=later)
    path.write_bytes(ending.join(lines).encode())
    assert refused_line(path) == 10


@pytest.mark.parametrize("line", [1, 2, 13, 50, 51])
def test_the_line_is_named_wherever_it_is(line, tmp_path):
    path = tmp_path / "march.csv.gz"
    lines = [*lines_of(50), '5,0,"fine ""and, quoted"""']
    lines[line - 1] = 'age,ill,no"te' if line == 1 else '5,0,"'
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert refused_line(path) == line


def test_lines_count_over_blocks_and_blank_lines(tmp_path):
    path = tmp_path / "march.csv"
    lines = lines_of(400_000)  # some megabytes
    lines[300_000] = ""
    lines[350_000] += '"'
    path.write_text("\n".join(lines) + "\n")
    assert path.stat().st_size > 3 << 20
    assert refused_line(path) == 350_001
    lines[350_000] = '5,0,"fine, fine"'
    path.write_text("\n".join(lines) + "\n")
    assert sum(map(len, read_batches(path, NOTES))) == 399_999


def test_marks_need_not_be_in_every_row(tmp_path):
    path = tmp_path / "march.csv"
    lines = lines_of(50, line_10='"a ""b"", c"', line_20='""', line_30="'single'")
    for start in (b"", b"\xef\xbb\xbf", b"\n\r\n"):
        for text in ("\n".join(lines), "\r\n".join(lines), "\n\n".join(lines) + "\n"):
            path.write_bytes(start + text.encode())
            assert len(read_table(path, NOTES)) == 50
            path.write_bytes(start + text.replace("age", '"age"', 1).encode())
            assert len(read_table(path, NOTES)) == 50


def test_blank_lines_may_stand_before_the_header_of_one_column(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("\n\na\n1\n\n2\n")
    assert len(read_table(path, Schema({"a": Numeric(0, 9, missing=True)}))) == 3


def test_rows_and_lines_are_counted_against_each_other(tmp_path, monkeypatch):
    path = tmp_path / "march.csv"
    path.write_text("\n".join(lines_of(50, line_10='"', line_27='"')))
    monkeypatch.setattr(csv_file.CsvLines, "_first_bad", lambda self, piece: None)
    with pytest.raises(
        InvalidDataError, match="50 lines below the header gave 33 rows"
    ):
        read_table(path, NOTES)


def is_row(line):
    """Whether a line is two fields and nothing else: the slow, obvious reading."""
    n_fields, place = 0, 0
    while True:
        n_fields += 1
        if line[place : place + 1] == '"':
            place += 1
            while True:
                close = line.find('"', place)
                if close < 0:
                    return False
                place = close + 1
                if line[place : place + 1] != '"':
                    break
                place += 1
        else:
            while place < len(line) and line[place] not in '",':
                place += 1
        if place == len(line):
            return n_fields == 2
        if line[place] != ",":
            return False
        place += 1


@settings(derandomize=True, deadline=None, max_examples=800)
@given(st.text(st.sampled_from('ab",\n\n\r\0'), max_size=30))
@example('a,"\na,"')
@example('a,""""\n')
@example("\r\n\n\r\na,b\r\n")
@example("a,b\r")  # a last line that is cut off between return and line feed
def test_what_is_read_is_what_the_lines_say(tmp_path_factory, body):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(("x,y\n" + body).encode())
    schema = Schema({"x": Categorical(["a"], other=True, missing=True)}, ignored=("y",))
    lines = [line.removesuffix("\r") for line in body.split("\n")]
    rows = [line for line in lines if line]
    good = all(is_row(line) and not set("\r\0") & set(line) for line in rows)
    if good and rows:
        assert len(read_table(path, schema)) == len(rows)
    else:
        with pytest.raises(InvalidDataError):
            read_table(path, schema)


def test_lines_are_read_by_the_thread_that_asked_for_them(tmp_path, monkeypatch):
    """A thread of Arrow's that waits for Python would outlive, or abort, the process.

    None may be there when reading is given up, which a refused row does at any moment.
    """
    readers = set()
    usual = CsvLines._next_lines

    def noting(self):
        readers.add(threading.get_ident())
        return usual(self)

    monkeypatch.setattr(CsvLines, "_next_lines", noting)
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n" + "3,4\n" * 600_000)
    schema = Schema({"a": Numeric(0, 1, outside="error"), "b": Numeric(0, 9)})
    with pytest.raises(InvalidDataError, match="line 3, column 'a'"):
        read_table(path, schema)
    assert readers == {threading.get_ident()}
