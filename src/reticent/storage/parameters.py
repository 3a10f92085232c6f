"""Reading the parameters of a manifest: strict types, public labels, counts."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from reticent.errors import InvalidParameterError, ModelFileError
from reticent.schemas import ClassLabel, NumericTarget, Schema

#: More shards than this were not trained by anybody.
_MOST_SHARDS = 10**7


def exactly(parameters: Mapping[str, Any], names: set[str]) -> None:
    """Refuse parameters with other names than these."""
    if set(parameters) != names:
        raise ModelFileError(
            f"the manifest's parameters must be {', '.join(sorted(names))}."
        )


def count(parameters: Mapping[str, Any], name: str) -> int:
    """Return a whole number of at least one."""
    value = parameters[name]
    if not (type(value) is int and 1 <= value <= _MOST_SHARDS * 1000):
        raise ModelFileError(f"parameter {name!r} must be a whole number >= 1.")
    return value


def shards(parameters: Mapping[str, Any]) -> int:
    """Return the number of shards, which bounds what is allocated for them."""
    value = count(parameters, "n_shards")
    if not value <= _MOST_SHARDS:
        raise ModelFileError(f"n_shards={value} must be at most {_MOST_SHARDS}.")
    return value


def number(parameters: Mapping[str, Any], name: str, *, above: float = 0.0) -> float:
    """Return a finite number above a limit."""
    value = parameters[name]
    if not (type(value) in (int, float) and above < value < inf):
        raise ModelFileError(f"parameter {name!r} must be a number above {above:g}.")
    return float(value)


def flag(parameters: Mapping[str, Any], name: str) -> bool:
    """Return true or false."""
    value = parameters[name]
    if type(value) is not bool:
        raise ModelFileError(f"parameter {name!r} must be true or false.")
    return value


def labels_of(schema: Schema, classes: Any, labels: str) -> list[Any]:
    """Return the schema's labels in the order of a classifier's classes.

    Parameters
    ----------
    schema : Schema
        Declares the public labels.
    classes : list
        The classes of the fitted model: the labels themselves or their codes.
    labels : {"auto", "values", "codes"}
        Which of both; auto finds out where only one is possible.
    """
    declared = _declared(schema)
    by_value = _same(classes, declared)
    by_code = _same(classes, list(range(len(declared))))
    if labels not in {"auto", "values", "codes"}:
        raise InvalidParameterError(
            f"labels={labels!r} must be 'auto', 'values' or 'codes'."
        )
    if (
        labels == "auto"
        and by_value
        and by_code
        and list(range(len(declared))) != (declared)
    ):
        raise InvalidParameterError(
            "the model's classes may be the schema's labels or their codes. Say which: "
            "labels='values' or labels='codes'."
        )
    if by_value and labels in {"auto", "values"}:
        known = {_typed(label): label for label in declared}
        return [known[_typed(value)] for value in classes]
    if by_code and labels in {"auto", "codes"}:
        return [declared[int(code)] for code in classes]
    raise InvalidParameterError(
        f"the model's {len(classes)} classes are not the {len(declared)} labels of the "
        "schema, nor their codes. Fit with classes=schema.classes."
    )


def stored_labels(schema: Schema, listed: Any) -> tuple[Any, ...]:
    """Return the labels of a manifest, each of the schema's once."""
    if not (isinstance(listed, list) and _same(listed, _declared(schema))):
        raise ModelFileError("the manifest's classes are not the schema's.")
    return tuple(listed)


def bounds_of(schema: Schema) -> tuple[float, float]:
    """Return the public bounds of a numeric target."""
    if not isinstance(schema.label, NumericTarget):
        raise InvalidParameterError(
            "a regressor needs a schema whose label is numeric, with bounds."
        )
    return schema.label.low, schema.label.high


def _declared(schema: Schema) -> list[Any]:
    if not isinstance(schema.label, ClassLabel):
        raise InvalidParameterError(
            "a classifier needs a schema whose label lists its classes."
        )
    return list(schema.label.classes)


def _typed(value: Any) -> tuple[str, Any]:
    """Tell true from 1 and 1 from "1"."""
    return type(value).__name__, value


def _same(classes: list[Any], wanted: list[Any]) -> bool:
    return len(classes) == len(wanted) and (
        {_typed(value) for value in classes} == {_typed(value) for value in wanted}
    )
