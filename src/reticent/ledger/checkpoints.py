"""Signed checkpoints in separate storage: they reveal a restored older copy.

A chain of hashes cannot tell that its end was cut off, or that yesterday's file was
put back. A checkpoint can: it states, under a signature, how far the ledger had come.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reticent._files import check_own_file, check_own_folder
from reticent.errors import LedgerError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.entries import canonical
from reticent.ledger.units import Spend
from reticent.signing import Signer


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a ledger had come.

    `epoch` counts how often the budget was written off: a ledger that was written off
    is ahead of every earlier copy, whatever their lengths.
    """

    ledger: str
    epoch: int
    sequence: int
    head: str
    accounts: Mapping[str, Balance]

    @property
    def progress(self) -> tuple[int, int]:
        """Epoch and sequence; they grow from one checkpoint to the next."""
        return self.epoch, self.sequence

    def to_bytes(self, signer: Signer) -> bytes:
        """Return signed JSON."""
        payload = canonical(
            {
                "ledger": self.ledger,
                "epoch": self.epoch,
                "sequence": self.sequence,
                "head": self.head,
                "accounts": {
                    name: {"cap": balance.cap.to_json(), "spent": balance.spent}
                    for name, balance in self.accounts.items()
                },
            }
        )
        signature = signer.sign(payload.encode()).hex()
        signed = {
            "algorithm": signer.algorithm,
            "checkpoint": payload,
            "signature": signature,
        }
        return canonical(signed).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, signer: Signer) -> Checkpoint:
        """Read what `to_bytes` wrote; refuse anything else."""
        try:
            signed = json.loads(data)
            payload = signed["checkpoint"]
            genuine = signed["algorithm"] == signer.algorithm and signer.verify(
                payload.encode(), bytes.fromhex(signed["signature"])
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            genuine = False
        if not genuine:
            raise LedgerError(
                "the checkpoint is damaged or signed with another key. Use the key it "
                "was signed with, or write the budget off."
            )
        content: dict[str, Any] = json.loads(payload)
        return cls(
            ledger=content["ledger"],
            epoch=content["epoch"],
            sequence=content["sequence"],
            head=content["head"],
            accounts={
                name: Balance(
                    AccountId.parse(name),
                    Cap.from_json(state["cap"]),
                    Spend(*state["spent"]),
                )
                for name, state in content["accounts"].items()
            },
        )


class CheckpointStore(Protocol):
    """Separate storage for checkpoints: another disk or machine, an object store."""

    def read(self) -> bytes | None:
        """Return the checkpoint, or None if there never was one."""
        ...

    def write(self, data: bytes, *, progress: tuple[int, int], force: bool) -> None:
        """Keep a checkpoint durably, unless one with more progress is there.

        With `force`, keep it in any case. Return only when it is durable.
        """
        ...


class FileCheckpoints:
    """A checkpoint in one file, replaced as a whole, readable by its owner only.

    Several processes may share it: a checkpoint with less progress does not replace
    the file. A file or folder that others can change, that belongs to somebody else or
    that is a symbolic link is refused.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def read(self) -> bytes | None:
        """Return the checkpoint, or None if there never was one."""
        check_own_folder(self._path.parent, "the checkpoint's folder")
        check_own_file(self._path, "the checkpoint", secret=True)
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(
                f"the checkpoint {str(self._path)!r} cannot be read: {error.strerror}."
            ) from None

    def write(self, data: bytes, *, progress: tuple[int, int], force: bool) -> None:
        """Keep a checkpoint durably, unless one with more progress is there."""
        with self._alone():
            if not force and self.progress() >= progress:
                return
            fresh = self._path.with_name(self._path.name + ".new")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(fresh, flags, 0o600)
            try:
                os.fchmod(handle, 0o600)
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
                os.fsync(handle)
            finally:
                os.close(handle)
            fresh.replace(self._path)
            self._sync_folder()

    def progress(self) -> tuple[int, int]:
        """Return the progress of the checkpoint in the file, none if unreadable."""
        try:
            content = json.loads(json.loads(self._path.read_bytes())["checkpoint"])
            return int(content["epoch"]), int(content["sequence"])
        except (OSError, ValueError, KeyError, TypeError):
            return -1, -1

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        import fcntl  # missing on some platforms that the rest of the ledger runs on

        lock = self._path.with_name(self._path.name + ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(lock, flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _sync_folder(self) -> None:
        handle = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class SignedCheckpoints:
    """A store of checkpoints and the key that signs them."""

    store: CheckpointStore
    signer: Signer

    def read(self) -> Checkpoint | None:
        """Return the checkpoint after checking its signature."""
        data = self.store.read()
        return None if data is None else Checkpoint.from_bytes(data, self.signer)

    def keep(self, checkpoint: Checkpoint, *, force: bool = False) -> None:
        """Sign a checkpoint and store it."""
        data = checkpoint.to_bytes(self.signer)
        self.store.write(data, progress=checkpoint.progress, force=force)
