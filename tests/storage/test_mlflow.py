"""Released models as MLflow models, loaded by MLflow itself."""

import warnings

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.linear_model import LogisticRegression

from reticent.errors import InvalidParameterError, ModelFileError
from reticent.learners import NoisyGradientClassifier
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Categorical, ClassLabel, Encoder, Numeric, Schema
from reticent.signing import ED25519_PRIVATE, new_key, public_key
from reticent.storage import load_model, save_model, write_mlflow

KEY = new_key()
SCHEMA = Schema(
    {"age": Numeric(0, 100, missing=True), "ward": Categorical(["a", "b"])},
    label=ClassLabel("ill", ["no", "yes"]),
)
ROWS = [{"age": 41.0, "ward": "b"}, {"age": None, "ward": "a"}]


def stored(folder, model):
    draw = np.random.default_rng(0)
    table = SCHEMA.table(
        {
            "age": draw.uniform(0, 100, 300),
            "ward": draw.choice(["a", "b"], 300).astype(object),
            "ill": draw.choice(["no", "yes"], 300).astype(object),
        },
        labelled=True,
    )
    encoder = Encoder(SCHEMA)
    model.fit(encoder.transform(table), np.array(["no", "yes"])[table.label])
    save_model(folder, model, SCHEMA, signing_key=KEY, encoder=encoder)
    return load_model(folder, signing_key=KEY)


@pytest.fixture
def released(tmp_path):
    learner = NoisyGradientClassifier(epsilon=1.0, delta=1e-6, classes=["no", "yes"])
    return stored(tmp_path / "model", learner)


@pytest.fixture
def mlflow():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow's own
        import mlflow.pyfunc

        yield mlflow


def test_mlflow_loads_what_was_written_and_answers_alike(released, tmp_path, mlflow):
    write_mlflow(tmp_path / "out", released)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "out"))
    answers = loaded.predict(pd.DataFrame(ROWS))
    assert answers.tolist() == released.answer(SCHEMA.rows(ROWS))
    told = yaml.safe_load((tmp_path / "out" / "MLmodel").read_text())["flavors"]
    assert told["reticent"]["promise"] == released.certificate.headline()
    assert told["reticent"]["certificate"] == released.certificate.id


def test_a_changed_file_and_another_key_are_refused(
    released, tmp_path, monkeypatch, mlflow
):
    write_mlflow(tmp_path / "out", released)
    other = public_key(new_key(ED25519_PRIVATE))
    monkeypatch.setenv("RETICENT_MODEL_KEY", other)
    with pytest.raises(ModelFileError, match="not a signature"):
        mlflow.pyfunc.load_model(str(tmp_path / "out"))
    monkeypatch.delenv("RETICENT_MODEL_KEY")
    file = min((tmp_path / "out").rglob("*.npy"))
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    with pytest.raises(ModelFileError, match="hash"):
        mlflow.pyfunc.load_model(str(tmp_path / "out"))


def test_a_row_that_does_not_fit_the_schema_is_refused(released, tmp_path, mlflow):
    write_mlflow(tmp_path / "out", released)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "out"))
    with pytest.raises(Exception, match="ward"):
        loaded.predict(pd.DataFrame([{"age": 1.0, "ward": "z"}]))


def test_a_model_that_was_not_released_is_refused(tmp_path):
    model = PrivateVotingClassifier(LogisticRegression(), 1.0, ["no", "yes"], 5)
    asked = stored(tmp_path / "model", model)
    with pytest.raises(InvalidParameterError, match="as secret as the records"):
        write_mlflow(tmp_path / "out", asked)
    assert not (tmp_path / "out").exists()
