"""A schema as JSON: strict reading, plain writing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

from reticent._text import strict_json
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas.columns import (
    Categorical,
    ClassLabel,
    Column,
    Label,
    Numeric,
    NumericTarget,
)
from reticent.schemas.file_format import FileFormat
from reticent.schemas.readings import Reading, reading_of

VERSION = 1
VERSION_KEY = "reticent_schema"
#: The kind of a column or a label that a person still has to describe.
TO_BE_WRITTEN = "to be written"

_REQUIRED = {"numeric": ("low", "high"), "categorical": ("levels",)}
_OPTIONAL = {
    "numeric": ("transform", "missing", "outside"),
    "categorical": ("missing", "other"),
}


def _fail(problem: str) -> NoReturn:
    raise InvalidParameterError(problem)


def _object(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        _fail(f"{key} needs an object {{...}}; got {type(value).__name__}.")
    return dict(value)


def _array(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        _fail(f"{key} needs a list [...]; got {type(value).__name__}.")
    return list(value)


def _keys(
    where: str, data: Mapping[str, Any], required: tuple[str, ...], *more: str
) -> None:
    """Refuse a missing or an unknown key, and list the known ones."""
    allowed = (*required, *more)
    surplus = [key for key in data if key not in allowed]
    if surplus:
        _fail(
            f"{where} has the key {surplus[0]!r}, which is not known. Keys are "
            f"{', '.join(allowed)}."
        )
    absent = [key for key in required if key not in data]
    if absent:
        _fail(f"{where} lacks the key {absent[0]!r}. Add it.")


def _within(where: str, build: Callable[[], Any]) -> Any:
    """Build a specification; an error in it starts with the key it is about."""
    problem = ""
    try:
        return build()
    except InvalidParameterError as error:
        problem = str(error)
    raise InvalidParameterError(f"{where}: {problem}")


def _column(where: str, data: dict[str, Any]) -> Column:
    kind = data.pop("kind", None)
    if kind == TO_BE_WRITTEN:
        _fail(
            f"{where}.kind is still to be written: 'numeric' with low and high, or "
            f"'categorical' with levels, from public knowledge. Or move the name to "
            f"'ignored'."
        )
    if not (isinstance(kind, str) and kind in _REQUIRED):
        _fail(f"{where}.kind needs 'numeric' or 'categorical'; got {kind!r}.")
    _keys(where, data, _REQUIRED[kind], *_OPTIONAL[kind])
    spec = Numeric if kind == "numeric" else Categorical
    column: Column = _within(where, lambda: spec(**data))
    return column


def _columns(data: Any) -> tuple[dict[str, Column], dict[str, Reading]]:
    columns: dict[str, Column] = {}
    readings: dict[str, Reading] = {}
    for position, item in enumerate(_array("columns", data)):
        where = f"columns[{position}]"
        entry = _object(where, item)
        if "name" not in entry:
            _fail(f"{where} lacks the key 'name'. Add it.")
        name = entry.pop("name")
        if not isinstance(name, str):
            _fail(f"{where}.name needs text; got {name!r}.")
        if name in columns:
            _fail(f"{where}.name={name!r} occurs twice. List each column once.")
        named = f"{where} ({name!r})"
        if "from" in entry:
            given = _object(f"{named}.from", entry.pop("from"))
            readings[name] = _within(named, partial(reading_of, given))
        columns[name] = _column(named, entry)
    return columns, readings


def _label(data: Any) -> Label | None:
    if data is None:
        return None
    entry = _object("label", data)
    kind = entry.pop("kind", None)
    if kind == TO_BE_WRITTEN:
        _fail(
            "label.kind is still to be written: 'classes' with the list of all, or "
            "'numeric' with low and high."
        )
    if kind == "classes":
        _keys("label", entry, ("name", "classes"))
        label: Label = _within("label", lambda: ClassLabel(**entry))
    elif kind == "numeric":
        _keys("label", entry, ("name", "low", "high"))
        label = _within("label", lambda: NumericTarget(**entry))
    else:
        _fail(f"label.kind needs 'classes' or 'numeric'; got {kind!r}.")
    return label


def _file(data: Any) -> FileFormat:
    entry = _object("file", data)
    _keys("file", entry, (), *(each.name for each in fields(FileFormat)))
    found: FileFormat = _within("file", lambda: FileFormat(**entry))
    return found


def parts_of(data: Any) -> dict[str, Any]:
    """Return the arguments of a schema from its dictionary; refuse anything else."""
    document = _object("the schema", data)
    more = ("label", "unit", "ignored", "file")
    _keys("the schema", document, (VERSION_KEY, "columns"), *more)
    version = document[VERSION_KEY]
    if not (type(version) is int and version == VERSION):
        _fail(
            f"{VERSION_KEY}={version!r} is not a version that this reticent reads; it "
            f"reads version {VERSION}. Update reticent, or write the schema again."
        )
    unit = document.get("unit")
    if not (unit is None or isinstance(unit, str)):
        _fail(f"unit needs a column's name or null; got {unit!r}.")
    columns, readings = _columns(document["columns"])
    return {
        "columns": columns,
        "readings": readings,
        "label": _label(document.get("label")),
        "unit": unit,
        "ignored": tuple(_array("ignored", document.get("ignored", []))),
        "file": _file(document.get("file", {})),
    }


def read_document(path: str | PathLike[str]) -> Any:
    """Return the JSON of a file, with errors that name the file."""
    problem = ""
    try:
        return strict_json(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        problem = (
            f"cannot be read ({error.strerror}). Check the path and its permissions."
        )
    except UnicodeDecodeError:
        problem = "is not UTF-8 text. A schema is a JSON file; save it as UTF-8."
    except InvalidParameterError as error:
        problem = f"is not a schema: {error}"
    raise InvalidDataError(f"{fspath(path)} {problem}")


def write_document(path: str | PathLike[str], data: Any) -> None:
    """Write JSON that people can read and edit."""
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    problem = ""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"cannot be written ({error.strerror})."
    if problem:
        raise InvalidDataError(
            f"{fspath(path)} {problem} Choose another path or make room."
        )
