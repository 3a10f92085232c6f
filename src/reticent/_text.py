"""Text from outside: names, choices, and JSON without extensions that hide mistakes."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from reticent.errors import InvalidParameterError

# Safe in paths, addresses and headers.
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
#: What `checked_name` takes, as a pattern for JSON schemas.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def checked_name(what: str, value: Any, *, longest: int = 64) -> str:
    """Return a plain name for datasets, models, clients and sessions."""
    if not (
        isinstance(value, str) and len(value) <= longest and re.fullmatch(_NAME, value)
    ):
        raise InvalidParameterError(
            f"{what} must be 1 to {longest} letters, digits or ._- and begin with a "
            "letter or digit."
        )
    return value


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 answer" and "2 answers"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def protected_one(*units: str | None) -> str:
    """Say whom a promise protects, by the unit columns of the schemas it is about.

    Parameters
    ----------
    *units : str or None
        The column that names whose row it is, None if every row is for itself. Nothing
        is known if there are no schemas, or if they do not agree.
    """
    known = {"one row" if unit is None else "one person" for unit in units}
    return known.pop() if len(known) == 1 else "one unit"


def one_of(name: str, value: Any, *choices: str) -> str:
    """Return `value` if it is one of the choices, or refuse it."""
    if not (isinstance(value, str) and value in choices):
        *most, last = map(repr, choices)
        raise InvalidParameterError(
            f"{name}={value!r} must be {', '.join(most)} or {last}."
        )
    return value


def strict_json(text: str) -> Any:
    """Parse JSON; refuse keys that occur twice in an object, NaN and infinities.

    Raises
    ------
    InvalidParameterError
        The message says where the mistake is, and may quote a key from the text.
    """
    problem = ""
    try:
        return _decoder.decode(text)
    except InvalidParameterError:
        raise
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
    except RecursionError:
        problem = "nested too deeply."
    except ValueError:  # a whole number with thousands of digits
        problem = "a number has too many digits."
    raise InvalidParameterError(problem)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameterError(
            f"the key {twice!r} occurs twice in one object. Keep one of them."
        )
    return found


def _constant(name: str) -> NoReturn:
    raise InvalidParameterError(f"{name} is not a JSON number. Write a finite number.")


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)
