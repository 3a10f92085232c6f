"""The public data sets of the benchmarks, encoded by their public schema."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
#: Where the data are looked for, first match wins.
PLACES = [
    Path(os.environ.get("RETICENT_DATA", HERE / "cache")),
    HERE / "cache",
    HERE.parent.parent / "shared" / "data",
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


def folder() -> Path:
    for place in PLACES:
        if (place / "schema.json").exists():
            return place
    raise SystemExit(
        "the benchmark data are not here; looked in "
        + ", ".join(str(place) for place in PLACES)
        + ". Put the data sets and schema.json into benchmarks/cache, or set "
        "RETICENT_DATA."
    )


def load(name: str, *, seed: int = 0) -> Task:
    """Load a data set; sets without a published split get a random one by `seed`."""
    schema = json.loads((folder() / "schema.json").read_text())[name]
    parts = [pd.read_parquet(folder() / file) for file in schema["files"].values()]
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
