"""Queries in canonical form, so that a repeated query is recognised."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError

_EXACT = 2**53


def canonical_rows(X: MatrixLike) -> list[bytes]:
    """Return one canonical byte string for each row of `X`.

    Two rows get the same string when every cell is equal: numbers by value (``-0.0``
    is ``0.0``, every NaN is one), text by its characters. Column names are part of
    the string, so the same numbers under other names are another question.
    """
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = [str(name) for name in X.columns]
        table = X.to_numpy()
    else:
        names = []
        table = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if table.ndim != 2:
        raise InvalidDataError(
            f"queries of shape {table.shape} must be rows and columns. Put a single "
            "row into brackets: [row]."
        )
    head = hashlib.sha256(json.dumps(names).encode()).digest()[:8]
    # Different whole numbers beyond 2^53 may be the same float, so we use their digits.
    exact = table.dtype.kind not in "iu" or (np.abs(table) <= _EXACT).all()
    if table.dtype.kind in "biuf" and exact:
        numbers = np.ascontiguousarray(table, dtype=np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        width = numbers.shape[1] * numbers.itemsize
        flat = numbers.tobytes()
        return [
            head + flat[start : start + width]
            for start in range(0, len(numbers) * width, width)
        ]
    return [head + _text(row) for row in table.tolist()]


def _text(row: list[Any]) -> bytes:
    return json.dumps([_cell(value) for value in row]).encode()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int) and abs(value) > _EXACT:
        return f"int:{value}"
    if isinstance(value, (int, float)):
        number = float(value)
        if number != number:
            return None
        return number + 0.0 if number == value else str(value)
    return f"{type(value).__name__}:{value}"
