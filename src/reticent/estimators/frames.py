"""Reads data frames column by column as cells, and makes frames of cells."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.estimators.cells import as_objects, canonical_cells


def frame_library(X: Any) -> str | None:
    """Return ``"pandas"`` or ``"polars"`` for their data frames, None for the rest."""
    for library in ("pandas", "polars"):
        # A library that is not imported cannot have made a frame.
        module = sys.modules.get(library)
        if module is not None and isinstance(X, module.DataFrame):
            return library
    return None


def frame_columns(frame: Any) -> list[Any]:
    """Return the columns of a frame, in order; names may repeat."""
    if frame_library(frame) == "polars":
        return list(frame.get_columns())
    return [frame.iloc[:, place] for place in range(frame.shape[1])]


def is_special(column: Any) -> bool:
    """Whether a column's type is neither numbers nor text."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return dtype.kind in "mMV"
    if _is_polars(column):
        polars = sys.modules["polars"]
        plain = (polars.Boolean, polars.String, polars.Null, polars.Object)
        return not (dtype.is_numeric() or dtype in plain)
    text = sys.modules["pandas"].api.types.is_string_dtype(dtype)
    return not (_is_number_type(dtype) or text)


def column_cells(column: Any) -> NDArray[Any]:
    """Return the canonical cells of one column of a frame."""
    if _is_polars(column):
        polars = sys.modules["polars"]
        if column.dtype.is_numeric() or column.dtype == polars.Boolean:
            column = column.cast(polars.Float64).fill_null(np.nan)
            return canonical_cells(column.to_numpy())
        return canonical_cells(as_objects(column.to_list()))
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return canonical_cells(column.to_numpy())
    if not isinstance(column.dtype, np.dtype) and _is_number_type(column.dtype):
        return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return canonical_cells(as_objects(column.tolist()))


def make_frame(library: str, names: Any, columns: list[Any], n_rows: int) -> Any:
    """Return a frame of canonical cells, rows numbered from 0.

    Columns that are not arrays are used as they are.
    """
    if library == "polars":
        polars = sys.modules["polars"]
        named = zip(names, columns, strict=True)
        return polars.DataFrame([_polars_column(str(n), column) for n, column in named])
    pandas = sys.modules["pandas"]
    frame = pandas.DataFrame(
        {place: _pandas_column(column) for place, column in enumerate(columns)},
        index=pandas.RangeIndex(n_rows),
    )
    frame.columns = names
    return frame


def _pandas_column(column: Any) -> Any:
    pandas = sys.modules["pandas"]
    if not isinstance(column, np.ndarray):
        return column.reset_index(drop=True)
    if _is_text(column):
        try:
            return pandas.Series(column)  # in the type that pandas has for text
        except (TypeError, ValueError):  # text that cannot be encoded
            pass
    return pandas.Series(column, dtype=column.dtype)


def _polars_column(name: str, column: Any) -> Any:
    polars = sys.modules["polars"]
    if not isinstance(column, np.ndarray):
        return column.alias(name)
    if column.dtype != object:
        return polars.Series(name, column, dtype=polars.Float64)
    cells = [None if cell is np.nan else cell for cell in column]
    if _is_text(column):
        try:
            return polars.Series(name, cells, dtype=polars.String)
        except (TypeError, ValueError):  # text that cannot be encoded
            pass
    return polars.Series(name, cells, dtype=polars.Object)


def _is_text(cells: NDArray[Any]) -> bool:
    """Whether canonical cells are text, apart from missing ones."""
    return cells.dtype == object and all(
        type(cell) is str or cell is np.nan for cell in cells
    )


def _is_polars(column: Any) -> bool:
    return type(column).__module__.partition(".")[0] == "polars"


def _is_number_type(dtype: Any) -> bool:
    """Whether an extension type of pandas holds real numbers or truth values."""
    pandas = sys.modules["pandas"]
    types = pandas.api.types
    if isinstance(dtype, pandas.CategoricalDtype) or types.is_complex_dtype(dtype):
        return False
    return bool(types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype))
