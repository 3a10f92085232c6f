"""Columns that are computed from others: parts of dates, spans, words of free text.

What is computed depends on the declaration and on the row alone, never on other rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from typing import Any, TypeAlias

from reticent.errors import InvalidParameterError
from reticent.schemas.cells import ListColumn, RawColumn
from reticent.schemas.columns import checked_choice, checked_text
from reticent.schemas.places import Place

ISO = "%Y-%m-%d"
_PARTS: dict[str, Callable[[datetime], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "weekday": lambda day: day.isoweekday(),
    "hour": lambda day: day.hour,
}
#: What a date can be taken apart into; weekdays are 1 for Monday to 7 for Sunday.
PARTS = tuple(_PARTS)
#: What spans are counted in, with the number of days.
SPANS = {"days": 1.0, "years": 365.25}
# Names of months and weekdays depend on the machine's language, so they are left out.
_DIRECTIVES = frozenset("YymdHMS%")
_MOST_BUCKETS = 256
_WORD = re.compile(r"\w+")
_BAD = object()


def checked_format(form: object) -> str:
    """Return how dates are written, if it has a year, a month and a day."""
    marks = re.findall(r"%(.)", form) if isinstance(form, str) else []
    years = [mark for mark in marks if mark in "Yy"]
    if not (
        set(marks) <= _DIRECTIVES
        and len(set(marks)) == len(marks)
        and len(years) == 1
        and {"m", "d"} <= set(marks)
    ):
        raise InvalidParameterError(
            f"format={form!r} needs %Y (or %y), %m and %d once each, such as %d.%m.%Y, "
            "and may have %H, %M and %S."
        )
    return str(form)


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of a date.

    Parameters
    ----------
    column : str
        The column of the file that holds the date.
    part : {"year", "quarter", "month", "day", "weekday", "hour"}
        Which part.
    format : str, default="%Y-%m-%d"
        How dates are written. ``2026-11-17`` is understood as well.
    """

    column: str
    part: str
    format: str = ISO

    def __post_init__(self) -> None:
        checked_text("column", self.column)
        checked_choice("part", self.part, PARTS)
        checked_format(self.format)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the file that are needed."""
        return (self.column,)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {"column": self.column, "part": self.part, "format": self.format}

    def values(self, days: dict[str, list[Any]]) -> list[Any]:
        """Return the values for columns of dates."""
        take = _PARTS[self.part]
        return [None if day is None else take(day) for day in days[self.column]]


@dataclass(frozen=True, slots=True)
class DateSpan:
    """The time from one date to another.

    Parameters
    ----------
    column : str
        The column of the file that holds the later date.
    since : str
        The column with the earlier date, or a public day such as ``2020-01-01``.
    unit : {"days", "years"}, default="days"
        What is counted; a year has 365.25 days.
    format : str, default="%Y-%m-%d"
        How dates are written. ``2026-11-17`` is understood as well.
    """

    column: str
    since: str
    unit: str = "days"
    format: str = ISO

    def __post_init__(self) -> None:
        checked_text("column", self.column)
        checked_text("since", self.since)
        checked_choice("unit", self.unit, tuple(SPANS))
        checked_format(self.format)

    @property
    def _start(self) -> datetime | None:
        found = _date(self.since, ISO)
        return found if isinstance(found, datetime) else None

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the file that are needed."""
        return (self.column,) if self._start else (self.column, self.since)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {
            "column": self.column,
            "since": self.since,
            "unit": self.unit,
            "format": self.format,
        }

    def values(self, days: dict[str, list[Any]]) -> list[Any]:
        """Return the values for columns of dates."""
        ends, start = days[self.column], self._start
        starts = [start] * len(ends) if start else days[self.since]
        return [
            None
            if first is None or last is None
            else (last - first).total_seconds() / 86400 / SPANS[self.unit]
            for first, last in zip(starts, ends, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class TextWords:
    """Whether a text has a word that is hashed into one of several buckets.

    Parameters
    ----------
    column : str
        The column of the file that holds the text.
    bucket, buckets : int
        Which bucket, from 0, of how many.
    """

    column: str
    bucket: int
    buckets: int

    def __post_init__(self) -> None:
        checked_text("column", self.column)
        if not (
            type(self.buckets) is int
            and type(self.bucket) is int
            and 0 <= self.bucket < self.buckets <= _MOST_BUCKETS
        ):
            raise InvalidParameterError(
                f"bucket={self.bucket!r} and buckets={self.buckets!r} need whole "
                f"numbers with 0 <= bucket < buckets <= {_MOST_BUCKETS}."
            )

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the file that are needed."""
        return (self.column,)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {"column": self.column, "bucket": self.bucket, "buckets": self.buckets}


Reading: TypeAlias = DatePart | DateSpan | TextWords


def reading_of(data: dict[str, Any]) -> Reading:
    """Return a reading from its dictionary; refuse anything else."""
    kinds: dict[str, Any] = {"part": DatePart, "since": DateSpan, "bucket": TextWords}
    for key, kind in kinds.items():
        if key in data:
            try:
                found: Reading = kind(**data)
            except TypeError:
                break
            return found
    raise InvalidParameterError(
        "'from' needs column with part, since, or bucket and buckets (and a format, or "
        f"a unit); got the keys {', '.join(map(repr, data)) or 'none'}."
    )


def computed(
    readings: Mapping[str, Reading], columns: Mapping[str, RawColumn], place: Place
) -> dict[str, RawColumn]:
    """Return the columns that are computed from others, by their names."""
    found: dict[str, RawColumn] = {}
    dates: dict[tuple[str, str], list[Any]] = {}
    words: dict[tuple[str, int], list[frozenset[int]]] = {}
    for name, reading in readings.items():
        if isinstance(reading, TextWords):
            key = reading.column, reading.buckets
            if key not in words:
                words[key] = _hashed(columns[reading.column], reading, place)
            values: list[Any] = [reading.bucket in row for row in words[key]]
        else:
            days = {}
            for source in reading.sources:
                seen = source, reading.format
                if seen not in dates:
                    dates[seen] = _dates(columns[source], source, reading.format, place)
                days[source] = dates[seen]
            values = reading.values(days)
        found[name] = ListColumn(values)
    return found


def _dates(column: RawColumn, name: str, form: str, place: Place) -> list[Any]:
    found = []
    for row, cell in enumerate(column.values()):
        day = _date(cell, form)
        if day is _BAD:
            raise not_a_date(row, name, form, place)
        found.append(day)
    return found


def not_a_date(row: int, name: str, form: str, place: Place) -> Exception:
    """Return the error for a cell that is not a date."""
    return place.cell(
        row,
        name,
        f"the date is not written as {form}, or there is no such day.",
        curator="Correct it, leave it empty where it may be missing, or correct the "
        "format in the schema.",
        client=f"Send it as {form} or as 2026-11-17.",
    )


def is_date(cell: Any, form: str) -> bool:
    """Return whether a cell is a date, or missing."""
    return _date(cell, form) is not _BAD


def _date(cell: Any, form: str) -> Any:
    """Return a cell as a date with a time, None if it is missing, _BAD if neither."""
    if cell is None or cell == "" or cell != cell:
        return None
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=None)
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    if not (isinstance(cell, str) and cell.isascii()):
        return _BAD
    text = cell.strip()
    for known in (form, ISO):
        try:
            return datetime.strptime(text, known)
        except ValueError:
            continue
    return None if text == "" else _BAD


def _hashed(
    column: RawColumn, reading: TextWords, place: Place
) -> list[frozenset[int]]:
    """Return the buckets of each row's words; a missing text has none."""
    known: dict[str, int] = {}
    found = []
    for row, cell in enumerate(column.values()):
        if cell is not None and not isinstance(cell, str):
            raise place.cell(
                row,
                reading.column,
                "the value is not text.",
                curator="Write text, or leave it empty.",
                client="Send text.",
            )
        words = set(_WORD.findall((cell or "").casefold()))
        for word in words - known.keys():
            digest = sha256(word.encode("utf-8", "surrogatepass")).digest()
            known[word] = int.from_bytes(digest[:8], "big") % reading.buckets
        found.append(frozenset(known[word] for word in words))
    return found
