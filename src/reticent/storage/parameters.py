"""Reading the parameters of a manifest: strict types, public labels, counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._text import one_of
from reticent.errors import InvalidParameterError, ModelFileError
from reticent.schemas import ClassLabel, NumericTarget, Schema

#: Nobody trains more shards than this.
_MOST_SHARDS = 10**7
_HEX = re.compile(r"[0-9a-f]{32}")


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


def identity(parameters: Mapping[str, Any]) -> str:
    """Return the 128 bits that name a fitted predictor, as 32 hexadecimal digits."""
    value = parameters["identity"]
    if not (isinstance(value, str) and _HEX.fullmatch(value)):
        raise ModelFileError("parameter 'identity' must be 32 hexadecimal digits.")
    return value


def log_mark(parameters: Mapping[str, Any]) -> bytes | None:
    """Return the first mark of a lasting model's log; None if it had none."""
    value = parameters["log"]
    if value is None:
        return None
    if not (isinstance(value, str) and _HEX.fullmatch(value)):
        raise ModelFileError("parameter 'log' must be 32 hexadecimal digits or null.")
    return bytes.fromhex(value)


def labels_of(schema: Schema, classes: Any, labels: str) -> tuple[list[Any], str]:
    """Return the schema's labels in the order of a classifier's classes.

    With them, whether the classes are the labels themselves ("values") or "codes".

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
    codes = list(range(len(declared)))
    by_value, by_code = _same(classes, declared), _same(classes, codes)
    one_of("labels", labels, "auto", "values", "codes")
    if labels == "auto" and by_value and by_code and codes != declared:
        raise InvalidParameterError(
            "the model's classes may be the schema's labels or their codes. Say which: "
            "labels='values' or labels='codes'."
        )
    if by_value and labels in {"auto", "values"}:
        known = {_typed(label): label for label in declared}
        return [known[_typed(value)] for value in classes], "values"
    if by_code and labels in {"auto", "codes"}:
        return [declared[int(code)] for code in classes], "codes"
    raise InvalidParameterError(
        f"the model's {len(classes)} classes are not the {len(declared)} labels of the "
        "schema, nor their codes. Fit with classes=schema.classes."
    )


def stored_labels(schema: Schema, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the labels of a manifest, each of the schema's once."""
    listed = parameters["classes"]
    if not (isinstance(listed, list) and _same(listed, _declared(schema))):
        raise ModelFileError("the manifest's classes are not the schema's.")
    return tuple(listed)


def fitted_classes(schema: Schema, parameters: Mapping[str, Any]) -> NDArray[Any]:
    """Return the classes that a model was fitted on: the labels, or their codes."""
    labels = stored_labels(schema, parameters)
    if parameters["labels"] == "values":
        return np.array(labels)
    if parameters["labels"] == "codes":
        return np.arange(len(labels))
    raise ModelFileError("parameter 'labels' must be 'values' or 'codes'.")


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
