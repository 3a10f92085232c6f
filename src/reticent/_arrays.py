"""Names for arrays, and products whose rows do not depend on each other."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# einsum takes longer rows in pieces, whose ends depend on how many rows there are.
_PIECE = 4096


def row_products(rows: Floats, other: Floats) -> Floats:
    """Return the product of each row with a vector, or with the row at its place.

    The result of a row does not depend on the other rows, on how many there are, or on
    the memory order, to the last bit. That of a matrix product does: BLAS chooses how
    it adds up by the shape of the whole matrix.
    """
    rows, other = np.ascontiguousarray(rows), np.ascontiguousarray(other)
    how = "ij,j->i" if other.ndim == 1 else "ij,ij->i"
    found = np.zeros(len(rows))
    for start in range(0, rows.shape[1], _PIECE):
        piece = slice(start, start + _PIECE)
        found += np.einsum(how, rows[:, piece], other[..., piece])
    return found


def rows_times(rows: Floats, matrix: Floats) -> Floats:
    """Return ``rows @ matrix``, each row by itself: see `row_products`."""
    rows = np.ascontiguousarray(rows)
    return np.stack([row_products(rows, column) for column in matrix.T], axis=1)
