"""What a person declares about columns, as text: ranges, levels, dates, words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.schemas import (
    TO_BE_WRITTEN,
    Categorical,
    ClassLabel,
    DatePart,
    DateSpan,
    FileFormat,
    Numeric,
    NumericTarget,
    Schema,
    TextWords,
)

#: The months and weekdays are known without looking at any record.
PART_LEVELS: dict[str, list[int]] = {
    "quarter": list(range(1, 5)),
    "month": list(range(1, 13)),
    "day": list(range(1, 32)),
    "weekday": list(range(1, 8)),
    "hour": list(range(24)),
}
_SPAN = re.compile(r"(.+) since (.+) (days|years) (\S+)")
_RANGE = re.compile(r"\s*([^:\s]+)\s*(?::|\s+to\s+)\s*([^:\s]+)\s*")
_WORDS = range(1, 65)


@dataclass
class Declarations:
    """What is declared about a table so far; `schema` makes a schema of it.

    Parameters
    ----------
    names : list of str
        The columns of the file.
    file : FileFormat
        How it is written.
    """

    names: list[str]
    file: FileFormat = field(default_factory=FileFormat)
    columns: dict[str, Any] = field(default_factory=dict)
    readings: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    label: Any = None
    unit: str | None = None
    used: set[str] = field(default_factory=set)

    def open_names(self) -> list[str]:
        """Return the columns about which nothing is declared."""
        done = {*self.used, *self.ignored, self.unit}
        done |= {None if self.label is None else self.label.name}
        return [name for name in self.names if name not in done]

    def open_column(self, name: str) -> str:
        """Return a column of the file that has no role yet."""
        self._known(name)
        if name not in self.open_names():
            raise InvalidParameterError(
                f"{name!r} is declared twice. Give a column one role."
            )
        return name

    def _known(self, name: str) -> None:
        if name not in self.names:
            raise InvalidParameterError(
                f"the file has no column {name!r}; it has "
                f"{', '.join(map(repr, self.names))}."
            )

    def numeric(self, name: str, text: str, *, missing: bool = False) -> None:
        """Declare numbers with a public range, such as '0:120'."""
        spec = Numeric(*range_of(text), missing=missing)
        self.columns[self.open_column(name)] = spec
        self.used.add(name)

    def levels(self, name: str, text: str, *, missing: bool = False) -> None:
        """Declare categories with a public list, such as 'A, B, AB, 0'."""
        spec = Categorical(tuple(levels_of(text)), missing=missing)
        self.columns[self.open_column(name)] = spec
        self.used.add(name)

    def date(self, name: str, form: str, parts: tuple[str, ...]) -> None:
        """Declare a date, of which the model sees parts that are known beforehand."""
        self.open_column(name)
        for part in parts:
            reading = DatePart(name, part, form)
            self.columns[f"{name} {part}"] = Categorical(
                tuple(PART_LEVELS[part]), missing=True
            )
            self.readings[f"{name} {part}"] = reading
        self.used.add(name)

    def span(self, name: str, text: str, form: str) -> None:
        """Declare a span: 'discharged since admitted days 0:365'."""
        found = _SPAN.fullmatch(text.strip())
        if found is None:
            raise InvalidParameterError(
                f"a span reads like 'discharged since admitted days 0:365'; got "
                f"{text!r}."
            )
        later, since, unit, reach = found.groups()
        reading = DateSpan(later.strip(), since.strip(), unit, form)
        for source in reading.sources:
            if source not in self.names:
                self.open_column(source)
        if name in self.names or name in self.columns:
            raise InvalidParameterError(
                f"{name!r} is a column already. Give the span a name of its own."
            )
        self.columns[name] = Numeric(*range_of(reach), missing=True)
        self.readings[name] = reading
        self.used |= set(reading.sources)

    def words(self, name: str, text: str) -> None:
        """Declare free text, of which words are hashed into some buckets."""
        self.open_column(name)
        if not (text.strip().isdigit() and int(text) in _WORDS):
            raise InvalidParameterError(
                f"the number of buckets for the words of {name!r} must be a whole "
                f"number from {_WORDS[0]} to {_WORDS[-1]}; got {text!r}."
            )
        for bucket in range(int(text)):
            self.columns[f"{name} words {bucket}"] = Categorical((False, True))
            self.readings[f"{name} words {bucket}"] = TextWords(name, bucket, int(text))
        self.used.add(name)

    def ignore(self, name: str) -> None:
        """Declare that a column is not read."""
        self.ignored.append(self.open_column(name))

    def label_is(self, name: str, classes: str | None, reach: str | None) -> None:
        """Declare what is to be predicted, by its classes or its range."""
        if (classes is None) == (reach is None):
            raise InvalidParameterError(
                f"say what {name!r} can be: its classes (--classes 'no,yes'), or the "
                "range of a number (--target-range 0:100)."
            )
        self.open_column(name)
        if classes is not None:
            self.label = ClassLabel(name, tuple(levels_of(classes)))
        else:
            self.label = NumericTarget(name, *range_of(reach or ""))

    def unit_is(self, name: str) -> None:
        """Declare the column that says whose row it is."""
        self.unit = self.open_column(name)

    def may_miss(self, name: str) -> None:
        """Declare that values of a column may be missing."""
        spec = self.columns.get(name)
        if spec is None and name not in self.names and "," in name:
            raise InvalidParameterError(
                f"the file has no column {name!r}. Give --missing once for each column."
            )
        if spec is None:
            self._known(name)
            raise InvalidParameterError(
                f"missing values of {name!r} can be allowed if its range or its levels "
                "are declared."
            )
        self.columns[name] = replace(spec, missing=True)

    def schema(self) -> Schema:
        """Return the schema; every column must be declared."""
        undeclared = self.open_names()
        if undeclared:
            raise InvalidParameterError(
                f"nothing is declared about {', '.join(map(repr, undeclared))}. Give "
                "for each --numeric 'NAME=LOW:HIGH', --levels 'NAME=A,B', --date "
                "'NAME=%d.%m.%Y', --words 'NAME=16' or --ignore NAME."
            )
        return Schema(
            self.columns,
            label=self.label,
            unit=self.unit,
            ignored=tuple(self.ignored),
            file=self.file,
            readings=self.readings,
        )

    def skeleton(self, label: str | None) -> dict[str, Any]:
        """Return a schema as JSON in which a person still has to write some kinds."""
        todo = [
            {"name": name, "kind": TO_BE_WRITTEN}
            for name in self.open_names()
            if name != label
        ]
        known = [
            {"name": name, **spec.as_dict(), **self._from(name)}
            for name, spec in self.columns.items()
        ]
        open_label = None if label is None else {"name": label, "kind": TO_BE_WRITTEN}
        return {
            "reticent_schema": 1,
            "columns": [*todo, *known],
            "label": open_label if self.label is None else self.label.as_dict(),
            "unit": self.unit,
            "ignored": list(self.ignored),
            "file": self.file.as_dict(),
        }

    def _from(self, name: str) -> dict[str, Any]:
        reading = self.readings.get(name)
        return {} if reading is None else {"from": reading.as_dict()}


def range_of(text: str) -> tuple[float, float]:
    """Read '0:120' or '0 to 120'."""
    found = _RANGE.fullmatch(text)
    parts = [] if found is None else [part.replace(",", ".") for part in found.groups()]
    try:
        low, high = map(float, parts)
    except ValueError:
        raise InvalidParameterError(
            f"a range reads like 0:120; got {text!r}."
        ) from None
    return low, high


def levels_of(text: str) -> list[Any]:
    """Read 'A, B, C'; whole numbers and true/false are read as such."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidParameterError("levels read like 'A, B, AB, 0'; got none.")
    if all(re.fullmatch(r"-?(0|[1-9][0-9]*)", part) for part in parts):
        return [int(part) for part in parts]
    flags = {"true": True, "false": False}
    if all(part.lower() in flags for part in parts):
        return [flags[part.lower()] for part in parts]
    return parts


def pair_of(option: str, text: str) -> tuple[str, str]:
    """Read 'NAME=VALUE' of a repeated option."""
    name, sign, value = text.partition("=")
    if not (sign and name.strip() and value.strip()):
        raise InvalidParameterError(
            f"{option} needs NAME=VALUE, such as {option} {_EXAMPLES[option]!r}; got "
            f"{text!r}."
        )
    return name.strip(), value.strip()


_EXAMPLES = {
    "--numeric": "age=0:120",
    "--levels": "blood=A,B,AB,0",
    "--date": "admitted=%d.%m.%Y",
    "--span": "stay=discharged since admitted days 0:365",
    "--words": "note=16",
}
