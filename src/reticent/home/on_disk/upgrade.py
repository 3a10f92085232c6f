"""Homes that an older reticent wrote: brought to this format, or left as they are.

The settings file names everything else in a home, so replacing that one file is what
switches a home over. A step may write new files and must not change one that is there.
Then the whole home is verified under the new settings, and only then one rename makes
them valid. Whatever fails before the rename leaves the home as it was, for the version
that wrote it.

Models of format version 1 are not rewritten. Their id is the hash of their manifest,
and releases and remembered answers are filed under it. Every version reads them as they
are.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.errors import LedgerError, ReticentError
from reticent.home.on_disk.identity import IDENTITY, settle_in
from reticent.home.on_disk.ledger_copies import copy_ledger, ledger_file
from reticent.home.on_disk.second_place import default_second_place, move_checkpoints
from reticent.home.settings import Settings
from reticent.home.settings_files import HERE, HOME_FORMAT, read_settings
from reticent.signing import HMAC, read_key_file, secret_bytes

KEY = "home_format"
_STAGED, _LOCK, _COPY = "service.upgraded.json", ".upgrade.lock", ".upgrade.db"
# Where checkpoints were kept before they had a place outside the home.
_OLD_CHECKPOINTS = "checkpoints.json"

log = logging.getLogger("reticent.home")


@dataclass(frozen=True)
class OldHome:
    """A home whose settings have to change.

    Attributes
    ----------
    path : Path
        The folder, as the caller named it.
    adopting : bool
        Whether it replaces its copies.
    """

    path: Path
    adopting: bool = False

    @property
    def here(self) -> Path:
        """The folder itself."""
        return self.path.resolve()


def upgrade(path: Path, config: Path, *, adopting: bool = False) -> None:
    """Bring a home to this format, unless it has it.

    Parameters
    ----------
    path : Path
        The home.
    config : Path
        Its settings file.
    adopting : bool, default=False
        Whether it replaces its copies.

    Raises
    ------
    ReticentError
        If it cannot be done; the home is as it was.
    """
    if _format(read_settings(config)) == HOME_FORMAT:
        return
    with _alone(path):
        found = read_settings(config)
        number = _format(found)
        if number == HOME_FORMAT:
            return  # another process was quicker
        old = OldHome(path, adopting)
        for step in STEPS[number - 1 :]:
            found = step(old, found)
        staged = config.with_name(_STAGED)
        write_settings(staged, {**found, KEY: HOME_FORMAT})
        _verify(old, staged)
        staged.replace(config)
        log.warning(
            "the home %s was upgraded from format %d to %d; older versions of reticent "
            "refuse it from now on.",
            path,
            number,
            HOME_FORMAT,
        )


def default_checkpoints(path: Path) -> Path:
    """Return where the checkpoints of a home go, and make the folder."""
    secret = secret_bytes(read_key_file(path / "secret.key"), HMAC)
    place = default_second_place(path, secret)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def write_settings(config: Path, found: dict[str, Any]) -> None:
    """Replace a settings file atomically."""
    scratch = config.with_suffix(".new")
    scratch.touch(mode=0o600)
    with scratch.open("w", encoding="utf-8") as file:
        file.write(json.dumps(found, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(config)


def relative(found: Any, folder: str) -> Any:
    """Return settings with {here} in place of a folder."""
    if isinstance(found, dict):
        return {name: relative(value, folder) for name, value in found.items()}
    if isinstance(found, str):
        for start in ("", "sqlite:///"):
            if found.startswith(f"{start}{folder}/"):
                return found.replace(folder, HERE, 1)
    return found


def _format(found: dict[str, Any]) -> int:
    """Return the format of a home; the first one was not numbered."""
    number = found.get(KEY, 1)
    if not (type(number) is int and 1 <= number <= HOME_FORMAT):
        raise LedgerError(
            f"{KEY}={number!r} is not one of the formats 1 to {HOME_FORMAT} that this "
            "reticent knows; use the reticent that wrote this home, or a newer one."
        )
    return number


def _from_1_to_2(old: OldHome, found: dict[str, Any]) -> dict[str, Any]:
    """Take checkpoints out of the home, and make it movable."""
    return _movable(old, _with_second_place(old, found))


#: What brings a home from each format to the next, the first one first.
STEPS: tuple[Callable[[OldHome, dict[str, Any]], dict[str, Any]], ...] = (_from_1_to_2,)


def _with_second_place(old: OldHome, found: dict[str, Any]) -> dict[str, Any]:
    """Take the checkpoints out of a home; their old file stays, unused."""
    inside = old.here / _OLD_CHECKPOINTS
    if found.get("checkpoints") != str(inside):
        return found
    outside = default_checkpoints(old.path)
    move_checkpoints(inside, outside)
    log.warning(
        "the checkpoints of %s moved to %s, so that a restored backup of the home is "
        "noticed; %s is no longer used.",
        old.path,
        outside,
        inside,
    )
    return {**found, "checkpoints": str(outside)}


def _movable(old: OldHome, found: dict[str, Any]) -> dict[str, Any]:
    """Write paths inside the home relative to it, and tell it from its copies."""
    if "identity" in found:
        return found
    named = Path(str(found.get("secret_file", old.here / "secret.key"))).parent
    if named not in (old.here, Path(HERE)) and not old.adopting:
        if not (old.here / "secret.key").exists():
            return found  # its keys are kept elsewhere on purpose
        raise LedgerError(
            f"{old.here} was copied or moved from {named}, whose ledger it would use. "
            "To continue with this one and retire the other, run 'reticent home adopt "
            f"--home {old.path}'."
        )
    settle_in(old.here)
    return {**relative(found, str(named)), "identity": f"{HERE}/{IDENTITY}"}


def _verify(old: OldHome, staged: Path) -> None:
    """Refuse new settings under which a part of the home cannot be read."""
    copy = old.path / _COPY
    copy.unlink(missing_ok=True)
    try:
        settings = Settings.load(staged)
        for name in settings.models:
            settings.load_model(name)
        # A copy, because opening a ledger migrates its tables.
        file = ledger_file(settings)
        if file is not None and file.exists():
            copy_ledger(file, copy)
    except ReticentError as error:
        raise type(error)(
            f"{old.path} was not upgraded, and nothing of it was changed: {error} "
            "Use the reticent that wrote it, or repair this with it first."
        ) from None
    finally:
        for end in ("", "-wal", "-shm"):
            copy.with_name(copy.name + end).unlink(missing_ok=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from upgrading the same home."""
    with (path / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
