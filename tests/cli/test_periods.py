"""A budget by period: the total is promised, and a period can only refuse more."""

import json

import numpy as np
import pytest

from reticent.cli.main import main
from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.home import (
    DatasetSettings,
    FitOptions,
    Home,
    answer_rows,
    evaluate_model,
    renew_budget,
    split_budget,
    train_and_store,
)
from reticent.schemas import ClassLabel, Numeric, Schema, read_table

SCHEMA = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", [0, 1]), unit="who")
EACH, TOTAL, PERIODS = 0.5, 4.0, 4
GIVEN = {"dataset": "clinic", "accept_noise": True, "epsilon": EACH}


def rows(path, first, last):
    """Write one row for each of some people."""
    draw = np.random.default_rng(first)
    lines = [
        f"p{who},{draw.uniform(0, 100):.3f},{draw.integers(2)}"
        for who in range(first, last)
    ]
    path.write_text("\n".join(["who,age,sick", *lines]) + "\n")
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Home.at(tmp_path / "home")
    data = rows(tmp_path / "first.csv", 0, 100)
    options = FitOptions(**GIVEN, budget=TOTAL, delta=0.0, learner="linear")
    train_and_store(made, data, SCHEMA, options)
    return made


def balances(home):
    with home.settings().open_ledger() as ledger:
        ledger.verify()
        return {str(each.account): each for each in ledger.balances()}


def ask(home, count, start=0):
    """Ask one question after the other; return how many were answered."""
    for done in range(count):
        with home.open_model("model", client="ward-7") as (ledger, served):
            table = served.stored.schema.rows([{"age": (start + done) / 16}])
            try:
                answer_rows(ledger, served, table, client="ward-7")
            except BudgetExhaustedError:
                return done
    return count


def test_a_period_has_its_part_and_the_total_is_what_is_promised(home, tmp_path):
    split_budget(home, "clinic", PERIODS)
    per_period = int(TOTAL / PERIODS / EACH)
    answered = ask(home, per_period + 2)
    assert answered == per_period
    found = balances(home)
    assert found["dataset:clinic"].cap.budget.epsilon == TOTAL
    assert found["dataset:clinic.period-1"].cap.budget.epsilon == TOTAL / PERIODS
    assert found["dataset:clinic"].spent == found["dataset:clinic.period-1"].spent
    # New people come; who stays pays again, and the total adds up for them.
    for number in range(2, PERIODS + 1):
        data = rows(tmp_path / f"{number}.csv", 0, 100 + 40 * number)
        told = renew_budget(home, "clinic", data)
        assert (told.period, told.periods) == (number, PERIODS)
        assert ask(home, per_period + 2, 100 * number) == per_period
        found = balances(home)
        spent = found["dataset:clinic"].spent
        assert spent.answers == number * per_period
    assert found["dataset:clinic"].share[0] == 1.0
    assert found["dataset:clinic"].cap.budget.epsilon == TOTAL
    with pytest.raises(InvalidParameterError, match=r"promised a total .*weaker"):
        renew_budget(home, "clinic", rows(tmp_path / "more.csv", 500, 900))
    assert ask(home, 1, 900) == 0


def test_without_periods_nothing_is_held_back(home):
    assert ask(home, 12) == TOTAL / EACH


def test_a_period_needs_new_people(home, tmp_path):
    split_budget(home, "clinic", PERIODS)
    before = balances(home)
    for last in (100, 105):
        data = rows(tmp_path / f"{last}.csv", 0, last)
        with pytest.raises(InvalidParameterError, match="10 % of the units"):
            renew_budget(home, "clinic", data)
    with pytest.raises(InvalidParameterError, match="least"):
        renew_budget(home, "clinic", data, least=0.0)
    assert balances(home) == before
    renew_budget(home, "clinic", data, least=0.01)


