"""Tables in canonical form: a shard sees only its own cells and public facts.

The kind of container, the number, names and order of its columns, and what the curator
declares are public. Everything else about a table (types, widths, memory order, row
labels) is a function of all rows, so it is derived again from the given rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reticent._arrays import Floats
from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError
from reticent.estimators.cells import canonical_cells, numbers_only, own_cells
from reticent.estimators.frames import (
    column_cells,
    frame_columns,
    frame_library,
    is_special,
    make_frame,
)
from reticent.estimators.units import Partition

_INDEX_LIMIT = 2**31 - 1


def table_kind(X: MatrixLike) -> str:
    """Return ``"pandas"``, ``"polars"``, ``"sparse"`` or ``"array"``."""
    return "sparse" if sparse.issparse(X) else frame_library(X) or "array"


def as_table(X: MatrixLike) -> Any:
    """Return rows as an array, a csr matrix or a data frame, cells untouched.

    Raises
    ------
    InvalidDataError
        If `X` is a table of another library.
    """
    kind = table_kind(X)
    if kind == "sparse":
        return X.tocsr()
    if kind != "array":
        return X
    if hasattr(X, "columns"):
        raise InvalidDataError(
            f"X is a table of type {type(X).__module__}.{type(X).__name__}; convert it "
            "to a table of pandas or polars, an array or a sparse matrix."
        )
    if isinstance(X, (list, tuple)):
        # Without dtype=object, one text among the cells would make all of them text.
        return np.array(X, dtype=object)
    return np.asarray(X)


def check_column_types(X: Any, *, public_types: bool) -> None:
    """Refuse columns whose type cannot be derived from the cells of a shard.

    Raises
    ------
    InvalidDataError
        If there are categories, dates or the like, unless the types are public.
    """
    kind = table_kind(X)
    if kind == "array" and is_special(X):
        raise InvalidDataError(
            f"X is an array of {X.dtype}. Make it numbers or text, or a data frame."
        )
    if kind in ("array", "sparse") or public_types:
        return
    for name, column in zip(X.columns, frame_columns(X), strict=True):
        if is_special(column):
            raise InvalidDataError(
                f"column {name!r} of X has the type {column.dtype}, which single rows "
                "do not have. Make it numbers or text, or set public_types=True if the "
                "types of all columns, their categories included, are public."
            )


def canonical_table(X: MatrixLike, *, public_types: bool = False) -> Any:
    """Return a table in a form that depends only on its cells.

    Parameters
    ----------
    X : array, sparse matrix or data frame
        Rows, in the kind of container that is public.
    public_types : bool, default=False
        Whether columns of a data frame keep types that cells do not show, such as
        categories.

    Returns
    -------
    array, csr matrix or data frame
        Arrays are matrices of float64, or of objects if a cell is not a number. Columns
        of data frames are float64, text or objects; rows are numbered from 0. May share
        memory with `X`.

    Guarantee
    ---------
    The result is a function of the given cells, of the container's kind and of the
    columns' names: it does not depend on other rows of a larger table.
    """
    kind = table_kind(X)
    if kind == "sparse":
        return _canonical_sparse(X)
    if kind == "array":
        return canonical_cells(as_table(X))
    columns = [
        column if public_types and is_special(column) else column_cells(column)
        for column in frame_columns(X)
    ]
    return make_frame(kind, X.columns, columns, len(X))


def unshared_copy(X: Any) -> Any:
    """Return a copy of a canonical table that shares no mutable object with it."""
    kind = table_kind(X)
    if kind == "polars":
        return X  # its columns cannot be written to
    if kind == "array":
        return own_cells(X)
    copied = X.copy()
    if kind == "pandas":
        for place, dtype in enumerate(X.dtypes):
            if isinstance(dtype, np.dtype) and dtype.kind == "O":
                copied.isetitem(place, own_cells(X.iloc[:, place].to_numpy()))
    return copied


def as_array(X: Any) -> NDArray[Any]:
    """Return a data frame's cells as a canonical array."""
    columns = [column_cells(column) for column in frame_columns(X)]
    if all(column.dtype == np.float64 for column in columns):
        return np.column_stack(columns) if columns else np.empty((len(X), 0))
    cells = np.empty((len(X), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        cells[:, place] = column
    return canonical_cells(cells)


def as_frame(X: Any, library: str) -> Any:
    """Return a data frame's cells in a frame of another library."""
    columns = [column_cells(column) for column in frame_columns(X)]
    return make_frame(library, list(X.columns), columns, len(X))


def numbers_by_shard(X: NDArray[Any], partition: Partition) -> Floats:
    """Return an array as numbers; a shard with a cell that is not one becomes all NaN.

    The result for a row depends on the rows of its own shard only.
    """
    if X.dtype.kind in "biuf":
        return np.asarray(X, dtype=np.float64)
    numbers = np.empty(X.shape)
    for rows in partition.rows_by_shard():
        numbers[rows] = numbers_only(X[rows])
    return numbers


def _canonical_sparse(X: Any) -> Any:
    rows = X.tocsr().astype(np.float64, copy=True)
    rows.sum_duplicates()
    if max(rows.nnz, *rows.shape) <= _INDEX_LIMIT:
        rows.indices = rows.indices.astype(np.int32, copy=False)
        rows.indptr = rows.indptr.astype(np.int32, copy=False)
    return rows
