"""The shard of each unit of a model, so that one person can be taken out of it.

Ids are kept as keyed hashes. Without the home's secret a file says nothing; with it,
it is as sensitive as a list of the people in the data.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError
from reticent.estimators import unit_key
from reticent.home.home import Home

_FOLDER = "members"
_TYPE = np.dtype([("who", "S16"), ("shard", "<i4")])
_SEAL = 32  # bytes of the seal before the table


@dataclass(frozen=True, eq=False)
class Members:
    """The shards of all units of one model.

    Attributes
    ----------
    table : ndarray
        A keyed hash and a shard for each unit, in the order of the hashes.
    """

    table: NDArray[Any]

    def shard_of(self, who: bytes) -> int | None:
        """Return the shard of a unit, None if it is not there."""
        place = int(np.searchsorted(self.table["who"], who))
        if place < len(self.table) and self.table["who"][place] == who:
            return int(self.table["shard"][place])
        return None

    def without(self, who: bytes) -> Members:
        """Return all others."""
        return Members(self.table[self.table["who"] != who])


def keyed_hash(key: bytes, unit: Any) -> bytes:
    """Return what stands for the id of a unit in files."""
    text = repr(unit_key(unit)).encode()
    found = hmac.new(key, text, hashlib.sha256).digest()[:16]
    # NumPy drops zeros at the end of such texts.
    return found.rstrip(b"\0")


def write_members(home: Home, name: str, units: Any, shards: NDArray[Any]) -> None:
    """Keep the shards of the units of a model.

    Parameters
    ----------
    home : Home
        The home.
    name : str
        The folder of the model's version.
    units : array-like
        The unit of each row.
    shards : ndarray of int
        The shard of each row.
    """
    key = members_key(home)
    known = dict(zip(units, shards.tolist(), strict=True))
    rows = sorted({(keyed_hash(key, unit), shard) for unit, shard in known.items()})
    replace_members(home, name, Members(np.array(rows, dtype=_TYPE)))


def replace_members(home: Home, name: str, members: Members) -> None:
    """Write the members of a model, at once."""
    path = home.path / _FOLDER / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    content = members.table.tobytes()
    scratch = path.with_name(f".{name}.new")
    scratch.touch(mode=0o600)
    scratch.write_bytes(_seal(members_key(home), name, content) + content)
    scratch.replace(path)


def read_members(home: Home, name: str) -> Members | None:
    """Return the members of a model; None if they were not kept."""
    path = home.path / _FOLDER / name
    if not path.exists():
        return None
    content = path.read_bytes()
    seal, table = content[:_SEAL], content[_SEAL:]
    if not hmac.compare_digest(seal, _seal(members_key(home), name, table)):
        raise InvalidParameterError(
            f"{path} was changed since it was written; fit the model again."
        )
    return Members(np.frombuffer(table, dtype=_TYPE))


def forget_members(home: Home, name: str) -> None:
    """Remove the members of a model that is no longer there."""
    path = home.path / _FOLDER / name
    for each in (path, path.with_name(f".{name}.new")):
        each.unlink(missing_ok=True)


def members_key(home: Home) -> bytes:
    """Return the key of the hashes and of the seal."""
    return home.settings().derived("members")


def _seal(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.new(key, name.encode() + b"\0" + content, "sha256").digest()
