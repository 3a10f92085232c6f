"""Where settings come from: a file of TOML or JSON, and the environment."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reticent._files import check_own_file, check_own_folder
from reticent._text import strict_json
from reticent.errors import InvalidParameterError

#: Stands for the folder of the settings file, so that a home can be moved.
HERE = "{here}"
#: Settings that are secret themselves; each can be in a file of its own instead.
SECRETS = ("secret", "model_key", "encryption_key")
#: The format of homes that this reticent writes.
HOME_FORMAT = 2
_PREFIX = "reticent_"
_SWITCHES = {
    **dict.fromkeys(("true", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "off", "no", "0"), False),
}


def placed(found: Any, folder: str) -> Any:
    """Return settings with the folder of their file in place of {here}."""
    if isinstance(found, dict):
        return {name: placed(value, folder) for name, value in found.items()}
    return found.replace(HERE, folder) if isinstance(found, str) else found


def read_settings(path: Path) -> dict[str, Any]:
    """Return what a TOML or JSON file holds; refuse one that is not ours alone."""
    if path.suffix not in {".toml", ".json"}:
        raise InvalidParameterError(f"{str(path)!r} must be a .toml or a .json file.")
    check_own_folder(
        path.parent, "the folder of the settings", error=InvalidParameterError
    )
    if not path.is_file():
        raise InvalidParameterError(f"the settings file {str(path)!r} is not there.")
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else strict_json(text)
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"the settings file {str(path)!r} is not valid json: {error}"
        ) from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidParameterError(
            f"the settings file {str(path)!r} is not valid {path.suffix[1:]}."
        )
    secret = any(name in found for name in SECRETS)
    check_own_file(
        path, "the settings file", secret=secret, error=InvalidParameterError
    )
    return found


def with_environment(
    found: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings with those of the environment laid over them.

    Parameters
    ----------
    found : mapping
        The settings of a file.
    defaults : mapping
        Every setting that there is, with its default.
    """
    merged = dict(found)
    # Whole values first, so that the order of variables decides nothing.
    for variable, text in sorted(os.environ.items(), key=lambda item: _depth(item[0])):
        name, *inner = variable.lower().removeprefix(_PREFIX).split("__")
        if variable.lower().startswith(_PREFIX) and name in defaults:
            merged[name] = _laid_over(
                merged.get(name), inner, _read(name, text, defaults[name])
            )
    return merged


def _depth(variable: str) -> tuple[int, str]:
    return variable.count("__"), variable


def _read(name: str, text: str, default: Any) -> Any:
    """Return what a variable says: a switch, a text as it is, or a value in JSON."""
    if isinstance(default, bool):
        return _SWITCHES.get(text.lower(), text)
    is_text = isinstance(default, str) or name in ("ledger", "checkpoints")
    secret = name.removesuffix("_file") in SECRETS
    return text if is_text or secret else _value(text)


def _value(text: str) -> Any:
    """Return what a text says as JSON, else the text."""
    try:
        json.loads(text)
    except ValueError:
        return text
    return strict_json(text)


def _laid_over(known: Any, inner: list[str], value: Any) -> Any:
    """Return `known` with a value at a place inside it; tables are merged."""
    table = dict(known) if isinstance(known, Mapping) else {}
    if inner:
        table[inner[0]] = _laid_over(table.get(inner[0]), inner[1:], value)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            table[name] = _laid_over(table.get(name), [], part)
    else:
        return value
    return table
