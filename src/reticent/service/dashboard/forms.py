"""Forms: fields that follow from a schema, and rows that follow from fields."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from reticent.schemas import Categorical, Numeric, Schema, TextWords, plain_number
from reticent.service.requests.bodies import read_body
from reticent.service.requests.problems import ProblemError, plain

_MOST_BYTES = 64 * 1024
_MOST_FIELDS = 2000
# Shows how a column writes dates; day and month cannot be mistaken for each other.
_EXAMPLE = datetime(2024, 12, 24)


async def read_form(request: Request, most: int = _MOST_BYTES) -> dict[str, str]:
    """Return the fields of a form that a browser sent, of at most `most` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise plain(415)
    body = await read_body(request.receive, request.scope["headers"], most)
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            max_num_fields=_MOST_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise plain(400) from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise plain(400)
    return fields


def columns_of(schema: Schema) -> list[dict[str, str]]:
    """Describe in words the columns that a client gives."""
    found = []
    for name in schema.sources:
        missing = "may be empty" if _optional(schema, name) else "always needed"
        found.append({"name": name, "kind": _kind(schema, name), "missing": missing})
    return found


def _kind(schema: Schema, name: str) -> str:
    """Say what a column holds."""
    spec = schema.columns.get(name)
    if isinstance(spec, Categorical):
        kind = "one of " + ", ".join(level_text(level) for level in spec.levels)
        return kind + (", or any other value" if spec.other else "")
    if isinstance(spec, Numeric):
        return f"a number from {plain_number(spec.low)} to {plain_number(spec.high)}"
    example = date_example(schema, name)
    return "text" if example is None else f"a date, such as {example}"


def date_example(schema: Schema, name: str) -> str | None:
    """Return a date as a column writes it; None if the column holds no dates."""
    for reading in schema.readings.values():
        if name in reading.sources and not isinstance(reading, TextWords):
            return _EXAMPLE.strftime(reading.format)
    return None


def _optional(schema: Schema, name: str) -> bool:
    """Return whether a client may leave a column empty."""
    spec = schema.columns.get(name)
    if spec is not None:
        return spec.missing
    return all(
        isinstance(reading, TextWords) or schema.columns[computed].missing
        for computed, reading in schema.readings.items()
        if name in reading.sources
    )


def fields_of(schema: Schema, filled: dict[str, str] | None = None) -> list[Any]:
    """Describe the fields of a form for one row of a schema.

    Fields go by number, so that a column may have any name.
    """
    filled = filled or {}
    fields = []
    for place, name in enumerate(schema.sources):
        spec = schema.columns.get(name)
        field: dict[str, Any] = {
            "id": f"c{place}",
            "label": name,
            "optional": _optional(schema, name),
            "value": filled.get(f"c{place}", ""),
        }
        if isinstance(spec, Categorical):
            field["options"] = [
                {"value": str(number), "text": level_text(level)}
                for number, level in enumerate(spec.levels)
            ]
        elif spec is None:
            field["hint"] = _kind(schema, name)
        else:
            field["low"], field["high"] = (
                plain_number(spec.low),
                plain_number(spec.high),
            )
        fields.append(field)
    return fields


def row_of(schema: Schema, filled: dict[str, str]) -> dict[str, Any]:
    """Return the row that a filled form describes; the schema judges it afterwards."""
    row: dict[str, Any] = {}
    for place, name in enumerate(schema.sources):
        spec, text = schema.columns.get(name), filled.get(f"c{place}", "").strip()
        if not text:
            row[name] = None
        elif isinstance(spec, Categorical):
            row[name] = _level(spec, text)
        else:
            row[name] = text if spec is None else _number(name, spec, text)
    return row


def _number(name: str, spec: Numeric, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _wrong(f"{name}: a number is needed.") from None
    if not math.isnan(value) and not spec.low <= value <= spec.high:
        low, high = plain_number(spec.low), plain_number(spec.high)
        raise _wrong(
            f"{name}: give a number from {low} to {high}. Nothing was charged."
        )
    return value


def _level(spec: Categorical, text: str) -> Any:
    place = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1
    if not 0 <= place < len(spec.levels):
        raise plain(400)
    return spec.levels[place]


def _wrong(what: str) -> ProblemError:
    return ProblemError(422, "invalid_rows", what)


def level_text(level: Any) -> str:
    """Return a level as people write it."""
    return (
        {True: "true", False: "false"}[level] if isinstance(level, bool) else str(level)
    )
