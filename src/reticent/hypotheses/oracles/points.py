"""Point sets: which inputs are points, and which points are equal.

Everything that a hypothesis class derives from unlabelled points starts from their
sorted *set*, so that it cannot depend on order or multiplicity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Bools, Floats
from reticent.errors import InvalidDataError

_NUMERIC = "biuf"
_ORDERED = _NUMERIC + "mMUS"


def point_matrix(X: ArrayLike, n_features: int | None = None) -> Floats:
    """Return `X` as finite floats, rows by features; one dimension means one feature.

    Negative zero becomes zero, because both are the same point.
    """
    rows = np.asarray(X)
    if rows.dtype.kind == "O":
        rows = _numbers_from(rows)
    if rows.dtype.kind not in _NUMERIC:
        raise InvalidDataError(
            f"X has dtype {rows.dtype}; numeric features are needed. Encode them with "
            "declared levels first."
        )
    if rows.ndim == 1:
        rows = rows[:, np.newaxis]
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise InvalidDataError(
            f"X has shape {rows.shape}; at least one row and one feature are needed."
        )
    if n_features is not None and rows.shape[1] != n_features:
        raise InvalidDataError(
            f"X has {rows.shape[1]} features; this class has n_features={n_features}."
        )
    finite = rows.astype(np.float64) + 0.0
    if not np.isfinite(finite).all():
        raise InvalidDataError("X has NaN or infinite entries; points must be finite.")
    return finite


def binary_matrix(X: ArrayLike, n_features: int | None = None) -> Bools:
    """Return `X` as booleans; every entry must be 0 or 1."""
    rows = point_matrix(X, n_features)
    if not ((rows == 0) | (rows == 1)).all():
        raise InvalidDataError("X must hold only 0 and 1; binarise the features first.")
    return rows == 1


def ordered_values(X: ArrayLike) -> NDArray[Any]:
    """Return one column of values that can be compared: numbers, dates, strings ...

    Objects are accepted if they sort among themselves (``datetime.date``, ``Decimal``).
    """
    values = np.asarray(X)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0:
        raise InvalidDataError(
            f"X has shape {values.shape}; one column with at least one row is needed."
        )
    if values.dtype.kind == "O":
        return _sortable(values)
    if values.dtype.kind not in _ORDERED:
        raise InvalidDataError(
            f"X has dtype {values.dtype}, which has no order; numbers, dates or "
            "strings are needed."
        )
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InvalidDataError("X has NaN or infinite entries; points are finite.")
        return values + values.dtype.type(0)
    if values.dtype.kind in "mM" and np.isnat(values).any():
        raise InvalidDataError("X has missing dates (NaT); drop or impute them first.")
    return values


def distinct_rows(
    rows: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct rows in lexicographic order, and each row's place there."""
    first = rows[:, 0]
    order = np.argsort(first, kind="stable")
    ascending = first[order]
    if rows.shape[1] > 1 and (ascending[1:] == ascending[:-1]).any():
        order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    starts = np.ones(len(rows), dtype=bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(rows), dtype=np.intp)
    inverse[order] = np.cumsum(starts) - 1
    return ordered[starts], inverse


def python_scalar(value: Any) -> Any:
    """Return a NumPy scalar as a Python one; dates keep their unit in NumPy's type."""
    if isinstance(value, np.generic) and not isinstance(
        value, np.datetime64 | np.timedelta64
    ):
        return value.item()
    return value


def _numbers_from(rows: NDArray[Any]) -> NDArray[Any]:
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidDataError(
            "X has entries that are not numbers; encode the features first."
        ) from None


def _sortable(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects after checking that the oracles can sort it."""
    if not all(bool(value == value) for value in values):  # NaN of any type
        raise InvalidDataError("X has missing values; drop or impute them first.")
    try:
        np.sort(values)
    except (TypeError, ValueError):
        raise InvalidDataError(
            "X has objects that cannot be ordered among themselves; use one type."
        ) from None
    if all(isinstance(value, int | float) for value in values):
        return point_matrix(values)[:, 0]
    return values
