"""Random partitions as features: drawn without looking at the data (L12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._arrays import Floats
from reticent._numbers import whole
from reticent._sklearn import Interval, MatrixLike, fit_context
from reticent.estimators import CodedColumns, ColumnFacts, random_trees
from reticent.mechanisms import noise_source


@dataclass(eq=False, repr=False, kw_only=True)
class RandomPartitions(TransformerMixin, BaseEstimator):
    r"""Features that say in which part of random partitions a row is.

    Each partition is a tree that asks `depth` questions, the same for all rows: whether
    a random column is above a random cut of its declared range, or its level in a
    random half. In front of a linear model this makes columns interact.

    Parameters
    ----------
    columns : sequence, default=None
        Public facts, one entry per column: a range ``(low, high)``, a number of levels
        (cells are then 0, 1, 2, ...), or a column of `reticent.schemas`. None declares
        all ranges as (-1, 1).
    n_trees : int, default=32
        Number of partitions.
    depth : int, default=4
        Number of questions in each partition, at most 12.
    random_state : int, RandomState instance or None, default=None
        Where the partitions come from. They may be public.

    Attributes
    ----------
    partitions_ : Partitions
        The partitions.
    norm_bound_ : float
        The norm of every row of features: 1.

    Guarantee
    ---------
    `fit` reads the number of columns of `X` and nothing else. The features of a row
    depend on that row, the declared columns and public random numbers, so this step of
    a pipeline costs no privacy.

    Examples
    --------
    >>> RandomPartitions(n_trees=2, depth=1).fit_transform([[0.1, 0.3]]).sum().round(3)
    np.float64(1.414)
    """

    columns: Sequence[ColumnFacts] | None = None
    n_trees: int = 32
    depth: int = 4
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "columns": ["array-like", list, tuple, None],
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, 12, closed="both")],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Draw the partitions; no value of `X` or `y` is used.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, of which only the number of columns is used.
        y : ignored
            For pipelines.
        """
        rows = self._checked(X, reset=True)
        self.columns_ = CodedColumns.of(self.columns, rows.shape[1])
        self.partitions_ = random_trees(
            self.columns_,
            (None,) * rows.shape[1],
            n_trees=whole("RandomPartitions", "n_trees", self.n_trees),
            depth=whole("RandomPartitions", "depth", self.depth),
            source=noise_source(self.random_state),
        )
        self.norm_bound_ = 1.0
        return self

    def transform(self, X: MatrixLike) -> Floats:
        """Return one column per part, ``1 / sqrt(n_trees)`` where a row is in it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers and codes of levels; NaN is a missing value.
        """
        check_is_fitted(self, "partitions_")
        parts = self.partitions_.parts(
            self.columns_.encode(self._checked(X, reset=False))
        ).astype(np.int64)
        sizes = self.partitions_.n_parts
        found = np.zeros((parts.shape[1], int(sizes.sum())))
        places = parts + (np.cumsum(sizes) - sizes)[:, None]
        # Rounded down: a row of features is never longer than it is said to be.
        each = np.nextafter(1 / math.sqrt(len(sizes)), 0) * (1 - 2.0**-50)
        np.put_along_axis(found, places.T, each, axis=1)
        return found

    def _checked(self, X: MatrixLike, *, reset: bool) -> Floats:
        return np.asarray(
            validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # the partitions are random
        tags.input_tags.allow_nan = True
        return tags
