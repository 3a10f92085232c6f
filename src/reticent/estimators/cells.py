"""Cells in canonical form: equal cells are equal whatever their column's type was."""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating, Decimal, Fraction)


def canonical_cells(values: NDArray[Any]) -> NDArray[Any]:
    """Return cells as float64 if all of them are numbers, else as objects.

    A column's type is a function of all its rows: one missing value turns whole
    numbers into floats, one text turns numbers into objects, the longest text sets
    the width of all. So the type is dropped here and derived again from the given
    cells. Numbers of any type, booleans included, become floats; every kind of missing
    value becomes NaN; text stays text; other objects stay as they are.

    Parameters
    ----------
    values : ndarray
        Cells of any type and shape.

    Returns
    -------
    ndarray of the same shape, float64 or object, in C order
        Shares memory with `values` if they already have this form.
    """
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64).reshape(values.shape)
    cells = values.astype(object).ravel().tolist()
    kinds = set(map(type, cells))
    if not kinds <= {str, float}:
        cells = [_cell(cell) for cell in cells]
        kinds = set(map(type, cells))
    if kinds <= {float}:
        return np.array(cells, dtype=np.float64).reshape(values.shape)
    if float in kinds:
        # All missing values become one object: some code compares by identity.
        cells = [np.nan if type(c) is float and c != c else c for c in cells]
    return as_objects(cells).reshape(values.shape)


def as_objects(cells: list[Any]) -> NDArray[Any]:
    """Return a list as a one-dimensional array of objects, even of sequences."""
    column = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        column[place] = cell
    return column


def own_cells(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that shares no mutable object with the original."""
    if values.dtype != object:
        return values.copy(order="C")
    if set(map(type, values.ravel().tolist())) <= {str, float}:
        return values.copy(order="C")
    return as_objects([deepcopy(cell) for cell in values.ravel()]).reshape(values.shape)


def numbers_only(values: NDArray[Any]) -> Floats:
    """Return cells as numbers, all of them NaN if one is not a number.

    Text that can be read as a number is one, as in scikit-learn's conversion.
    """
    cells = canonical_cells(values)
    try:
        return cells.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        return np.full(values.shape, np.nan)


def _cell(cell: Any) -> Any:
    if isinstance(cell, _NUMBERS) and not isinstance(cell, np.timedelta64):
        try:
            return float(cell)
        except OverflowError:
            return np.inf if cell > 0 else -np.inf
        except (ArithmeticError, ValueError):  # a signalling NaN of Decimal
            return np.nan
    if isinstance(cell, str):
        return str(cell)
    return np.nan if is_missing(cell) else cell


def is_missing(cell: Any) -> bool:
    """Whether a cell is missing: None, or an object that differs from itself."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except Exception:  # noqa: BLE001 (a cell of any class may raise anything)
        # pandas' NA has no truth value; an array has more than one.
        return type(cell).__name__ == "NAType"
