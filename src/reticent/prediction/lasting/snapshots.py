"""Snapshots of what units have spent, so that a restart need not replay the whole log.

A snapshot is an aid, never the truth: an older one makes a restart slower, a missing
one slower still. One that is forged, or newer than the log, is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reticent.errors import LedgerError
from reticent.prediction.lasting.evidence import EvidenceHistory
from reticent.signing import Signer

_MAGIC = b"reticent lasting snapshot 2\n"
# Of earlier versions, which learned other things: everything is replayed instead.
_FORMER = b"reticent lasting snapshot 1\n"
_HEAD = struct.Struct("<HQ")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a model after a number of records."""

    identity: str  #: of the fitted model
    version: int  #: how many records of the log are in it
    mark: bytes  #: the mark of the last of them
    spending: bytes  #: what each unit has spent: as secret as the records
    #: The packed `QuestionIndex`.
    keys: NDArray[np.uint64]
    places: NDArray[np.int64]
    evidence: EvidenceHistory  #: of all answers so far

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        parts = (
            self.spending,
            self.keys.astype("<u8").tobytes(),
            self.places.astype("<i8").tobytes(),
        )
        head = {
            "identity": self.identity,
            "version": self.version,
            "mark": self.mark.hex(),
            "lengths": [len(part) for part in parts],
            "evidence": [self.evidence.groups, self.evidence.size],
        }
        return json.dumps(head).encode() + b"\n" + b"".join(parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> Snapshot:
        """Read what `to_bytes` wrote."""
        text, _, rest = content.partition(b"\n")
        head = json.loads(text)
        first, second, third = head["lengths"]
        keys = np.frombuffer(rest[first : first + second], "<u8")
        places = np.frombuffer(rest[first + second : first + second + third], "<i8")
        mark = bytes.fromhex(head["mark"])
        return cls(
            head["identity"],
            head["version"],
            mark,
            rest[:first],
            keys,
            places,
            EvidenceHistory(*head["evidence"]),
        )


class SnapshotFile:
    """The place of a model's snapshot: one file for its owner alone, signed.

    Parameters
    ----------
    path : path
        The file. Its folder must exist.
    signer : Signer
        Signs snapshots; the key must be secret.
    """

    def __init__(self, path: str | os.PathLike[str], signer: Signer) -> None:
        self.path = Path(path)
        self._signer = signer
        for left in self.path.parent.glob(f"{self.path.name}.*.new"):
            # Left by a killed process. One that is still being written is written
            # again.
            with contextlib.suppress(OSError):
                left.unlink()

    def write(self, snapshot: Snapshot) -> None:
        """Replace the snapshot, durably and atomically.

        Raises
        ------
        OSError
            If the file cannot be written; the old one stays.
        """
        content = snapshot.to_bytes()
        signature = self._signer.sign(_MAGIC + content)
        scratch = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = os.open(scratch, flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _HEAD.pack(len(signature), len(content)))
            file.write(signature + content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self) -> Snapshot | None:
        """Return the snapshot; None if there is none of this version.

        Raises
        ------
        LedgerError
            If it was not written by us, or others can read it.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise self._refused(f"cannot be read ({failure.strerror})") from None
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise self._refused("can be read or changed by others")
            whole = file.read()
        start = len(_MAGIC) + _HEAD.size
        if whole.startswith(_FORMER):
            return None
        if len(whole) < start or not whole.startswith(_MAGIC):
            raise self._refused("is not a snapshot of this version")
        signed, length = _HEAD.unpack_from(whole, len(_MAGIC))
        signature, content = whole[start : start + signed], whole[start + signed :]
        if len(content) != length or not self._signer.verify(
            _MAGIC + content, signature
        ):
            raise self._refused("was changed, or signed with another key")
        return Snapshot.from_bytes(content)

    def _refused(self, why: str) -> LedgerError:
        return LedgerError(
            f"the snapshot {str(self.path)!r} {why}. Find out who wrote it; then "
            "delete it, and everything is replayed from the ledger."
        )
