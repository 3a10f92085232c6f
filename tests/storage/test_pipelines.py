"""Models that are not fused: stored by skops, trusted types only, served as others."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

from reticent.errors import ModelFileError
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from reticent.schemas import Encoder
from reticent.signing import new_key
from reticent.storage import Dataset, load_model, save_model
from reticent.storage.pipelines import pack_models, unpack_models
from tests.service.clinic import MODEL_KEY, ROW, TRIAGE, clinic, records, settings_for
from tests.storage.test_hostile import Payload, npy
from tests.storage.workshop import AMOUNT, KEY, TWO, forge, table_for

MIXED = ColumnTransformer([("scaled", MinMaxScaler(), [0])], remainder="passthrough")
VOTING = {
    "svc": make_pipeline(StandardScaler(), SVC()),
    "polynomials": make_pipeline(PolynomialFeatures(2), LogisticRegression()),
    "naive bayes": GaussianNB(),
    "brute neighbours": KNeighborsClassifier(3, algorithm="brute"),
    "kernel": make_pipeline(Nystroem(n_components=5, random_state=0), SVC()),
    "columns": make_pipeline(MIXED, SVC()),
}


def fit(schema, model):
    table = table_for(schema)
    X = Encoder(schema).transform(table)
    label = table.label if schema == AMOUNT else schema.classes[table.label]
    return model.fit(X, label), table


def voting(name, kind=PrivateVotingClassifier):
    return fit(TWO, kind(VOTING[name], 0.5, TWO.classes, n_shards=6))


@pytest.mark.parametrize("name", VOTING)
@pytest.mark.parametrize("secret", [None, new_key("aes-256-gcm")], ids=["", "sealed"])
def test_any_pipeline_votes_after_a_round_trip_as_before(name, secret, tmp_path):
    model, table = voting(name)
    settings = {"signing_key": KEY, "encryption_key": secret}
    save_model(tmp_path / "m", model, TWO, **settings)
    loaded = load_model(tmp_path / "m", **settings)
    X = Encoder(TWO).transform(table)
    np.testing.assert_array_equal(loaded.votes(table), model.law_.votes(X))
    assert loaded.certificate.id == model.certificate_.id
    assert set(loaded.answer(table)) <= set(TWO.classes.tolist())


def test_averages_of_any_pipeline_are_stored(tmp_path):
    model, table = voting("naive bayes", PrivateAveragingClassifier)
    save_model(tmp_path / "m", model, TWO, signing_key=KEY)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    X = Encoder(TWO).transform(table)
    assert loaded.predictor.predict_proba(X[:3]).shape == (3, 2)
    assert loaded.certificate.id == model.certificate_.id
    number = PrivateAveragingRegressor(SVR(), 0.5, bounds=(0, 50), n_shards=4)
    number, rows = fit(AMOUNT, number)
    save_model(tmp_path / "n", number, AMOUNT, signing_key=KEY)
    again = load_model(tmp_path / "n", signing_key=KEY)
    sums = number.law_.ensemble.output_sums(Encoder(AMOUNT).transform(rows))
    mine = again.predictor.law_.ensemble.output_sums(Encoder(AMOUNT).transform(rows))
    np.testing.assert_array_equal(sums, mine)


def test_shards_that_failed_stay_failed(tmp_path):
    X = np.random.default_rng(0).uniform(size=(40, Encoder(TWO).n_features))
    y = np.where(np.arange(40) == 0, "yes", "no")
    model = PrivateVotingClassifier(SVC(), 1.0, TWO.classes, n_shards=5).fit(X, y)
    assert sum(each is None for each in model.law_.ensemble.models) == 4
    save_model(tmp_path / "m", model, TWO, signing_key=KEY)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert [m is None for m in loaded.predictor.law_.ensemble.models] == [
        m is None for m in model.law_.ensemble.models
    ]


# What is not trusted


def own_code(X):
    return X


UNTRUSTED = {
    "a function": make_pipeline(FunctionTransformer(own_code), SVC()),
    "compiled trees": KNeighborsClassifier(3, algorithm="kd_tree"),
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_types_that_are_not_trusted_are_named_and_not_stored(name, tmp_path):
    model, _ = fit(
        TWO, PrivateVotingClassifier(UNTRUSTED[name], 0.5, TWO.classes, n_shards=3)
    )
    with pytest.raises(ModelFileError, match="not trusted"):
        save_model(tmp_path / "m", model, TWO, signing_key=KEY)
    assert not (tmp_path / "m").exists()


def test_models_that_want_names_of_columns_are_refused(tmp_path):
    import pandas as pd

    table = table_for(TWO)
    X = Encoder(TWO).transform(table)
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    model = PrivateVotingClassifier(SVC(), 0.5, TWO.classes, n_shards=3)
    model.fit(frame, TWO.classes[table.label])
    with pytest.raises(ModelFileError, match="columns with names"):
        save_model(tmp_path / "m", model, TWO, signing_key=KEY)


def test_without_skops_it_is_said_what_to_install(monkeypatch, tmp_path):
    import sys

    model, _ = voting("svc")
    for name in [n for n in sys.modules if n.split(".")[0] == "skops"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ModelFileError, match=r"reticent\[pipelines\]"):
        save_model(tmp_path / "m", model, TWO, signing_key=KEY)


# Hostile files, signed by the owner


@pytest.fixture
def folder(tmp_path):
    model, _ = voting("svc")
    save_model(tmp_path / "m", model, TWO, signing_key=KEY)
    return tmp_path / "m"


def replaced(folder, files):
    """Put these bytes in the place of the models, with hashes and signature."""
    content = np.frombuffer(b"".join(files), dtype=np.int8)
    ends = np.cumsum([len(file) for file in files], dtype=np.int64)

    def change(manifest):
        manifest["arrays"]["models"]["shape"] = [len(content)]
        manifest["arrays"]["ends"]["shape"] = [len(ends)]

    files = {"models.npy": npy(content), "ends.npy": npy(ends)}
    forge(folder, change, files)


def evil_skops(mark):
    """A skops file that names a function to call."""
    good = skops.io.dumps(SVC())
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as source, zipfile.ZipFile(out, "w") as to:
        schema = json.loads(source.read("schema.json"))
        schema["__class__"], schema["__module__"] = "mkdir", "os"
        schema["__loader__"] = "ReduceNode"
        schema["content"] = {"reduce": [str(mark)]}
        to.writestr("schema.json", json.dumps(schema))
    return out.getvalue()


def hostile_files(mark):
    svc = skops.io.dumps(SVC().fit([[0.0] * 6, [1.0] * 6], [0, 1]))
    return {
        "pickle": pickle.dumps(Payload(mark)),
        "a function to call": evil_skops(mark),
        "no zip": b"hello",
        "cut": svc[: len(svc) // 2],
        "an empty zip": b"PK\x05\x06" + bytes(18),
        "not a model": skops.io.dumps({"a": 1}),
        "not fitted": skops.io.dumps(SVC()),
        "other features": skops.io.dumps(SVC().fit([[0.0], [1.0]], [0, 1])),
        "a type of ours": skops.io.dumps(
            FunctionTransformer(own_code).fit([[0.0] * 6])
        ),
    }


@pytest.mark.parametrize("name", hostile_files("x"))
def test_hostile_models_run_nothing_even_if_they_are_signed(name, folder, tmp_path):
    mark = tmp_path / "executed"
    content = hostile_files(mark)[name]
    replaced(folder, [content] * 6)
    with pytest.raises(ModelFileError):
        load_model(folder, signing_key=KEY)
    assert not mark.exists()


def test_bytes_that_do_not_add_up_are_refused(folder):
    good = skops.io.dumps(SVC().fit([[0.0] * 6, [1.0] * 6], [0, 1]))
    replaced(folder, [good] * 5)  # a shard too few
    with pytest.raises(ModelFileError, match="do not fit together"):
        load_model(folder, signing_key=KEY)
    arrays = pack_models([None, None])
    for ends in ([5, 0], [0, 5], [-1, 0]):
        broken = {**arrays, "ends": np.array(ends, dtype=np.int64)}
        with pytest.raises(ModelFileError, match="do not fit together"):
            unpack_models(broken, n_shards=2, n_features=6)
    with pytest.raises(ModelFileError, match="arrays"):
        unpack_models({"models": arrays["models"]}, n_shards=2, n_features=6)


def test_what_somebody_else_signed_is_not_even_read(folder, monkeypatch):
    def never(*_, **__):
        raise AssertionError("it was read")

    monkeypatch.setattr(skops.io, "loads", never)
    monkeypatch.setattr(skops.io, "get_untrusted_types", never)
    with pytest.raises(ModelFileError, match="another key"):
        load_model(folder, signing_key=new_key())
    replaced(folder, [b"x"] * 6)
    path = folder / "models.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"y")
    with pytest.raises(ModelFileError, match="does not match its hash"):
        load_model(folder, signing_key=KEY)


def test_scalars_that_are_not_ours_are_refused(folder):
    def change(manifest):
        manifest["parameters"]["scalars"] = {"x": 1}

    forge(folder, change)
    with pytest.raises(ModelFileError, match="scalars"):
        load_model(folder, signing_key=KEY)


# Over HTTP


def test_a_support_vector_machine_is_served(tmp_path):
    table, encoder = records(TRIAGE), Encoder(TRIAGE)
    base = make_pipeline(StandardScaler(), SVC())
    model = PrivateVotingClassifier(base, 0.5, TRIAGE.classes, n_shards=10)
    model.fit(encoder.transform(table), TRIAGE.classes[table.label])
    dataset = Dataset("clinic")
    path = tmp_path / "svc"
    save_model(path, model, TRIAGE, signing_key=MODEL_KEY, dataset=dataset)
    with clinic(settings_for(tmp_path, models={"svc": path})) as running:
        told = running.predict(ROW, {**ROW, "age": 3}, model="svc").json()
        assert set(told["answers"]) <= {"yes", "no"}
        assert told["charge"]["answers"] == 2
        again = running.predict(ROW, model="svc").json()
        assert again["charge"]["answers"] == 0


def test_ridge_is_still_stored_as_plain_arrays(tmp_path):
    number = PrivateAveragingRegressor(Ridge(), 0.5, bounds=(0, 50), n_shards=4)
    number, _ = fit(AMOUNT, number)
    save_model(tmp_path / "n", number, AMOUNT, signing_key=KEY)
    assert not (tmp_path / "n" / "models.npy").exists()
