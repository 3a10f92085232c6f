"""What a table contains, as a checksum that no file format changes.

The checksum covers the columns that the schema names, in its order, and the target:
numbers as little-endian float64, everything else as text. Archives and Parquet files
differ in bytes from one version of a tool to the next; what is measured does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

Document = Mapping[str, Any]


def used_columns(document: Document) -> list[str]:
    return [*document["features"], document["target"]]


def content_of(frame: pd.DataFrame, document: Document) -> dict[str, Any]:
    """Return the number of rows, and checksums of the rows in order and in any order.

    The second is for sources that hold the same rows in another order.
    """
    columns = {name: _values(frame[name]) for name in used_columns(document)}
    keys = [_sortable(values) for values in columns.values()]
    order = np.lexsort(keys[::-1])
    return {
        "rows": len(frame),
        "in order": _digest(columns),
        "in any order": _digest({name: v[order] for name, v in columns.items()}),
    }


def _values(column: pd.Series) -> np.ndarray:
    if pd.api.types.is_numeric_dtype(column):
        numbers = column.to_numpy(dtype="<f8", na_value=np.nan)
        return np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, one zero
    return column.astype(str).to_numpy(dtype=object)


def _sortable(values: np.ndarray) -> np.ndarray:
    return (
        values if values.dtype != object else np.unique(values, return_inverse=True)[1]
    )


def _digest(columns: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name, values in columns.items():
        found.update(f"{name}\n".encode())
        if values.dtype == object:
            found.update("\n".join(values).encode())
        else:
            found.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return found.hexdigest()
