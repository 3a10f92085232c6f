"""``reticent tune`` and ``reticent evaluate``: paid for, stored and remembered."""

import json

import numpy as np
import pytest

from reticent.cli.main import main
from reticent.estimators import ReleasedLinear
from reticent.evaluation import UNIT_STEPS, NoisySums
from reticent.guarantees import Certificate, recheck
from reticent.home import Home
from reticent.ledger import RHO_UNITS, units_to_float
from reticent.schemas import ClassLabel, Numeric, NumericTarget, Schema

LABELS = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", ["no", "yes"]))
NUMBERS = Schema({"age": Numeric(0, 100)}, label=NumericTarget("cost", 0, 100))

PEOPLE = Schema(
    {"age": Numeric(0, 100)}, label=ClassLabel("sick", ["no", "yes"]), unit="who"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    ages = np.random.default_rng(0).integers(0, 100, 300)
    sick = [f"{age},{'yes' if age > 50 else 'no'}" for age in ages]
    (folder / "labels.csv").write_text("\n".join(["age,sick", *sick]) + "\n")
    cost = [f"{age},{age}" for age in ages]
    (folder / "numbers.csv").write_text("\n".join(["age,cost", *cost]) + "\n")
    LABELS.write(folder / "labels.json")
    NUMBERS.write(folder / "numbers.json")
    return folder


@pytest.fixture
def shell(files, tmp_path, capsys):
    def run(*words, code=0):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--home", str(tmp_path / "home"), "--json"])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return json.loads(said.out)

    run.files = files
    return run


def people(path, rows):
    """Write a file of (age, who); everybody above fifty is sick."""
    lines = [f"{age},{'yes' if age > 50 else 'no'},{who}" for age, who in rows]
    path.write_text("\n".join(["age,sick,who", *lines]) + "\n")
    return path


def tuned(shell, kind, *words, code=0):
    rows, schema = shell.files / f"{kind}.csv", shell.files / f"{kind}.json"
    return shell("tune", rows, "--schema", schema, "--runs", 2, *words, code=code)


def all_spent(tmp_path):
    with Home.existing(tmp_path / "home").settings().open_ledger() as ledger:
        (found,) = [b for b in ledger.balances() if str(b.account).endswith("data")]
    return found.spent


def spent(tmp_path):
    return units_to_float(all_spent(tmp_path).epsilon, 10**9)


@pytest.mark.parametrize(
    ("delta", "grid", "rule", "stored"),
    [
        ("0", '{"fit_intercept": [true, false]}', "G26", "G26"),
        ("1e-6", '{"detail": [0.3, 3]}', "G24-approx", "G24-zcdp"),
    ],
)
def test_a_release_is_tuned_paid_for_once_and_stored(
    shell, tmp_path, delta, grid, rule, stored
):
    found = tuned(shell, "labels", "--epsilon", 2, "--delta", delta, "--grid", grid)
    certificate = Certificate.from_dict(found["certificate"])
    recheck(certificate)
    assert certificate.rule == rule
    assert certificate.guarantee.epsilon <= 2
    assert len(found["trials"]) == (0 if delta == "0" else 3)
    before = all_spent(tmp_path)
    if delta == "0":
        assert spent(tmp_path) == pytest.approx(2.0, rel=1e-3)
    else:  # with a delta the account adds up rho, and the search is Gaussian DP
        rho = certificate.premises[0].guarantee.mu ** 2 / 2
        assert units_to_float(before.rho, RHO_UNITS) == pytest.approx(rho, rel=1e-3)
    shown = shell("certificate", "show", "model")
    assert shown["rule"] == stored
    answers = shell("predict", "model", "--row", '{"age": 90}')["answers"]
    assert answers[0] in ("yes", "no")
    assert all_spent(tmp_path) == before


@pytest.mark.parametrize("words", [(), ("--ask", "--epsilon", 4)])
def test_tables_with_missing_values_are_tuned(shell, tmp_path, words):
    columns = {"age": Numeric(0, 100, missing=True), "size": Numeric(0, 1)}
    label = ClassLabel("sick", ["no", "yes"])
    Schema(columns, label=label).write(tmp_path / "holes.json")
    ages = np.random.default_rng(0).integers(0, 100, 600)
    rows = [f"{a if a % 7 else ''},0.5,{'yes' if a > 50 else 'no'}" for a in ages]
    (tmp_path / "holes.csv").write_text("\n".join(["age,size,sick", *rows]) + "\n")
    files = (tmp_path / "holes.csv", "--schema", tmp_path / "holes.json")
    found = shell("tune", *files, "--runs", 2, *words)
    assert found["units"] == 600
    row = '{"age": null, "size": 0.5}'
    assert shell("predict", "model", "--row", row)["answers"][0] in ("yes", "no")


def test_a_tuned_release_of_noise_is_refused_before_anything_is_stored(shell, tmp_path):
    found = tuned(shell, "labels", "--epsilon", 0.001, code=2)
    assert found["error"]["code"] == "OnlyNoiseError"
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_a_predictor_is_tuned_and_its_answers_cost_more(shell, tmp_path):
    words = ("--ask", "--learner", "linear", "--answer-epsilon", 0.5)
    found = tuned(shell, "labels", *words, "--epsilon", 2)
    assert set(found["settings"]) == {"estimator__C"}
    before = spent(tmp_path)
    assert before == pytest.approx(2.0, rel=1e-2)
    shell("predict", "model", "--row", '{"age": 90}')
    assert spent(tmp_path) == pytest.approx(before + 0.5, rel=1e-6)


def test_a_search_that_cannot_be_paid_stores_nothing(shell, tmp_path):
    found = tuned(shell, "labels", "--epsilon", 3, "--budget", 1, code=1)
    assert found["error"]["code"] == "BudgetExhaustedError"
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_wrong_grids_are_explained(shell):
    for grid in ("clip", "{}", '{"clip": 1}', '{"clip": []}'):
        found = tuned(shell, "labels", "--grid", grid, code=2)
        assert "--grid" in found["error"]["message"]
    tuned(shell, "labels", "--grid", '{"epsilon": [1]}', code=2)
    found = tuned(shell, "labels", "--grid", '{"steps": [5, 10]}', code=2)
    assert "name steps, which PrivateTabular" in found["error"]["message"]
    assert "detail" in found["error"]["message"]


def fitted(shell, kind, *words):
    rows, schema = shell.files / f"{kind}.csv", shell.files / f"{kind}.json"
    return shell("fit", rows, "--schema", schema, *words)


def test_every_metric_of_a_release_is_measured_and_remembered(shell, tmp_path):
    fitted(shell, "labels", "--release", "--epsilon", 2)
    before = spent(tmp_path)
    metrics = ("accuracy", "auc", "calibration", "confusion", "log-loss")
    for metric in metrics:
        rows = shell.files / "labels.csv"
        found = shell("evaluate", "model", rows, "--metric", metric, "--epsilon", 0.5)
        assert np.all(np.array(found["low"]) <= np.array(found["high"]))
        assert found["units"] == 300
    # The account adds up by rho; by epsilon it shows the sum.
    assert spent(tmp_path) == pytest.approx(before + 0.5 * len(metrics), rel=1e-3)
    history = shell("evaluate", "model", "--history")["evaluations"]
    assert [row["epsilon"] for row in history] == [0.5] * 5
    assert history[0]["metric"] == "accuracy"


def test_numbers_are_measured_by_r2(shell):
    fitted(shell, "numbers", "--release", "--epsilon", 5)
    rows = shell.files / "numbers.csv"
    found = shell("evaluate", "model", rows, "--metric", "r2", "--epsilon", 2)
    assert found["metric"] == "R2"
    shell("evaluate", "model", rows, "--metric", "accuracy", code=2)


def test_answers_of_a_predictor_are_charged_beside_the_metric(shell, tmp_path):
    words = ("--learner", "linear", "--epsilon", 0.1, "--delta", 0)
    fitted(shell, "labels", *words, "--accept-noise")
    (tmp_path / "few.csv").write_text("age,sick\n10,no\n90,yes\n")
    few = ("evaluate", "model", tmp_path / "few.csv", "--epsilon", 0.5)
    found = shell(*few, code=2)
    assert "2 units at epsilon=0.5 measure nothing" in found["error"]["message"]
    assert "at least 12 units, or an epsilon above 3" in found["error"]["message"]
    shell(*few, "--accept-noise")
    assert spent(tmp_path) == pytest.approx(0.5 + 2 * 0.1)
    for metric in ("auc", "r2", "magic"):
        few = tmp_path / "few.csv"
        shell("evaluate", "model", few, "--metric", metric, code=2)
    assert spent(tmp_path) == pytest.approx(0.5 + 2 * 0.1)


def test_measured_rows_leave_no_trace_in_shared_memory(shell, tmp_path):
    """Whoever asks a measured row later pays for it, as for a row never seen."""
    words = ("--learner", "linear", "--epsilon", 0.1, "--delta", 0)
    fitted(shell, "labels", *words, "--accept-noise")
    config = tmp_path / "home" / "service.json"
    settings = json.loads(config.read_text())
    shared = {"path": settings["models"]["model"], "share": True}
    settings["models"]["model"] = shared
    config.write_text(json.dumps(settings))
    (tmp_path / "twins.csv").write_text("age,sick\n10,no\n10,no\n90,yes\n")
    twins = ("evaluate", "model", tmp_path / "twins.csv", "--epsilon", 0.5)
    shell(*twins, "--accept-noise")
    # Three answers, although two rows are alike: the price is that of three rows.
    assert spent(tmp_path) == pytest.approx(0.5 + 3 * 0.1)
    before = spent(tmp_path)
    for client in ("ann", "evaluation"):
        row = ("--row", '{"age": 10}', "--client", client)
        shell("predict", "model", *row)
    # The two clients share one new answer; what was measured is not remembered.
    assert spent(tmp_path) == pytest.approx(before + 0.1)


def test_units_of_several_rows_are_not_asked_about(shell, tmp_path):
    PEOPLE.write(tmp_path / "people.json")
    people(tmp_path / "people.csv", [(age, age // 2) for age in range(100)])
    fit = ("fit", tmp_path / "people.csv", "--schema", tmp_path / "people.json")
    shell(*fit, "--learner", "linear", "--delta", 0, "--accept-noise")
    found = shell("evaluate", "model", tmp_path / "people.csv", code=2)
    assert "one row for each unit" in found["error"]["message"]


def test_ids_that_mean_the_same_unit_are_one_unit_to_a_metric(shell, tmp_path):
    """Nine rows of one person would move counts by eighteen, not by two."""
    PEOPLE.write(tmp_path / "people.json")
    file = people(tmp_path / "people.csv", [(age, age) for age in range(100)])
    fit = ("fit", file, "--schema", tmp_path / "people.json", "--release")
    shell(*fit, "--learner", "linear", "--accept-noise")
    same = [(90, "0" * zeros + "7") for zeros in range(9)]
    rest = [(age, 1000 + age) for age in range(91)]
    file = people(tmp_path / "same.csv", same + rest)
    for metric in ("confusion", "auc", "calibration"):
        found = shell("evaluate", "model", file, "--metric", metric, code=2)
        assert "one row for each unit" in found["error"]["message"]
    assert shell("evaluate", "model", file, "--epsilon", 0.5)["units"] == 92


@pytest.mark.parametrize("metric", ["accuracy", "log-loss"])
def test_what_is_said_about_a_unit_does_not_depend_on_rows_of_others(
    metric, shell, tmp_path, monkeypatch
):
    """A product of matrices rounds by the number of rows; here it shows in full."""
    PEOPLE.write(tmp_path / "people.json")
    one = [(age, age) for age in range(100)]
    file = people(tmp_path / "people.csv", one)
    fit = ("fit", file, "--schema", tmp_path / "people.json", "--release")
    shell(*fit, "--learner", "linear", "--delta", 0, "--accept-noise")
    scores, drawn, sums = ReleasedLinear._scores, NoisySums.drawn, []

    def rounded(model, X):
        return scores(model, X) * 0 + (40.0 if len(X) % 2 else -40.0)

    def heard(cls, values, *rest):
        sums.append(int(values.sum()))
        return drawn(values, *rest)

    monkeypatch.setattr(ReleasedLinear, "_scores", rounded)
    monkeypatch.setattr(NoisySums, "drawn", classmethod(heard))
    other = people(tmp_path / "other.csv", [*one, (99, 99)])  # one unit has a row more
    for each in (file, other):
        words = ("--metric", metric, "--epsilon", 0.5)
        shell("evaluate", "model", each, *words)
    assert abs(sums[0] - sums[1]) <= UNIT_STEPS


def test_a_model_that_remembers_its_questions_is_not_measured(shell):
    fitted(shell, "labels", "--lasting", "--epsilon", 2)
    rows = shell.files / "labels.csv"
    found = shell("evaluate", "model", rows, code=2)
    assert "remembers what it was asked" in found["error"]["message"]
    rows, schema = shell.files / "labels.csv", shell.files / "labels.json"
    fit = ("fit", rows, "--schema", schema, "--name", "other")
    shell(*fit, "--lasting", "--measure", 0.5, code=2)


@pytest.mark.parametrize(
    ("kind", "words", "held_out"),
    [
        ("labels", ("--release", "--epsilon", 2), 30),
        ("numbers", ("--release", "--epsilon", 2), 30),
        ("labels", ("--learner", "linear", "--epsilon", 0.5), 30),
    ],
)
def test_a_fit_is_measured_on_units_that_it_did_not_see(
    shell, tmp_path, kind, words, held_out
):
    found = fitted(shell, kind, *words, "--delta", 0, "--measure", 1.5)
    measured = found["measured"]
    assert found["units"] == 300 - held_out
    assert measured["units"] == held_out
    assert measured["metric"] == ("R2" if kind == "numbers" else "accuracy")
    assert (measured["low"] or -np.inf) <= measured["value"] <= measured["high"]
    answers = 0 if "--release" in words else held_out * 0.5
    model = 2.0 if "--release" in words else 0.0
    assert spent(tmp_path) == pytest.approx(1.5 + answers + model, rel=1e-2)


def test_what_cannot_be_paid_is_not_measured(shell):
    words = ("--release", "--epsilon", 1, "--delta", 0, "--budget", 1.2)
    assert fitted(shell, "labels", *words, "--measure", 0.5)["measured"] is None


def test_a_fall_of_the_metric_is_seen(shell, tmp_path):
    fitted(shell, "labels", "--release", "--epsilon", 5)
    right = shell.files / "labels.csv"
    flipped = right.read_text().replace("yes", "?").replace("no", "yes")
    (tmp_path / "later.csv").write_text(flipped.replace("?", "no"))
    for rows in (right, right, tmp_path / "later.csv"):
        shell("evaluate", "model", rows, "--epsilon", 2)
    history = shell("evaluate", "model", "--history")["evaluations"]
    assert [row["fell"] for row in history] == [False, False, True]


def test_a_file_or_the_history(shell):
    fitted(shell, "labels", "--release", "--epsilon", 2)
    found = shell("evaluate", "model", code=2)["error"]["message"]
    assert found.endswith("or --history for earlier measurements.")
    rows = shell.files / "labels.csv"
    found = shell("evaluate", "model", rows, "--history", code=2)["error"]["message"]
    assert found.endswith("not both.")
    assert shell("evaluate", "model", "--history") == {"evaluations": []}


def test_prices_are_said_before_they_are_paid(shell, tmp_path, capsys):
    words = ("--delta", 0, "--grid", '{"fit_intercept": [true, false]}')
    rows, schema = shell.files / "labels.csv", shell.files / "labels.json"
    commands = {
        ("tune", rows, "--schema", schema, "--runs", 2, "--epsilon", 60, *words): (
            "this costs ε = 60, for the search and the model. Dataset 'data' has ε = 50"
        ),
        ("tune", rows, "--schema", schema, "--runs", 2, "--epsilon", 5, *words): (
            "this costs ε = 5, for the search and the model. Dataset 'data' has ε = 50"
        ),
        ("evaluate", "model", rows, "--epsilon", 0.5): (
            "this costs ε = 0.5 for the metric (the answers of a release are free). "
            "Dataset 'data' pays."
        ),
    }
    for command, price in commands.items():
        with pytest.raises(SystemExit) as ended:
            main([*map(str, command), "--home", str(tmp_path / "home")])
        said = capsys.readouterr().err
        # What the budget cannot pay is refused before a price is named.
        assert (price in said) == (ended.value.code == 0), said
