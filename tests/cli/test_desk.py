"""Ordinary actions at the command line: models, ledger, accounts, keys, answers."""

import contextlib
import csv
import gzip
import json
import re
import sys

import numpy as np
import onnxruntime
import pytest

from reticent.cli.main import main
from reticent.datasets import adult_sample_files
from reticent.home import Home
from reticent.learners import PrivateTabularClassifier
from reticent.schemas import Encoder, Schema
from reticent.storage import save_model

FILES = adult_sample_files()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with an asked model in two versions, and a released one."""
    place = tmp_path_factory.mktemp("desk") / "home"
    fit = ["fit", FILES.data, "--schema", FILES.schema, "--home", place]
    asked = [*fit, "--name", "income", "--learner", "linear", "--shards", "9"]
    for words in (
        [*asked, "--epsilon", "0.5", "--budget", "9"],
        [*asked, "--epsilon", "0.25", "--replace"],
        [*fit, "--name", "open", "--release", "--epsilon", "0.5"],
    ):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 0
    return place


@pytest.fixture
def run(capsys, home):
    def run(*words, code=0, at=home):
        words = [str(word) for word in words]
        with pytest.raises(SystemExit) as ended:
            main([*words, "--home", str(at)])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return said

    return run


@pytest.fixture
def queries(tmp_path):
    with gzip.open(FILES.data, "rt") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(4), strict=False)]
    path = tmp_path / "queries.csv"
    with path.open("w", newline="") as file:
        names = [name for name in rows[0] if name != "income"]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def answers_spent(run):
    accounts = json.loads(run("ledger", "show", "--json").out)["accounts"]
    return {each["account"]: each["answers"] for each in accounts}


def test_answers_come_with_their_cost_and_what_is_left(run, queries):
    said = run("predict", "income", queries)
    assert len(said.out.splitlines()) == 4  # a pipe gets answers alone
    assert "paid for 4 answers" in said.err
    assert re.search(r"\d+ more are left for 'local'", said.err)
    assert "times in 100" in said.err
    again = run("predict", "income", queries)
    assert "paid for 0 answers, 4 remembered" in again.err
    assert "released, and paid for then" in run("predict", "open", queries).err


def test_answers_are_written_beside_the_rows(run, queries, tmp_path):
    out = tmp_path / "answered.csv"
    run("predict", "income", queries, "--limit", 2, "--output", out)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    with queries.open() as file:
        asked = list(csv.DictReader(file))[:2]
    assert [{k: v for k, v in r.items() if k != "prediction"} for r in rows] == asked
    assert {row["prediction"] for row in rows} <= {"<=50K", ">50K"}
    assert out.stat().st_mode & 0o077 == 0
    before = answers_spent(run)
    taken = run("predict", "income", queries, "--output", out, code=2).err
    assert "is there already" in taken
    assert (
        "no folder"
        in run("predict", "income", queries, "-o", "no/such.csv", code=2).err
    )
    assert answers_spent(run) == before


def test_a_typing_error_in_a_number_is_not_paid_for(run, queries, tmp_path):
    lines = queries.read_text().splitlines()
    wrong = tmp_path / "wrong.csv"
    age = lines[1].split(",")
    wrong.write_text(f"{lines[0]}\n{','.join(['410', *age[1:]])}\n")
    before = answers_spent(run)
    said = run("predict", "income", wrong, code=2).err
    assert "line 2, column 'age'" in said
    assert "--clip" in said
    assert "410" not in said
    assert answers_spent(run) == before
    assert run("predict", "income", wrong, "--clip").out.strip()
    with queries.open() as file:
        row = next(csv.DictReader(file))
    schema = Schema.read(FILES.schema)
    sent = {n: _typed(v, schema.columns[n]) for n, v in row.items()}
    before = answers_spent(run)
    words = ("predict", "income", "--row", json.dumps({**sent, "age": -3}))
    assert "outside the public range" in run(*words, code=2).err
    assert answers_spent(run) == before


def _typed(text, spec):
    if hasattr(spec, "levels"):
        return text or None
    return float(text) if text else None


def test_a_key_for_other_rows_is_one_sentence(run, queries, tmp_path):
    one = tmp_path / "one.csv"
    one.write_text("\n".join(queries.read_text().splitlines()[:2]) + "\n")
    run("predict", "income", one, "--key", "visit")
    said = run("predict", "income", queries, "--key", "visit", code=2).err
    assert "'visit' was used before, for other rows" in said
    assert "Traceback" not in said


def test_models_are_listed_and_shown(run):
    said = run("models", "list").out
    assert re.search(r"income +2 .*each answer costs ε = 0.25\n", said)
    assert "free, the model was released" in said
    shown = run("models", "show", "income").out
    assert "protects: one row" in shown
    assert "answers left:" in shown
    assert shown.count("times in 100") >= 1
    found = json.loads(run("models", "show", "open", "--json").out)
    assert found["answers_left"] is None
    assert found["version"] == 1


@pytest.fixture
def asked_rows(queries):
    """Rows as the ONNX file takes them, by what its metadata says."""
    schema = Schema.read(FILES.schema)
    with queries.open(newline="") as file:
        rows = list(csv.DictReader(file))

    def encoded(columns):
        assert [column["name"] for column in columns] == list(schema.columns)
        return np.array(
            [
                [
                    column["levels"].index(row[column["name"]])
                    if "levels" in column
                    else float(row[column["name"]])
                    for column in columns
                ]
                for row in rows
            ]
        )

    return encoded


@contextlib.contextmanager
def unpaid_release(home, path):
    """Name, in the settings of a home, a release of which its ledger knows nothing."""
    place = Home.existing(home)
    settings = place.settings()
    schema = settings.load_model("open").schema
    columns = list(schema.columns.values())
    model = PrivateTabularClassifier(0.5, columns=columns, classes=schema.classes)
    model.fit(np.zeros((60, len(columns))), list(schema.classes) * 30)
    save_model(
        path,
        model,
        schema,
        signing_key=settings.model_key_file.read_text().strip(),
        encoder=Encoder(schema, style="ordinal"),
        dataset=settings.load_model("open").dataset,
    )
    before = place.config.read_bytes()
    found = json.loads(before)
    found["models"]["unpaid"] = str(path)
    place.config.write_text(json.dumps(found))
    yield
    place.config.write_bytes(before)


def test_a_release_is_exported_and_gives_the_same_labels_elsewhere(
    run, queries, asked_rows, tmp_path
):
    file = tmp_path / "open.onnx"
    spent = answers_spent(run)
    said = run("models", "export", "open", "--onnx", file)
    assert "for the model, replace one unit of 5000" in said.out
    assert "It takes age, " in said.out
    assert answers_spent(run) == spent
    session = onnxruntime.InferenceSession(str(file))
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["encoder"])["style"] == "ordinal"
    labels, _ = session.run(None, {"X": asked_rows(json.loads(told["columns"]))})
    answered = json.loads(run("predict", "open", queries, "--json").out)
    assert labels.tolist() == answered["answers"]
    assert told["certificate_id"] == answered["certificate"]
    again = tmp_path / "again.onnx"
    found = json.loads(run("models", "export", "open", "--onnx", again, "--json").out)
    assert found["certificate"] == answered["certificate"]
    assert again.read_bytes() == file.read_bytes()


def test_only_a_paid_release_is_exported_and_only_to_a_new_file(
    run, home, tmp_path, monkeypatch
):
    file = tmp_path / "income.onnx"
    said = run("models", "export", "income", "--onnx", file, code=2)
    assert "not released as a whole" in said.err
    assert "as secret as the records" in said.err
    said = run("models", "export", "incme", "--onnx", file, code=2)
    assert "there is no model 'incme'; this home has income, open" in said.err
    said = run("models", "export", "open", "--onnx", tmp_path / "no" / "f", code=2)
    assert "there is no folder" in said.err
    file.write_text("mine")
    said = run("models", "export", "open", "--onnx", file, code=2)
    assert "is there already" in said.err
    assert file.read_text() == "mine"
    file.unlink()
    with unpaid_release(home, tmp_path / "unpaid"):
        said = run("models", "export", "unpaid", "--onnx", file, code=1)
    assert "the release of model 'unpaid' was never charged" in said.err
    monkeypatch.setitem(sys.modules, "onnx", None)
    said = run("models", "export", "open", "--onnx", file, code=2)
    assert "pip install 'reticent[onnx]'" in said.err
    assert not file.exists()


def test_versions_can_be_rolled_back_and_removed(run, home, queries):
    def price():
        return json.loads(run("models", "show", "income", "--json").out)["cost"]

    assert price()["epsilon"] == 0.25
    run("models", "rollback", "income")
    assert price()["epsilon"] == 0.5
    assert "no version before" in run("models", "rollback", "income", code=2).err
    assert (
        "no version 7"
        in run("models", "rollback", "income", "--version", 7, code=2).err
    )
    said = run("models", "versions", "income").out
    assert re.search(r"1 .*in use", said)
    run("predict", "income", queries)
    run("models", "rollback", "income", "--version", 2)
    in_use = ("models", "remove", "income", "--version", 2, "--yes")
    assert "is in use" in run(*in_use, code=2).err
    run("certificate", "check", "income")
    assert (home / "models/income@2").is_dir()


def test_a_model_is_removed_only_when_confirmed_and_its_cost_stays(run, home):
    before = answers_spent(run)
    assert "--yes" in run("models", "remove", "open", code=2).err
    assert (home / "models/open").is_dir()
    run("models", "remove", "open", "--yes")
    assert not (home / "models/open").exists()
    assert "open" not in json.loads((home / "service.json").read_text())["models"]
    assert answers_spent(run) == before
    assert "no model 'open'" in run("models", "show", "open", code=2).err


def test_the_ledger_speaks_in_epsilon_and_delta(run):
    said = run("ledger", "show").out
    table, notes = said.split("\n\n")
    assert "rho" not in table
    assert notes.count("rho") <= 1  # what "used" is a share of
    line = r"dataset:data +ε = [\d.]+.* ε = 9, δ = 1e-6 in total +\d+ +\d+ %"
    assert re.search(line, said), said
    assert "times in 100" in said
    assert "a level that holds at any moment" in said
    found = json.loads(run("ledger", "show", "--json").out)["accounts"]
    total = next(a for a in found if a["account"] == "dataset:data")["spent_in_total"]
    assert 0 < total["epsilon"] <= 9


def test_history_and_export_name_charges_and_no_answers(run, queries, tmp_path):
    run("predict", "income", queries)
    said = run("ledger", "history", "--last", 3).out
    assert len(said.splitlines()) == 4
    assert "charge" in said
    only = json.loads(
        run("ledger", "history", "--account", "client:local", "--json").out
    )
    assert {e["account"] for e in only["entries"]} == {"client:local"}
    assert "no account" in run("ledger", "history", "--account", "client:x", code=2).err
    for name in ("spent.csv", "spent.jsonl"):
        run("ledger", "export", "-o", tmp_path / name)
        text = (tmp_path / name).read_text()
        assert "dataset:data" in text
        assert "50K" not in text
    assert "there already" in run("ledger", "export", "-o", tmp_path / name, code=2).err
    assert ".jsonl" in run("ledger", "export", "-o", tmp_path / "x.txt", code=2).err


def test_caps_are_changed_and_unknown_accounts_named(run):
    run("keys", "create", "ward-9")
    run("accounts", "cap", "client:ward-9", "--epsilon", 2)
    found = json.loads(run("ledger", "show", "--json").out)["accounts"]
    ward = next(a for a in found if a["account"] == "client:ward-9")
    assert ward["promise"]["epsilon"] == 2
    unknown = run("accounts", "cap", "client:nobody", "--epsilon", 2, code=2).err
    assert "client:ward-9" in unknown
    assert "dataset:NAME" in run("accounts", "cap", "ward", "--epsilon", 2, code=2).err


@pytest.mark.parametrize(
    "words",
    [("two words",), ("ward-8", "--model", "nosuch"), ("ward-8", "--days", "0")],
)
def test_a_key_that_cannot_be_made_leaves_nothing_behind(run, words):
    before = answers_spent(run), run("keys", "list").out
    run("keys", "create", *words, code=2)
    assert (answers_spent(run), run("keys", "list").out) == before


def test_a_backup_is_restored_with_what_is_left_unknown(run, queries, tmp_path, home):
    copy = tmp_path / "ledger.db"
    run("ledger", "backup", "-o", copy)
    words = ("ledger", "restore", copy, "--reason", "a test")
    assert "--yes" in run(*words, code=2).err
    assert "nothing is lost" in run(*words, "--yes").out
    run("predict", "income", queries, "--client", "later")
    assert "every budget is spent" in run(*words, "--yes").out
    assert "all" in run("ledger", "show").out
    used_up = run("predict", "income", queries, "--client", "more", code=1).err
    assert "all of ε = 9, δ = 1e-6 in total is spent" in used_up
    for wrong in (FILES.schema, tmp_path / "nowhere.db"):
        said = run("ledger", "restore", wrong, "--reason", "x", "--yes", code=2).err
        assert "not a copy" in said or "not there" in said


def test_the_default_budget_is_said(capsys, tmp_path):
    words = ["fit", FILES.data, "--schema", FILES.schema, "--home", tmp_path / "new"]
    words += ["--learner", "linear", "--shards", "9"]
    with pytest.raises(SystemExit):
        main([str(word) for word in words])
    said = capsys.readouterr().out
    assert (
        "ε = 50, δ = 1e-6 in total (the budget of dataset 'data'; choose with --budget)"
        in said
    )
    assert "protects hardly anything" in said


def test_a_numeric_target_is_planned_with_regressors(capsys, tmp_path):
    schema = Schema.from_dict(
        {
            "reticent_schema": 1,
            "columns": [{"name": "x", "kind": "numeric", "low": 0, "high": 1}],
            "label": {"name": "y", "kind": "numeric", "low": 0, "high": 9},
        }
    )
    schema.write(tmp_path / "s.json")
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--rows", "5000", "--schema", str(tmp_path / "s.json"), "--json"])
    assert ended.value.code == 0
    options = json.loads(capsys.readouterr().out)["options"]
    assert options
    assert not any("Classifier" in option["estimator"] for option in options)


def test_one_shard_and_three_labels_are_audited(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 100},{'abc'[i % 3]}\n" for i in range(120))
    (tmp_path / "r.csv").write_text("x,y\n" + rows)
    for words in (
        "schema draft r.csv --public --label y -o s.json",
        "fit r.csv --schema s.json --shards 1 --learner linear --accept-noise",
        "audit model --quick",
    ):
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        assert ended.value.code == 0, capsys.readouterr()
    assert "Nothing refuted" in capsys.readouterr().out


def test_every_command_can_print_json():
    import typer

    from reticent.cli.main import app

    def leaves(command, path):
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, {opt for p in command.params for opt in p.opts}
            return
        for name, sub in inner.items():
            yield from leaves(sub, f"{path} {name}")

    found = dict(leaves(typer.main.get_command(app), "reticent"))
    assert len(found) >= 30
    assert {path for path, options in found.items() if "--json" not in options} == set()
