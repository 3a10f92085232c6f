"""Common codes for the categories that boosted trees number shard by shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from reticent._sklearn import MatrixLike, safe_indexing
from reticent.ensembles.looped import n_rows


class CategoryCodes:
    """Codes for all categories that any shard knows, column by column.

    A shard's own trees then look codes up in tables of their own (`branch_table`), in
    which categories unknown to the shard go where it sends missing values. So the
    codes are common, and what a shard makes of them depends on that shard only.

    Parameters
    ----------
    is_categorical : ndarray of bool of shape (n_features,)
        Which columns hold categories. They come first in the encoded rows.
    categories : sequence with, for each shard, a sequence of arrays
        The categories that each shard has numbered in each categorical column.
    """

    def __init__(
        self,
        is_categorical: NDArray[np.bool_],
        categories: Sequence[Sequence[NDArray[Any]]],
    ) -> None:
        self._columns = np.flatnonzero(is_categorical)
        self._others = np.flatnonzero(~is_categorical)
        self._codes: list[dict[Any, int]] = [{} for _ in self._columns]
        for shard in categories:
            for codes, known in zip(self._codes, shard, strict=True):
                for category in _present(known):
                    codes.setdefault(category, len(codes))

    def transform(self, X: MatrixLike) -> NDArray[np.float64]:
        """Return codes and numbers; NaN for missing values and for strangers."""
        encoded = np.empty((n_rows(X), len(self._columns) + len(self._others)))
        for place, (column, codes) in enumerate(
            zip(self._columns, self._codes, strict=True)
        ):
            values = np.asarray(safe_indexing(X, int(column), axis=1)).tolist()
            encoded[:, place] = [codes.get(value, np.nan) for value in values]
        if len(self._others):
            numbers = safe_indexing(X, self._others, axis=1)
            encoded[:, len(self._columns) :] = check_array(
                numbers, dtype=np.float64, ensure_all_finite=False
            )
        return encoded

    def own_codes(self, column: int, known: NDArray[Any]) -> NDArray[np.int64]:
        """Return, for each common code of a column, the shard's own number or -1."""
        codes = self._codes[column]
        own = np.full(len(codes), -1)
        own[[codes[category] for category in _present(known)]] = np.arange(
            len(_present(known))
        )
        return own


def branch_table(
    own_codes: NDArray[np.int64], left_bits: NDArray[np.uint32], missing_left: bool
) -> NDArray[np.bool_]:
    """Return which common codes a categorical node sends left.

    Parameters
    ----------
    own_codes : ndarray of int
        The shard's own number of each common code, -1 for strangers.
    left_bits : ndarray of uint32
        The set of own numbers that go left, 32 to a word.
    missing_left : bool
        Where strangers go.
    """
    word = left_bits[own_codes >> 5]  # -1 reads the last word, and is overruled
    inside = (word >> (own_codes & 31).astype(np.uint32)) & 1
    return np.where(own_codes < 0, missing_left, inside.astype(bool))


def _present(known: NDArray[Any]) -> list[Any]:
    """Return the categories in the order of their numbers, the missing one left out."""
    return [category for category in known.tolist() if category == category]
