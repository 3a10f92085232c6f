"""``reticent fit`` says what to expect, and refuses to store what is only noise."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from reticent.cli.main import main
from reticent.errors import OnlyNoiseError
from reticent.home import FitOptions, Home, train_and_store
from reticent.schemas import Numeric, NumericTarget, Schema


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
