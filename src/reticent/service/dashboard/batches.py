"""Many rows at once, as CSV that somebody uploads or pastes."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from reticent.schemas import Categorical, Schema, distinct_names
from reticent.service.dashboard.forms import level_text
from reticent.service.requests.problems import ProblemError

_SEPARATORS = (",", ";", "\t")


@dataclass(frozen=True)
class Batch:
    """The rows of an uploaded file.

    Attributes
    ----------
    rows : list of dict
        One per line, for `Schema.rows`.
    lines : list of list of str
        The cells as they were written, to be sent back with the answers.
    header : list of str
        The names of the columns.
    ignored : list of str
        Columns that the model does not take.
    separator : str
        What stands between fields.
    """

    rows: list[dict[str, Any]]
    lines: list[list[str]]
    header: list[str]
    ignored: list[str]
    separator: str = ","


def read_batch(schema: Schema, text: str, most: int) -> Batch:
    """Read CSV with a header; the columns may have any order.

    Parameters
    ----------
    schema : Schema
        What the rows must follow.
    text : str
        The file.
    most : int
        The largest number of rows.
    """
    separator = _separator(schema, text)
    try:
        header, *lines = [
            line
            for line in csv.reader(
                io.StringIO(text.lstrip("\ufeff")), delimiter=separator, strict=True
            )
            if line
        ]
    except (csv.Error, ValueError):
        raise _wrong("give a header and at least one row.") from None
    header = _names(schema, header)
    # Dates and texts may come as they are written, or as what is computed from them.
    wanted = schema.sources if set(schema.sources) <= set(header) else schema.columns
    absent = [name for name in wanted if header.count(name) != 1]
    if absent:
        raise _wrong(f"the header must name {absent[0]!r} exactly once.")
    if not 0 < len(lines) <= most:
        raise _wrong(f"the file must have 1 to {most} rows.")
    for place, line in enumerate(lines):
        if len(line) != len(header):
            raise _wrong(f"row {place + 1} does not have as many cells as the header.")
    places = {name: header.index(name) for name in wanted}
    rows = [
        {name: _cell(schema, name, line[at], place) for name, at in places.items()}
        for place, line in enumerate(lines)
    ]
    ignored = [name for name in header if name not in wanted]
    return Batch(rows, lines, header, ignored, separator)


def _names(schema: Schema, header: list[str]) -> list[str]:
    """Return the names of columns; one occurs twice only if the schema says so."""
    known = {*schema.sources, *schema.ignored}
    names = distinct_names(header)
    for given, name in zip(header, names, strict=True):
        if given.strip() and given.strip() != name and name not in known:
            raise _wrong(f"the column {given.strip()!r} occurs twice.")
    return names


def _separator(schema: Schema, text: str) -> str:
    """Return what stands between fields: as declared, else as the header shows."""
    first, declared = text.partition("\n")[0], schema.file.separator
    if declared is not None and declared in first:
        return declared
    return max(_SEPARATORS, key=first.count)


def write_batch(batch: Batch, answers: dict[str, list[str]]) -> str:
    """Return CSV with further columns after those that were given."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", delimiter=batch.separator)
    writer.writerow([_safe(name) for name in batch.header] + list(answers))
    for line, *more in zip(batch.lines, *answers.values(), strict=True):
        writer.writerow([_safe(cell) for cell in line] + more)
    return out.getvalue()


def _safe(cell: str) -> str:
    """Keep spreadsheets from reading a cell as a formula."""
    return f"'{cell}" if cell[:1] in {"=", "@", "\t", "\r"} else cell


def _cell(schema: Schema, name: str, text: str, place: int) -> Any:
    """Return a cell as `Schema.rows` takes it, or say what is wrong with it."""
    spec, text = schema.columns.get(name), text.strip()
    if not text:
        return None
    if spec is None:
        return text
    if isinstance(spec, Categorical):
        known = {level_text(level): level for level in spec.levels}
        return known.get(text, text)
    number = schema.file.number(text)
    if number is None:
        example = f"1{schema.file.decimal}5"
        raise _wrong(
            f"row {place + 1}, column {name!r}: a number is needed, such as {example}."
        )
    return number


def _wrong(what: str) -> ProblemError:
    return ProblemError(422, "invalid_rows", f"{what} Nothing was charged.")
