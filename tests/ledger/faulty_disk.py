"""A disk that fails on command, under the real SQLite.

SQLite reaches files through a table of functions, its VFS. `FaultyDisk` puts itself
in front of the operating system's table and counts every write, truncation, sync and
deletion. At a chosen one it ends the process, or reports an error, or loses power:
everything that was not synced is undone first, files and folder entries alike, which
is the worst that a disk that keeps its word may do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from enum import Enum
from pathlib import Path

SQLITE_FULL = 13
SQLITE_IOERR_WRITE = 10 | (3 << 8)
SQLITE_IOERR_FSYNC = 10 | (4 << 8)
SQLITE_IOERR_DELETE = 10 | (10 << 8)
_SYNC_FOLDER = 1


class Fault(Enum):
    """What happens at the chosen boundary."""

    EXIT = "exit"  # the process ends before the operation
    TORN = "torn"  # ... or halfway through a write
    POWER = "power"  # the machine loses power: nothing unsynced survives
    ERROR = "error"  # the operation fails once: an I/O error, or the disk is full


_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _VFS(ctypes.Structure):
    _fields_ = [
        *[(name, c_int) for name in ("version", "file_size", "longest_path")],
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _Open),
        ("delete", _Delete),
        ("rest", c_void_p * 15),
    ]


class _Methods(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", _Write),
        ("truncate", _Truncate),
        ("sync", _Sync),
        ("rest", c_void_p * 13),
    ]


class _File(ctypes.Structure):
    _fields_ = [("methods", POINTER(_Methods))]


def sqlite_library() -> ctypes.CDLL | None:
    """Return the very library that Python's sqlite3 uses, if it can be reached."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    for line in maps.read_text().splitlines():
        if "libsqlite3" in line:
            library = ctypes.CDLL(line.split()[-1])
            library.sqlite3_libversion.restype = c_char_p
            found = library.sqlite3_libversion().decode()
            return library if found == sqlite3.sqlite_version else None
    return None


class FaultyDisk:
    """Counts write boundaries and fails at number `at`."""

    def __init__(self, fault: Fault, at: int) -> None:
        self.fault, self.at, self.count = fault, at, 0
        self.fired = False
        # What a loss of power undoes, newest last; and paths by file handle.
        self._unsynced: list[tuple[str, str, int, bytes]] = []
        self._paths: dict[int, str] = {}
        self._tables: dict[int, _Methods] = {}
        library = sqlite_library()
        assert library is not None, "SQLite is linked statically"
        library.sqlite3_vfs_find.restype = POINTER(_VFS)
        self._system = library.sqlite3_vfs_find(None)
        self._vfs = _VFS()
        ctypes.pointer(self._vfs)[0] = self._system[0]
        self._vfs.name = b"faulty"
        self._open = _Open(self._on_open)
        self._delete = _Delete(self._on_delete)
        self._vfs.open, self._vfs.delete = self._open, self._delete
        library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    def boundary(self) -> bool:
        """Pass a boundary; return whether it fails."""
        self.count += 1
        if self.count != self.at:
            return False
        self.fired = True
        if self.fault is Fault.POWER:
            self._lose_power()
        if self.fault in {Fault.POWER, Fault.EXIT}:
            os._exit(9)
        return True

    def _lose_power(self) -> None:
        for kind, path, offset, content in reversed(self._unsynced):
            if kind == "created":
                Path(path).unlink()
            elif kind == "deleted":
                Path(path).write_bytes(content)
            elif kind == "written":
                with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
                    file.seek(offset)
                    file.write(content)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.truncate(path, offset)

    def _on_open(self, vfs, name, file, flags, out):
        path = ctypes.string_at(name).decode() if name else ""
        existed = bool(path) and Path(path).exists()
        code = self._system[0].open(
            ctypes.addressof(self._system[0]), name, file, flags, out
        )
        if code == 0 and path:
            if not existed:
                self._unsynced.append(("created", path, 0, b""))
            self._intercept(file, path)
        return code

    def _intercept(self, file: int, path: str) -> None:
        opened = ctypes.cast(file, POINTER(_File))[0]
        original = opened.methods[0]
        table = _Methods()
        ctypes.pointer(table)[0] = original
        write, truncate, sync = original.write, original.truncate, original.sync

        def on_write(handle, data, size, offset):
            if self.boundary():
                if self.fault is Fault.TORN:
                    write(handle, data, size // 2, offset)
                    os._exit(9)
                return SQLITE_FULL if self.at % 2 else SQLITE_IOERR_WRITE
            self._remember(path, offset, size)
            return write(handle, data, size, offset)

        def on_truncate(handle, size):
            if self.boundary():
                return self._failed(SQLITE_IOERR_WRITE)
            before = os.path.getsize(path)
            self._remember(path, size, max(0, before - size))
            return truncate(handle, size)

        def on_sync(handle, flags):
            if self.boundary():
                return self._failed(SQLITE_IOERR_FSYNC)
            # The first sync of a new journal syncs the folder as well.
            created = any(u[:2] == ("created", path) for u in self._unsynced)
            self._unsynced = [
                u
                for u in self._unsynced
                if u[1] != path and not (created and u[0] == "deleted")
            ]
            return sync(handle, flags)

        table.write, table.truncate, table.sync = (
            _Write(on_write),
            _Truncate(on_truncate),
            _Sync(on_sync),
        )
        self._tables[file] = table  # kept alive
        opened.methods = ctypes.pointer(table)

    def _failed(self, code: int) -> int:
        if self.fault is Fault.TORN:
            os._exit(9)
        return code

    def _remember(self, path: str, offset: int, size: int) -> None:
        """Note what a write is about to replace."""
        with open(path, "rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(offset)
            old = file.read(size)
        self._unsynced.append(("resized", path, length, b""))
        self._unsynced.append(("written", path, offset, old))

    def _on_delete(self, vfs, name, sync_folder):
        path = name.decode()
        if Path(path).exists():
            if self.boundary():
                return self._failed(SQLITE_IOERR_DELETE)
            gone = ("deleted", path, 0, self._as_synced(path))
            self._unsynced = [u for u in self._unsynced if u[1] != path]
            if not sync_folder & _SYNC_FOLDER:
                self._unsynced.append(gone)
            else:
                self._unsynced = [u for u in self._unsynced if u[0] != "deleted"]
        system = ctypes.addressof(self._system[0])
        return self._system[0].delete(system, name, sync_folder)

    def _as_synced(self, path: str) -> bytes:
        """Return a file's content as of its last sync."""
        content = bytearray(Path(path).read_bytes())
        for kind, other, offset, old in reversed(self._unsynced):
            if other == path and kind == "written":
                content[offset : offset + len(old)] = old
            elif other == path and kind == "resized":
                del content[offset:]
        return bytes(content)
