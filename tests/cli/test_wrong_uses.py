"""Wrong uses of the command line: one sentence each, the right code, no traceback."""

import contextlib
import gzip
import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils import check_array

from reticent.cli.main import main
from reticent.datasets import adult_sample_files

FILES = adult_sample_files()
DATA = ("--schema", FILES.schema)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home with one model, and files that are wrong in one way each."""
    folder = tmp_path_factory.mktemp("wrong")
    home = folder / "home"
    run = [
        *("fit", FILES.data, *DATA, "--name", "income", "--learner", "linear"),
        *("--epsilon", "0.5", "--shards", "9", "--home", home),
    ]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in run])
    assert ended.value.code == 0
    _write_wrong_files(folder)
    return folder


def _write_wrong_files(folder):
    with gzip.open(FILES.data, "rt") as file:
        lines = [next(file) for _ in range(60)]
    head = lines[0]
    name, label = head.split(",")[0], head.strip().split(",")[-1]
    assert (name, label) == ("age", "income")
    row = lines[1].strip().split(",")

    def write(file, first, *changed):
        text = first + "".join(lines[2:]) + "".join(changed)
        (folder / file).write_text(text)

    def with_(place, value):
        return ",".join([*row[:place], value, *row[place + 1 :]][: len(row)]) + "\n"

    write("column.csv", head.replace("age", "years"))
    write("twice.csv", head.replace("workclass", "age"))
    write("nan.csv", head, with_(0, "nan"))
    write("hole.csv", head, with_(0, ""))
    write("text.csv", head, with_(0, "forty"))
    write("level.csv", head, with_(1, "Astronaut"))
    write("label.csv", head, ",".join([*row[:-1], "rich"]) + "\n")
    write("short.csv", head, "41,Private\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text(head)
    (folder / "latin.csv").write_bytes((head + lines[1]).encode() + b"\xff\xfe\n")
    (folder / "bytes.parquet").write_bytes(b"PAR1 is not enough")
    (folder / "broken.json").write_text('{"columns": ')
    (folder / "list.json").write_text("[1, 2]")
    rows = head + lines[1]
    (folder / "semicolon.csv").write_text(rows.replace(",", ";"))
    outside = [head.strip().split(",")[:-1], ["410", *row[1:-1]]]
    (folder / "outside.csv").write_text("".join(",".join(r) + "\n" for r in outside))
    todo = {"name": "age", "kind": "to be written"}
    (folder / "skeleton.json").write_text(
        json.dumps({"reticent_schema": 1, "columns": [todo]})
    )
    (folder / "half.json").write_text('{"columns": {"age": {"kind": "numeric"}}}')


WRONG = [
    ("bogus",),
    ("fit",),
    ("fit", "nowhere.csv", *DATA),
    ("fit", FILES.data, "--schema", "nowhere.json"),
    ("fit", FILES.data, "--schema", FILES.data),
    ("fit", FILES.data, *DATA, "--epsilon", "0"),
    ("fit", FILES.data, *DATA, "--epsilon", "nan"),
    ("fit", FILES.data, *DATA, "--epsilon", "-1"),
    ("fit", FILES.data, *DATA, "--epsilon", "lots"),
    ("fit", FILES.data, *DATA, "--budget", "0"),
    ("fit", FILES.data, *DATA, "--delta", "1"),
    ("fit", FILES.data, *DATA, "--delta", "nan"),
    ("fit", FILES.data, *DATA, "--shards", "0"),
    ("fit", FILES.data, *DATA, "--shards", "100000"),
    ("fit", FILES.data, *DATA, "--learner", "magic"),
    ("fit", FILES.licence, *DATA),
    ("fit", FILES.data, *DATA, "--name", "income"),
    ("fit", FILES.data, *DATA, "--name", "../escape"),
    ("fit", FILES.data, *DATA, "--release", "--learner", "boosting"),
    ("fit", FILES.data, *DATA, "--release", "--shards", "9"),
    ("fit", FILES.data, *DATA, "--release", "--name", "costly", "--epsilon", "60"),
    ("fit", FILES.data, *DATA, "--public", "nowhere.csv"),
    ("fit", FILES.data, *DATA, "--public", FILES.data, "--learner", "boosting"),
    ("fit", "{place}/column.csv", *DATA),
    ("fit", "{place}/twice.csv", *DATA),
    ("fit", "{place}/nan.csv", *DATA),
    ("fit", "{place}/hole.csv", *DATA),
    ("fit", "{place}/text.csv", *DATA),
    ("fit", "{place}/level.csv", *DATA),
    ("fit", "{place}/label.csv", *DATA),
    ("fit", "{place}/short.csv", *DATA),
    ("fit", "{place}/empty.csv", *DATA),
    ("fit", "{place}/header.csv", *DATA),
    ("fit", "{place}/latin.csv", *DATA),
    ("fit", "{place}/bytes.parquet", *DATA),
    ("fit", FILES.data, "--schema", "{place}/broken.json"),
    ("fit", FILES.data, "--schema", "{place}/list.json"),
    ("fit", FILES.data, "--schema", "{place}/half.json"),
    ("schema", "check", "{place}/level.csv", *DATA),
    ("fit", FILES.data, *DATA, "--lasting", "--release"),
    ("predict", "nobody", "--row", "{}"),
    ("predict", "income"),
    ("predict", "income", "--row", "not json"),
    ("predict", "income", "--row", "[]"),
    ("predict", "income", "--row", "{}"),
    ("predict", "income", "--row", '{"age": "old"}'),
    ("predict", "income", "nowhere.csv"),
    ("predict", "income", FILES.schema),
    ("certificate", "show", "nobody"),
    ("certificate", "check", FILES.schema),
    ("certificate", "show", "income", "--answers", "0"),
    ("certificate", "show", "income", "--answers", "5", "--delta", "2"),
    ("keys", "revoke", "nobody"),
    ("keys", "create", "two words"),
    ("keys", "create", ""),
    ("schema", "show", "nowhere.json"),
    ("schema", "check", FILES.data, "--schema", "nowhere.json"),
    ("schema", "draft", FILES.data, "--label", "income", "-o", "s.json"),
    ("serve", "--port", "99999"),
    ("serve", "--port", "none"),
    ("ledger", "verify", "--bogus"),
    ("explain", "epsilom"),
    ("init",),
    ("init", "nowhere.csv"),
    ("init", FILES.data, *DATA, "--epsilon", "0"),
    ("init", FILES.data, *DATA, "--epsilon", "1", "--name", "two words"),
    ("init", FILES.data, *DATA, "--epsilon", "1", "--questions", "some"),
    ("init", "{place}/column.csv", "--label", "years"),
    ("init", "{place}/text.csv", "--label", "income", "--classes", "<=50K,>50K"),
    ("fit", "{place}/semicolon.csv", *DATA),
    ("fit", FILES.data, *DATA, "--encoding", "klingon"),
    ("fit", FILES.data, *DATA, "--decimal", ";"),
    ("fit", FILES.data, *DATA, "--separator", "::"),
    ("fit", FILES.data, "--schema", "{place}/skeleton.json"),
    ("schema", "skeleton", FILES.data, "-o", "{place}/half.json"),
    ("schema", "skeleton", FILES.data, "--label", "nosuch", "-o", "{place}/new.json"),
    ("schema", "skeleton", FILES.data, "--ignore", "nosuch", "-o", "{place}/new.json"),
    ("schema", "draft", FILES.data, "--label", "nosuch", "--public", "-o", "n.json"),
    ("schema", "check", "{place}/semicolon.csv", *DATA),
    ("predict", "income", FILES.data, "--output", "{place}/half.json"),
    ("predict", "income", FILES.data, "--limit", "0"),
    ("predict", "income", FILES.data, "--client", "two words"),
    ("predict", "income", FILES.data, "--key", "two words"),
    ("predict", "income", FILES.data, "--abstain-below", "1"),
    ("predict", "income", "{place}/outside.csv"),
    ("keys", "create", "ward", "--model", "nosuch"),
    ("keys", "create", "ward", "--days", "0"),
    ("models", "show", "nobody"),
    ("models", "remove", "nobody", "--yes"),
    ("models", "remove", "income"),
    ("models", "remove", "income", "--version", "9", "--yes"),
    ("models", "rollback", "income"),
    ("models", "rollback", "income", "--version", "9"),
    ("models", "versions", "nobody"),
    ("accounts", "cap", "nobody", "--epsilon", "1"),
    ("accounts", "cap", "client:nobody", "--epsilon", "1"),
    ("accounts", "cap", "model:income", "--epsilon", "1"),
    ("accounts", "cap", "dataset:data", "--epsilon", "0"),
    ("ledger", "history", "--account", "somebody"),
    ("ledger", "history", "--last", "0"),
    ("ledger", "export", "-o", "{place}/spent.xlsx"),
    ("ledger", "backup", "-o", "{place}/half.json"),
    ("ledger", "restore", "nowhere.db", "--reason", "lost", "--yes"),
    ("ledger", "restore", "{place}/half.json", "--reason", "lost", "--yes"),
    ("ledger", "restore", "{place}/half.json", "--reason", " ", "--yes"),
    ("evaluate", "income"),
    ("evaluate", "income", FILES.data, "--metric", "beauty"),
    ("audit", "nobody"),
    ("plan", "--rows", "0"),
]  # fmt: skip


@pytest.mark.parametrize(
    "words", WRONG, ids=lambda words: " ".join(map(str, words))[-60:]
)
def test_a_wrong_use_is_one_clear_sentence(words, capsys, place, monkeypatch):
    monkeypatch.chdir(place)
    own_home = words[0] not in ("schema", "bogus", "explain", "plan")
    before = state(place)
    arguments = [str(word).replace("{place}", str(place)) for word in words]
    arguments += ["--home", str(place / "home")] if own_home else []
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert ended.value.code in (1, 2)
    assert "Traceback" not in said.err + said.out
    assert 10 < len(said.err.strip()) < 1000
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    shown = capsys.readouterr().out.strip().splitlines()[-1]
    assert json.loads(shown)["error"]["message"]
    assert state(place) == before


def state(place):
    """Everything that a mistake must not change: files, entries of the ledger, keys."""
    files = {
        str(path): path.stat().st_size
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.name.startswith("ledger.db")
    }
    ledger = f"file:{place / 'home' / 'ledger.db'}?mode=ro"
    with contextlib.closing(sqlite3.connect(ledger, uri=True)) as looked_at:
        names = [
            name
            for (name,) in looked_at.execute("SELECT name FROM sqlite_master")
            if name in ("ledger_entries", "ledger_accounts", "api_keys")
        ]
        counts = [
            looked_at.execute(f"SELECT count(*) FROM {name}").fetchone()
            for name in names
        ]
    assert len(names) >= 2
    return files, names, counts, Path(".reticent").exists()


# What each message must name.
NAMES_ITS_PLACE = {
    "column.csv": ["age"],
    "nan.csv": ["age", "line 60"],
    "text.csv": ["age", "line 60"],
    "level.csv": ["workclass", "line 60"],
    "label.csv": ["income", "line 60"],
}


@pytest.mark.parametrize("file", NAMES_ITS_PLACE)
def test_a_wrong_file_is_told_by_line_and_column(file, place, capsys):
    words = ["fit", place / file, *DATA, "--home", place / "home", "--name", "new"]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(part in said for part in NAMES_ITS_PLACE[file]), said
    # The sensitive value itself stays out of the message.
    assert "Astronaut" not in said
    assert "forty" not in said


def test_a_full_disk_is_one_sentence(place, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    words = ["schema", "draft", FILES.data, "--label", "income", "--public"]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in [*words, "-o", "/dev/full"]])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "No space left" in said
    assert "Traceback" not in said


def test_a_home_that_is_a_file_is_named(place, capsys):
    file = place / "half.json"
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(FILES.data), *map(str, DATA), "--home", str(file)])
    assert ended.value.code == 2
    assert "--home needs a folder" in capsys.readouterr().err


def refused_by_sklearn(*_, **__):
    check_array([["forty"]], dtype=float)


def refused_for_a_level(*_, **__):
    OneHotEncoder().fit([["a"]]).transform([["forty"]])


def refused_inside_numpy(*_, **__):
    FunctionTransformer(lambda rows: np.stack([])).transform([[0.0]])


@pytest.mark.parametrize(
    "fails", [refused_by_sklearn, refused_for_a_level, refused_inside_numpy]
)
def test_what_scikit_learn_refuses_is_one_sentence(place, capsys, monkeypatch, fails):
    monkeypatch.setattr("reticent.cli.tune.tune_and_store", fails)
    words = ["tune", FILES.data, *DATA, "--home", place / "home"]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "scikit-learn refused" in said
    assert "forty" not in said  # may be a record's
    assert "Traceback" not in said


def test_a_bug_is_no_mistake_of_the_user(place, monkeypatch):
    def broken(*_, **__):
        raise ValueError("a bug")

    monkeypatch.setattr("reticent.cli.tune.tune_and_store", broken)
    words = ["tune", FILES.data, *DATA, "--home", place / "home"]
    with pytest.raises(ValueError, match="a bug"):
        main([str(word) for word in words])


def test_there_are_many():
    assert len(set(WRONG)) >= 100
