"""The columns a model was fitted on; public, like the schema of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError


@dataclass(frozen=True, slots=True)
class Columns:
    """Number and names of columns, None where the input has no such thing."""

    count: int | None
    names: tuple[Any, ...] | None

    @classmethod
    def of(cls, X: MatrixLike) -> Columns:
        """Return the columns of an array, a sparse matrix, a data frame or a list."""
        shape = getattr(X, "shape", None)
        names = getattr(X, "columns", None)
        return cls(
            count=shape[1] if shape is not None and len(shape) == 2 else None,
            names=None if names is None else tuple(names),
        )

    def check(self, X: MatrixLike) -> None:
        """Refuse rows that no shard could answer for, before any of them is asked.

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
