"""Ids of privacy units: one person is one unit, however the id was read.

The parts of a table are often read separately, and each reader guesses types: the id 7
may arrive as a whole number, as "7", 7.0 or b"007". If these were different units, one
person would be several units, each protected as if the others were somebody else. So
ids are compared by their meaning. If it cannot be known, as with numbers that floating
point has rounded, ids are refused. Two people whose ids are taken for one form one
larger unit, which is protected as a whole.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Ints
from reticent.errors import InvalidDataError

# The first characters of a text that stands for a number or a date.
_STARTS = " \t+-.0123456789"
_WHOLE = re.compile(r"([+-]?[0-9]{1,4000})(?:\.0*)?")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})[eE][+-]?\d{1,4}"
)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2})(?::([0-9]{2}))?(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
# Whole numbers below this are exact in double precision.
_EXACT = 2**53


def unit_key(unit: Any) -> Hashable:
    """Return the key of an id, which is the same for every way to read it.

    Parameters
    ----------
    unit : int, float, str, bytes, date, or a tuple of these
        The id. Floats must be whole numbers that their precision cannot have rounded.

    Returns
    -------
    int, str, bytes or tuple
        A whole number, also for text that stands for one; the ISO form of a date or
        time (in UTC if it has a zone); other text as it is, and bytes as the text that
        they encode in UTF-8, if any.

    Examples
    --------
    >>> {unit_key(unit) for unit in (7, 7.0, "7", b"7", "007", " 7.0")}
    {7}
    >>> unit_key(np.datetime64("2024-01-05", "ns")) == unit_key("2024-01-05")
    True
    """
    if is_missing(unit):
        raise missing_id()
    if isinstance(unit, bool | np.bool_ | np.timedelta64):
        raise _no_id(unit)
    if isinstance(unit, Integral):  # NumPy's whole numbers too
        return int(unit)
    if isinstance(unit, str):
        return _key_of_text(str.__str__(unit))
    if isinstance(unit, float | np.floating | Decimal):
        return _key_of_number(unit)
    if isinstance(unit, bytes):
        return _key_of_bytes(bytes(unit))
    if isinstance(unit, dt.date | np.datetime64):
        return _key_of_time(unit)
    if isinstance(unit, tuple):
        return tuple(unit_key(part) for part in unit)
    if type(unit).__name__ == "UUID":
        return str(unit)
    raise _no_id(unit)


def keys_of(distinct: NDArray[Any]) -> list[Hashable]:
    """Return the keys of an array of ids; whole numbers are their own keys."""
    if distinct.dtype.kind in "iu":
        keys: list[Hashable] = distinct.tolist()
        return keys
    # NumPy's own list would turn times into plain numbers.
    return [unit_key(unit) for unit in distinct]


def whole_numbers(ids: NDArray[Any]) -> Ints:
    """Return ids in floating point as whole numbers, if all of them are exact."""
    if np.isnan(ids).any():
        raise missing_id()
    if not ((np.abs(ids) < _exact_below(ids.dtype)) & (ids == np.floor(ids))).all():
        raise _no_whole_number()
    return ids.astype(np.int64)


def is_missing(unit: Any) -> bool:
    """Return whether an id is None, NaN, NaT or pandas' NA."""
    if unit is None:
        return True
    try:
        return not bool(unit == unit)
    except (TypeError, ValueError):  # pandas' NA refuses to be true or false
        return True


def missing_id() -> InvalidDataError:
    """Return the error for a row without an id."""
    return InvalidDataError(
        "units holds a missing id. Every row needs the id of its unit; give each row "
        "of an unknown person its own id."
    )


def _exact_below(dtype: Any) -> int:
    return min(int(2 ** (np.finfo(dtype).nmant + 1)), _EXACT)


def _key_of_number(unit: Any) -> int:
    if isinstance(unit, Decimal):
        exact = unit.is_finite()
    else:
        kind = type(unit) if isinstance(unit, np.floating) else float
        exact = abs(unit) < _exact_below(kind)
    if not (exact and unit == int(unit)):
        raise _no_whole_number()
    return int(unit)


def _key_of_text(text: str) -> int | str:
    # Arrays of text drop NULs at the end; lists keep them.
    text = text.rstrip("\0")
    if text[:1] not in _STARTS:
        return text
    plain = text.strip(" \t")
    if whole := _WHOLE.fullmatch(plain):
        return int(whole[1])
    if _NUMBER.fullmatch(plain):
        number = Decimal(plain)
        # A larger number is refused as a float, so no batch has it as a float.
        if abs(number) < _EXACT and number == int(number):
            return int(number)
    return _iso(plain) or text


def _key_of_bytes(data: bytes) -> int | str | bytes:
    try:
        return _key_of_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        return data.rstrip(b"\0")


def _key_of_time(unit: Any) -> str:
    if isinstance(unit, np.datetime64):
        days = np.datetime_data(unit.dtype)[0] in ("Y", "M", "W")
        text = str(unit.astype("datetime64[D]") if days else unit)
    else:
        text = unit.isoformat()
    key = _iso(text)
    if key is None:
        raise _no_id(unit)
    return key


def _iso(text: str) -> str | None:
    """Return a date, or a time in UTC, in one form; None if it is neither."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    date, hour, minute, second, part, zone = match.groups()
    moment = f"{date}T{hour or '00'}:{minute or '00'}:{second or '00'}"
    if zone is not None:
        try:
            with_zone = dt.datetime.fromisoformat(moment + zone)
            utc = with_zone.astimezone(dt.UTC)
        except (ValueError, OverflowError):  # no such day, or none in UTC
            return None
        moment = utc.replace(tzinfo=None).isoformat()
    part = (part or "").rstrip("0")
    return f"{moment}.{part}" if part else moment.removesuffix("T00:00:00")


def _no_whole_number() -> InvalidDataError:
    return InvalidDataError(
        "units holds ids in floating point that are fractions, or too large to be "
        "exact whole numbers. Give whole numbers or text."
    )


def _no_id(unit: Any) -> InvalidDataError:
    return InvalidDataError(
        f"units holds ids of type {type(unit).__name__}, which may have another type "
        "in the next rows of the same person. Give whole numbers, text, bytes, dates "
        "or tuples of these."
    )
