"""What validation and public encoding cost, against the same work without them.

Every result is a ratio within one run. One request: validating and encoding a row over
parsing its JSON. Many rows: encoding over scikit-learn's fitted ColumnTransformer, and
reading a file with validation over polars reading it without. Prints one JSON object.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from reticent.datasets import load_adult_sample
from reticent.schemas import Encoder, Numeric, read_batches, read_table

SIZES = {"small": 5_000, "medium": 50_000, "large": 500_000}
REPEATS = 7


def median_seconds(function: Callable[[], Any], calls: int = 1) -> float:
    function()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(calls):
            function()
        times.append((time.process_time() - start) / calls)
    return statistics.median(times)


def compared(
    ours: Callable[[], Any], plain: Callable[[], Any], calls: int = 1
) -> dict[str, float]:
    mine, theirs = median_seconds(ours, calls), median_seconds(plain, calls)
    return {"seconds": mine, "plain_seconds": theirs, "ratio": mine / theirs}


def bench_request(n_rows: int) -> dict[str, float]:
    columns, schema = load_adult_sample()
    encoder = Encoder(schema)
    rows = [
        {name: columns[name].tolist()[i] for name in schema.columns}
        for i in range(n_rows)
    ]
    body = json.dumps(rows)
    calls = max(1, 2_000 // n_rows)
    return compared(
        lambda: encoder.transform(schema.rows(rows)), lambda: json.loads(body), calls
    )


def tiled(size: int) -> tuple[pl.DataFrame, Any]:
    columns, schema = load_adult_sample()
    frame = pl.DataFrame({name: cells.tolist() for name, cells in columns.items()})
    return pl.concat([frame] * (size // frame.height)), schema


def bench_encoding(size: int) -> dict[str, float]:
    frame, schema = tiled(size)
    table = schema.table(frame)
    encoder = Encoder(schema)
    numeric = [n for n, spec in schema.columns.items() if isinstance(spec, Numeric)]
    others = [n for n in schema.columns if n not in numeric]
    pandas = frame.to_pandas()
    theirs = make_column_transformer(
        (MinMaxScaler((-1, 1)), numeric),
        (OneHotEncoder(sparse_output=False), others),
    ).fit(pandas)
    return compared(lambda: encoder.transform(table), lambda: theirs.transform(pandas))


def bench_reading(size: int, ending: str) -> dict[str, float]:
    frame, schema = tiled(size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"adult.{ending}"
        if ending == "csv":
            frame.write_csv(path)
            plain = pl.read_csv
        else:
            frame.write_parquet(path)
            plain = pl.read_parquet
        result = compared(lambda: read_table(path, schema), lambda: plain(path))
        tracemalloc.start()
        n_rows = sum(len(batch) for batch in read_batches(path, schema))
        result["batch_peak_bytes"] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        result["rows_per_second"] = n_rows / result["seconds"]
        result["megabytes"] = path.stat().st_size / 1e6
    return result


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    size = SIZES["medium" if quick else "large"]
    print(
        json.dumps(
            {
                "one row in a request": bench_request(1),
                "1000 rows in a request": bench_request(1_000),
                "encoding": bench_encoding(SIZES["small"] if quick else 50_000),
                "reading csv": bench_reading(size, "csv"),
                "reading parquet": bench_reading(size, "parquet"),
                "rows": size,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
