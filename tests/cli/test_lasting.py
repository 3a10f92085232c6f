"""Lasting answers on the command line: one total, any number of answers."""

import json
import shutil

import numpy as np
import pytest

from reticent.cli.main import main
from reticent.home import Home, answer_rows
from reticent.prediction.lasting import histories as states
from reticent.schemas import Categorical, ClassLabel, Numeric, NumericTarget, Schema


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two hundred rows with two columns, and their schema."""
    folder = tmp_path_factory.mktemp("rows")
    draw = np.random.default_rng(0)
    ages, wards = draw.integers(0, 100, 200), draw.choice(["a", "b"], 200)
    rows = [
        f"{age},{ward},{'yes' if age > 50 else 'no'},{age / 10}"
        for age, ward in zip(ages, wards, strict=True)
    ]
    (folder / "rows.csv").write_text("\n".join(["age,ward,sick,risk", *rows]) + "\n")
    columns = {"age": Numeric(0, 100), "ward": Categorical(["a", "b"])}
    for label in (ClassLabel("sick", ["no", "yes"]), NumericTarget("risk", 0, 10)):
        other = {"sick": "risk", "risk": "sick"}[label.name]
        schema = Schema(columns, label=label, ignored=(other,))
        schema.write(folder / f"{label.name}.json")
    return folder


@pytest.fixture
def run(files, tmp_path, capsys, monkeypatch):
    """The command line at one home; each command is a process of its own."""

    def command(*words, ok=True):
        monkeypatch.setattr(states, "_histories", {})
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--home", str(tmp_path / "home")])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert (ended.value.code == 0) is ok, said.err
        return said.out if ok else said.out + said.err

    def fit(*words, label="sick", ok=True):
        rows, schema = files / "rows.csv", files / f"{label}.json"
        return command("fit", rows, "--schema", schema, "--lasting", *words, ok=ok)

    command.fit = fit
    command.home = tmp_path / "home"
    return command


def ask(run, age, *words, ward="a", **settings):
    row = json.dumps({"age": age, "ward": ward})
    said = run("predict", "model", "--row", row, "--json", *words, **settings)
    return json.loads(said) if settings.get("ok", True) else said


def spent(run):
    found = json.loads(run("ledger", "show", "--json"))
    return {a["account"]: a["spent"] for a in found["accounts"]}["dataset:data"]


def test_nothing_is_recommended_that_lasting_answers_refuse(run, files):
    total = ("--epsilon", "1", "--budget", "1", "--delta", "1e-6")
    told = run.fit(*total, "--local", "never", "--accept-noise")
    assert "Expected from public facts" in told
    assert "only a measurement tells" not in told
    assert "Lasting answers cannot be measured" in told
    assert "cannot be asked" not in told
    refused = run("evaluate", "model", files / "rows.csv", ok=False)
    assert "Measure a release" in refused


def test_one_total_covers_any_number_of_answers(run):
    total = ("--epsilon", "1", "--budget", "1", "--delta", "1e-6")
    told = run.fit(*total, "--local", "always")
    assert "(1, " in told
    assert "no limit" in told
    assert "All models of 'data' together may spend ε = 1, δ = 1e-6 in total;" in told
    once = spent(run)
    first = ask(run, 41)
    assert first["answers"][0] in ("no", "yes")
    assert first["paid"] == 0
    assert first["answers_left"] is None
    assert len(first["evidence"]) == 1
    for age in range(10):
        ask(run, age, "--client", f"c{age}")
    assert ask(run, 41)["evidence"] == first["evidence"]
    assert spent(run) == once
    line = run("predict", "model", "--row", '{"age": 41, "ward": "a"}')
    assert "evidence" in line
    shown = run("ledger", "show")
    assert "dataset:data" in shown
    assert "1e9" not in shown  # the account that counts records costs no privacy
    run("ledger", "verify")


def test_it_fits_into_a_budget_with_other_models(run):
    run.fit("--epsilon", "1")  # of (50, 1e-6) in all
    assert spent(run)["rho"] > 0
    run.fit("--epsilon", "1", "--name", "second")


def test_more_than_the_budget_is_refused_before_training(run):
    said = run.fit("--epsilon", "3", "--budget", "1", ok=False)
    assert "budget" in said
    run.fit("--epsilon", "1", "--budget", "1")
    said = run.fit("--epsilon", "1", "--name", "second", ok=False)
    assert "budget" in said
    said = run.fit("--delta", "0", "--name", "third", ok=False)
    assert "budget" in said or "delta" in said


def test_zeroing_one_record_is_an_account_of_its_own(run):
    run.fit("--relation", "zero-out", "--budget", "1", "--epsilon", "1")
    assert ask(run, 3)["answers"][0] in ("no", "yes")
    said = run.fit("--name", "other", ok=False)
    assert "relation" in said or "zero-out" in said


def test_numbers_last_too(run):
    run.fit(label="risk")
    assert 0 <= ask(run, 3)["answers"][0] <= 10


def test_a_fit_says_whether_records_near_a_question_vote(run):
    assert "A released model answers" in run.fit()
    assert ask(run, 41)["evidence"] == [0.0]
    said = run.fit("--local", "always", "--replace")
    assert "A released model answers" not in said


def test_answers_without_evidence_can_be_withheld(run):
    run.fit("--local", "always")
    assert ask(run, 41, "--abstain-below", "1000000")["answers"] == [None]
    line = run(
        "predict", "model", "--row", '{"age": 1, "ward": "b"}', "--abstain-below", "1e6"
    )
    assert "too little evidence" in line


def test_a_replaced_model_begins_anew(run):
    run.fit()
    ask(run, 41)
    assert len(list((run.home / "models").glob(".model.*"))) == 1
    run.fit("--replace")
    assert not list((run.home / "models").glob(".model@2.*"))
    ask(run, 41)
    assert len(list((run.home / "models").glob(".model@2.*"))) == 1


def test_an_older_ledger_is_refused(run, tmp_path, monkeypatch):
    run.fit()
    ask(run, 41)
    kept = tmp_path / "kept"
    shutil.copytree(run.home, kept)
    ask(run, 42)
    for name in ("ledger.db", "checkpoints.json"):
        if (kept / name).exists():
            shutil.copy(kept / name, run.home / name)
    said = ask(run, 43, ok=False)
    assert "older" in said or "checkpoint" in said


@pytest.mark.parametrize(
    "words",
    [
        ["--release"],
        ["--shards", "3"],
        ["--learner", "linear"],
        ["--relation", "add-remove"],
        ["--local", "perhaps"],
    ],
)
def test_options_that_contradict_are_refused(run, words):
    run.fit(*words, ok=False)


@pytest.mark.parametrize("words", [["--relation", "zero-out"], ["--local", "always"]])
def test_some_options_are_for_lasting_answers(run, files, words):
    start = ["fit", files / "rows.csv", "--schema", files / "sick.json"]
    assert "--lasting" in run(*start, *words, ok=False)


def test_a_released_model_that_answers_does_not_abstain(run):
    total = ("--epsilon", "1", "--budget", "1", "--delta", "1e-6")
    run.fit(*total, "--local", "never", "--accept-noise")
    said = ask(run, 41, "--abstain-below", "3", ok=False)
    assert "released model answers every question" in said
    row = json.dumps({"age": 41, "ward": "a"})
    assert run("predict", "model", "--row", row).strip() in ("no", "yes")


def test_other_models_do_not_abstain_and_are_not_charged_for_it(run, files):
    start = ["fit", files / "rows.csv", "--schema", files / "sick.json"]
    run(*start, "--learner", "linear", "--shards", "3", "--budget", "5")
    said = ask(run, 41, "--abstain-below", "3", ok=False)
    assert "evidence" in said
    assert not spent(run)["epsilon"]


def test_python_and_the_command_line_share_the_log(run):
    run.fit()
    told = ask(run, 41)
    states._histories.clear()
    with Home.existing(run.home).open_model("model", client="local") as (ledger, model):
        table = model.stored.schema.rows([{"age": 41, "ward": "a"}])
        found = answer_rows(ledger, model, table, client="local")
    assert found.evidence == told["evidence"]
    assert found.remembered == 1


def test_the_noise_the_share_and_the_time_can_be_chosen(run):
    run.fit(
        *("--epsilon", "1", "--budget", "1", "--local", "always"),
        *("--questions", "50", "--client-share", "0.2", "--constant-time"),
    )
    law = Home.at(run.home).settings().load_model("model").lasting
    assert (law.client_share, law.constant_time) == (0.2, True)
    assert ask(run, 41)["answers"]


@pytest.mark.parametrize(
    "words",
    [("--questions", "0"), ("--client-share", "0"), ("--client-share", "1.5")],
)
def test_options_that_cannot_be_are_refused_by_name(run, words):
    assert words[0] in run.fit(*words, ok=False)


@pytest.mark.parametrize(
    "words", [("--questions", "50"), ("--client-share", "0.5"), ("--constant-time",)]
)
def test_options_of_lasting_answers_are_refused_without_them(run, files, words):
    told = run(
        *("fit", files / "rows.csv", "--schema", files / "sick.json", *words), ok=False
    )
    assert "--lasting" in told


def test_a_model_that_must_remember_is_not_told_to_forget(run):
    run.fit("--epsilon", "1", "--budget", "1")
    config = Home.at(run.home).config
    found = json.loads(config.read_text())
    found["models"]["model"] = {"path": found["models"]["model"], "remember": False}
    config.write_text(json.dumps(found))
    assert "remembers every question" in ask(run, 41, ok=False)
