"""Forms: fields that follow from a schema, and rows that follow from fields."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from reticent.schemas import Categorical, Numeric, Schema, plain_number
from reticent.service.requests.bodies import read_body
from reticent.service.requests.problems import ProblemError, plain

_MOST_BYTES = 64 * 1024
_MOST_FIELDS = 2000


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
    """Describe the columns of a schema in words."""
    found = []
    for name, spec in schema.columns.items():
        if isinstance(spec, Categorical):
            kind = "one of " + ", ".join(level_text(level) for level in spec.levels)
            kind += ", or any other value" if spec.other else ""
        else:
            low, high = plain_number(spec.low), plain_number(spec.high)
            kind = f"a number from {low} to {high}"
        missing = "may be empty" if spec.missing else "always needed"
        found.append({"name": name, "kind": kind, "missing": missing})
    return found


def fields_of(schema: Schema, filled: dict[str, str] | None = None) -> list[Any]:
    """Describe the fields of a form for one row of a schema.

    Fields go by number, so that a column may have any name.
    """
    filled = filled or {}
    fields = []
    for place, (name, spec) in enumerate(schema.columns.items()):
        field: dict[str, Any] = {
            "id": f"c{place}",
            "label": name,
            "optional": spec.missing,
            "value": filled.get(f"c{place}", ""),
        }
        if isinstance(spec, Categorical):
            field["options"] = [
                {"value": str(number), "text": level_text(level)}
                for number, level in enumerate(spec.levels)
            ]
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
    for place, (name, spec) in enumerate(schema.columns.items()):
        text = filled.get(f"c{place}", "").strip()
        if not text:
            row[name] = None
        elif isinstance(spec, Categorical):
            row[name] = _level(spec, text)
        else:
            row[name] = _number(name, spec, text)
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
