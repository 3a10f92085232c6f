"""Locations in the input, for error messages that never quote a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from reticent.errors import InvalidDataError


@dataclass(frozen=True, slots=True)
class Place:
    """The source of some rows, for messages."""

    # A file's name, or a name for the rows; empty for rows sent by a client.
    source: str
    # The number of the first row: 1 in files and data frames (the header is not
    # counted), 0 in a JSON list.
    first_row: int = 1
    # Returns the line of a row in a file of text, both counted from 1; people find
    # lines in their editors. None where there are no lines.
    line_of: Callable[[int], int | None] | None = field(
        default=None, compare=False, repr=False
    )

    def after(self, n_rows: int) -> Place:
        """Return the place of the rows that follow the first `n_rows`."""
        return replace(self, first_row=self.first_row + n_rows)

    def error(self, problem: str, *, row: int | None = None) -> InvalidDataError:
        """Return an error about the source or about one row, counted from zero."""
        where = self.source if row is None else self._row(row)
        return InvalidDataError(f"{where}: {problem}" if where else problem)

    def line(self, line: int, problem: str) -> InvalidDataError:
        """Return an error about one line of a file of text, counted from 1."""
        return InvalidDataError(f"{self.source}, line {line}: {problem}")

    def cell(
        self, row: int, column: str, problem: str, *, curator: str, client: str
    ) -> InvalidDataError:
        """Return an error about one cell, with advice for its owner.

        No text may quote the cell's value. The curator of a file can change the file
        or the schema; a client can only send another value.
        """
        remedy = curator if self.source else client
        where = f"{self._row(row)}, column {column!r}"
        return InvalidDataError(f"{where}: {problem} {remedy}")

    def _row(self, row: int) -> str:
        number = self.first_row + row
        line = None if self.line_of is None else self.line_of(number)
        if line is not None:
            return f"{self.source}, line {line}"
        return f"{self.source}, row {number}" if self.source else f"rows[{number}]"


CLIENT = Place("", first_row=0)


def listed(names: Iterable[object], *, most: int = 12) -> str:
    """Quote public names in a sentence, at most a dozen of them."""
    items = [repr(name) for name in names]
    rest = len(items) - most
    shown = ", ".join(items[:most])
    return f"{shown} and {rest} more" if rest > 0 else shown
