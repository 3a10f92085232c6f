"""``reticent schema`` on the files that people have."""

import json

import pytest

from reticent.cli.main import main
from reticent.schemas import Schema

CANARY = "CANARY-731"
ROWS = (
    "pid;größe;aufnahme;gewicht;gewicht;notiz;krank\n"
    "1;1,80;03.02.2021;80,5;81;hustet;nein\n"
    "2;1,65;04.02.2021;;60;;ja\n"
)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return said

    return run


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(ROWS.encode("latin-1"))
    return path


FORMAT = ("--separator", ";", "--encoding", "latin-1", "--decimal", ",")


def test_a_skeleton_has_the_names_and_nothing_of_the_rows(run, rows, tmp_path):
    words = ("schema", "skeleton", rows, *FORMAT, "-o", "s.json")
    run(*words, "--label", "krank", "--unit", "pid", "--ignore", "notiz")
    text = (tmp_path / "s.json").read_text()
    assert "80" not in text
    found = json.loads(text)
    assert [each["name"] for each in found["columns"]] == [
        *("größe", "aufnahme", "gewicht", "gewicht (2)")
    ]
    assert found["file"] == {"separator": ";", "encoding": "latin-1", "decimal": ","}
    # What is not written yet is asked for, column by column.
    said = run("schema", "show", "s.json", code=2).err
    assert "('größe').kind is still to be written" in said


def test_a_hand_edited_schema_is_not_overwritten(run, rows, tmp_path):
    (tmp_path / "s.json").write_text("edited by hand")
    for command in ("skeleton", "draft"):
        words = ("schema", command, rows, *FORMAT, "--label", "krank", "-o", "s.json")
        public = ("--public",) if command == "draft" else ()
        assert "--force" in run(*words, *public, code=2).err
        assert (tmp_path / "s.json").read_text() == "edited by hand"
    run("schema", "skeleton", rows, *FORMAT, "-o", "s.json", "--force")
    assert "edited" not in (tmp_path / "s.json").read_text()


def test_advice_about_separator_encoding_and_ignored_leads_somewhere(run, rows):
    draft = ("schema", "draft", rows, "--public", "--label", "krank", "-o", "s.json")
    assert "--encoding" in run(*draft, code=2).err
    draft += ("--encoding", "latin-1")
    assert "no column 'krank'" in run(*draft, code=2).err
    draft += ("--separator", ";", "--decimal", ",", "--unit", "pid")
    run(*draft, "--ignore", "notiz", "--ignore", "aufnahme")
    found = Schema.read("s.json")
    assert found.ignored == ("notiz", "aufnahme")
    assert found.columns["größe"].low >= 1
    assert "rows fit" in run("schema", "check", rows, "--schema", "s.json").out


def test_a_schema_is_shown_without_python(run, rows):
    draft = ("schema", "draft", rows, *FORMAT, "--public", "--label", "krank")
    run(*draft, "--unit", "pid", "--ignore", "notiz", "-o", "s.json")
    said = run("schema", "show", "s.json").out
    assert "(" not in said.replace("gewicht (2)", "")
    assert "Numeric" not in said
    assert "protected unit: one person, with all rows of one 'pid'" in said
    assert "to be predicted: krank, one of ja, nein" in said
    assert "not read: notiz" in said


def test_a_check_names_all_bad_cells_by_line_and_no_value(run, tmp_path):
    Schema.from_dict(
        {
            "reticent_schema": 1,
            "columns": [
                {"name": "age", "kind": "numeric", "low": 0, "high": 120},
                {"name": "ward", "kind": "categorical", "levels": ["A", "B"]},
            ],
        }
    ).write("s.json")
    cells = [f"{CANARY},A", "40,A", f"41,{CANARY}", ",B", "999,B", f"x,{CANARY}"]
    (tmp_path / "r.csv").write_text("age,ward\n" + "\n".join(cells) + "\n")
    said = run("schema", "check", "r.csv", "--schema", "s.json", code=2)
    assert "age: not a number (lines 2, 7)" in said.err
    assert "age: missing, which is not allowed (line 5)" in said.err
    assert "age: outside the range, moved to its nearer end (line 6)" in said.err
    assert "ward: not one of the levels (lines 4, 7)" in said.err
    assert CANARY not in said.err + said.out
    found = run("schema", "check", "r.csv", "--schema", "s.json", "--json", code=2)
    faults = json.loads(found.out)["faults"]
    assert {fault["count"] for fault in faults} == {1, 2}
    assert CANARY not in found.out


def test_what_fits_after_clipping_is_said_and_fits(run, tmp_path):
    Schema.from_dict(
        {
            "reticent_schema": 1,
            "columns": [{"name": "age", "kind": "numeric", "low": 0, "high": 120}],
        }
    ).write("s.json")
    (tmp_path / "r.csv").write_text("age\n40\n400\n")
    said = run("schema", "check", "r.csv", "--schema", "s.json").out
    assert "2 rows fit" in said
    assert "outside the range, moved to its nearer end (line 3)" in said
