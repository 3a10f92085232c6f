"""Drafts a schema from a sample that its owner has declared public."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial
from math import floor, inf, isfinite, isnan, log10
from os import PathLike, fspath
from typing import Any

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas.cells import RawColumn, number_of_cell
from reticent.schemas.columns import (
    Categorical,
    ClassLabel,
    Column,
    Label,
    Numeric,
    NumericTarget,
)
from reticent.schemas.file_format import PLAIN, FileFormat
from reticent.schemas.files import open_records
from reticent.schemas.named_columns import named_columns
from reticent.schemas.places import Place, listed

# Our choices: more distinct texts than this are probably names or free text, more whole
# numbers than this are probably amounts rather than classes. The draft can be edited.
_MOST_LEVELS = 200
_MOST_CLASSES = 20

# 007 is a code, 0.7 and 0 are numbers.
_CODE = re.compile(r"[+-]?0[0-9]")
_MISSING_WORDS = frozenset({"na", "nan", "null"})
_FLAGS = {"true": True, "false": False}


class ColumnSummary:
    """The kinds, range and levels of a column's cells, updated batch by batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._written = PLAIN
        self.kinds: set[str] = set()
        self.has_missing = False
        self.whole = True
        self.low, self.high = inf, -inf
        self.levels: set[Any] = set()

    def add(self, column: RawColumn) -> None:
        """Add the cells of a column."""
        self._written = column.written
        for cell in column.values():
            self._add_cell(cell, untyped=column.untyped)

    def _add_cell(self, cell: Any, *, untyped: bool) -> None:
        if cell is None or cell == "" or (isinstance(cell, float) and isnan(cell)):
            self.has_missing = True
            return
        number = None
        if isinstance(cell, str):
            self.kinds.add(self._kind_of_text(cell) if untyped else "text")
            if untyped and not _CODE.match(cell.strip()):
                number = self._written.number(cell.strip())
        elif isinstance(cell, bool):
            self.kinds.add("flag")
        else:
            number = number_of_cell(cell, untyped=False)
            self.kinds.add("other" if number is None else "number")
        if number is not None:
            if not isfinite(number):
                self.kinds.add("infinite")
                return
            self.low, self.high = min(self.low, number), max(self.high, number)
            self.whole = self.whole and number.is_integer()
        if len(self.levels) <= _MOST_LEVELS and isinstance(cell, str | bool | int):
            self.levels.add(cell)
        elif len(self.levels) <= _MOST_LEVELS and number is not None:
            self.levels.add(number)

    def _kind_of_text(self, cell: str) -> str:
        text = cell.strip()
        if text.lower() in _MISSING_WORDS:
            return "gap"
        if text.lower() in _FLAGS:
            return "flag"
        if not _CODE.match(text) and self._written.number(text) is not None:
            return "number"
        return "text"

    @property
    def kind(self) -> str:
        """What the column is: numbers, flags or text."""
        plain = self.kinds - {"gap"}
        if plain in ({"number"}, {"flag"}):
            return plain.pop()
        if self.kinds and self.kinds <= {"text", "gap", "flag", "number"}:
            return "text"
        if self.kinds:
            raise InvalidDataError(
                f"column {self.name!r} of the sample holds infinite numbers or values "
                f"that are neither numbers nor text. Correct it, or leave it out "
                f"(--ignore)."
            )
        raise InvalidDataError(
            f"column {self.name!r} of the sample holds no value. Leave it out "
            f"(--ignore), or write its range into the schema by hand."
        )

    @property
    def missing(self) -> bool:
        """Whether values are missing, written as nothing or as NA."""
        return self.has_missing or (self.kind != "text" and "gap" in self.kinds)

    def whole_levels(self) -> list[int]:
        """Return the distinct whole numbers of the column, in order."""
        numbers = {
            self._written.number(level.strip())
            if isinstance(level, str)
            else float(level)
            for level in self.levels
        }
        return sorted(int(number) for number in numbers if number is not None)

    def text_levels(self) -> list[str]:
        """Return the distinct texts of the column, in order."""
        if not all(isinstance(level, str) for level in self.levels):
            raise InvalidDataError(
                f"column {self.name!r} of the sample mixes text with other values. "
                f"Make it one kind, or leave it out (--ignore)."
            )
        if len(self.levels) > _MOST_LEVELS:
            raise InvalidDataError(
                f"column {self.name!r} of the sample has more than {_MOST_LEVELS} "
                f"different texts, too many for levels. Leave it out (--ignore), or "
                f"name it as the unit (--unit)."
            )
        return sorted(self.levels)


