"""The rows that a holdout or a session guards, and their units."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from reticent._arrays import Ints
from reticent._numbers import whole
from reticent._sklearn import safe_indexing
from reticent.errors import InvalidDataError, InvalidParameterError, TooFewRecordsError
from reticent.estimators import UnitIds, unit_positions
from reticent.mechanisms import noise_source


class GuardedRows:
    """Rows, labels, and the independent unit of each row.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix
        Rows.
    y : array-like or None
        Labels.
    units : array-like or None
        The unit of each row.
    rows_per_unit : int, default=1
        Without `units`: the number of rows that form one unit. The grouping is a fixed,
        public shuffle of positions, so that units are mixed even if the table is sorted
        by label; rows that do not fill a unit are left out.
    """

    def __init__(self, X: Any, y: Any, units: UnitIds, rows_per_unit: int = 1) -> None:
        self.X = X if hasattr(X, "shape") else np.asarray(X)
        if hasattr(X, "tocsr"):
            self.X = X.tocsr()  # so that rows can be taken
        self.y = None if y is None else np.asarray(y)
        self.rows_per_unit = whole("a table", "rows_per_unit", rows_per_unit)
        n_rows = int(self.X.shape[0])
        if self.y is not None and self.y.shape[:1] != (n_rows,):
            raise InvalidDataError(
                f"y has {len(self.y)} labels for n_rows={n_rows} rows of X."
            )
        if self.rows_per_unit > 1:
            if units is not None:
                raise InvalidParameterError(
                    f"rows_per_unit={rows_per_unit} makes units of its own; leave it "
                    "out or leave `units` out."
                )
            n_rows = self._group(n_rows)
        self.positions: Ints
        if self.rows_per_unit > 1:
            self.positions = np.arange(n_rows) // self.rows_per_unit
            self.n_units = n_rows // self.rows_per_unit
        else:
            self.positions, self.n_units = unit_positions(units, n_rows)
        if not self.n_units >= 2:
            raise TooFewRecordsError(
                f"n_units={self.n_units} is too few; a bound needs at least 2 units."
            )

    @property
    def n_rows(self) -> int:
        """Number of rows that belong to a unit."""
        return len(self.positions)

    def rows(self, places: Ints | None = None) -> tuple[Any, Any]:
        """Return a copy of some rows and their labels, or of all.

        The caller's code gets copies, so that it cannot change the data of later
        questions.
        """
        places = np.arange(self.n_rows) if places is None else places
        labels = None if self.y is None else self.y[places]
        return safe_indexing(self.X, places), labels

    def fingerprint(self) -> str:
        """Return a hash of the rows, labels and units, to recognise the same data."""
        digest = hashlib.sha256()
        parts = [self.y, self.positions]
        rows: Any = self.X
        sparse = hasattr(rows, "indptr")
        parts += [rows.data, rows.indices, rows.indptr] if sparse else [rows]
        for part in parts:
            values = np.ascontiguousarray(np.asarray(part))
            digest.update(f"{values.dtype} {values.shape} ".encode())
            objects = values.dtype == object
            digest.update(
                repr(values.tolist()).encode() if objects else values.tobytes()
            )
        return digest.hexdigest()

    def _group(self, n_rows: int) -> int:
        whole_units = n_rows - n_rows % self.rows_per_unit
        rows = noise_source(0).permutation(n_rows)[:whole_units]
        self.X = safe_indexing(self.X, rows)
        self.y = None if self.y is None else self.y[rows]
        return whole_units
