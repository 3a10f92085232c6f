"""Which of several copies of a home may spend: the one that was not copied.

A copy has the same ledger, keys and models. If both could spend, one budget would be
spent twice. A file that is never written again, the *anchor*, tells them apart. Moving
a folder keeps the file's inode and the time of its last change of state. Copying does
not, and no copying program can set that time.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reticent._text import strict_json
from reticent.errors import InvalidParameterError, LedgerError

ANCHOR = "anchor"
IDENTITY = "identity.json"
_OWNER = "owner.json"
_ADVICE = (
    "Use only one of them. To continue with this one and retire the other, run "
    "'reticent home adopt --home {home}'."
)


def settle_in(folder: Path) -> None:
    """Make a home recognisable, unless it is so already."""
    if not (folder / IDENTITY).exists():
        _stamp(folder, secrets.token_hex(16))


def check_not_retired(folder: Path, second_place: Path | None) -> None:
    """Refuse a home of which a copy was adopted.

    Parameters
    ----------
    folder : Path
        The home.
    second_place : Path or None
        Where its checkpoints are; what was adopted is noted next to them.
    """
    known = _read(folder / IDENTITY)
    owner = None if second_place is None else _read(second_place.with_name(_OWNER))
    if known and owner and owner["instance"] != known["instance"]:
        raise LedgerError(
            f"{folder} was retired on {owner.get('since')}: a copy of it, at "
            f"{owner['path']}, is used in its place. " + _ADVICE.format(home=folder)
        )


def check_not_copied(folder: Path) -> None:
    """Refuse a copy of a home; note where it is now if it was moved.

    Raises
    ------
    LedgerError
        If this home must not spend.
    """
    known = _read(folder / IDENTITY)
    if known is None:
        raise LedgerError(
            f"{folder / IDENTITY} is missing or damaged, so this home may be a copy. "
            + _ADVICE.format(home=folder)
        )
    if known["anchor"] != _anchor(folder) or _is_elsewhere(folder, known):
        if not _moved(folder, known):
            raise LedgerError(
                f"{folder} is a copy of the home at {known['path']}, or was restored "
                "from a backup; both could spend the same budget. "
                + _ADVICE.format(home=folder)
            )
        _stamp(folder, known["instance"])
    elif known["path"] != str(folder) or known["machine"] != _machine():
        _stamp(folder, known["instance"])


def adopt(folder: Path, second_place: Path | None) -> bool:
    """Make this folder the one that may spend; others are refused from now on.

    Returns
    -------
    bool
        Whether the others can notice it: they do if they share the second place.
    """
    instance = secrets.token_hex(16)
    _stamp(folder, instance)
    if second_place is None or not second_place.parent.is_dir():
        return False
    note = {
        "instance": instance,
        "path": str(folder),
        "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    _write(second_place.with_name(_OWNER), note)
    return True


def _is_elsewhere(folder: Path, known: dict[str, Any]) -> bool:
    """Return whether the home still exists at its old place: snapshots keep inodes."""
    other = Path(known["path"])
    there = _read(other / IDENTITY)
    return (
        there is not None
        and there["instance"] == known["instance"]
        and not (other / IDENTITY).samefile(folder / IDENTITY)
    )


def _moved(folder: Path, known: dict[str, Any]) -> bool:
    """Return whether the home came here from another disk of this machine.

    Then it is no longer where it was.
    """
    if known["machine"] != _machine() or known["path"] == str(folder):
        return False
    return not (Path(known["path"]) / IDENTITY).exists()


def _stamp(folder: Path, instance: str) -> None:
    anchor = folder / ANCHOR
    if not anchor.exists():
        anchor.touch(mode=0o600)
    _write(
        folder / IDENTITY,
        {
            "instance": instance,
            "anchor": _anchor(folder),
            "path": str(folder),
            "machine": _machine(),
        },
    )


def _anchor(folder: Path) -> list[int]:
    try:
        found = (folder / ANCHOR).stat()
    except OSError:
        return []
    return [found.st_ino, found.st_ctime_ns]


def _machine() -> str:
    """Return a name for this machine that says nothing about it."""
    for place in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            text = Path(place).read_bytes().strip()
        except OSError:
            continue
        if text:
            return hashlib.sha256(b"reticent/machine/" + text).hexdigest()[:32]
    return hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:32]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = strict_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InvalidParameterError):
        return None
    needed = {"instance", "path"}
    if path.name == IDENTITY:
        needed |= {"anchor", "machine"}
    return found if isinstance(found, dict) and needed <= found.keys() else None


def _write(path: Path, data: dict[str, Any]) -> None:
    scratch = path.with_name(f".{path.name}.new")
    scratch.touch(mode=0o600)
    scratch.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)
