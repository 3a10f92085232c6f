"""Raw cells, and how they are read as numbers or as codes of levels.

A column is read at most twice: a fast pass over the whole column that gives up at
anything unusual, and a careful pass, cell by cell, that decides what the unusual cell
means. The careful pass is the definition; the fast one must agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import inf, isnan, nan
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.schemas.columns import Level
from reticent.schemas.file_format import PLAIN, FileFormat

MISSING = -1
UNKNOWN = -2

# What spreadsheets and statistics packages write for a missing number.
_NO_NUMBER = frozenset({"", "na", "nan", "null"})


class Lookup:
    """The codes of a public list of levels: their positions in it.

    Parameters
    ----------
    levels : sequence of str, of int or of bool
        Distinct levels of one kind.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self.levels = tuple(levels)
        self.kind = type(levels[0])
        self.by_value: dict[Any, int] = {level: i for i, level in enumerate(levels)}

    def spellings(self) -> dict[str, int]:
        """Return how the levels are usually written as text, with their codes."""
        if self.kind is bool:
            return {
                spelling: code
                for level, code in self.by_value.items()
                for spelling in (str(level), str(level).lower(), str(level).upper())
            }
        return {str(level): code for level, code in self.by_value.items()}

    def code(self, value: Any, *, untyped: bool) -> int:
        """Return the code of one cell, MISSING or UNKNOWN."""
        if value is None or (isinstance(value, str) and value == ""):
            return MISSING
        if isinstance(value, float | np.floating) and isnan(value):
            return MISSING
        if untyped and self.kind is not str:
            return self._code_of_text(value)
        if self.kind is str:
            known = isinstance(value, str)
        elif self.kind is bool:
            known = isinstance(value, bool | np.bool_)
        else:
            known = isinstance(
                value, int | float | np.integer | np.floating
            ) and not isinstance(value, bool)
        # A fraction or an infinity equals no whole number, so it is not found.
        return self.by_value.get(value, UNKNOWN) if known else UNKNOWN

    def _code_of_text(self, value: str) -> int:
        text = value.strip()
        if self.kind is bool:
            return self.spellings().get(text, UNKNOWN)
        number = PLAIN.number(text)
        return self.by_value.get(number, UNKNOWN)

    def codes(self, values: list[Any], *, untyped: bool) -> NDArray[np.int32]:
        """Return the codes of many cells, MISSING and UNKNOWN among them."""
        if self.kind is str:
            get = self.by_value.get
            try:
                found = [get(value, UNKNOWN) for value in values]
            except TypeError:  # a cell that cannot be hashed is not a level
                pass
            else:
                codes = np.array(found, dtype=np.int32)
                for row in np.flatnonzero(codes == UNKNOWN):
                    codes[row] = self.code(values[row], untyped=untyped)
                return codes
        return np.array(
            [self.code(value, untyped=untyped) for value in values], dtype=np.int32
        )

    def codes_of_numbers(self, numbers: NDArray[Any]) -> NDArray[np.int32]:
        """Return the codes of an array of numbers; NaN is a missing value."""
        values = numbers.astype(np.float64)
        codes = np.full(values.shape, UNKNOWN, dtype=np.int32)
        if self.kind is int:
            levels = np.array(self.levels, dtype=np.float64)
            order = np.argsort(levels)
            place = np.minimum(np.searchsorted(levels[order], values), len(levels) - 1)
            match = levels[order][place] == values
            codes[match] = order[place[match]]
        codes[np.isnan(values)] = MISSING
        return codes


class RawColumn(Protocol):
    """A column of cells before validation; text from a CSV file is `untyped`."""

    untyped: bool
    #: How untyped text writes numbers.
    written: FileFormat
    #: Whole floating-point numbers below this cannot have been rounded.
    whole_below: int

    def __len__(self) -> int:
        """Return the number of cells."""

    def numbers(self) -> Floats | None:
        """Return the cells as numbers, NaN if missing; None asks for a careful pass."""

    def codes(self, lookup: Lookup) -> NDArray[np.int32] | None:
        """Return codes of levels; None asks for a careful pass."""

    def values(self) -> list[Any]:
        """Return the cells as Python objects, None if missing."""


class ArrayColumn:
    """A column of numbers in an array; NaN is a missing value."""

    untyped = False
    written = PLAIN

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self.whole_below = (
            2 ** min(int(np.finfo(array.dtype).nmant) + 1, 53)
            if array.dtype.kind == "f"
            else 2**53
        )

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._array)

    def numbers(self) -> Floats:
        """Return the cells as numbers."""
        with np.errstate(over="ignore"):  # long double infinities are refused later
            return self._array.astype(np.float64)

    def codes(self, lookup: Lookup) -> NDArray[np.int32]:
        """Return the codes of the cells that equal a level."""
        return lookup.codes_of_numbers(self._array)

    def values(self) -> list[Any]:
        """Return the cells as Python numbers."""
        cells: list[Any] = self._array.tolist()
        return cells


class ListColumn:
    """A column of Python objects; None is a missing value."""

    whole_below = 2**53
    written = PLAIN

    def __init__(self, cells: list[Any], *, untyped: bool = False) -> None:
        self._cells = cells
        self.untyped = untyped

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._cells)

    def numbers(self) -> Floats | None:
        """Return the cells as numbers if all of them are plain Python numbers."""
        if not set(map(type, self._cells)) <= {int, float}:
            return None
        try:
            return np.array(self._cells, dtype=np.float64)
        except OverflowError:  # a whole number too large for a float
            return None

    def codes(self, lookup: Lookup) -> NDArray[np.int32] | None:
        """Leave the codes to the careful pass, which is fast on lists."""
        return None

    def values(self) -> list[Any]:
        """Return the cells."""
        return self._cells


def number_of_cell(
    cell: Any, *, untyped: bool, written: FileFormat = PLAIN
) -> float | None:
    """Return one cell as a number, NaN if it is missing, None if it is not a number."""
    if cell is None:
        return nan
    if untyped:
        text = cell.strip()
        return nan if text.lower() in _NO_NUMBER else written.number(text)
    if isinstance(cell, bool | np.bool_):
        return None
    if isinstance(cell, int | float | np.integer | np.floating | Decimal):
        try:
            return float(cell)
        except OverflowError:
            return inf
        except ValueError:  # a signalling NaN among decimals
            return nan
    return None


def read_numbers(column: RawColumn) -> tuple[Floats, int | None]:
    """Return the column as numbers, and the first row that is not one (or None)."""
    fast = column.numbers()
    if fast is not None:
        return fast, None
    cells = column.values()
    numbers = np.empty(len(cells), dtype=np.float64)
    for row, cell in enumerate(cells):
        number = number_of_cell(cell, untyped=column.untyped, written=column.written)
        if number is None:
            return numbers, row
        numbers[row] = number
    return numbers, None


def read_codes(column: RawColumn, lookup: Lookup) -> NDArray[np.int32]:
    """Return the column as codes; cells that are not levels are MISSING or UNKNOWN."""
    fast = column.codes(lookup)
    if fast is not None:
        return fast
    return lookup.codes(column.values(), untyped=column.untyped)
