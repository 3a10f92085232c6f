"""The command line: three commands to a private answer, and one sentence a mistake."""

import csv
import gzip
import json
import os
import re
import socket
import subprocess
import sys

import pytest

from reticent.cli.main import main
from reticent.datasets import adult_sample_files
from reticent.guarantees import rules

FILES = adult_sample_files()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with one fitted model, made by the command line itself."""
    place = tmp_path_factory.mktemp("cli") / "home"
    run = [
        *("fit", FILES.data, "--schema", FILES.schema, "--name", "income"),
        *("--learner", "linear", "--epsilon", "0.5", "--budget", "3"),
        *("--shards", "9", "--home", place),
    ]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in run])
    assert ended.value.code == 0
    return place


@pytest.fixture
def reticent(capsys, home):
    def run(*words, code=0, at_home=True):
        words = [str(word) for word in words]
        if at_home:
            words += ["--home", str(home)]
        with pytest.raises(SystemExit) as ended:
            main(words)
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


def test_answers_are_charged_and_remembered(reticent, queries):
    first = json.loads(reticent("predict", "income", queries, "--json").out)
    assert set(first["answers"]) <= {"<=50K", ">50K"}
    assert first["paid"] == 4
    again = json.loads(reticent("predict", "income", queries, "--json").out)
    assert again["answers"] == first["answers"]
    assert again["paid"] == 0
    accounts = json.loads(reticent("ledger", "show", "--json").out)["accounts"]
    assert {a["answers"] for a in accounts} == {4}
    assert "is intact" in reticent("ledger", "verify").out


def test_the_certificate_is_shown_and_checked(reticent):
    shown = reticent("certificate", "show", "income").out
    assert "0.5-bounded-range DP for one answer" in shown
    assert "P1-soft" in shown
    many = reticent("certificate", "show", "income", "--answers", 50, "--delta", 1e-6)
    assert "50 answers" in many.out
    assert "it follows" in reticent("certificate", "check", "income").out


def test_keys_come_and_go(reticent):
    made = json.loads(reticent("keys", "create", "ward-7", "--json").out)
    assert made["key"].startswith("rk_")
    assert "ward-7" in reticent("keys", "list").out
    assert made["key"] not in reticent("keys", "list").out
    reticent("keys", "revoke", made["id"])
    assert "revoked" in reticent("keys", "list").out


def test_schemas_are_drafted_shown_and_checked(reticent, tmp_path):
    sample = tmp_path / "public.csv"
    sample.write_text("age,job,sick\n30,nurse,no\n51,cook,yes\n44,nurse,no\n")
    out = tmp_path / "schema.json"
    reticent(
        *("schema", "draft", sample, "--public", "--label", "sick", "-o", out),
        at_home=False,
    )
    assert "age" in reticent("schema", "show", out, at_home=False).out
    checked = reticent("schema", "check", sample, "--schema", out, at_home=False)
    assert "3 rows fit" in checked.out


def test_help_and_version_work(reticent):
    assert "fit" in reticent("--help", at_home=False).out
    assert "reticent 0." in reticent("--version", at_home=False).out
    assert "Example" in reticent("fit", "--help", at_home=False).out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("release", "fit --release"),
        ("train", "fit"),
        ("ask", "predict"),
        ("lasting", "fit --lasting"),
        ("start", "serve"),
        ("budget", "accounts"),
        ("predit", "predict"),
        ("ledger shw", "ledger show"),
    ],
)
def test_what_people_type_leads_to_the_command(reticent, typed, meant):
    said = reticent(*typed.split(), code=2, at_home=False)
    told = " ".join(said.err.split())  # it begins with how this process was started
    assert re.search(rf"Did you mean '[^']* {meant}'\?", told), told


@pytest.mark.parametrize("typed", ["G24", "g24", "P1-soft", "p1-SOFT", "G24-approx"])
def test_rules_of_a_certificate_are_explained(reticent, typed):
    found = json.loads(reticent("explain", typed, "--json", at_home=False).out)
    rule = rules[found["id"]]
    assert rule.id.lower() == typed.lower()
    assert found["statement"] == rule.statement
    said = " ".join(reticent("explain", typed, at_home=False).out.split())
    for part in (rule.id, rule.name, rule.statement, rule.source):
        assert " ".join(part.split()) in said
    said = reticent("explain", "G2424", code=2, at_home=False).err
    assert "has no word" in said


def test_a_fit_without_a_schema_leads_to_init(reticent):
    for command in ("fit", "tune"):
        said = " ".join(reticent(command, "rows.csv", code=2).err.split())
        assert "Missing option '--schema'" in said
        assert "'reticent init FILE'" in said
    asked = reticent("fit", "rows.csv", "--json", code=2).out
    assert "reticent init" in json.loads(asked)["error"]["message"]


def test_what_to_do_is_said_in_options(reticent):
    run = ("fit", FILES.data, "--schema", FILES.schema)
    said = reticent(*run, "--name", "income", code=2).err
    assert "or replace it (--replace)" in said
    said = reticent(*run, "--name", "more", "--budget", 99, code=2).err
    assert "with --change-budget" in said
    assert "change_budget" not in said


@pytest.mark.parametrize(
    "typed", ["eras", "erasee", "models remov", "ledger write-of", "keys revok"]
)
def test_a_typo_never_leads_to_what_destroys(reticent, typed):
    said = reticent(*typed.split(), code=2, at_home=False).err
    for name in ("erase", "remove", "write-off", "revoke"):
        assert f"{name}'?" not in said
    assert "No such command" in said


def test_an_exhausted_budget_is_one_sentence(reticent, home, tmp_path):
    place = tmp_path / "small"
    run = [
        *("fit", FILES.data, "--schema", FILES.schema, "--learner", "linear"),
        *("--epsilon", "1", "--budget", "1", "--delta", "0", "--shards", "5"),
        *("--home", place),
    ]
    reticent(*run, at_home=False)
    row = {
        "age": 41, "workclass": "Private", "education_num": 9,
        "marital_status": "Divorced", "occupation": "Sales",
        "relationship": "Unmarried", "race": "White", "sex": "Female",
        "capital_gain": 0, "capital_loss": 0, "hours_per_week": 40,
        "native_country": "United-States",
    }  # fmt: skip
    ask = ["predict", "model", "--home", place, "--row"]
    reticent(*ask, json.dumps(row), at_home=False)
    said = reticent(*ask, json.dumps({**row, "age": 42}), code=1, at_home=False)
    assert "dataset:data" in said.err
    assert "Traceback" not in said.err


def test_a_home_that_others_can_enter_is_refused(reticent, tmp_path):
    open_home = tmp_path / "open"
    open_home.mkdir(mode=0o755)
    said = reticent(
        *("fit", FILES.data, "--schema", FILES.schema, "--home", open_home),
        code=2,
        at_home=False,
    )
    assert "chmod 700" in said.err


def test_a_busy_port_is_named(reticent):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = reticent("serve", "--port", port, code=1)
    assert f"--port {port}" in said.err


def test_a_damaged_model_is_refused(reticent, home, tmp_path):
    import shutil

    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    os.chmod(copy, 0o700)
    array = next((copy / "models" / "income").glob("*.npy"))
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    said = reticent(
        "certificate", "show", "income", "--home", copy, code=1, at_home=False
    )
    assert "Traceback" not in said.err


def test_the_demo_answers_many_questions_for_one_total_and_ends(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "reticent.cli", "demo", "--once", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert len(shown["answers"]) == len(shown["evidence"]) == 5
    assert shown["more_answers"] > 100
    assert shown["certificate"]["guarantee"]["epsilon"] == 1.0
    spent = [
        {account["account"]: account["spent"] for account in shown[when]["accounts"]}
        for when in ("budget_before", "budget")
    ]
    assert spent[0]["dataset:census"] == spent[1]["dataset:census"]


def test_a_release_is_charged_once_and_answers_for_free(reticent, queries, tmp_path):
    place = tmp_path / "home"
    run = ["fit", FILES.data, "--schema", FILES.schema, "--release", "--json"]
    run += ["--home", place, "--budget", "3"]
    made = json.loads(reticent(*run, at_home=False).out)
    assert made["certificate"]["guarantee"]["kind"] == "ApproxDP"
    assert made["answers"] is None
    shown = ["ledger", "show", "--json", "--home", place]
    before = json.loads(reticent(*shown, at_home=False).out)
    for _ in range(3):
        said = reticent("predict", "model", queries, "--home", place, at_home=False)
        assert len(said.out.split()) == 4
    after = json.loads(reticent(*shown, at_home=False).out)
    spent = [
        next(a["spent"] for a in found["accounts"] if a["account"] == "dataset:data")
        for found in (before, after)
    ]
    assert spent[0] == spent[1]
    assert spent[0]["rho"] > 0


def test_a_release_that_cannot_be_paid_leaves_the_old_model(reticent, tmp_path):
    place = tmp_path / "home"
    run = ["fit", FILES.data, "--schema", FILES.schema, "--release"]
    run += ["--home", place, "--budget", "3"]
    reticent(*run, at_home=False)
    manifest = (place / "models" / "model" / "manifest.json").read_bytes()
    said = reticent(*run, "--replace", "--epsilon", "4", code=1, at_home=False)
    assert "can never pay for this model" in said.err
    assert (place / "models" / "model" / "manifest.json").read_bytes() == manifest
    assert [path.name for path in (place / "models").iterdir()] == ["model"]


def test_a_student_of_public_rows_is_released(reticent, queries, tmp_path):
    place = tmp_path / "home"
    with gzip.open(FILES.data, "rt") as file:
        lines = [line.rpartition(",")[0] for line in file.read().splitlines()[:301]]
    public = tmp_path / "public.csv"
    public.write_text("\n".join(lines) + "\n")
    run = ["fit", FILES.data, "--schema", FILES.schema, "--public", public]
    run += ["--home", place, "--epsilon", "4", "--shards", "25", "--json"]
    made = json.loads(reticent(*run, at_home=False).out)
    assert made["certificate"]["rule"] == "M6"
    assert made["certificate"]["guarantee"]["epsilon"] <= 4
    said = reticent("predict", "model", queries, "--home", place, at_home=False)
    assert len(said.out.split()) == 4
    shown = reticent("ledger", "show", "--json", "--home", place, at_home=False)
    (account,) = (
        found
        for found in json.loads(shown.out)["accounts"]
        if found["account"] == "dataset:data"
    )
    assert account["spent"]["rho"] > 0
    assert account["answers"] == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell, warm):
    done = subprocess.run(
        [warm / "reticent"],
        env={
            **os.environ,
            "_RETICENT_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": "reticent ce",
            "COMP_CWORD": "1",
            "_TYPER_COMPLETE_ARGS": "reticent ce",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "certificate" in done.stdout, done
