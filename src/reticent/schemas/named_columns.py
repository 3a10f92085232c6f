"""The named columns of a table in memory: a data frame, a mapping or a matrix.

Data frames are recognised by their methods, so that pandas, polars and pyarrow need not
be installed to read a dictionary of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError
from reticent.schemas.cells import ArrayColumn, ListColumn, RawColumn


class NamedColumns:
    """Named columns of one length.

    Parameters
    ----------
    names : sequence of str
        The columns' names; the caller refuses repeated ones.
    column : callable
        Returns the column of a name.
    """

    def __init__(
        self, names: Sequence[Any], column: Callable[[str], RawColumn]
    ) -> None:
        self.names = list(names)
        self.column = column


def named_columns(source: Any, *, positions: Sequence[str]) -> NamedColumns:
    """Return the columns of a data frame, a mapping of arrays or a matrix.

    Parameters
    ----------
    source : mapping, pandas or polars data frame, pyarrow table, or 2-d array
        The table. A matrix has no names.
    positions : sequence of str
        The names of a matrix's columns.
    """
    if isinstance(source, Mapping):
        return NamedColumns(list(source), lambda name: column_of(source[name]))
    if hasattr(source, "column_names") and hasattr(source, "column"):
        return NamedColumns(
            source.column_names,
            # Repeated names are refused before any column is read.
            lambda name: column_of(source.column(name)),
        )
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return NamedColumns(list(source.columns), lambda name: column_of(source[name]))
    if isinstance(source, np.ndarray) and source.ndim == 2:
        if source.shape[1] != len(positions):
            raise InvalidDataError(
                f"a matrix of {source.shape[1]} columns was given; the schema has "
                f"{len(positions)}. Give the columns in the order of the schema, or "
                f"use a data frame, whose columns have names."
            )
        place = {name: j for j, name in enumerate(positions)}
        return NamedColumns(positions, lambda name: column_of(source[:, place[name]]))
    raise InvalidDataError(
        f"a table is needed: a pandas or polars data frame, a pyarrow table, a mapping "
        f"from names to arrays, or a matrix; got {type(source).__name__}."
    )


def column_of(cells: Any) -> RawColumn:
    """Return an array, a list or a data frame's column as a raw column."""
    if hasattr(cells, "is_null") and hasattr(cells, "to_list"):
        return _polars_column(cells)
    if hasattr(cells, "isna") and hasattr(cells, "to_numpy"):
        return _pandas_column(cells)
    if hasattr(cells, "to_pylist"):
        from reticent.schemas.arrow import ArrowColumn

        return ArrowColumn(cells, untyped=False)
    if isinstance(cells, np.ndarray):
        return _array_column(cells)
    if isinstance(cells, list | tuple):
        return ListColumn(list(cells))
    raise InvalidDataError(
        f"a column needs an array, a list or a data frame's column; got "
        f"{type(cells).__name__}."
    )


def _array_column(cells: NDArray[Any]) -> RawColumn:
    if cells.ndim != 1:
        raise InvalidDataError(
            f"a column needs one dimension; got an array with {cells.ndim}."
        )
    if cells.dtype.kind in "iuf":
        return ArrayColumn(cells)
    return ListColumn(cells.tolist())


def _polars_column(cells: Any) -> RawColumn:
    if cells.dtype.is_integer() or cells.dtype.is_float():
        return ArrayColumn(cells.to_numpy())  # nulls become NaN
    return ListColumn(cells.to_list())


def _pandas_column(cells: Any) -> RawColumn:
    kind = getattr(cells.dtype, "kind", "O")
    if kind in "iu" and not cells.isna().any():
        return ArrayColumn(cells.to_numpy(dtype=np.dtype(f"{kind}8")))
    if kind in "iuf":
        # Single precision is kept, because it limits which whole numbers are exact.
        floats = np.dtype(f"f{cells.dtype.itemsize}" if kind == "f" else "f8")
        return ArrayColumn(cells.to_numpy(dtype=floats, na_value=np.nan))
    values = cells.astype(object).to_numpy(copy=True)
    values[cells.isna().to_numpy()] = None
    return ListColumn(values.tolist())
