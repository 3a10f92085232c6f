"""Small models to store, and tools to forge their directories with the right key."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from reticent.learners import (
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Encoder,
    Numeric,
    NumericTarget,
    Schema,
    Table,
)
from reticent.signing import new_key, signer_of

KEY = new_key()
COLUMNS = {
    "age": Numeric(0, 100),
    "dose": Numeric(0, 10, missing=True),
    "ward": Categorical(["a", "b", "c"]),
}
TWO = Schema(COLUMNS, label=ClassLabel("ill", ["no", "yes"]))
THREE = Schema(COLUMNS, label=ClassLabel("stage", ["none", "mild", "grave"]))
AMOUNT = Schema(COLUMNS, label=NumericTarget("cost", 0, 50))
# So many rows a shard that none ever lacks a label.
N_ROWS, N_SHARDS = 480, 12


def table_for(schema: Schema) -> Table:
    """Return labelled rows; the label follows from age and ward."""
    draw = np.random.default_rng(3)
    age, ward = draw.uniform(0, 100, N_ROWS), draw.integers(0, 3, N_ROWS)
    dose = draw.uniform(0, 10, N_ROWS)
    dose[::7] = np.nan
    score = age / 10 + 2 * ward + draw.normal(0, 1, N_ROWS)
    columns: dict[str, Any] = {
        "age": age,
        "dose": dose,
        "ward": np.array(["a", "b", "c"], dtype=object)[ward],
    }
    if schema == AMOUNT:
        columns["cost"] = np.clip(3 * score, 0, 50)
    elif schema == TWO:
        columns["ill"] = np.array(["no", "yes"], dtype=object)[(score > 7).astype(int)]
    else:
        stage = (score > 5).astype(int) + (score > 9)
        columns["stage"] = np.array(["none", "mild", "grave"], dtype=object)[stage]
    return schema.table(columns, labelled=True)


def logistic() -> Any:
    return LogisticRegression(max_iter=200)


CASES: dict[str, tuple[Schema, str, Callable[[], Any]]] = {
    "voting-linear": (
        TWO,
        "dense",
        lambda: PrivateVotingClassifier(
            logistic(), 0.5, TWO.classes, n_shards=N_SHARDS
        ),
    ),
    "voting-scaled-three": (
        THREE,
        "dense",
        lambda: PrivateVotingClassifier(
            make_pipeline(StandardScaler(), logistic()),
            0.5,
            THREE.classes,
            n_shards=N_SHARDS,
            rule="soft",
        ),
    ),
    "voting-trees": (
        THREE,
        "ordinal",
        lambda: PrivateVotingClassifier(
            DecisionTreeClassifier(max_depth=3, random_state=0),
            0.5,
            THREE.classes,
            n_shards=N_SHARDS,
        ),
    ),
    "voting-gaussian": (
        TWO,
        "ordinal",
        lambda: PrivateVotingClassifier(
            DecisionTreeClassifier(max_depth=2, random_state=0),
            0.5,
            TWO.classes,
            n_shards=N_SHARDS,
            rule="gaussian",
            delta=1e-6,
        ),
    ),
    "averaging-two": (
        TWO,
        "dense",
        lambda: PrivateAveragingClassifier(
            logistic(), 0.5, TWO.classes, n_shards=N_SHARDS
        ),
    ),
    "averaging-three": (
        THREE,
        "dense",
        lambda: PrivateAveragingClassifier(
            logistic(), 0.5, THREE.classes, n_shards=N_SHARDS, delta=1e-6
        ),
    ),
    "released-two": (
        TWO,
        "dense",
        lambda: OutputPerturbationClassifier(
            5.0, norm_bound=2.0, classes=TWO.classes.tolist()
        ),
    ),
    "released-number": (
        AMOUNT,
        "dense",
        lambda: OutputPerturbationRegressor(5.0, norm_bound=2.0, bounds=(0, 50)),
    ),
    "released-table-three": (
        THREE,
        "ordinal",
        lambda: PrivateTabularClassifier(
            50.0, columns=list(COLUMNS.values()), classes=THREE.classes.tolist()
        ),
    ),
    "released-table-pure": (
        TWO,
        "ordinal",
        lambda: PrivateTabularClassifier(
            50.0, delta=0, columns=list(COLUMNS.values()), classes=TWO.classes.tolist()
        ),
    ),
    "released-table-number": (
        AMOUNT,
        "ordinal",
        lambda: PrivateTabularRegressor(
            5.0, columns=list(COLUMNS.values()), bounds=(0, 50), relation="zero-out"
        ),
    ),
    "averaging-number": (
        AMOUNT,
        "dense",
        lambda: PrivateAveragingRegressor(
            Ridge(), 0.5, bounds=(0, 50), n_shards=N_SHARDS
        ),
    ),
    "averaging-number-trees": (
        AMOUNT,
        "ordinal",
        lambda: PrivateAveragingRegressor(
            DecisionTreeRegressor(max_depth=3, random_state=0),
            0.5,
            bounds=(0, 50),
            n_shards=N_SHARDS,
            delta=1e-6,
        ),
    ),
}


@functools.cache
def fitted(case: str) -> tuple[Any, Encoder, Table]:
    """Return a fitted model with its encoder and training rows."""
    schema, style, build = CASES[case]
    table, encoder = table_for(schema), Encoder(schema, style=style)
    X = encoder.transform(table)
    y = table.label if schema == AMOUNT else schema.classes[table.label]
    return build().fit(X, y), encoder, table


def sign(folder: Path, key: str = KEY) -> None:
    """Sign whatever the manifest says now."""
    from reticent.storage.manifests import signature_bytes

    manifest = (folder / "manifest.json").read_bytes()
    write(folder / "manifest.sig", signature_bytes(manifest, signer_of(key)))


def write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def forge(
    folder: Path,
    change: Callable[[dict[str, Any]], None] = lambda manifest: None,
    files: dict[str, bytes] | None = None,
) -> None:
    """Change the manifest and files; repair hashes and the signature."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for name, content in (files or {}).items():
        write(folder / name, content)
        known = manifest["arrays"].get(name.removesuffix(".npy"))
        if known is not None:
            known["sha256"] = hashlib.sha256(content).hexdigest()
    change(manifest)
    write(folder / "manifest.json", json.dumps(manifest).encode())
    sign(folder)
