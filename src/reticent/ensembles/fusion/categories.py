"""Common codes for the categories that boosted trees number shard by shard."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from reticent._arrays import Bools, Floats, Ints
from reticent._sklearn import MatrixLike, safe_indexing
from reticent.ensembles.model_answers import n_rows

# The kinds of categories. For other kinds, and for a column with cells of another kind
# than a model knows, the models' own encoders decide which categories are equal.
_TEXT, _NUMBERS, _OTHER = "text", "numbers", "other"


class CategoryCodes:
    """Codes for all categories that any of these shards knows, column by column.

    A shard's trees look codes up in their own tables (`branch_table`), in which
    categories unknown to the shard go where it sends missing values. So the codes are
    common, and their effect in a shard depends on that shard only.

    Parameters
    ----------
    is_categorical : ndarray of bool of shape (n_features,)
        Which columns are categories. They come first in the encoded rows.
    categories : sequence with, for each shard, a sequence of arrays
        The categories that each shard has numbered in each categorical column.
    """

    def __init__(
        self, is_categorical: Bools, categories: Sequence[Sequence[NDArray[Any]]]
    ) -> None:
        self._columns = np.flatnonzero(is_categorical)
        self._others = np.flatnonzero(~is_categorical)
        self._kinds = [kind_of(known) for known in categories[0]]
        self._codes: list[dict[Any, int]] = [{} for _ in self._columns]
        for shard in categories:
            for codes, known in zip(self._codes, shard, strict=True):
                for category in _present(known):
                    codes.setdefault(category, len(codes))

    def covers(self, is_categorical: Bools, categories: Sequence[NDArray[Any]]) -> bool:
        """Whether a shard's model takes the same columns for the same categories."""
        return (
            np.array_equal(np.flatnonzero(is_categorical), self._columns)
            and [kind_of(known) for known in categories] == self._kinds
            and _OTHER not in self._kinds
        )

    def numbers(self, X: MatrixLike) -> MatrixLike:
        """Return the columns that are not categories."""
        return safe_indexing(X, self._others, axis=1)

    def takes(self, X: MatrixLike) -> bool:
        """Whether all categories of a batch are of the kind that models know."""
        return all(
            kind_of(_cells(X, column)) == kind
            for column, kind in zip(self._columns, self._kinds, strict=True)
        )

    def transform(self, X: MatrixLike) -> Floats:
        """Return codes and numbers; NaN for missing values and unknown categories.

        Raises
        ------
        ValueError
            If a category is infinite or a cell is not a number: models raise as well.
        """
        encoded = np.empty((n_rows(X), len(self._columns) + len(self._others)))
        for place, (column, codes) in enumerate(
            zip(self._columns, self._codes, strict=True)
        ):
            cells = _cells(X, column)
            if cells.dtype.kind == "f" and np.isinf(cells).any():
                raise ValueError("categories that are infinite")
            encoded[:, place] = [codes.get(cell, np.nan) for cell in cells.tolist()]
        if len(self._others):
            encoded[:, len(self._columns) :] = check_array(
                self.numbers(X), dtype=np.float64, ensure_all_finite=False
            )
        return encoded

    def own_codes(self, column: int, known: NDArray[Any]) -> Ints:
        """Return, for each common code of a column, the shard's own number or -1."""
        codes = self._codes[column]
        own = np.full(len(codes), -1)
        own[[codes[category] for category in _present(known)]] = np.arange(
            len(_present(known))
        )
        return own


def branch_table(
    own_codes: Ints, left_bits: NDArray[np.uint32], missing_left: bool
) -> Bools:
    """Return which common codes a categorical node sends left.

    `own_codes` are the shard's own numbers of the common codes, -1 for unknown
    categories, which go left if `missing_left`. `left_bits` is the set of own numbers
    that go left, 32 per word.
    """
    word = left_bits[own_codes >> 5]  # -1 reads the last word; it is replaced below
    inside = (word >> (own_codes & 31).astype(np.uint32)) & 1
    return np.where(own_codes < 0, missing_left, inside.astype(bool))


def _cells(X: MatrixLike, column: Any) -> NDArray[Any]:
    return np.asarray(safe_indexing(X, int(column), axis=1))


def kind_of(cells: NDArray[Any]) -> str:
    """Return whether categories are numbers, text or something else."""
    if cells.dtype == np.float64:
        return _NUMBERS
    if cells.dtype.kind in "OU" and all(map(_is_text, cells.tolist())):
        return _TEXT
    return _OTHER


def _is_text(cell: Any) -> bool:
    return type(cell) is str or cell is None or (type(cell) is float and isnan(cell))


def _present(known: NDArray[Any]) -> list[Any]:
    """Return the categories in the order of their numbers, without the missing one.

    None is not a missing value here but a category like others.
    """
    return [category for category in known.tolist() if category == category]
