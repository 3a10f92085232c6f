"""Queries in canonical form, so that a repeated query is recognised."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError
from reticent.estimators import as_table

_EXACT = 2**53


def canonical_rows(X: MatrixLike) -> list[bytes]:
    """Return one canonical byte string for each row of `X`.

    Two rows get the same string only when every cell that the models see is equal:
    numbers by value (``-0.0`` is ``0.0``, every NaN is one), text by its characters.
    The number 1 is not the text "1". Column names are part of the string, so the same
    numbers under other names are another question.
    """
    names: list[Any] = []
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = _names(X)
        table = X.to_numpy()
    elif hasattr(X, "toarray"):
        table = X.toarray()
    else:
        table = np.asarray(X)
        if isinstance(X, (list, tuple)) and table.dtype.kind not in "biuf":
            # NumPy makes numbers next to a text into texts; models see the cells.
            table = as_table(X)
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
    kind = str(table.dtype) if table.dtype.kind in "mM" else ""
    return [head + _text(row, kind) for row in table.tolist()]


def _names(X: Any) -> list[Any]:
    """Return the names of a frame's columns, and the levels of categories."""
    kinds = getattr(X, "dtypes", [None] * len(X.columns))
    names: list[Any] = []
    for name, kind in zip(X.columns, kinds, strict=True):
        levels: list[Any] = getattr(
            getattr(kind, "categories", None), "to_list", list
        )()
        names.append([str(name), *map(_cell, levels)] if levels else str(name))
    return names


def _text(row: list[Any], kind: str) -> bytes:
    # Dates and durations come as whole numbers of some unit.
    cells = [[kind, str(value)] if kind else _cell(value) for value in row]
    return json.dumps(cells).encode()


def _cell(value: Any) -> Any:
    """Return a cell as JSON; what JSON does not have is a list, never a text."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) > _EXACT:
            return ["int", str(int(value))]
        number = float(value)
        return None if number != number else number + 0.0
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray):
        return [name, str(value.dtype), [*value.shape], *map(_cell, value.flat)]
    if isinstance(value, (list, tuple)):
        return [name, *map(_cell, value)]
    return [name, repr(value)]
