"""Files that must be ours alone: refuse loose modes, other owners and links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reticent.errors import LedgerError, ReticentError

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_SHARED = stat.S_IRWXG | stat.S_IRWXO


def check_own_file(
    path: Path,
    what: str,
    *,
    secret: bool = False,
    error: type[ReticentError] = LedgerError,
) -> None:
    """Refuse a file that others can change, or read if it is secret.

    A file that is not there is not refused.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What it is, for the message.
    secret : bool, default=False
        Whether nobody else may read it.
    error : type, default=LedgerError
        What to raise; its message says what to do.
    """
    found = _found(path, what, error)
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{what} {str(path)!r} is not a plain file; put one there.")
    mode = stat.S_IMODE(found.st_mode)
    if secret and mode & _SHARED:
        raise error(
            f"{what} {str(path)!r} has mode={mode:o}, so others can read or change it; "
            "set it to 600."
        )
    if mode & _WRITABLE and not _private_group(found):
        raise error(
            f"{what} {str(path)!r} has mode={mode:o}, so others can change it; run "
            f"chmod go-w {path}."
        )


def check_own_folder(
    path: Path,
    what: str,
    *,
    secret: bool = False,
    error: type[ReticentError] = LedgerError,
) -> None:
    """Refuse a folder in which others can replace files, or see them if secret.

    Parameters
    ----------
    path, what, secret, error
        As for `check_own_file`.
    """
    found = _found(path, what, error)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise error(f"{what} {str(path)!r} is not a folder; name a folder.")
    mode = stat.S_IMODE(found.st_mode)
    if secret and mode & _SHARED:
        raise error(
            f"{what} {str(path)!r} keeps secrets and others can enter it; run "
            f"chmod 700 {path}."
        )
    if mode & _WRITABLE and not _private_group(found):
        raise error(
            f"{what} {str(path)!r} has mode={mode:o}, so others can replace its files; "
            f"run chmod go-w {path}, or use a folder of your own."
        )


def _found(path: Path, what: str, error: type[ReticentError]) -> os.stat_result | None:
    """Return the status of a path, not following links; None if nothing is there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise error(
            f"{what} {str(path)!r} cannot be examined: {failure.strerror}."
        ) from None
    if stat.S_ISLNK(found.st_mode):
        raise error(
            f"{what} {str(path)!r} is a symbolic link, which may later lead "
            "elsewhere; give the path that it leads to."
        )
    if found.st_uid not in {os.geteuid(), 0}:
        raise error(
            f"{what} {str(path)!r} belongs to the user with uid={found.st_uid}, who "
            f"can change it; run chown {os.geteuid()} {path}, or run as that user."
        )
    return found


def _private_group(found: os.stat_result) -> bool:
    """Return whether only a group with nobody else in it may write.

    Many systems give each user a group of the same name, and let it write.
    """
    import grp  # missing on platforms without such groups
    import pwd

    if found.st_mode & stat.S_IWOTH:
        return False
    try:
        group = grp.getgrgid(found.st_gid)
        user = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}
