"""The observable form of a program's outcomes: everything an analyst can tell apart."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from reticent.errors import CannotJudgeError

# The largest number of nested levels of an outcome.
_DEEPEST = 60
_NAMED = (type, FunctionType, BuiltinFunctionType, ModuleType)


def observable_form(outcome: Any) -> Hashable:
    """Return everything observable about an outcome, as nested tuples.

    Equality in Python ignores what an analyst sees: ``1 == 1.0 == True``, ``0.0 ==
    -0.0``, a dictionary equals one of another order, a subclass of a number has
    attributes. Two observable forms are equal only if types, bits, order and attributes
    are the same.

    Raises
    ------
    CannotJudgeError
        If a part of the outcome cannot be compared.

    Examples
    --------
    >>> observable_form(1) == observable_form(True)
    False
    >>> observable_form({"a": 1, "b": 2}) == observable_form({"b": 2, "a": 1})
    False
    >>> observable_form(float("nan")) == observable_form(float("nan"))
    True
    """
    return _observable(outcome, 0)


def failed(error: BaseException) -> Hashable:
    """Return the observable form of an exception: its type, text and causes."""
    return ("raises", _error(error, 0))


def _observable(value: Any, depth: int) -> Hashable:
    if depth > _DEEPEST:
        raise CannotJudgeError(
            "the outcome is nested too deeply, or contains itself. Return plain values."
        )
    kind = type(value)
    plain = _plain(value, kind)
    if plain is not None:
        return plain
    deeper = depth + 1
    if kind in (tuple, list, set, frozenset):
        return (kind.__name__, *(_observable(part, deeper) for part in value))
    if kind is dict:
        return (
            "dict",
            *(
                (_observable(k, deeper), _observable(v, deeper))
                for k, v in value.items()
            ),
        )
    if isinstance(value, np.ndarray) and value.dtype != object:
        # Arrays are compared by content; the flags show their memory layout.
        own = _attributes(value, deeper)
        flags = (value.flags.c_contiguous, value.flags.f_contiguous)
        return (
            _named(kind),
            str(value.dtype),
            value.shape,
            flags,
            value.tobytes(),
            own,
        )
    if isinstance(value, np.ndarray):
        parts = tuple(_observable(part, deeper) for part in value.ravel().tolist())
        return (_named(kind), "object", value.shape, parts)
    if isinstance(value, BaseException):
        return _error(value, deeper)
    if isinstance(value, Enum):
        return (_named(kind), value.name)
    if isinstance(value, _NAMED):
        return _name_of(value)
    return _reduced(value, deeper)


def _plain(value: Any, kind: type) -> Hashable | None:
    if value is None or kind in (bool, int, str, bytes):
        return (kind.__name__, value)
    if kind is float:
        return ("float", _bits(value))
    if kind is complex:
        return ("complex", _bits(value.real), _bits(value.imag))
    if isinstance(value, np.generic) and kind.__module__ == "numpy":
        return (kind.__name__, str(value.dtype), value.tobytes())
    return None


def _bits(value: float) -> bytes:
    # The signs of zero and NaN are observable; other bits of a NaN only in C.
    return struct.pack("<d", value)


def _name_of(value: Any) -> Hashable:
    """Return the name of a class, module or function without own state."""
    if isinstance(value, FunctionType) and (
        value.__closure__ or value.__defaults__ or "<" in value.__qualname__
    ):
        raise CannotJudgeError(
            "a function that was made in the run is part of the outcome; its state "
            "cannot be compared. Return plain values."
        )
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, (ModuleType, type)):
        raise CannotJudgeError("a bound method is part of the outcome.")
    return ("name", _named(value))


def _named(value: Any) -> str:
    module = getattr(value, "__module__", "")
    return f"{module}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"


def _error(error: BaseException, depth: int) -> Hashable:
    if depth > _DEEPEST:
        raise CannotJudgeError("an exception contains itself.")
    linked = tuple(
        None if other is None else _error(other, depth + 1)
        for other in (error.__cause__, error.__context__)
    )
    parts = tuple(_observable(part, depth + 1) for part in error.args)
    return (_named(type(error)), parts, _attributes(error, depth + 1), linked)


def _attributes(value: Any, depth: int) -> Hashable:
    own = getattr(value, "__dict__", None)
    if not isinstance(own, Mapping):
        return ()
    return tuple((str(name), _observable(part, depth)) for name, part in own.items())


def _reduced(value: Any, depth: int) -> Hashable:
    """Return the observable form of any other object, by what pickle would store."""
    kind = type(value)
    if isinstance(value, MethodType) or hasattr(value, "__next__"):
        raise CannotJudgeError(
            f"an outcome of type {kind.__name__} cannot be compared. Return plain "
            "values."
        )
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:
        raise CannotJudgeError(
            f"an outcome of type {kind.__name__} cannot be compared, because it cannot "
            "be taken apart. Return plain values."
        ) from error
    if isinstance(reduced, str):
        return (_named(kind), reduced)
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    listed = None if items is None else tuple(_observable(i, depth) for i in items)
    mapped = None
    if pairs is not None:
        mapped = tuple((_observable(k, depth), _observable(v, depth)) for k, v in pairs)
    return (
        _named(kind),
        _observable(make, depth),
        _observable(arguments, depth),
        _observable(state, depth),
        _attributes(value, depth),
        listed,
        mapped,
    )
