"""``reticent fit`` says what to expect, and refuses to store what is only noise."""

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression

from reticent.cli.main import main
from reticent.errors import OnlyNoiseError
from reticent.home import FitOptions, Home, model_choice, rehearse, train_and_store
from reticent.home.model_choice import released_learner
from reticent.schemas import ClassLabel, Numeric, NumericTarget, Schema


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory):
    """The rows of scikit-learn's diabetes table, and a schema."""
    folder = tmp_path_factory.mktemp("diabetes")
    X, y = load_diabetes(return_X_y=True)
    lines = ["age,bmi,progress"]
    lines += [f"{a:.4f},{b:.4f},{t:.0f}" for a, b, t in np.c_[X[:, 0], X[:, 2], y]]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    columns = {"age": Numeric(-0.2, 0.2), "bmi": Numeric(-0.2, 0.2)}
    schema = Schema(columns, label=NumericTarget("progress", 0, 400))
    schema.write(folder / "schema.json")
    return folder


@pytest.fixture
def fit(diabetes, tmp_path, capsys):
    def run(*words):
        start = ["fit", diabetes / "rows.csv", "--schema", diabetes / "schema.json"]
        more = ["--learner", "linear", "--delta", "0", "--home", tmp_path / "home"]
        with pytest.raises(SystemExit) as ended:
            main([*map(str, [*start, *more, *words])])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def test_one_shard_of_noise_is_refused_before_anything_is_stored(fit, tmp_path):
    code, _, err = fit("--shards", "1")
    assert code == 2
    assert "R2 is at most -1.49" in err
    assert "--accept-noise" in err
    assert list((tmp_path / "home" / "models").iterdir()) == []
    assert not (tmp_path / "home" / "service.json").exists()


def test_noise_that_is_accepted_is_stored_and_warned_of(fit):
    code, out, err = fit("--shards", "1", "--accept-noise")
    assert code == 0
    assert "warning: with 1 shard" in err
    assert "Expected from public facts: R2 is at most -1.49" in out


def test_the_expectation_is_printed_for_people_and_programs(fit):
    code, out, _ = fit("--json")
    assert code == 0
    expected = json.loads(out)["expectation"]
    assert 0.9 < expected["best"] < 1
    assert expected["chance"] == 0


def test_the_library_refuses_as_the_command_does(diabetes, tmp_path):
    schema = Schema.read(diabetes / "schema.json")
    options = FitOptions(learner="linear", shards=1, delta=0.0)
    with pytest.raises(OnlyNoiseError, match="epsilon=1"):
        train_and_store(Home.at(tmp_path), diabetes / "rows.csv", schema, options)


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """The rows of scikit-learn's wine table with three columns, and a schema."""
    folder = tmp_path_factory.mktemp("wine")
    X, y = load_wine(return_X_y=True)
    lines = ["alcohol,ash,hue,kind"]
    lines += [
        f"{a},{b},{c},{'abc'[k]}"
        for (a, b, c), k in zip(X[:, [0, 2, 10]], y, strict=True)
    ]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    columns = {"alcohol": Numeric(10, 16), "ash": Numeric(0, 4), "hue": Numeric(0, 2)}
    schema = Schema(columns, label=ClassLabel("kind", ["a", "b", "c"]))
    schema.write(folder / "schema.json")
    return folder


def on_wine(wine, tmp_path, *words):
    start = ("fit", wine / "rows.csv", "--schema", wine / "schema.json")
    return (*start, "--home", tmp_path / "home", *words)


def test_wine_in_one_shard_is_warned_of_with_a_number(wine, tmp_path, capsys):
    words = ("--learner", "linear", "--shards", 1)
    code, out, err = run(capsys, *on_wine(wine, tmp_path, *words))
    assert code == 0
    assert "warning: with 1 shard" in err
    assert "right at most 45 times in 100" in err
    assert "right at most 45 times in 100" in out


def test_wine_at_a_small_epsilon_is_refused(wine, tmp_path, capsys):
    words = ("--learner", "linear", "--shards", 1, "--epsilon", 0.1)
    code, _, err = run(capsys, *on_wine(wine, tmp_path, *words))
    assert code == 2
    assert "right at most 34 times in 100" in err
    assert list((tmp_path / "home" / "models").iterdir()) == []


@pytest.mark.parametrize("table", ["wine", "diabetes"])
def test_a_release_of_noise_is_refused_before_anything_is_stored(
    table, request, tmp_path, capsys
):
    folder = request.getfixturevalue(table)
    words = ("--release", "--epsilon", 0.01)
    code, _, err = run(capsys, *on_wine(folder, tmp_path, *words))
    assert code == 2
    assert "as tried on an easy, invented table" in err
    assert "guessing has 33" in err if table == "wine" else "a constant answer" in err
    assert list((tmp_path / "home" / "models").iterdir()) == []
    code, _, err = run(capsys, *on_wine(folder, tmp_path, *words, "--accept-noise"))
    assert code == 0
    assert "warning: released at epsilon=0.01" in err


