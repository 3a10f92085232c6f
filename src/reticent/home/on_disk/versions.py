"""The models of a home by name, with the versions that each name has had."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.home.home import Home
from reticent.home.on_disk.members import forget_members
from reticent.storage import MANIFEST

# Folders that a fit writes before they get their name, and those that they replace.
_UNFINISHED = r"(?:[0-9a-f]{12}\.)?unpaid|[0-9a-f]{12}\.(?:new|old)"
_SNAPSHOT = r"[0-9a-f]+\.snapshot(?:\.[0-9a-f]+\.new)?"


@dataclass(frozen=True)
class ModelVersion:
    """One of the models that a name has stood for.

    Attributes
    ----------
    name : str
        The name.
    number : int
        Its number, from 1.
    path : Path
        Where it is stored.
    current : bool
        Whether the name stands for it now.
    """

    name: str
    number: int
    path: Path
    current: bool

    @property
    def made(self) -> str:
        """When it was stored."""
        moment = (self.path / MANIFEST).stat().st_mtime
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "model": self.name,
            "version": self.number,
            "made": self.made,
            "current": self.current,
            "path": str(self.path),
        }


def model_versions(home: Home, name: str) -> list[ModelVersion]:
    """Return the versions of a model, oldest first."""
    current = home.model_path(name)
    found = []
    for path in home.models.iterdir():
        match = re.fullmatch(rf"{re.escape(name)}(?:@(\d+))?", path.name)
        if match and (path / MANIFEST).is_file():
            number = int(match[1] or 1)
            same = path.resolve() == current.resolve()
            found.append(ModelVersion(name, number, path, same))
    if not any(version.current for version in found):  # stored elsewhere
        found.append(ModelVersion(name, 0, current, True))
    return sorted(found, key=lambda version: version.number)


def roll_back(home: Home, name: str, number: int | None = None) -> ModelVersion:
    """Let a name stand for another of its versions; return which.

    What was paid stays paid, and what is left of a budget does not change.

    Parameters
    ----------
    home : Home
        The home.
    name : str
        The model.
    number : int or None, default=None
        The version; None takes the one before the current.
    """
    versions = model_versions(home, name)
    (current,) = (version for version in versions if version.current)
    if number is None:
        before = [v.number for v in versions if v.number < current.number]
        if not before:
            others = [v.number for v in versions if v.number != current.number]
            there = (
                f"name one of {', '.join(map(str, others))} with --version"
                if others
                else "there is no other one"
            )
            raise InvalidParameterError(
                f"model {name!r} has no version before the current one "
                f"({current.number}); {there}."
            )
        number = before[-1]
    wanted = [version for version in versions if version.number == number]
    if not wanted:
        raise InvalidParameterError(
            f"model {name!r} has no version {number}; it has "
            f"{', '.join(str(version.number) for version in versions)}."
        )
    home.register(name, wanted[0].path)
    return ModelVersion(name, number, wanted[0].path, current=True)


def remove_model(home: Home, name: str, number: int | None = None) -> list[int]:
    """Delete a model with all its versions, or one version that is not in use.

    Parameters
    ----------
    home : Home
        The home.
    name : str
        The model.
    number : int or None, default=None
        The version; None removes the name and everything under it.

    Returns
    -------
    list of int
        The versions that were deleted.
    """
    versions = model_versions(home, name)
    if number is not None:
        chosen = [version for version in versions if version.number == number]
        if not chosen:
            raise InvalidParameterError(f"model {name!r} has no version {number}.")
        if chosen[0].current:
            raise InvalidParameterError(
                f"version {number} of model {name!r} is in use. Go back to another one "
                "first ('reticent models rollback'), or remove the whole model."
            )
        versions = chosen
    else:
        home.unregister(name)
    for version in versions:
        if version.path.parent.resolve() == home.models.resolve():
            remove_beside(home, version.path.name)
            forget_members(home, version.path.name)
            shutil.rmtree(version.path)
    return [version.number for version in versions]


def remove_beside(home: Home, folder: str) -> None:
    """Delete what is kept beside a version: snapshots, and what a fit has left.

    Parameters
    ----------
    home : Home
        The home.
    folder : str
        The folder of the version.
    """
    _remove(home, rf"\.+{re.escape(folder)}\.(?:{_SNAPSHOT}|{_UNFINISHED})")


def remove_unfinished(home: Home) -> None:
    """Delete what fits that were interrupted have left; none may run meanwhile."""
    _remove(home, rf"\..+\.(?:{_UNFINISHED})")


def _remove(home: Home, pattern: str) -> None:
    for path in list(home.models.iterdir()):
        if re.fullmatch(pattern, path.name):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
