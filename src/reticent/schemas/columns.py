"""Public facts about one column: its range, or its levels.

Nothing here reads data. A specification validates itself when it is built, so that
other code may rely on finite ranges and on levels of one kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeAlias

import numpy as np

from reticent._arrays import Floats
from reticent.errors import InvalidParameterError

Level: TypeAlias = bool | int | str

TRANSFORMS = ("none", "log1p", "signed_log1p")
OUTSIDE = ("clip", "error")

# Whole numbers up to here are the same in CSV, JSON, Parquet and floating point.
LARGEST_LEVEL = 2**53 - 1


def checked_text(key: str, value: object) -> str:
    """Return `value` if it is text that every file format can store."""
    if not (
        isinstance(value, str)
        and value == value.strip()
        and value.isprintable()
        and value != ""
    ):
        raise InvalidParameterError(
            f"{key} needs printable text without spaces around it; got {value!r}."
        )
    return value


def checked_flag(key: str, value: object) -> bool:
    """Return `value` if it is true or false."""
    if not isinstance(value, bool):
        raise InvalidParameterError(f"{key} needs true or false; got {value!r}.")
    return value


def checked_choice(key: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not (isinstance(value, str) and value in choices):
        raise InvalidParameterError(
            f"{key} needs one of {', '.join(map(repr, choices))}; got {value!r}."
        )
    return value


def checked_number(key: str, value: object) -> float:
    """Return `value` as a float if it is a finite number and not true or false."""
    number = inf
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    ):
        try:
            number = float(value)
        except OverflowError:
            number = inf
    if not -inf < number < inf:
        shown = repr(value) if len(repr(value)) <= 40 else "something longer"
        raise InvalidParameterError(f"{key} needs a finite number; got {shown}.")
    return number + 0.0  # -0.0 becomes 0.0


def plain_number(value: float) -> float | int:
    """Return a whole float as an integer, so that files show 16 and not 16.0."""
    return int(value) if value.is_integer() and abs(value) <= LARGEST_LEVEL else value


def checked_range(low: object, high: object) -> tuple[float, float]:
    """Return the two ends of a public range if they span a finite width."""
    bottom, top = checked_number("low", low), checked_number("high", high)
    if not 0 < top - bottom < inf:
        raise InvalidParameterError(
            f"low={bottom:g} and high={top:g} need low < high and a finite width. "
            f"Take the range from public knowledge; leave out a constant column."
        )
    return bottom, top


def checked_levels(key: str, levels: object) -> tuple[Level, ...]:
    """Return distinct levels of one kind: all text, all whole numbers or all flags."""
    if isinstance(levels, str | bytes) or not isinstance(levels, Iterable):
        raise InvalidParameterError(f"{key} needs a list; got {levels!r}.")
    values = tuple(
        value.item() if isinstance(value, np.generic) else value for value in levels
    )
    kinds = {type(value) for value in values}
    if not (len(kinds) == 1 and kinds <= {bool, int, str}):
        raise InvalidParameterError(
            f"{key} needs at least one value, all text, all whole numbers or all "
            f"true/false; got {', '.join(sorted(k.__name__ for k in kinds)) or 'none'}."
        )
    if kinds == {str}:
        for position, value in enumerate(values):
            checked_text(f"{key}[{position}]", value)
    if kinds == {int} and not all(abs(value) <= LARGEST_LEVEL for value in values):
        raise InvalidParameterError(f"{key} needs whole numbers below 2**53 in size.")
    if len(set(values)) != len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InvalidParameterError(f"{key} lists {twice!r} twice. List it once.")
    return values


def transformed(name: str, values: Floats) -> Floats:
    """Apply a public, increasing transform to values inside the declared range."""
    if name == "log1p":
        return np.log1p(values)
    if name == "signed_log1p":
        return np.copysign(np.log1p(np.abs(values)), values)
    return values


def restored(name: str, values: Floats) -> Floats:
    """Undo `transformed`."""
    if name == "log1p":
        return np.expm1(values)
    if name == "signed_log1p":
        return np.copysign(np.expm1(np.abs(values)), values)
    return values


@dataclass(frozen=True, slots=True)
class Numeric:
    """A column of numbers with a public range.

    Parameters
    ----------
    low, high : float
        The range, from public knowledge; never read from the sensitive file.
    transform : {"none", "log1p", "signed_log1p"}, default="none"
        Applied before scaling. ``log1p`` is for amounts over several powers of ten,
        ``signed_log1p`` for such amounts that may be negative.
    missing : bool, default=False
        Whether a value may be missing. If so, the encoding has an indicator for it.
    outside : {"clip", "error"}, default="clip"
        What happens to a number outside the range: moved to the nearer end, or
        refused. Infinities are always refused.

    Examples
    --------
    >>> Numeric(0, 120)
    Numeric(low=0.0, high=120.0, transform='none', missing=False, outside='clip')
    """

    low: float
    high: float
    transform: str = field(default="none", kw_only=True)
    missing: bool = field(default=False, kw_only=True)
    outside: str = field(default="clip", kw_only=True)

    def __post_init__(self) -> None:
        low, high = checked_range(self.low, self.high)
        checked_choice("transform", self.transform, TRANSFORMS)
        checked_flag("missing", self.missing)
        checked_choice("outside", self.outside, OUTSIDE)
        if self.transform == "log1p" and not low > -1:
            raise InvalidParameterError(
                f"transform='log1p' needs low > -1; got low={low:g}. "
                f"Use 'signed_log1p' for amounts that may be negative."
            )
        ends = transformed(self.transform, np.array([low, high]))
        if not ends[1] > ends[0]:
            raise InvalidParameterError(
                f"low={low!r} and high={high!r} become equal after "
                f"transform={self.transform!r}. Use transform='none'."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {
            "kind": "numeric",
            "low": plain_number(self.low),
            "high": plain_number(self.high),
            "transform": self.transform,
            "missing": self.missing,
            "outside": self.outside,
        }


@dataclass(frozen=True, slots=True)
class Categorical:
    """A column whose values come from a public list.

    Parameters
    ----------
    levels : sequence of str, of int or of bool
        The possible values, in the order of their codes.
    missing : bool, default=False
        Whether a value may be missing. If so, the encoding has an indicator for it.
    other : bool, default=False
        Whether a value outside `levels` is taken as one further level, "other".
        If not, such a value is an error.

    Examples
    --------
    >>> Categorical(["A", "B", "AB", "0"]).levels
    ('A', 'B', 'AB', '0')
    """

    levels: tuple[Level, ...]
    missing: bool = field(default=False, kw_only=True)
    other: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", checked_levels("levels", self.levels))
        checked_flag("missing", self.missing)
        checked_flag("other", self.other)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {
            "kind": "categorical",
            "levels": list(self.levels),
            "missing": self.missing,
            "other": self.other,
        }


@dataclass(frozen=True, slots=True)
class ClassLabel:
    """A label from a public list of classes.

    Parameters
    ----------
    name : str
        The column that holds the label.
    classes : sequence of str, of int or of bool
        The possible labels, at least two, in the order of their codes.
    """

    name: str
    classes: tuple[Level, ...]

    def __post_init__(self) -> None:
        checked_text("name", self.name)
        object.__setattr__(self, "classes", checked_levels("classes", self.classes))
        if not len(self.classes) >= 2:
            raise InvalidParameterError(
                "classes needs at least two labels; got one. List every label that "
                "may occur, not only those that do."
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {"name": self.name, "kind": "classes", "classes": list(self.classes)}


@dataclass(frozen=True, slots=True)
class NumericTarget:
    """A number to predict, with public bounds; values outside are clipped to them.

    Parameters
    ----------
    name : str
        The column that holds the target.
    low, high : float
        The bounds, from public knowledge.
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        checked_text("name", self.name)
        low, high = checked_range(self.low, self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def as_dict(self) -> dict[str, Any]:
        """Return the specification for JSON."""
        return {
            "name": self.name,
            "kind": "numeric",
            "low": plain_number(self.low),
            "high": plain_number(self.high),
        }


Column: TypeAlias = Numeric | Categorical
Label: TypeAlias = ClassLabel | NumericTarget