@pytest.mark.parametrize("table", ["wine", "diabetes"])
def test_lasting_noise_is_refused_before_anything_is_stored(
    table, request, tmp_path, capsys
):
    folder = request.getfixturevalue(table)
    words = ("--lasting", "--epsilon", 0.01)
    code, _, err = run(capsys, *on_wine(folder, tmp_path, *words))
    assert code == 2
    assert "on an easy, invented table of this size" in err
    assert "guessing has 33" in err if table == "wine" else "a constant answer" in err
    assert list((tmp_path / "home" / "models").iterdir()) == []
    code, out, err = run(capsys, *on_wine(folder, tmp_path, *words, "--accept-noise"))
    assert code == 0
    assert "warning: released at epsilon=0.01" in err
    assert "Expected from public facts" in out


def test_lasting_answers_about_wine_at_epsilon_one_are_warned_of(
    wine, tmp_path, capsys
):
    code, out, err = run(capsys, *on_wine(wine, tmp_path, "--lasting", "--epsilon", 1))
    assert code == 0
    assert "warning: released at epsilon=1, on an easy, invented table" in err
    assert "answers in 100 are right; guessing has 33" in err
    assert "Expected from public facts: on an easy, invented table" in out


@pytest.mark.parametrize("kind", ["--release", "--lasting"])
def test_whoever_asks_a_model_of_noise_is_told(kind, wine, tmp_path, capsys):
    """Not only whoever fitted it: others see its answers, and nothing else of it."""
    words = (kind, "--epsilon", 0.05, "--accept-noise")
    assert run(capsys, *on_wine(wine, tmp_path, *words))[0] == 0
    asked = ("predict", "model", wine / "rows.csv", "--home", tmp_path / "home")
    code, _, err = run(capsys, *asked, "--limit", 3)
    assert code == 0
    assert "warning: answers are near chance: " in err
    _, out, _ = run(capsys, *asked, "--limit", 3, "--json")
    assert "guessing has 33" in json.loads(out)["near_chance"]
    code, out, _ = run(capsys, "models", "show", "model", "--home", tmp_path / "home")
    assert code == 0
    assert "Its answers are near chance: " in out


def test_a_release_that_learns_is_let_through(wine, tmp_path, capsys):
    words = ("--release", "--epsilon", 20)
    code, out, err = run(capsys, *on_wine(wine, tmp_path, *words))
    assert code == 0
    assert "Expected from public facts: as tried on an easy, invented table" in out
    assert "released at epsilon" not in err


def test_what_is_expected_of_a_release_follows_from_public_facts(wine):
    schema = Schema.read(wine / "schema.json")
    encoder, model = released_learner(schema, FitOptions(release=True), 1e-6)
    found = rehearse(model, encoder, 178)
    assert rehearse(model, encoder, 178) == found
    assert rehearse(model, encoder, 1000).best > found.best + 0.02
    assert rehearse(model, encoder, 10**6) is None


class Broken(LogisticRegression):
    def fit(self, X, y):
        raise RuntimeError(f"bad value {X[0, 0]}")


def test_shards_that_all_fail_are_told_to_the_curator(
    wine, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(model_choice, "_classifier", lambda linear: Broken())
    words = ("--learner", "linear", "--shards", 11)
    # The warning comes before the model is stored, which fails for this base.
    _, _, err = run(capsys, *on_wine(wine, tmp_path, *words))
    assert "11 of 11 shards" in err
    assert "bad value" not in err  # it may quote a record


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_answers_near_chance_are_never_given_without_a_word(kind, tmp_path, capsys):
    draw = np.random.default_rng(1)
    rows = [f"{age:.1f},{int(age > 50)}" for age in draw.uniform(0, 100, 60)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,sick", *rows]) + "\n")
    label = {
        "labels": ClassLabel("sick", [0, 1]),
        "numbers": NumericTarget("sick", 0, 1),
    }
    schema = Schema({"age": Numeric(0, 100)}, label=label[kind])
    home = tmp_path / "home"
    made = {"learner": "linear", "delta": 0.0, "accept_noise": True}
    for name, shards in (("noisy", 1), ("good", 40)):
        options = FitOptions(name=name, shards=shards, **made)
        train_and_store(Home.at(home), tmp_path / "rows.csv", schema, options)
    words = ("--row", '{"age": 30}', "--home", home)
    code, _, err = run(capsys, "predict", "noisy", *words)
    assert code == 0
    assert "warning: answers are near chance" in err
    assert err.index("near chance") < err.index("paid for")
    assert re.search(r"this asks 1 question\. New ones cost ε = 1 each", err)
    assert err.index("this asks") < err.index("paid for")
    _, out, _ = run(capsys, "predict", "noisy", *words, "--json")
    assert "at most" in json.loads(out)["near_chance"]
    assert "near chance" in run(capsys, "models", "show", "noisy", "--home", home)[1]
    assert "near chance" not in run(capsys, "predict", "good", *words)[2]
    assert "near chance" not in run(capsys, "models", "show", "good", "--home", home)[1]
