"""Options that several commands share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reticent.home import DEFAULT_HOME
from reticent.schemas import ENCODINGS, FileFormat, Schema

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.")
]
HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        envvar="RETICENT_HOME",
        help="Directory with models, keys and ledger.",
    ),
]
HOME = Path(DEFAULT_HOME)

Separator = Annotated[
    str | None,
    typer.Option(
        help="The character between fields of a CSV file, or 'tab'.",
        show_default="the schema's, or a comma",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help=f"How letters are stored: {', '.join(ENCODINGS)}.",
        show_default="the schema's, or utf-8",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        help="The sign before fractions: '.' or ','.",
        show_default="the schema's, or .",
    ),
]
Thousands = Annotated[
    str | None,
    typer.Option(
        help="The sign between thousands: '.', ',', ' ' or \"'\".",
        show_default="the schema's, or none",
    ),
]


def file_format(
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    thousands: str | None,
    *,
    known: FileFormat | None = None,
) -> FileFormat:
    """Return how a file is written: what the options say, else what is known."""
    given = {
        "separator": "\t" if separator in ("tab", "\\t") else separator,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    return replace(known or FileFormat(), **asked)


def read_schema(path: Path, *given: str | None) -> Schema:
    """Read a schema; what options say about the file overrides what it says.

    The schema that comes out is the one that a model is stored with, so that files of
    questions are read in the same way.
    """
    found = Schema.read(path)
    return replace(found, file=file_format(*given, known=found.file))
