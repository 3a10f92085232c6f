"""The columns that a model was fitted on; public, like the schema of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError
from reticent.estimators.tables import as_array, as_frame, canonical_table, table_kind


@dataclass(frozen=True, slots=True)
class Columns:
    """What is public about a table: its columns and the container that held them."""

    count: int | None  #: number of columns, None if the input has no columns
    names: tuple[Any, ...] | None  #: their names, None if they have none
    kind: str = "array"  #: ``"array"``, ``"sparse"``, ``"pandas"`` or ``"polars"``
    #: Whether types that cells do not show, such as categories, are public.
    public_types: bool = False

    @classmethod
    def of(cls, X: MatrixLike, *, public_types: bool = False) -> Columns:
        """Return the columns of an array, a sparse matrix, a data frame or a list."""
        shape = getattr(X, "shape", None)
        names = getattr(X, "columns", None)
        return cls(
            count=shape[1] if shape is not None and len(shape) == 2 else None,
            names=None if names is None else tuple(names),
            kind=table_kind(X),
            public_types=public_types and names is not None,
        )

    def check(self, X: MatrixLike) -> None:
        """Refuse rows with other columns, before any shard is asked.

        Raises
        ------
        InvalidDataError
            If the number, the names or the order of columns differ.
        """
        given = Columns.of(X)
        if self.count is not None and given.count not in (None, self.count):
            raise InvalidDataError(
                f"X has {given.count} features, but the models expect "
                f"{self.count} features as input."
            )
        if self.names is not None and given.names != self.names:
            raise InvalidDataError(
                "The feature names should match those that were passed during fit, in "
                f"the same order: {', '.join(map(str, self.names))}."
            )

    def read(self, X: MatrixLike) -> Any:
        """Return queries in canonical form, in the container of the training rows.

        The result is a function of the queries and of public facts.

        Raises
        ------
        InvalidDataError
            As `check` does.
        """
        if (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.flags.c_contiguous
            and self.names is None
            and X.shape == (len(X), self.count)
        ):
            return X  # canonical as it is; one row is read as fast as that
        self.check(X)
        kind = table_kind(X)
        if kind == "sparse" and self.kind != "sparse":
            return canonical_table(X.toarray())
        if kind in ("pandas", "polars") and self.kind != kind:
            if self.kind in ("array", "sparse"):
                return as_array(X)
            return as_frame(X, self.kind)
        return canonical_table(X, public_types=self.public_types)
