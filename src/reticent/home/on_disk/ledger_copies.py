"""Copies of a home's ledger: written while it is used, put back with a write-off."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.errors import InvalidParameterError, LedgerError
from reticent.home.on_disk.identity import check_not_copied, check_not_retired
from reticent.home.settings import Settings
from reticent.ledger import SQLLedger

if TYPE_CHECKING:
    from reticent.home.home import Home

_SQLITE = "sqlite:///"


def back_up_ledger(home: Home, out: Path) -> int:
    """Copy the ledger to a new file, also while it is used; return its entries.

    Parameters
    ----------
    home : Home
        The home.
    out : Path
        The file; it must not be there.
    """
    return copy_ledger(_file_of(home.settings()), out)


def copy_ledger(source: Path, out: Path) -> int:
    """Copy a ledger to a new file, and verify the copy; return its entries.

    Parameters
    ----------
    source : Path
        The file of the ledger, which may be in use.
    out : Path
        The copy; it must not be there.
    """
    os.close(os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        contextlib.closing(sqlite3.connect(source)) as original,
        contextlib.closing(sqlite3.connect(out)) as copy,
    ):
        original.backup(copy)
    return _entries(out)


def restore_ledger(home: Home, copy: Path, reason: str) -> bool:
    """Put a copy in the place of the ledger; return whether it was the newest.

    Unless it is, what was spent since is not known, so every budget is written off.

    Parameters
    ----------
    home : Home
        The home. Nothing else may use its ledger meanwhile.
    copy : Path
        A whole ledger, as `back_up_ledger` wrote it.
    reason : str
        Kept in the ledger if budgets are written off.
    """
    if not reason.strip():
        raise InvalidParameterError("--reason must say why; it is kept in the ledger.")
    settings = home.settings()
    target = _file_of(settings)
    if settings.identity is not None:
        check_not_retired(settings.identity.parent, settings.second_place)
        check_not_copied(settings.identity.parent)
    _entries(copy)  # refuses what is not a whole ledger
    scratch = target.with_name(".ledger.restored")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=0o600)
    scratch.write_bytes(copy.read_bytes())
    for end in ("", "-wal", "-shm"):
        old = target.with_name(target.name + end)
        if old.exists():
            old.replace(target.with_name(f"replaced-{target.name}{end}"))
    scratch.replace(target)
    try:
        with settings.open_ledger():
            return True
    except LedgerError:
        settings.write_off(reason)
        return False


def _entries(path: Path) -> int:
    if not path.is_file():
        raise InvalidParameterError(f"{path} is not there.")
    if not _is_ledger(path):
        raise InvalidParameterError(
            f"{path} is not a copy of a ledger; 'reticent ledger backup' writes one."
        )
    try:
        with SQLLedger(f"{_SQLITE}{path.resolve()}") as ledger:
            return ledger.verify().entries
    except LedgerError as error:
        raise InvalidParameterError(
            f"{path} is not a whole copy of a ledger: {error}"
        ) from None


def _is_ledger(path: Path) -> bool:
    """Look without writing: opening another database as a ledger would change it."""
    question = "SELECT count(*) FROM sqlite_master WHERE name = 'ledger_entries'"
    with contextlib.closing(
        sqlite3.connect(f"file:{path.resolve()}?mode=ro", uri=True)
    ) as looked_at:
        try:
            return bool(looked_at.execute(question).fetchone()[0])
        except sqlite3.DatabaseError:
            return False


def ledger_file(settings: Settings) -> Path | None:
    """Return the file of the ledger; None if it is in a database server."""
    if not settings.ledger.startswith(_SQLITE):
        return None
    return Path(settings.ledger.removeprefix(_SQLITE))


def _file_of(settings: Settings) -> Path:
    file = ledger_file(settings)
    if file is None:
        raise InvalidParameterError(
            "the ledger is in a database server; use the server's own backups, and "
            "'reticent ledger write-off' after one was restored."
        )
    return file