def outward(low: float, high: float) -> tuple[float, float]:
    """Round a range outwards to multiples of a power of ten below its width."""
    width = high - low if high > low else max(abs(low), 1.0)
    step = Decimal(1).scaleb(floor(log10(width)))
    bottom = (Decimal(repr(low)) / step).to_integral_value(ROUND_FLOOR) * step
    top = (Decimal(repr(high)) / step).to_integral_value(ROUND_CEILING) * step
    if not bottom < top:
        bottom, top = bottom - step, top + step
    return float(bottom), float(top)


def _column(summary: ColumnSummary, *, as_codes: bool) -> Column:
    if summary.kind == "flag":
        return Categorical((False, True), missing=summary.missing)
    if summary.kind == "text":
        return Categorical(tuple(summary.text_levels()), missing=summary.missing)
    if not as_codes:
        return Numeric(*outward(summary.low, summary.high), missing=summary.missing)
    if not (summary.whole and len(summary.levels) <= _MOST_LEVELS):
        raise InvalidDataError(
            f"column {summary.name!r} of the sample cannot be categorical: it has "
            f"fractions or more than {_MOST_LEVELS} different numbers."
        )
    return Categorical(tuple(summary.whole_levels()), missing=summary.missing)


def _label(summary: ColumnSummary) -> Label:
    if summary.missing:
        raise InvalidDataError(
            f"the label {summary.name!r} of the sample has missing values. Leave out "
            f"those rows."
        )
    if summary.kind == "flag":
        return ClassLabel(summary.name, (False, True))
    if summary.kind == "text":
        return ClassLabel(summary.name, tuple(summary.text_levels()))
    if summary.whole and len(summary.levels) <= _MOST_CLASSES:
        return ClassLabel(summary.name, tuple(summary.whole_levels()))
    return NumericTarget(summary.name, *outward(summary.low, summary.high))


def _parts(
    sample: Any, written: FileFormat
) -> Iterator[tuple[list[Any], dict[str, RawColumn]]]:
    """Yield the names first, then names and columns of a file or a table in batches."""
    if isinstance(sample, str | PathLike):
        file = open_records(sample, written=written)
        # The caller refuses repeated names before it asks for the columns.
        distinct = list(dict.fromkeys(file.names))
        yield file.names, {}
        for chunk in file.chunks(distinct):
            yield file.names, {n: file.column(chunk.column(n)) for n in distinct}
    else:
        frame = named_columns(sample, positions=())
        yield frame.names, {}
        yield frame.names, {name: frame.column(name) for name in frame.names}


def draft(
    sample: Any,
    *,
    public: bool,
    label: str | None,
    unit: str | None,
    ignored: tuple[str, ...],
    categorical: tuple[str, ...],
    written: FileFormat,
) -> dict[str, Any]:
    """Return the arguments of a schema that fits a public sample."""
    if public is not True:
        raise InvalidParameterError(
            f"public={public!r}: a schema is drafted only from a public sample, "
            f"because it shows the sample's ranges and levels. Pass public=True if the "
            f"sample is public; otherwise write the schema from the codebook."
        )
    place = Place(fspath(sample) if isinstance(sample, str | PathLike) else "sample")
    parts = _parts(sample, written)
    names, _ = next(parts)
    _check_names(names, place, [label, unit, *ignored, *categorical])
    features = [n for n in names if n not in {label, unit, *ignored}]
    summaries = {
        name: ColumnSummary(name) for name in [*features, *([label] if label else [])]
    }
    for _, columns in parts:
        for name, summary in summaries.items():
            summary.add(columns[name])
    columns_found: dict[str, Column] = {}
    for name in features:
        as_codes = name in categorical
        columns_found[name] = _named(
            name, partial(_column, summaries[name], as_codes=as_codes)
        )
    return {
        "columns": columns_found,
        "label": _named(label, partial(_label, summaries[label])) if label else None,
        "unit": unit,
        "ignored": ignored,
        "file": written,
    }


def _named(name: str, build: Callable[[], Any]) -> Any:
    """Build a specification; an error says which column of the sample it is about."""
    problem = ""
    try:
        return build()
    except InvalidDataError:
        raise
    except InvalidParameterError as error:
        problem = str(error)
    raise InvalidDataError(f"column {name!r} of the sample: {problem}")


def _check_names(names: list[Any], place: Place, asked: list[str | None]) -> None:
    absent = [name for name in asked if name is not None and name not in names]
    if absent:
        raise place.error(
            f"the sample has no column {absent[0]!r}; it has {listed(names)}."
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise place.error(
            f"the column {twice[0]!r} occurs twice. Rename or remove one."
        )
