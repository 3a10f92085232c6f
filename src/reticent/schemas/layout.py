"""The columns of a schema as a block of numbers and a block of codes.

All checks of values are here, over whole blocks, so that files, data frames and rows
sent by clients go through the same code.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats
from reticent.errors import InvalidDataError
from reticent.schemas.cells import MISSING, UNKNOWN, Lookup
from reticent.schemas.columns import Categorical, Column, Numeric, plain_number
from reticent.schemas.places import Place, listed

_KIND_NAMES = {str: "text", int: "whole numbers", bool: "true or false"}


def _missing(row: int, column: str, place: Place) -> InvalidDataError:
    return place.cell(
        row,
        column,
        "the value is missing, and the schema does not allow that.",
        curator="Fill it in, leave out the row, or declare missing=true.",
        client="Send a value.",
    )


def _first(bad: Bools) -> tuple[int, int]:
    row, column = np.argwhere(bad)[0]
    return int(row), int(column)


class NumericBlock:
    """The numeric columns: their public ranges as arrays.

    Parameters
    ----------
    columns : mapping of str to Numeric
        The columns, in order.
    """

    def __init__(self, columns: Mapping[str, Numeric]) -> None:
        self.names = tuple(columns)
        specs = list(columns.values())
        self.low = np.array([spec.low for spec in specs], dtype=np.float64)
        self.high = np.array([spec.high for spec in specs], dtype=np.float64)
        self.may_miss = np.array([spec.missing for spec in specs], dtype=bool)
        self.strict = np.array([spec.outside == "error" for spec in specs], dtype=bool)
        self._some_strict = bool(self.strict.any())

    def checked(self, numbers: Floats, place: Place, *, clip: bool = True) -> Floats:
        """Return numbers inside the ranges, NaN only where values may be missing.

        With `clip` false, every number outside is refused, whatever its column says.
        """
        if not np.isfinite(numbers).all():
            missing = np.isnan(numbers) & ~self.may_miss
            if missing.any():
                row, column = _first(missing)
                raise _missing(row, self.names[column], place)
            infinite = np.isinf(numbers)
            if infinite.any():
                raise self.not_finite(*_first(infinite), place)
        if self._some_strict or not clip:
            outside = (numbers < self.low) | (numbers > self.high)
            if clip:
                outside &= self.strict
            if outside.any():
                raise self._outside(*_first(outside), place, clip=clip)
        inside = np.minimum(np.maximum(numbers, self.low), self.high)
        inside += 0.0  # -0.0 becomes 0.0
        return inside

    def no_number(self, row: int, column: int, place: Place) -> InvalidDataError:
        """Return the error for a cell that is not a number."""
        missing = self.may_miss[column]
        return place.cell(
            row,
            self.names[column],
            "a number is needed, not text and not true or false.",
            curator="Write a decimal number"
            + (", or nothing if it is missing." if missing else "."),
            client="Send a number" + (", or null if missing." if missing else "."),
        )

    def not_finite(self, row: int, column: int, place: Place) -> InvalidDataError:
        """Return the error for a number that is infinite or too large."""
        return place.cell(
            row,
            self.names[column],
            "the number is not finite.",
            curator="Write an ordinary decimal number.",
            client="Send an ordinary decimal number.",
        )

    def _outside(
        self, row: int, column: int, place: Place, *, clip: bool
    ) -> InvalidDataError:
        low, high = plain_number(self.low[column]), plain_number(self.high[column])
        return place.cell(
            row,
            self.names[column],
            f"the number is outside the public range {low} to {high}.",
            curator="Correct it, widen the range, or declare outside='clip'."
            if clip or self.strict[column]
            else "Correct it, or have it moved to the nearer end with --clip.",
            client="Send a number inside"
            + (
                "." if self.strict[column] else ", or clip=true to have it moved there."
            ),
        )


class CategoryBlock:
    """The categorical columns: their public levels and what else they allow.

    Parameters
    ----------
    columns : mapping of str to Categorical
        The columns, in order.
    """

    def __init__(self, columns: Mapping[str, Categorical]) -> None:
        self.names = tuple(columns)
        specs = list(columns.values())
        self.lookups = tuple(Lookup(spec.levels) for spec in specs)
        self.n_levels = np.array([len(spec.levels) for spec in specs], dtype=np.int32)
        self.may_miss = np.array([spec.missing for spec in specs], dtype=bool)
        self.has_other = np.array([spec.other for spec in specs], dtype=bool)

    def checked(self, codes: NDArray[np.int32], place: Place) -> NDArray[np.int32]:
        """Return codes that the columns allow; unknown levels become "other"."""
        if codes.size == 0 or codes.min() >= 0:
            return codes
        missing = (codes == MISSING) & ~self.may_miss
        if missing.any():
            row, column = _first(missing)
            raise _missing(row, self.names[column], place)
        unknown = codes == UNKNOWN
        refused = unknown & ~self.has_other
        if refused.any():
            raise self._unknown(*_first(refused), place)
        return np.where(unknown, self.n_levels, codes)

    def _unknown(self, row: int, column: int, place: Place) -> InvalidDataError:
        lookup = self.lookups[column]
        return place.cell(
            row,
            self.names[column],
            f"the value is not one of the levels of the schema "
            f"({_KIND_NAMES[lookup.kind]}): {listed(lookup.levels)}.",
            curator="Correct it, add the level, or declare other=true.",
            client="Send one of them.",
        )


class Layout:
    """Both blocks of a schema.

    Parameters
    ----------
    columns : mapping of str to Numeric or Categorical
        The columns, in order.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.numeric = NumericBlock(
            {name: spec for name, spec in columns.items() if isinstance(spec, Numeric)}
        )
        self.category = CategoryBlock(
            {n: spec for n, spec in columns.items() if isinstance(spec, Categorical)}
        )
