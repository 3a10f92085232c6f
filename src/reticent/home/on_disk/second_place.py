"""Where a home keeps the signed checkpoints of its ledger: not in the home itself.

A backup of the home holds both the ledger and whatever is next to it. If the
checkpoints were there too, restoring the folder would bring back an older ledger
together with the checkpoints that fit it, and its budget could be spent again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from reticent.ledger import FileCheckpoints

_FILE = "checkpoint.json"
_SYSTEM = Path("/var/lib")


def default_second_place(home: Path, secret: bytes) -> Path:
    """Return where the checkpoints of a new home go.

    That is the user's folder for state (``XDG_STATE_HOME``, else ``~/.local/state``),
    or the system's if only that one is on another disk and we may write to it. The
    folder is named after the home's secret, so a restored copy of the home finds the
    checkpoints of the home that it is a copy of.

    Parameters
    ----------
    home : Path
        The home.
    secret : bytes
        Its master secret.
    """
    name = hmac.new(secret, b"reticent/second-place", hashlib.sha256).hexdigest()[:32]
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    places = [state]
    if os.access(_SYSTEM, os.W_OK):
        places.append(_SYSTEM)
    apart = [place for place in places if not on_one_disk(place, home)]
    return (apart or places)[0] / "reticent" / name / _FILE


def on_one_disk(one: Path, other: Path) -> bool:
    """Return whether two paths, or the folders that they will be in, share a disk."""
    return _nearest(one).stat().st_dev == _nearest(other).stat().st_dev


def second_place_risk(ledger: str, checkpoints: Path | None) -> str | None:
    """Say what goes unnoticed with checkpoints in a place; None if nothing does.

    Parameters
    ----------
    ledger : str
        The ledger's address; one of a database server is not on this machine's disks.
    checkpoints : Path or None
        Where they are kept.
    """
    if checkpoints is None:
        return (
            "checkpoints='none': nobody notices when the ledger is restored from a "
            "backup, and what was spent since can be spent again. Set checkpoints to a "
            "path on another disk."
        )
    if not ledger.startswith("sqlite:///"):
        return None
    folder = Path(ledger.removeprefix("sqlite:///")).absolute().parent
    where = f"the checkpoints are at {str(checkpoints)!r}, "
    if checkpoints.absolute().is_relative_to(folder):
        return (
            f"{where}in the ledger's own folder: a restored backup of the folder goes "
            "unnoticed, and what was spent since can be spent again. Set checkpoints "
            "to a path outside, best on another disk."
        )
    if on_one_disk(checkpoints, folder):
        return (
            f"{where}on the same disk as the ledger: a restored image of the disk goes "
            "unnoticed, and what was spent since can be spent again. Set checkpoints "
            "to a path on another disk."
        )
    return None


def move_checkpoints(old: Path, new: Path) -> None:
    """Copy checkpoints to another place, unless newer ones are there already.

    The old file stays: another process may still use it.
    """
    source, target = FileCheckpoints(old), FileCheckpoints(new)
    data = source.read()
    if data is not None:
        target.write(data, progress=source.progress(), force=False)


def _nearest(path: Path) -> Path:
    """Return the path, or the first folder above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
