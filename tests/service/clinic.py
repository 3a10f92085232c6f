"""A small clinic: models on disk, settings, and a client that talks to the service."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from sklearn.linear_model import LogisticRegression

from reticent.home import MemoryKeys, Role, Settings
from reticent.ledger import Ledger, MemoryLedger
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Encoder,
    Numeric,
    NumericTarget,
    Schema,
)
from reticent.service import create_app
from reticent.signing import new_key
from reticent.storage import Dataset, save_model
from tests.service.local_client import LocalClient, local_client

MODEL_KEY, SECRET = new_key(), new_key()
COLUMNS = {
    "age": Numeric(0, 100),
    "dose": Numeric(0, 10, missing=True),
    "ward": Categorical(["a", "b", "c"]),
    "smokes": Categorical([False, True]),
    "floor": Categorical([0, 1, 2], missing=True),
}
TRIAGE = Schema(COLUMNS, label=ClassLabel("ill", ["no", "yes"]))
COST = Schema(COLUMNS, label=NumericTarget("cost", 0, 50))
ROW = {"age": 41, "dose": None, "ward": "b", "smokes": True, "floor": 2}
EPSILON = 0.5


def records(schema: Schema, *, neighbour: bool = False) -> Any:
    """Return training rows; the neighbour differs in one of them."""
    draw = np.random.default_rng(1)
    n = 300
    columns: dict[str, Any] = {
        "age": draw.uniform(0, 100, n),
        "dose": draw.uniform(0, 10, n),
        "ward": np.array(["a", "b", "c"], dtype=object)[draw.integers(0, 3, n)],
        "smokes": draw.integers(0, 2, n).astype(bool),
        "floor": draw.integers(0, 3, n),
    }
    score = columns["age"] / 10 + 3 * columns["smokes"] + draw.normal(0, 1, n)
    if schema == COST:
        columns["cost"] = np.clip(3 * score, 0, 50)
    else:
        columns["ill"] = np.where(score > 6, "yes", "no").astype(object)
    if neighbour:
        columns["age"][0] = 0.0
        last = schema.label.name if schema.label is not None else ""
        columns[last][0] = 50.0 if schema == COST else "yes"
    return schema.table(columns, labelled=True)


@functools.cache
def fitted(kind: str, *, neighbour: bool = False, epsilon: float = EPSILON) -> Any:
    """Return a fitted predictor; shards are dealt afresh, so keep the result."""
    from sklearn.linear_model import Ridge

    schema = COST if kind == "cost" else TRIAGE
    table, encoder = records(schema, neighbour=neighbour), Encoder(schema)
    X = encoder.transform(table)
    if kind == "cost":
        regressor = PrivateAveragingRegressor(
            Ridge(), epsilon, bounds=(0, 50), n_shards=10
        )
        return regressor.fit(X, table.label)
    shards = 150 if kind == "many" else 15
    base = LogisticRegression(max_iter=200)
    classifier = PrivateVotingClassifier(base, epsilon, TRIAGE.classes, shards)
    return classifier.fit(X, TRIAGE.classes[table.label])


def store(folder: Path, kind: str = "triage", **settings: Any) -> Path:
    """Save a model; return its directory."""
    dataset = settings.pop("dataset", Dataset("clinic"))
    schema = COST if kind == "cost" else TRIAGE
    path = folder / settings.pop("name", kind)
    model = fitted(kind, **settings)
    save_model(path, model, schema, signing_key=MODEL_KEY, dataset=dataset)
    return path


def settings_for(folder: Path, **given: Any) -> Settings:
    """Return settings for one model on one dataset, changed by what is given."""
    defaults: dict[str, Any] = {
        "datasets": {"clinic": {"epsilon": 50.0}},
        "client_budget": {"epsilon": 20.0},
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "checkpoints": "none",
        "secret": SECRET,
        "model_key": MODEL_KEY,
        "rate": 0,
        "secure_cookies": False,
    }
    if "models" not in given:
        path = folder / "triage"
        defaults["models"] = {"triage": path if path.exists() else store(folder)}
    return Settings(**{**defaults, **given})


@dataclass
class Clinic:
    """A running application with one analyst and one admin."""

    app: FastAPI
    http: LocalClient
    analyst: str
    admin: str

    @property
    def service(self) -> Any:
        return self.app.state.service

    def key(self, client: str, role: Role = Role.ANALYST, **settings: Any) -> str:
        """Make a key directly, with an account under the default cap."""
        from reticent.service.v1.admin import make_key
        from reticent.service.v1.documents import NewKey

        body = NewKey(client=client, role=role.value, **settings)
        return make_key(self.service, body, "the tests")[0]

    def predict(self, *rows: Any, key: str | None = None, **settings: Any) -> Any:
        """Ask for rows; the usual one if none is given."""
        model = settings.pop("model", "triage")
        headers = {"authorization": f"Bearer {key or self.analyst}"}
        if "idempotency" in settings:
            headers["idempotency-key"] = settings.pop("idempotency")
        return self.http.post(
            f"/v1/models/{model}/predict",
            json={"rows": list(rows) or [ROW]},
            headers=headers,
        )

    def get(self, path: str, key: str | None = None) -> Any:
        return self.http.get(path, headers={"x-api-key": key or self.analyst})


@contextmanager
def clinic(
    settings: Settings, *, ledger: Ledger | None = None, **collaborators: Any
) -> Iterator[Clinic]:
    """Run the application in this process; in memory unless a ledger is given."""
    keys = collaborators.pop("keys", None)
    app = create_app(
        settings,
        ledger=MemoryLedger() if ledger is None else ledger,
        keys=MemoryKeys() if keys is None else keys,
        **collaborators,
    )
    with local_client(app) as http:
        running = Clinic(app, http, "", "")
        running.admin = running.key("boss", Role.ADMIN)
        running.analyst = running.key("ward-7")
        yield running
