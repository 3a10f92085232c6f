"""A stored release and its certificate belong together, number by number.

Whoever holds the signing key vouches for a model. So that no slip passes for a vouched
promise, every number of the certificate and of the release is tied to another one: one
that is changed alone is refused, even if the manifest is signed again.
"""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from reticent.errors import CertificateError, ModelFileError, ReticentError
from reticent.learners import (
    BestSubsetRegressor,
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    PrivateTabularClassifier,
)
from reticent.schemas import Encoder
from reticent.storage import load_model, released, save_model
from tests.storage.workshop import (
    AMOUNT,
    KEY,
    THREE,
    TWO,
    forge,
    sign,
    table_for,
    write,
)

CLASSES, BOUNDS = TWO.classes.tolist(), (0, 50)
RELEASES = {
    "output": (TWO, OutputPerturbationClassifier(5.0, norm_bound=2.0, classes=CLASSES)),
    "output Gaussian": (
        TWO,
        OutputPerturbationClassifier(5.0, delta=1e-5, norm_bound=2.0, classes=CLASSES),
    ),
    "output number": (
        AMOUNT,
        OutputPerturbationRegressor(5.0, norm_bound=2.0, bounds=BOUNDS),
    ),
    "objective": (
        TWO,
        ObjectivePerturbationClassifier(5.0, norm_bound=2.0, classes=CLASSES),
    ),
    "objective number": (
        AMOUNT,
        ObjectivePerturbationRegressor(5.0, norm_bound=2.0, bounds=BOUNDS),
    ),
    "gradients": (TWO, NoisyGradientClassifier(5.0, delta=1e-5, classes=CLASSES)),
    "gradients, three labels": (
        THREE,
        NoisyGradientClassifier(5.0, delta=1e-5, classes=THREE.classes.tolist()),
    ),
    "gradients number": (
        AMOUNT,
        NoisyGradientRegressor(5.0, delta=1e-5, bounds=BOUNDS),
    ),
    "table": (
        TWO,
        PrivateTabularClassifier(
            5.0, columns=list(TWO.columns.values()), classes=CLASSES
        ),
    ),
    "subset number": (AMOUNT, BestSubsetRegressor(5.0, bounds=BOUNDS)),
}


def stored(name, folder, *, concentrated=False):
    schema, model = RELEASES[name]
    style = "ordinal" if name == "table" else "dense"
    table, encoder = table_for(schema), Encoder(schema, style=style)
    y = table.label if schema == AMOUNT else schema.classes[table.label]
    model.fit(encoder.transform(table), y)
    save_model(
        folder,
        model,
        schema,
        encoder=encoder,
        signing_key=KEY,
        concentrated=concentrated,
    )
    return json.loads((folder / "manifest.json").read_bytes())


def leaves(data, path=()):
    """Yield the place and value of every number, flag and text of a JSON document."""
    if isinstance(data, dict | list):
        pairs = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in pairs:
            yield from leaves(value, (*path, key))
    else:
        yield path, data


def others(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value + 1]
    if isinstance(value, float):
        return [2 * value + 1e-3, value / 2, float(np.nextafter(value, np.inf))]
    return [1] if value is None else [value + "x"]


def changes(manifest):
    """Yield every manifest in which one value of certificate or release is another."""
    for part in ("certificate", "parameters"):
        for path, value in leaves(manifest[part]):
            for other in others(value):
                if other == value:
                    continue
                changed = copy.deepcopy(manifest)
                place = changed[part]
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = other
                yield (part, *path, other), changed


def accepted(folder, manifest):
    """Return the changes that a model is loaded in spite of, signed each time."""
    found = []
    for name, changed in changes(manifest):
        write(folder / "manifest.json", json.dumps(changed).encode())
        sign(folder)
        try:
            load_model(folder, signing_key=KEY)
        except (ModelFileError, CertificateError):
            continue
        except ReticentError as error:
            raise AssertionError(name) from error
        found.append(name)
    return found


@pytest.mark.parametrize("name", RELEASES)
def test_no_number_can_be_changed_alone(name, tmp_path):
    manifest = stored(name, tmp_path / "m")
    assert load_model(tmp_path / "m", signing_key=KEY).n_units == 480
    assert accepted(tmp_path / "m", manifest) == []


@pytest.mark.parametrize("name", ["gradients", "table"])
def test_a_concentrated_certificate_is_tied_too(name, tmp_path):
    manifest = stored(name, tmp_path / "m", concentrated=True)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert "zCDP" in loaded.certificate.headline()
    assert accepted(tmp_path / "m", manifest) == []


def test_without_the_ties_other_details_would_pass(tmp_path, monkeypatch):
    manifest = stored("gradients", tmp_path / "m")
    monkeypatch.setattr(released, "_check_ties", lambda *_: None)
    names = {name[-2] for name in accepted(tmp_path / "m", manifest)}
    assert {"scale", "grid", "steps", "n_units"} <= names


def test_the_certificate_of_another_release_is_refused(tmp_path):
    """Same people, same learner, same epsilon; only the noise differs."""
    stored("output", tmp_path / "m")
    other = stored("output Gaussian", tmp_path / "o")
    forge(tmp_path / "m", lambda m: m.update(certificate=other["certificate"]))
    with pytest.raises(ModelFileError, match="not the one that the release was stored"):
        load_model(tmp_path / "m", signing_key=KEY)


def test_a_certificate_about_fewer_coefficients_is_refused(tmp_path):
    stored("output number", tmp_path / "m")
    small = stored("subset number", tmp_path / "o")

    def swap(manifest):
        manifest["certificate"] = small["certificate"]
        manifest["parameters"]["certificate"] = small["parameters"]["certificate"]

    forge(tmp_path / "m", swap)
    with pytest.raises(ModelFileError, match="fewer coefficients"):
        load_model(tmp_path / "m", signing_key=KEY)
