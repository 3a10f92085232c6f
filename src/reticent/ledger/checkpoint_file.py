"""A file for checkpoints: a whole one, and the heads that the ledger reached since.

The first line is a checkpoint with all accounts, and replaces the file as a whole. Each
further line is a head, appended with one sync. When there are many, the next checkpoint
is a whole one again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from reticent._files import check_own_file, check_own_folder
from reticent.errors import LedgerError

# Bytes of heads before the next whole checkpoint.
_MOST_HEADS = 2**18
# The last line is a head, and shorter than this; or the first, and read as a whole.
_LAST_LINE = 2**12


def complete_lines(data: bytes) -> list[bytes]:
    """Return the lines that are complete."""
    return data.split(b"\n")[:-1]


class FileCheckpoints:
    """Checkpoints in one file, readable by its owner only.

    Several processes may share it: a checkpoint with less progress does not replace
    one with more. A file or folder that others can change, that belongs to somebody
    else or that is a symbolic link is refused.

    Parameters
    ----------
    path : path
        Where the file is. Its folder must exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = self._path.with_name(self._path.name + ".lock")
        self._most = 0  # the size at which a whole checkpoint is due
        self._left = (-1, -1, (-1, -1))  # file, size and progress as we left them

    @property
    def has_room(self) -> bool:
        """Whether a head may follow what is in the file."""
        return self._left[1] < self._most

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
                self._sync_file()
                return
            fresh = self._path.with_name(self._path.name + ".new")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(fresh, flags, 0o600)
            try:
                os.fchmod(handle, 0o600)
                _write_all(handle, data)
                os.fsync(handle)
                self._left = (os.fstat(handle).st_ino, len(data), progress)
            finally:
                os.close(handle)
            fresh.replace(self._path)
            self._most = len(data) + _MOST_HEADS
            self._sync_folder()

    def append(self, line: bytes, *, progress: tuple[int, int]) -> None:
        """Keep a head durably after the checkpoint, unless there is more progress."""
        with self._alone():
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(self._path, flags)
            try:
                found = os.fstat(handle)
                mine, size, reached = self._left
                if (found.st_ino, found.st_size) != (mine, size):
                    data = _tail(handle, found.st_size)
                    size = found.st_size - len(data.rpartition(b"\n")[2])
                    reached = _progress(data)
                if reached < progress:
                    # What a killed process wrote only in part is overwritten.
                    if found.st_size != size:
                        os.ftruncate(handle, size)
                    os.lseek(handle, size, os.SEEK_SET)
                    _write_all(handle, line)
                    size, reached = size + len(line), progress
                os.fdatasync(handle)
                self._left = (found.st_ino, size, reached)
            finally:
                os.close(handle)

    def progress(self) -> tuple[int, int]:
        """Return the progress of what is in the file, none if unreadable."""
        try:
            return _progress(self._path.read_bytes())
        except OSError:
            return -1, -1

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        import fcntl  # missing on some platforms that the rest of the ledger runs on

        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self._lock, flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _sync_file(self) -> None:
        """Wait until what another process wrote is on the disk."""
        handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        self._sync_folder()

    def _sync_folder(self) -> None:
        handle = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _tail(handle: int, size: int) -> bytes:
    """Return the end of a file, with at least one whole line if there is one."""
    data = os.pread(handle, _LAST_LINE, max(0, size - _LAST_LINE))
    if data.count(b"\n") < 2:
        data = os.pread(handle, size, 0)
    return data


def _progress(data: bytes) -> tuple[int, int]:
    """Return the progress of the last whole line, none if unreadable."""
    try:
        content = json.loads(json.loads(complete_lines(data)[-1])["checkpoint"])
        return int(content["epoch"]), int(content["sequence"])
    except (ValueError, KeyError, TypeError, IndexError):
        return -1, -1
