"""Directories that only their owner can read, written whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from reticent.errors import ModelFileError

_LINUX = sys.platform == "linux"
# From Linux's headers: paths are relative to the working directory, and change places.
_HERE, _EXCHANGE = -100, 2
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z]{1,16}){1,2}")


class Folder:
    """A directory opened once; every file in it is opened through that handle.

    Guarantee
    ---------
    No symbolic link is followed, no file outside is opened whatever names are asked
    for, and nothing is read that another user could read or change.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._handle = os.open(path, flags)
        except OSError as error:
            raise ModelFileError(
                f"the model {str(path)!r} is not a directory that can be opened "
                f"({error.strerror}); symbolic links are not followed."
            ) from None
        try:
            self._check(os.fstat(self._handle), "700")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._handle)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def read(self, name: str, *, most: int) -> bytes:
        """Return the content of one file, refusing more than `most` bytes."""
        where = self._where(name)
        # Without NONBLOCK, opening a pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(checked_name(name), flags, dir_fd=self._handle)
        except OSError as error:
            raise ModelFileError(
                f"{where} cannot be opened ({error.strerror}); the model is damaged. "
                "Save it again."
            ) from None
        try:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode):
                raise ModelFileError(f"{where} is not a plain file.")
            self._check(state, "600", where)
            if not state.st_size <= most:
                raise ModelFileError(
                    f"{where} has {state.st_size} bytes; at most {most} are read."
                )
            # A file that grows while it is read is cut, and then fails its hash.
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(handle)

    def _where(self, name: str) -> str:
        return f"{name!r} in the model {str(self.path)!r}"

    def _check(
        self, state: os.stat_result, wanted: str, where: str | None = None
    ) -> None:
        where = where or f"the model {str(self.path)!r}"
        if state.st_mode & 0o077:
            raise ModelFileError(
                f"{where} has mode {stat.S_IMODE(state.st_mode):o}, so others can "
                f"read or change it; a model is as secret as its records. Set the "
                f"mode to {wanted}."
            )
        if state.st_uid not in {os.geteuid(), 0}:
            raise ModelFileError(
                f"{where} belongs to another user (uid {state.st_uid}); make it "
                "belong to the one who serves it."
            )


def checked_name(name: str) -> str:
    """Return a file name that cannot lead out of its directory."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ModelFileError(
            "a file of a model has a name of lower-case letters, digits and _ with an "
            "extension; the manifest names another."
        )
    return name


def write_folder(
    path: str | os.PathLike[str],
    files: Mapping[str, bytes],
    *,
    replace: bool,
    marked: str | None = None,
) -> None:
    """Make a directory with these files, durably, and visible only when complete.

    With `replace`, what was there is removed; with `marked`, only if it is empty or
    holds a file of this name.
    """
    target = Path(path)
    if target.exists() and not replace:
        raise ModelFileError(
            f"the path {str(target)!r} exists; choose another, or pass replace=True."
        )
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise ModelFileError(
            f"the path {str(target)!r} is not a directory, and only a model is "
            "replaced; choose another."
        )
    if marked is not None and target.is_dir():
        with _os_errors(target):
            held = os.listdir(target)
        if held and marked not in held:
            raise ModelFileError(
                f"the directory {str(target)!r} holds something, but no {marked}: it "
                "is no model, so it is not replaced; choose another."
            )
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}.new")
    with _os_errors(target):
        os.mkdir(fresh, 0o700)
        try:
            os.chmod(fresh, 0o700)  # whatever the umask says
            for name, content in files.items():
                _write(fresh / checked_name(name), content)
            _sync(fresh)
            _put(fresh, target)
            _sync(target.parent)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _put(fresh: Path, target: Path) -> None:
    """Put a directory in its place; what was there before is removed.

    Where the system can exchange two names, there is one or the other at every moment,
    also if the process is killed. Elsewhere what was there is moved aside first.
    """
    if not target.exists():
        os.rename(fresh, target)
        return
    old = fresh
    if not _exchanged(fresh, target):
        old = target.with_name(f".{target.name}.{secrets.token_hex(6)}.old")
        os.rename(target, old)
        os.rename(fresh, target)
    _sync(target.parent)  # before anything of the old one goes
    shutil.rmtree(old)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two paths change places in one step; false if the system cannot do that."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if _LINUX else None
    if rename is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    done: int = rename(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    return done == 0


def _write(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _os_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"the model {str(target)!r} cannot be written: {error.strerror}."
        ) from None
