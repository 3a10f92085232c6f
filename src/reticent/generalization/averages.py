"""Averages of values in [0, 1] over units, exact whatever the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError

#: Values are rounded to multiples of this, so that sums are whole numbers of steps.
GRID_BITS = 20
GRID = 2.0**-GRID_BITS


def unit_values(
    values: Any, positions: NDArray[np.int64], n_units: int
) -> NDArray[np.int64]:
    """Return each unit's average as a whole number of grid steps.

    Parameters
    ----------
    values : array-like of shape (n_rows,) or (n_rows, n_queries)
        One value a row, for one query or several. Values outside [0, 1] are clipped
        to it, and what is no number counts as 0: a query must not fail because of a
        record.
    positions : ndarray of shape (n_rows,)
        The unit of each row.
    n_units : int
        Number of units.

    Returns
    -------
    ndarray of int64, of shape (n_units,) or (n_units, n_queries)
    """
    table = np.asarray(values)
    if table.dtype == np.bool_:
        table = table.astype(np.float64)
    if table.dtype.kind not in "fiu" or table.ndim not in (1, 2):
        raise InvalidDataError(
            "a query must return numbers, one a row (or a column of them a query); got "
            f"dtype {table.dtype} with {table.ndim} dimensions."
        )
    if len(table) != len(positions):
        raise InvalidDataError(
            f"a query must return one value for each of {len(positions)} rows; got "
            f"{len(table)}."
        )
    bounded = np.clip(np.nan_to_num(table.astype(np.float64), nan=0.0), 0.0, 1.0)
    if n_units != len(positions):
        bounded = _averaged(bounded, positions, n_units)
    return np.rint(bounded * 2.0**GRID_BITS).astype(np.int64)


def _averaged(
    values: NDArray[np.float64], positions: NDArray[np.int64], n_units: int
) -> NDArray[np.float64]:
    sums = np.zeros((n_units, *values.shape[1:]))
    np.add.at(sums, positions, values)
    counts = np.bincount(positions, minlength=n_units).astype(np.float64)
    return np.minimum(sums / counts.reshape(-1, *[1] * (values.ndim - 1)), 1.0)
