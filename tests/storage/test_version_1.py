"""Models stored in format version 1 answer as they did, under the same names.

The directories in `version_1` were written by the last reticent with that format, and
`answers.json` says what it answered.
"""

import hashlib
import json
import math
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from reticent.errors import ModelFileError
from reticent.guarantees import Certificate, recheck
from reticent.ledger import Charge
from reticent.storage import load_model, save_model
from tests.storage.workshop import KEY, forge

STORED = Path(__file__).parent / "version_1"
WRITTEN = json.loads((STORED / "answers.json").read_text(encoding="utf-8"))
MODELS = WRITTEN["models"]
OLD_KEY = WRITTEN["signing_key"]
# Of a probability in floating point, and of its logarithm.
ROUNDING = Fraction(1, 2**48)


def copied(name, folder):
    """Copy a directory to where only its owner can read it."""
    folder.mkdir(mode=0o700)
    for path in (STORED / name).iterdir():
        shutil.copy(path, folder / path.name)
        (folder / path.name).chmod(0o600)
    return folder


def loaded(name, tmp_path):
    return load_model(copied(name, tmp_path / "old"), signing_key=OLD_KEY)


def test_every_kind_is_among_them():
    from reticent.storage import storable_kinds

    later = {
        f"{family}-{task}"
        for family in ("neighbors", "private-tabular")
        for task in ("classifier", "regressor")
    }
    kinds = set(storable_kinds()) - later
    assert {model["kind"] for model in MODELS.values()} == kinds
    versions = {
        json.loads(path.read_bytes())["version"]
        for path in STORED.glob("*/manifest.json")
    }
    assert versions == {1}


@pytest.mark.parametrize("name", MODELS)
def test_ids_promises_and_queries_are_what_they_were(name, tmp_path):
    model, before = loaded(name, tmp_path), MODELS[name]
    assert model.id == before["id"]
    assert model.kind == before["kind"]
    assert model.certificate.id == before["certificate"]
    assert model.certificate.headline() == before["headline"]
    recheck(model.certificate)
    table = model.schema.rows(before["rows"])
    assert [query.hex() for query in model.queries(table)] == before["queries"]


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_what_they_were(name, tmp_path):
    model, before = loaded(name, tmp_path), MODELS[name]
    table = model.schema.rows(before["rows"])
    compared = 0
    if "votes" in before:
        assert model.votes(table).tolist() == before["votes"]
        compared += 1
    if "answers" in before:
        answers = [answer.decode() for answer in model.answer_json(table)]
        assert answers == before["answers"]
        compared += 1
    if model.charged:
        law = model.predictor.response(model.encoder.transform(table))
        if "location" in before:
            np.testing.assert_array_equal(law.location, before["location"])
            compared += 1
        if "probabilities" in before:
            # Labels are drawn from whole numbers, exactly. Probabilities are for
            # display: NumPy's exp and log may differ in the last place between CPUs.
            np.testing.assert_allclose(
                law.probabilities, before["probabilities"], rtol=2.0**-49, atol=0
            )
            for row, shown in enumerate(before["probabilities"]):
                for (low, high), chance in zip(law.exact(row), shown, strict=True):
                    assert low - ROUNDING <= Fraction(math.log(chance))
                    assert Fraction(math.log(chance)) <= high + ROUNDING
            compared += 1
        if "scale" in before:
            assert law.scale == before["scale"]
            compared += 1
        assert len(model.answer(table)) == len(table)
    assert compared


@pytest.mark.parametrize("name", MODELS)
def test_parameters_go_by_their_new_names(name, tmp_path):
    model = loaded(name, tmp_path)
    names = {key for node in model.certificate.walk() for key, _ in node.details}
    assert "public_labels" not in names
    assert "labels_from_data" in names
    text = model.certificate.to_json()
    assert "public_labels" not in text
    assert Certificate.from_json(text) == model.certificate


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_version_1_can_be_stored_in_the_new_format(name, tmp_path):
    model = loaded(name, tmp_path)
    save_model(
        tmp_path / "new",
        model.predictor,
        model.schema,
        encoder=model.encoder,
        signing_key=KEY,
    )
    again = load_model(tmp_path / "new", signing_key=KEY)
    assert again.certificate == model.certificate
    assert again.id != model.id
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_bytes())
    assert manifest["version"] == 2


def test_a_charge_is_recognised_that_was_made_under_the_old_name(tmp_path):
    # Releases that were paid for, and remembered answers, are filed under the charge.
    name = "released-linear-classifier"
    model = loaded(name, tmp_path)
    assert Charge.of(model.certificate).certificate == MODELS[name]["certificate"]
    data = json.loads((STORED / name / "manifest.json").read_bytes())["certificate"]
    told = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert "public_labels" in told
    assert hashlib.sha256(told.encode()).hexdigest()[:32] == model.certificate.id
    other = json.loads(told.replace('"public_labels":true', '"public_labels":false'))
    assert Certificate.from_dict(other).id != model.certificate.id


def test_a_parameter_that_has_both_names_is_refused(tmp_path):
    folder = copied("voting-linear", tmp_path / "old")

    def twice(manifest):
        manifest["certificate"]["details"]["labels_from_data"] = False

    forge(folder, twice)
    with pytest.raises(ModelFileError, match="named twice"):
        load_model(folder, signing_key=KEY)


def test_names_of_both_formats_do_not_mix(tmp_path):
    def both(manifest):
        manifest["parameters"]["identity"] = "0" * 32
        manifest["version"] = 2

    folder = copied("voting-linear", tmp_path / "old")
    forge(folder, both)
    with pytest.raises(ModelFileError, match="parameters must be"):
        load_model(folder, signing_key=KEY)


def test_a_changed_promise_is_refused_in_version_1_too(tmp_path):
    def louder(manifest):
        manifest["parameters"]["parameter"] = 5.0

    folder = copied("voting-linear", tmp_path / "old")
    forge(folder)
    assert load_model(folder, signing_key=KEY).kind == "voting"
    forge(folder, louder)
    with pytest.raises(ValueError, match="not the one that follows"):
        load_model(folder, signing_key=KEY)
