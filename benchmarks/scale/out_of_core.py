"""A table larger than memory: fit a vote of linear models on it, shard by shard.

Rows are generated into a Parquet file, then read, validated, encoded, dealt to shards
and trained in a process of its own, whose resident memory is sampled (children
included). A first part of the table is also fitted in memory with the same seed, and
both ways must give the same models to the last bit.

    python -m benchmarks.scale.out_of_core [--rows 100000000] [--shards 1000] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Encoder,
    Numeric,
    Schema,
    read_batches,
    read_table,
)

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "scale.json"
CACHE = HERE.parent / "cache"
GROUP = 1_000_000
BATCH = 262_144
LIMIT = 4 * 2**30
WEIGHTS = np.array([1.5, -1.0, 0.5, 0.25, 0.0], dtype=np.float32)
SCHEMA = Schema(
    {
        **{f"x{k}": Numeric(-4.0, 4.0, outside="clip") for k in range(5)},
        "ward": Categorical([0, 1, 2]),
    },
    label=ClassLabel("ill", [0, 1]),
)


def generate(path: Path, rows: int) -> float:
    """Write `rows` rows of a known logistic law; return the seconds it took."""
    start = time.perf_counter()
    random = np.random.default_rng(2026)
    names = [*(f"x{k}" for k in range(5)), "ward", "ill"]
    kinds = [pa.float32()] * 5 + [pa.int8()] * 2
    fields = pa.schema(list(zip(names, kinds, strict=True)))
    with parquet.ParquetWriter(path, fields, compression="none") as writer:
        for first in range(0, rows, GROUP):
            n = min(GROUP, rows - first)
            X = random.standard_normal((n, 5), dtype=np.float32)
            ward = random.integers(0, 3, n, dtype=np.int8)
            margin = X @ WEIGHTS + 0.5 * (ward == 2)
            ill = random.random(n, dtype=np.float32) < 1 / (1 + np.exp(-margin))
            columns = [*X.T, ward, ill.astype(np.int8)]
            writer.write_table(pa.table(dict(zip(names, columns, strict=True)), fields))
    return time.perf_counter() - start


def batches(path: Path, encoder: Encoder) -> Iterator[tuple[Any, Any]]:
    for table in read_batches(path, SCHEMA, rows=BATCH):
        yield encoder.transform(table), table.label


def voters(shards: int, seed: int | None = None) -> PrivateVotingClassifier:
    return PrivateVotingClassifier(
        LogisticRegression(), 1.0, [0, 1], n_shards=shards, random_state=seed, n_jobs=2
    )


def fit(path: Path, shards: int, scratch: Path) -> None:
    """Fit the whole file and print what it took: the measured process."""
    process = psutil.Process()
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            family = [process, *process.children(recursive=True)]
            peak[0] = max(peak[0], sum(_resident(member) for member in family))

    watcher = threading.Thread(target=watch)
    idle = process.memory_info().rss
    watcher.start()
    start, worked = time.perf_counter(), time.process_time()
    model = voters(shards).fit_batches(batches(path, Encoder(SCHEMA)), scratch)
    took, worked = time.perf_counter() - start, time.process_time() - worked
    done.set()
    watcher.join()
    weights = model.ensemble_.fusion.models.weights[:, 0]
    scaled = 4 * WEIGHTS  # the encoder maps [-4, 4] to [-1, 1]
    print(
        json.dumps(
            {
                "seconds": took,
                "processor seconds": worked,
                "peak resident bytes": peak[0],
                "resident bytes before": idle,
                "units": model.n_units_,
                "shards": model.n_shards_,
                "certificate": model.certificate_.headline(),
                "largest error of an average weight": float(
                    np.abs(weights[:, :5].mean(axis=0) - scaled).max()
                ),
            }
        )
    )


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def same_in_memory(path: Path, rows: int, shards: int, scratch: Path) -> bool:
    """Whether the first rows give the same models in memory and out of core."""
    part = path.with_suffix(".part.parquet")
    with parquet.ParquetFile(path) as file:
        table = pa.Table.from_batches(
            [next(file.iter_batches(batch_size=min(rows, GROUP)))]
        )
    parquet.write_table(table, part)
    encoder = Encoder(SCHEMA)
    whole = read_table(part, SCHEMA)
    memory = voters(shards, seed=1).fit(encoder.transform(whole), whole.label)
    disk = voters(shards, seed=1).fit_batches(batches(part, encoder), scratch)
    part.unlink()
    one, other = (m.ensemble_.fusion.models for m in (memory, disk))
    return bool(
        np.array_equal(one.weights, other.weights)
        and np.array_equal(one.intercepts, other.intercepts)
        and np.array_equal(one.shards, other.shards)
        and memory.certificate_ == disk.certificate_
    )


def measure(rows: int, shards: int, folder: Path) -> dict[str, Any]:
    path = folder / f"scale-{rows}.parquet"
    try:
        generated = generate(path, rows)
        size = path.stat().st_size
        command = [sys.executable, "-m", "benchmarks.scale.out_of_core", "--fit"]
        command += [str(path), "--shards", str(shards), "--folder", str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        fitted = json.loads(done.stdout.splitlines()[-1])
        identical = same_in_memory(path, min(rows, GROUP), shards, folder)
    finally:
        path.unlink(missing_ok=True)
    return {
        "rows": rows,
        "columns": SCHEMA.n_columns,
        "file bytes": size,
        "seconds to generate": generated,
        **fitted,
        "rows a second": rows / fitted["seconds"],
        "limit in bytes": LIMIT,
        "identical to memory on the first million rows": identical,
        "machine": {"processors": os.cpu_count(), "python": platform.python_version()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--shards", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, default=CACHE, help="for rows on disk")
    parser.add_argument("--quick", action="store_true", help="two million rows")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    if asked.fit:
        fit(asked.fit, asked.shards, asked.folder)
        return 0
    rows = 2 * 10**6 if asked.quick else asked.rows
    result = measure(rows, asked.shards, asked.folder)
    print(json.dumps(result, indent=2))
    if rows == 10**8:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    kept = result["peak resident bytes"] <= LIMIT
    same = result["identical to memory on the first million rows"]
    return 0 if kept and same else 1


if __name__ == "__main__":
    sys.exit(main())
