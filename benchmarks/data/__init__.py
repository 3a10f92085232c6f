"""The public data sets of the benchmarks, encoded by their public schema."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from reticent.schemas import Categorical, Encoder, Numeric, Schema

HERE = Path(__file__).parent
#: Public facts about the columns: ranges and levels, from codebooks.
SCHEMA = HERE / "schema.json"
CACHE = HERE.parent / "cache"
TRANSFORMS = {"slog1p": "signed_log1p"}
#: Where the data are looked for, first match wins.
PLACES = [
    Path(os.environ.get("RETICENT_DATA", CACHE)),
    CACHE,
    HERE.parents[2] / "shared" / "data",
]


@dataclass(frozen=True)
class Task:
    """One data set with declared bounds and levels.

    `raw` holds numbers and category codes, for trees; `encoded` has numbers scaled to
    [0, 1] by their public range and one column a level, for linear models.
    """

    name: str
    raw: np.ndarray
    encoded: np.ndarray
    categorical: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Columns:
    """One data set as numbers and codes of levels, with declared facts.

    `X` keeps missing values as NaN; labels of `y` are 0, 1, 2, ...
    """

    name: str
    schema: Schema
    frame: pd.DataFrame
    X: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray
    bounds: tuple[float, float] | None = None

    @property
    def n_labels(self) -> int:
        return int(self.y.max()) + 1

    def scaled(self) -> np.ndarray:
        """Return numbers scaled to [0, 1] by their range, and one column per level."""
        table = self.schema.table(self.frame, name=self.name)
        return np.nan_to_num(Encoder(self.schema, scale="unit").transform(table))


def own_folder() -> Path:
    """Return where fetched data are kept."""
    return PLACES[0]


def document(name: str) -> dict:
    """Return the public facts about a data set."""
    return json.loads(SCHEMA.read_text("utf-8"))[name]


def folder(name: str = "adult") -> Path:
    """Return the first place that has a data set."""
    for place in PLACES:
        if all((place / file).exists() for file in document(name)["files"].values()):
            return place
    raise SystemExit(
        f"the benchmark data are not here: {name}; looked in "
        + ", ".join(str(place) for place in PLACES)
        + ". Fetch them with `python -m benchmarks.data`, or set RETICENT_DATA."
    )


def read(name: str) -> list[pd.DataFrame]:
    """Return the tables of a data set, its training rows first."""
    files, place = document(name)["files"].values(), folder(name)
    return [pd.read_parquet(place / file) for file in files]


def load(name: str, *, seed: int = 0) -> Task:
    """Load a data set; sets without a published split get a random one by `seed`."""
    schema, parts = document(name), read(name)
    frame = pd.concat(parts, ignore_index=True)
    raw, encoded, categorical = _encode(frame, schema["features"])
    target = frame[schema["target"]]
    bounds = None
    if schema["task"] == "regression":
        y = target.to_numpy(float)
        bounds = (float(schema["target_lo"]), float(schema["target_hi"]))
    else:
        y = (target.astype(str) == str(schema["positive"])).to_numpy(int)
    if len(parts) > 1:
        train, test = np.arange(len(parts[0])), np.arange(len(parts[0]), len(frame))
    else:
        order = np.random.default_rng(seed).permutation(len(frame))
        cut = len(frame) * 2 // 3
        train, test = order[:cut], order[cut:]
    return Task(name, raw, encoded, categorical, y, train, test, bounds)


def load_columns(name: str, *, all_labels: bool = False, seed: int = 0) -> Columns:
    """Load a data set for models that take columns as they are declared.

    `all_labels` keeps every label of a target, not one against all others.
    """
    task = load(name, seed=seed)
    schema, frame, target = declared(name)
    y = pd.factorize(target, sort=True)[0] if all_labels else task.y
    X = Encoder(schema, style="ordinal").transform(schema.table(frame, name=name))
    return Columns(name, schema, frame, X, y, task.train, task.test, task.bounds)


def declared(name: str) -> tuple[Schema, pd.DataFrame, pd.Series]:
    """Return the declared schema, the rows as it wants them, and the target."""
    facts = document(name)
    frame = pd.concat(read(name), ignore_index=True)
    columns, values = {}, {}
    for name, column in facts["features"].items():
        if column["kind"] == "categorical":
            columns[name] = Categorical([str(level) for level in column["values"]])
            values[name] = frame[name].astype(str)
            continue
        kind = column.get("transform", "none")
        columns[name] = Numeric(
            column["lo"],
            column["hi"],
            transform=TRANSFORMS.get(kind, kind),
            missing=bool(frame[name].isna().any()),
        )
        values[name] = frame[name].astype(float)
    return Schema(columns), pd.DataFrame(values), frame[facts["target"]]


def _encode(frame: pd.DataFrame, features: dict) -> tuple:
    raw, encoded, categorical = [], [], []
    for name, column in features.items():
        values = frame[name]
        if column["kind"] == "categorical":
            levels = [str(level) for level in column["values"]]
            text = values.astype(str)
            codes = text.map({level: i for i, level in enumerate(levels)})
            raw.append(codes.to_numpy(float))
            encoded += [(text == level).to_numpy(float) for level in levels]
            categorical.append(True)
            continue
        numbers = values.to_numpy(float)
        low, high = float(column["lo"]), float(column["hi"])
        raw.append(np.clip(numbers, low, high))
        if column.get("transform") == "log1p":
            numbers, low, high = np.log1p(numbers), np.log1p(low), np.log1p(high)
        scaled = np.clip((numbers - low) / (high - low), 0, 1)
        encoded.append(np.nan_to_num(scaled, nan=0.5))
        categorical.append(False)
    return np.column_stack(raw), np.column_stack(encoded), np.array(categorical)
