"""Validates rows that clients send as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, nan
from operator import itemgetter
from struct import pack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.schemas.cells import UNKNOWN, ListColumn, number_of_cell
from reticent.schemas.places import CLIENT, listed
from reticent.schemas.readings import computed
from reticent.schemas.table import PackedRows, Table

if TYPE_CHECKING:
    from reticent.schemas.schema import Schema

_NUMBERS = frozenset({int, float})
_NOT_JSON = object()
# Fewer rows than this are checked value by value: calls of NumPy cost more.
_FEW = 4


def _picker(names: tuple[str, ...]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Return a function that takes the values of `names` out of a dictionary."""
    if len(names) == 1:
        (only,) = names
        return lambda row: (row[only],)
    return itemgetter(*names) if names else lambda row: ()


class RowReader:
    """Validates rows of one schema; built once for many requests.

    Parameters
    ----------
    schema : Schema
        What the rows must follow.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._layout = schema.layout
        self._names = frozenset(schema.columns)
        self._sources = frozenset(schema.sources)
        self._numbers_of = _picker(self._layout.numeric.names)
        self._levels_of = _picker(self._layout.category.names)
        self._codes_of = [lookup.by_value for lookup in self._layout.category.lookups]
        self._finders = [
            lookup.by_value.__getitem__ for lookup in self._layout.category.lookups
        ]
        numeric = self._layout.numeric
        self._ranges = [
            (float(low) + 0.0, float(high) + 0.0, bool(strict))
            for low, high, strict in zip(
                numeric.low, numeric.high, numeric.strict, strict=True
            )
        ]
        self._some_missing = bool(self._layout.numeric.may_miss.any())
        # A dictionary confuses True, 1 and 1.0, so only text can be looked up directly.
        self._all_text = all(
            lookup.kind is str for lookup in self._layout.category.lookups
        )

    def table(self, rows: Any, *, clip: bool = True) -> Table:
        """Return the rows as a table, or say which row and column is wrong."""
        if not isinstance(rows, list | tuple):
            raise CLIENT.error("rows must be a list of objects. Send [{...}, ...].")
        if not rows:
            raise CLIENT.error("rows is empty. Send at least one row.")
        if self._schema.readings:
            rows = self._computed(rows)
        for position, row in enumerate(rows):
            if not isinstance(row, dict) or row.keys() != self._names:
                raise self._wrong_keys(position, row)
        if len(rows) < _FEW:
            packed = self._packed(rows, clip)
            if packed is not None:
                return packed.table()
        numbers = self._numbers([self._numbers_of(row) for row in rows])
        codes = self._codes([self._levels_of(row) for row in rows])
        return Table(
            self._schema,
            self._layout.numeric.checked(numbers, CLIENT, clip=clip),
            self._layout.category.checked(codes, CLIENT),
        )

    def _computed(self, rows: Any) -> Any:
        """Return rows with computed columns, if they hold what those come from."""
        if not all(
            isinstance(row, dict) and row.keys() == self._sources for row in rows
        ):
            return rows
        given = {n: ListColumn([row[n] for row in rows]) for n in self._sources}
        found = computed(self._schema.readings, given, CLIENT)
        return [
            {
                name: found[name].values()[place] if name in found else row[name]
                for name in self._names
            }
            for place, row in enumerate(rows)
        ]

    def packed(self, rows: Any, *, clip: bool = True) -> PackedRows | None:
        """Return a few ordinary rows; None if there are many, or one is special.

        What is special (missing, infinite, outside, not a level, another type) is left
        to `table`, which says what is wrong with it.
        """
        if type(rows) is not list or not 0 < len(rows) < _FEW or self._schema.readings:
            return None
        for row in rows:
            if type(row) is not dict or row.keys() != self._names:
                return None
        return self._packed(rows, clip)

    def _packed(self, rows: Sequence[dict[str, Any]], clip: bool) -> PackedRows | None:
        if not self._all_text:
            return None
        numbers: list[float] = []
        codes: list[int] = []
        try:
            for row in rows:
                values = self._numbers_of(row)
                if not _NUMBERS.issuperset(map(type, values)):
                    return None
                for value, (low, high, strict) in zip(
                    values, self._ranges, strict=True
                ):
                    if low <= value <= high:
                        numbers.append(value + 0.0)  # -0.0 becomes 0.0
                    elif strict or not clip or not isfinite(value):
                        return None
                    else:
                        numbers.append(low if value < low else high)
                levels = self._levels_of(row)
                codes += [
                    found[level]
                    for found, level in zip(self._codes_of, levels, strict=True)
                ]
        except (KeyError, TypeError, OverflowError):
            return None
        return PackedRows(
            self._schema,
            pack(f"<{len(numbers)}d", *numbers),
            pack(f"<{len(codes)}i", *codes),
            len(rows),
        )

    def _wrong_keys(self, position: int, row: Any) -> Exception:
        if not isinstance(row, dict):
            return CLIENT.error(
                "a row must be an object with the columns as keys.", row=position
            )
        absent = [name for name in self._schema.sources if name not in row]
        if absent:
            return CLIENT.error(
                f"the columns {listed(absent)} are missing. Send every column, and "
                f"null for a missing value where the schema allows one.",
                row=position,
            )
        # The surplus keys are not named: what a client sends is never sent back.
        return CLIENT.error(
            f"{len(row) - len(self._sources)} keys are not columns of the schema. Send "
            f"only {listed(self._schema.sources, most=100)}.",
            row=position,
        )

    def _numbers(self, picked: list[tuple[Any, ...]]) -> Floats:
        kinds = {type(value) for values in picked for value in values}
        if kinds <= _NUMBERS:
            try:
                numbers = np.array(picked, dtype=np.float64)
            except OverflowError:
                pass
            else:
                # NaN must not pass for a missing value where one would be allowed.
                if not self._some_missing or np.isfinite(numbers).all():
                    return numbers
        return self._numbers_with_care(picked)

    def _numbers_with_care(self, picked: list[tuple[Any, ...]]) -> Floats:
        """Read cell by cell. Only null is missing; NaN is not JSON and is refused."""
        block = self._layout.numeric
        numbers = np.empty((len(picked), len(block.names)), dtype=np.float64)
        for i, values in enumerate(picked):
            for j, value in enumerate(values):
                number = number_of_cell(value, untyped=False)
                if number is None:
                    raise block.no_number(i, j, CLIENT)
                if value is not None and not isfinite(number):
                    raise block.not_finite(i, j, CLIENT)
                numbers[i, j] = nan if value is None else number
        return numbers

    def _codes(self, picked: list[tuple[Any, ...]]) -> NDArray[np.int32]:
        shape = len(picked), len(self._finders)
        if self._all_text:
            finders = self._finders
            try:
                found = [
                    [find(value) for find, value in zip(finders, values, strict=True)]
                    for values in picked
                ]
            except (KeyError, TypeError):  # not a level, or a value without a hash
                pass
            else:
                return np.array(found, dtype=np.int32).reshape(shape)
        codes = np.full(shape, UNKNOWN, dtype=np.int32)
        for j, lookup in enumerate(self._layout.category.lookups):
            cells = [values[j] for values in picked]
            # NaN differs from itself. It is not JSON, so it is not a missing value.
            cells = [cell if cell == cell else _NOT_JSON for cell in cells]
            codes[:, j] = lookup.codes(cells, untyped=False)
        return codes


def packed_rows(
    schema: Schema, rows: list[dict[str, Any]], *, clip: bool = True
) -> Table | PackedRows:
    """Validate rows as `Schema.rows` does; a few ordinary ones are returned as bytes.

    Parameters
    ----------
    schema : Schema
        What the rows must follow.
    rows, clip
        As for `Schema.rows`.
    """
    packed = schema.row_reader.packed(rows, clip=clip)
    return schema.rows(rows, clip=clip) if packed is None else packed
