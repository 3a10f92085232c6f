"""Validated rows: the schema allows every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.errors import InvalidDataError
from reticent.schemas.cells import Lookup, RawColumn, read_codes, read_numbers
from reticent.schemas.columns import ClassLabel, Label
from reticent.schemas.named_columns import NamedColumns
from reticent.schemas.places import Place, listed
from reticent.schemas.readings import computed

if TYPE_CHECKING:
    from reticent.schemas.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows that a schema has validated; only the schema builds them.

    Parameters
    ----------
    schema : Schema
        What the rows were checked against.
    numbers : ndarray of float of shape (n_rows, n_numeric)
        The numeric columns, clipped to their ranges, NaN if missing.
    codes : ndarray of int of shape (n_rows, n_categorical)
        The categorical columns as positions in their levels; the number of levels
        for "other", -1 if missing.
    label : ndarray of shape (n_rows,) or None
        Class codes (int), or the clipped numeric target (float).
    units : ndarray of object of shape (n_rows,) or None
        The unit of each row, as text.
    """

    schema: Schema
    numbers: Floats
    codes: NDArray[np.int32]
    label: NDArray[Any] | None = None
    units: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one column: numbers, or codes of levels."""
        layout = self.schema.layout
        if name in layout.numeric.names:
            return self.numbers[:, layout.numeric.names.index(name)]
        if name in layout.category.names:
            return self.codes[:, layout.category.names.index(name)]
        raise InvalidDataError(
            f"column {name!r} is not in the schema, which has "
            f"{listed(self.schema.columns)}."
        )

    def take(self, rows: Any) -> Table:
        """Return the rows at the given positions, or where a mask is true."""
        return Table(
            self.schema,
            self.numbers[rows],
            self.codes[rows],
            None if self.label is None else self.label[rows],
            None if self.units is None else self.units[rows],
        )


@dataclass(slots=True, eq=False)
class PackedRows:
    """A few validated rows as bytes, which a service keeps until it draws.

    One row takes longer to become an array than to be checked, so the rows of many
    requests become one table together. Only the schema builds them.
    """

    schema: Schema
    numbers: bytes  #: the numeric columns, row by row, as little-endian doubles
    codes: bytes  #: the categorical columns, row by row, as little-endian 32-bit codes
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    def queries(self) -> list[bytes]:
        """Return numbers and codes of each row: equal rows are equal bytes."""
        if self.n_rows == 1:
            return [self.numbers + self.codes]
        wide, narrow = len(self.numbers) // self.n_rows, len(self.codes) // self.n_rows
        return [
            self.numbers[wide * row : wide * (row + 1)]
            + self.codes[narrow * row : narrow * (row + 1)]
            for row in range(self.n_rows)
        ]

    def table(self) -> Table:
        """Return the rows as a table."""
        return unpacked([self])


def unpacked(parts: Sequence[PackedRows]) -> Table:
    """Return packed rows of one schema as one table."""
    schema, n_rows = parts[0].schema, sum(part.n_rows for part in parts)
    layout = schema.layout
    numbers = np.frombuffer(b"".join([part.numbers for part in parts]), dtype="<f8")
    codes = np.frombuffer(b"".join([part.codes for part in parts]), dtype="<i4")
    return Table(
        schema,
        numbers.astype(np.float64).reshape(n_rows, len(layout.numeric.names)),
        codes.astype(np.int32).reshape(n_rows, len(layout.category.names)),
    )


def concatenated(tables: list[Table]) -> Table:
    """Return the rows of several tables of one schema as one table."""
    first = tables[0]
    return Table(
        first.schema,
        np.concatenate([table.numbers for table in tables]),
        np.concatenate([table.codes for table in tables]),
        None
        if first.label is None
        else np.concatenate(
            [table.label for table in tables if table.label is not None]
        ),
        None
        if first.units is None
        else np.concatenate(
            [table.units for table in tables if table.units is not None]
        ),
    )


def table_of(
    frame: NamedColumns,
    schema: Schema,
    place: Place,
    *,
    labelled: bool,
    clip: bool = True,
) -> Table:
    """Validate the columns of a frame; the schema has checked their names."""
    layout = schema.layout
    columns = {name: frame.column(name) for name in schema.needed(labelled=labelled)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise place.error(
            f"the columns have {len(lengths)} different lengths. Give each the same "
            f"number of rows."
        )
    (n_rows,) = lengths
    columns |= computed(schema.readings, columns, place)
    numbers = np.empty((n_rows, len(layout.numeric.names)), dtype=np.float64)
    for j, name in enumerate(layout.numeric.names):
        numbers[:, j], bad = read_numbers(columns[name])
        if bad is not None:
            raise layout.numeric.no_number(bad, j, place)
    codes = np.empty((n_rows, len(layout.category.names)), dtype=np.int32)
    for j, name in enumerate(layout.category.names):
        codes[:, j] = read_codes(columns[name], layout.category.lookups[j])
    label = units = None
    if labelled and schema.label is not None:
        label = label_values(columns[schema.label.name], schema.label, place)
    if labelled and schema.unit is not None:
        units = unit_ids(columns[schema.unit], schema.unit, place)
    return Table(
        schema,
        layout.numeric.checked(numbers, place, clip=clip),
        layout.category.checked(codes, place),
        label,
        units,
    )


def label_values(column: RawColumn, label: Label, place: Place) -> NDArray[Any]:
    """Return class codes, or a numeric target clipped to its bounds."""
    if isinstance(label, ClassLabel):
        codes = read_codes(column, Lookup(label.classes)).astype(np.int64)
        bad = np.flatnonzero(codes < 0)
        if len(bad):
            raise place.cell(
                int(bad[0]),
                label.name,
                f"the label is missing or not one of the classes of the schema: "
                f"{listed(label.classes)}.",
                curator="Correct it, leave out the row, or add the class.",
                client="Send one of them.",
            )
        return codes
    numbers, no_number = read_numbers(column)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if no_number is not None or len(bad):
        raise place.cell(
            int(bad[0]) if no_number is None else no_number,
            label.name,
            "the target is missing or not a finite number.",
            curator="Correct it or leave out the row.",
            client="Send a number.",
        )
    return np.clip(numbers, label.low, label.high) + 0.0


def unit_ids(column: RawColumn, name: str, place: Place) -> NDArray[Any]:
    """Return the unit of each row as text; whole numbers are written in digits.

    Numbers so large that floating point may have rounded them are refused: rounding
    could merge two people into one unit, or split one person's rows from two files into
    two units.
    """
    limit = column.whole_below
    ids = np.empty(len(column), dtype=object)
    for row, cell in enumerate(column.values()):
        if isinstance(cell, float) and cell.is_integer() and abs(cell) < limit:
            cell = int(cell)  # a column of whole numbers that passed through floats
        if isinstance(cell, str) and cell:
            ids[row] = cell
        elif isinstance(cell, int | np.integer) and not isinstance(cell, bool):
            ids[row] = str(cell)
        else:
            raise place.cell(
                row,
                name,
                "the unit is missing, or neither text nor an exact whole number.",
                curator="Give every row its unit.",
                client="",
            )
    return ids
