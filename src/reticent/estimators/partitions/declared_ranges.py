"""Tells the curator that declared ranges leave out what the rows hold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ClippedValuesWarning
from reticent.estimators.partitions.codes import CodedColumns

# Rows that are looked at together, which may lie in a file.
_BLOCK = 1 << 16
# At most this number of columns is named.
_NAMED = 5


def warn_of_clipped(facts: Any, columns: CodedColumns, X: NDArray[Any]) -> None:
    """Warn the curator if values are moved to the ends of ranges that nobody chose.

    That is so if no ranges were declared and values lie outside (-1, 1), or if most
    known values of a column lie outside what was declared for it.

    Parameters
    ----------
    facts : sequence or None
        The columns as they were declared.
    columns : CodedColumns
        The same, read.
    X : ndarray of shape (n_rows, n_columns)
        The rows.

    Notes
    -----
    This counts records without noise, so the warning is for the curator only: it is
    not covered by the certificate, and must not be released. Nothing of it is stored,
    and nothing that is released depends on it. It names columns, never a value.
    """
    outside, known = _counts(columns, X)
    if facts is None:
        _warn(
            outside > 0,
            "columns=None declares the range (-1, 1) for every column, and values lie "
            "outside",
        )
        return
    _warn(
        2 * outside > known,
        "most values lie outside the declared range, or are none of the levels",
    )


def _counts(
    columns: CodedColumns, X: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the values of each column outside its declaration, and all known ones."""
    outside = np.zeros(len(columns), dtype=np.int64)
    known = np.zeros(len(columns), dtype=np.int64)
    for start in range(0, len(X), _BLOCK):
        block = X[start : start + _BLOCK]
        for place, column in enumerate(columns.columns):
            cells = np.asarray(block[:, place], dtype=np.float64)
            outside[place] += np.count_nonzero(column.outside(cells))
            known[place] += len(cells) - np.count_nonzero(np.isnan(cells))
    return outside, known


def _warn(found: Sequence[bool] | NDArray[np.bool_], what: str) -> None:
    places = np.flatnonzero(found).tolist()
    if not places:
        return
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    named = ", ".join(map(str, places[:_NAMED])) + more
    which = "column" if len(places) == 1 else "columns"
    warnings.warn(
        ClippedValuesWarning(
            f"{what} ({which} {named}). They count as the end of the range, or as "
            "missing. Declare what is publicly known, one entry for each column: "
            "columns=[(low, high), ...]. Do not read it from the rows. This warning "
            "comes from the rows, without noise: it is for you only."
        ),
        stacklevel=7,
    )
