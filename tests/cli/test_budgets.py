"""Budgets on the command line: what is printed at fit is what is enforced."""

import json
import re

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from reticent.cli.main import main
from reticent.guarantees import Budget
from reticent.home import DatasetBudget, Home
from reticent.ledger import AccountId, AccountScope, Cap, SQLLedger


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sixty rows with one column, and their schema."""
    folder = tmp_path_factory.mktemp("rows")
    ages = np.random.default_rng(0).integers(0, 100, 60)
    rows = [f"{age},{'yes' if age > 50 else 'no'}" for age in ages]
    (folder / "rows.csv").write_text("\n".join(["age,sick", *rows]) + "\n")
    schema = folder / "schema.json"
    sample = folder / "public.csv"
    sample.write_text("age,sick\n0,no\n100,yes\n50,no\n")
    words = ["schema", "draft", str(sample), "--public", "--label", "sick"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "-o", str(schema)])
    assert ended.value.code == 0
    return folder


class Shell:
    """The command line at one home."""

    def __init__(self, folder, home, capsys=None):
        self.folder, self.home, self.capsys = folder, home, capsys

    def __call__(self, *words):
        """Run a command; return its code, what it printed, and what went wrong."""
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--home", str(self.home)])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        return ended.value.code, said.out, said.err

    def fit(self, *words):
        rows, schema = self.folder / "rows.csv", self.folder / "schema.json"
        start = ["fit", rows, "--schema", schema, "--learner", "linear"]
        more = [] if "--release" in words else ["--shards", "3"]
        return self(*start, *more, *words)

    def ask(self, model, age, *words):
        return self("predict", model, "--row", json.dumps({"age": age}), *words)

    def accounts(self):
        code, out, _ = self("ledger", "show", "--json")
        assert code == 0
        return {a["account"]: a for a in json.loads(out)["accounts"]}

    def models(self):
        folder = self.home / "models"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def shell(files, tmp_path, capsys):
    return Shell(files, tmp_path / "home", capsys)


def covered(out):
    """Return the budget and the number of answers that a fit printed."""
    found = re.search(r"A budget of ε = ([\d.]+).*covers (\d+)", out)
    return float(found[1]), int(found[2])


def test_another_budget_is_refused_before_anything_is_trained(shell):
    code, out, _ = shell.fit("--name", "first", "--budget", "10", "--epsilon", "1")
    assert code == 0
    first = covered(out)
    assert first[0] == 10
    code, out, err = shell.fit("--name", "second", "--budget", "2", "--epsilon", "1")
    assert code == 2
    assert "has a budget of ε = 10, δ = 1e-6 in total already, not ε = 2" in err
    assert "--change-budget" in err
    assert "training" not in err
    assert shell.models() == ["first"]
    # Left out, it is the dataset's own, and said so.
    code, out, _ = shell.fit("--name", "second", "--epsilon", "1")
    assert covered(out) == first
    assert shell.accounts()["dataset:data"]["promise"]["epsilon"] == 10


def test_a_changed_budget_is_printed_and_enforced(shell):
    shell.fit("--name", "first", "--budget", "10", "--epsilon", "1")
    assert shell.ask("first", 40)[0] == 0
    run = ("--name", "second", "--budget", "2", "--epsilon", "1")
    code, out, _ = shell.fit(*run, "--change-budget")
    assert code == 0
    printed, answers = covered(out)
    assert printed == 2
    assert "more answer" in out
    account = shell.accounts()["dataset:data"]
    assert account["promise"] == {"epsilon": 2.0, "delta": 1e-6}
    given = 0
    while shell.ask("second", 41 + given)[0] == 0:
        given += 1
    assert given == answers
    assert "dataset:data" in shell.ask("second", 99)[2]


def test_a_model_that_can_never_be_paid_for_is_not_stored(shell):
    shell.fit("--name", "first", "--budget", "3", "--epsilon", "0.5")
    code, _, err = shell.fit("--name", "second", "--epsilon", "100")
    assert code == 1
    assert "can never pay for this model: it costs epsilon 100" in err
    assert shell.models() == ["first"]
    assert shell.ask("first", 40)[0] == 0
    # In a home of its own it leaves no budget behind either.
    fresh = Shell(shell.folder, shell.home.parent / "fresh", shell.capsys)
    assert fresh.fit("--budget", "3", "--epsilon", "100")[0] == 1
    assert fresh.fit("--budget", "5", "--epsilon", "1")[0] == 0
    code, _, err = fresh.fit("--name", "x", "--release", "--epsilon", "6")
    assert (code, fresh.models()) == (1, ["model"])
    assert "can never pay" in err


def test_where_checkpoints_are_is_warned_of_once_for_a_home(shell):
    first = shell.fit("--name", "first", "--budget", "4", "--epsilon", "0.5")[2]
    assert first.count("the checkpoints are at") == 1
    assert f"The setting is 'checkpoints' in {shell.home / 'service.json'}" in first
    second = shell.fit("--name", "second", "--epsilon", "0.5")[2]
    assert "checkpoints" not in second


def test_a_table_of_spending_says_what_its_columns_mean(shell):
    given = ("--budget", "10", "--epsilon", "0.5", "--accept-noise")
    shell.fit("--name", "first", *given)
    for age in range(22):
        shell.ask("first", age)
    told = shell("ledger", "show")[1]
    head, row, *_ = told.splitlines()
    assert head.split() == ["account", "spent", "of", "charges", "used"]
    used = re.search(r"(\d+ %)", row)[1]
    spent = re.search(r"(ε = [\d.]+)", row)[1]
    assert f"Epsilon grows like its root, so {used} used can read {spent}." in told
    assert "'used' is the share of the cap that is counted (rho)" in told
    assert "'spent' is rounded up to a level that holds at any moment." in told


def test_a_model_that_no_client_may_ask_is_not_trained(shell):
    shell.fit("--name", "first", "--budget", "2", "--epsilon", "1")
    run = ("--name", "dear", "--dataset", "other", "--budget", "50", "--epsilon", "5")
    code, out, err = shell.fit(*run)
    assert (code, out) == (1, "")
    assert (
        "one answer costs ε = 5, more than client 'local' may spend in all (ε = 2, "
        "δ = 1e-6 in total)" in err
    )
    assert "client_budget in" in err
    assert "training" not in err
    assert shell.models() == ["first"]
    shell.ask("first", 40)
    assert "'reticent accounts cap client:local --epsilon NUMBER'" in shell.fit(*run)[2]
    shell("accounts", "cap", "client:local", "--epsilon", 6)
    code, out, _ = shell.fit(*run)
    assert code == 0
    assert "A client that is new may have none of them" in out
    assert shell.ask("dear", 40)[0] == 0


def test_nothing_is_searched_for_if_no_client_may_ask_then(shell):
    shell.fit("--name", "first", "--budget", "2", "--epsilon", "1")
    rows, schema = shell.folder / "rows.csv", shell.folder / "schema.json"
    run = ("tune", rows, "--schema", schema, "--ask", "--answer-epsilon", 5)
    code, _, err = shell(*run, "--dataset", "other", "--name", "dear")
    assert code == 1
    assert "one answer costs ε = 5" in err
    assert "dataset:other" not in shell.accounts()


def test_what_is_left_must_cover_one_answer(shell):
    run = ("--budget", "2", "--delta", "0", "--epsilon", "1")
    shell.fit("--name", "first", *run)
    for age in (10, 20):
        assert shell.ask("first", age)[0] == 0
    code, _, err = shell.fit("--name", "second", *run)
    assert code == 1
    assert "what is left of it does not cover one" in err
    assert shell.models() == ["first"]


def test_a_release_that_does_not_fit_leaves_nothing(shell):
    assert shell.fit("--release", "--budget", "3", "--epsilon", "2.5")[0] == 0
    before = shell.accounts()["dataset:data"]
    assert 0 < before["spent"]["rho"] <= before["cap"]["rho"]
    code, _, err = shell.fit("--name", "second", "--release", "--epsilon", "2")
    assert code == 1
    assert "can never pay" in err
    assert shell.models() == ["model"]
    assert shell.accounts()["dataset:data"] == before


def test_releases_and_answers_of_all_prices_share_a_budget(shell):
    shell.fit("--name", "half", "--budget", "4", "--epsilon", "0.5")
    shell.fit("--name", "one", "--epsilon", "1")
    assert shell.fit("--name", "released", "--release", "--epsilon", "1")[0] == 0
    assert shell.ask("half", 40)[0] == 0
    assert shell.ask("one", 40)[0] == 0
    assert shell.ask("released", 40)[0] == 0
    assert shell.accounts()["dataset:data"]["answers"] == 3
    code, out, _ = shell.fit("--name", "late", "--epsilon", "0.5")
    assert code == 0
    assert "more answer" in out


def test_a_home_with_a_model_that_cannot_be_paid_for_still_works(shell):
    """As an older version left it: the cap was lowered below one answer."""
    shell.fit("--name", "cheap", "--budget", "5", "--epsilon", "0.5", "--delta", "0")
    shell.fit("--name", "dear", "--epsilon", "4")
    assert shell.ask("cheap", 1)[0] == 0
    with SQLLedger(
        f"sqlite:///{shell.home / 'ledger.db'}",
        checkpoints=Home(shell.home).settings().second_place,
        signer=Home(shell.home).settings().derived("checkpoints"),
    ) as ledger:
        account = AccountId(AccountScope.DATASET, "data")
        ledger.set_cap(account, Cap.within(Budget(2.0)))
    assert shell.ask("cheap", 2)[0] == 0
    code, _, err = shell.ask("dear", 2)
    assert code == 1
    assert "dataset:data" in err
    assert "1 more answer at this charge does not fit" in err
    assert shell("certificate", "show", "dear")[0] == 0
    assert shell.fit("--name", "next", "--epsilon", "1")[0] == 0


class Commands(RuleBasedStateMachine):
    """Fits, refits, budgets and questions in any order, at one home."""

    shell = None

    def __init__(self):
        super().__init__()
        Commands.made = getattr(Commands, "made", 0) + 1
        base = self.shell
        home = base.home.parent / f"home{Commands.made}"
        self.at = Shell(base.folder, home, base.capsys)
        self.paid = {"a": 0.0, "b": 0.0}
        self.known = {}
        self.asked = set()

    @rule(
        name=st.sampled_from(["m", "n"]),
        dataset=st.sampled_from(["a", "b"]),
        epsilon=st.sampled_from([0.5, 1.0, 3.0]),
        budget=st.sampled_from([None, None, 1.0, 2.0, 6.0]),
        change=st.booleans(),
    )
    def fit(self, name, dataset, epsilon, budget, change):
        words = ["--name", name, "--dataset", dataset, "--epsilon", epsilon]
        words += ["--replace", "--delta", "0"]
        words += [] if budget is None else ["--budget", budget]
        words += ["--change-budget"] if change else []
        before = self.at.models()
        code, out, err = self.at.fit(*words)
        if code:
            assert self.at.models() == before
            assert "budget" in err
            return
        printed, answers = covered(out)
        assert budget in (None, printed)
        self.known[name] = (dataset, epsilon)
        self.asked = {key for key in self.asked if key[0] != name}
        balance = DatasetBudget(Home(self.at.home), dataset).balance()
        assert balance.cap.budget == Budget(printed)
        left = (printed - self.paid[dataset]) / epsilon
        assert answers == max(0, int(left + 1e-9))
        assert answers > 0

    @rule(
        name=st.sampled_from(["m", "n"]),
        age=st.integers(0, 5),
        client=st.sampled_from(["x", "y"]),
    )
    def ask(self, name, age, client):
        if name not in self.known:
            return
        dataset, epsilon = self.known[name]
        code, _, err = self.at.ask(name, age, "--client", client)
        if code:
            assert "spent" in err
            return
        if (name, age) not in self.asked:
            self.asked.add((name, age))
            self.paid[dataset] += epsilon
            balance = DatasetBudget(Home(self.at.home), dataset).balance()
            assert self.paid[dataset] <= balance.cap.budget.epsilon + 1e-9
        account = self.at.accounts()[f"dataset:{dataset}"]
        assert self.paid[dataset] == pytest.approx(account["spent"]["epsilon"])


@pytest.mark.parametrize("examples", [2, pytest.param(30, marks=pytest.mark.long)])
def test_what_is_printed_is_enforced_in_any_order(shell, monkeypatch, examples):
    monkeypatch.setattr(Commands, "shell", shell)
    run_state_machine_as_test(
        Commands,
        settings=settings(
            max_examples=examples,
            stateful_step_count=18,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
        ),
    )