def test_new_people_must_be_told_from_old_ones(home, tmp_path):
    for file in (home.path / "members").iterdir():
        file.unlink()
    split_budget(home, "clinic", PERIODS)
    with pytest.raises(InvalidParameterError, match="not known who is in the models"):
        renew_budget(home, "clinic", rows(tmp_path / "new.csv", 200, 300))


def test_what_is_not_split_is_not_renewed(home, tmp_path):
    with pytest.raises(InvalidParameterError, match="not given out by period"):
        renew_budget(home, "clinic", rows(tmp_path / "new.csv", 200, 300))
    with pytest.raises(InvalidParameterError, match="no dataset"):
        split_budget(home, "other", 4)
    with pytest.raises(InvalidParameterError, match="2 or more"):
        split_budget(home, "clinic", 1)
    split_budget(home, "clinic", 2)
    with pytest.raises(InvalidParameterError, match="2 periods already"):
        split_budget(home, "clinic", 3)


def test_releases_and_measurements_fit_the_period_too(home, tmp_path):
    split_budget(home, "clinic", PERIODS)
    data = tmp_path / "first.csv"
    release = {**GIVEN, "name": "out", "release": True, "learner": "linear"}
    train_and_store(home, data, SCHEMA, FitOptions(**{**release, "epsilon": 0.75}))
    table = read_table(data, SCHEMA)
    evaluate_model(home, "out", table, metric="accuracy", epsilon=0.125)
    found = balances(home)
    assert found["dataset:clinic"].spent == found["dataset:clinic.period-1"].spent
    with pytest.raises(BudgetExhaustedError, match=r"period-1"):
        evaluate_model(home, "out", table, metric="accuracy", epsilon=0.5)
    with pytest.raises(BudgetExhaustedError, match=r"period-1"):
        train_and_store(
            home, data, SCHEMA, FitOptions(**{**release, "name": "b", "epsilon": 0.75})
        )
    assert "b" not in home.settings().models


def test_a_total_that_is_changed_changes_the_part(home, capsys):
    split_budget(home, "clinic", PERIODS)
    words = ["accounts", "cap", "dataset:clinic", "--epsilon", "8"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--home", str(home.path)])
    assert ended.value.code == 0
    found = balances(home)
    assert found["dataset:clinic.period-1"].cap.budget.epsilon == 2.0
    assert home.settings().datasets["clinic"].periods == PERIODS
    assert ask(home, 6) == 4


def test_the_total_is_on_the_command_line_in_the_dossier_and_in_the_chain(
    home, tmp_path, capsys
):
    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--home", str(home.path)])
        assert ended.value.code == 0
        return capsys.readouterr().out

    told = json.loads(run("accounts", "split", "clinic", "--periods", "4", "--json"))
    assert told["total"] == {"epsilon": 4.0, "delta": 0.0}
    assert told["part"] == {"epsilon": 1.0, "delta": 0.0}
    data = rows(tmp_path / "new.csv", 50, 150)
    said = run("accounts", "renew", "clinic", data)
    assert "A person who stays in the data pays in every period: " in said
    assert "4" in said.splitlines()[1]
    run("dossier", "model", "--out", tmp_path / "dossier")
    text = "".join(path.read_text() for path in (tmp_path / "dossier").rglob("*.md"))
    assert "this is period 2" in text
    assert "the total over all periods is what is promised" in text
    with home.settings().open_ledger() as ledger:
        acts = [e.content() for e in ledger.entries() if e.kind == "act"]
    assert [act["act"] for act in acts][-2:] == ["budget split", "period begun"]
    assert acts[-1]["facts"]["total"] == acts[-2]["facts"]["total"]


@pytest.mark.parametrize(
    "given", [{"periods": 0}, {"periods": 2, "period": 3}, {"periods": 1.5}]
)
def test_settings_of_periods_are_checked(given):
    with pytest.raises(InvalidParameterError):
        DatasetSettings(epsilon=1.0, **given)
