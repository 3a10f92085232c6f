"""Rows of numbers in unnamed temporary files that disappear with the process."""

from __future__ import annotations

import os
import tempfile
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError


class RowFile:
    """A temporary file of rows, all of one width and type.

    No other process can open the file: on POSIX systems its name is removed before the
    first row is written, so that not even a crash leaves records behind.

    Parameters
    ----------
    folder : path or None
        The file's folder; None is the system's folder for temporary files.
    width : int
        Numbers in a row.
    dtype : dtype
        Their type.
    """

    def __init__(
        self, folder: str | PathLike[str] | None, width: int, dtype: Any
    ) -> None:
        self.width = width
        self.dtype = np.dtype(dtype)
        self.n_rows = 0
        try:
            self._file: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise InvalidParameterError(
                f"scratch={os.fspath(folder or tempfile.gettempdir())!r}: no temporary "
                f"file can be created ({error.strerror}). Name a writable folder."
            ) from None

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return self.width * self.dtype.itemsize

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows after the last."""
        self.write(self.n_rows, rows)

    def write(self, start: int, rows: NDArray[Any]) -> None:
        """Write rows to the places from `start` on."""
        content = np.ascontiguousarray(rows, dtype=self.dtype).data.cast("B")
        try:
            self._file.seek(start * self.row_bytes)
            while content:
                content = content[self._file.write(content) :]
        except OSError as error:
            raise InvalidParameterError(
                f"the temporary file of the rows cannot grow ({error.strerror}). Name "
                "a scratch folder on a disk with space for twice the encoded rows."
            ) from None
        self.n_rows = max(self.n_rows, start + len(rows))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows of the places from `start` up to `stop`."""
        rows = np.empty((stop - start, self.width), dtype=self.dtype)
        content = rows.data.cast("B")
        self._file.seek(start * self.row_bytes)
        while content:
            done = self._file.readinto(content)
            if not done:
                raise InvalidParameterError(
                    "the temporary file of the rows is shorter than what was written "
                    "to it. Check the disk of the scratch folder."
                )
            content = content[done:]
        return rows

    def close(self) -> None:
        """Free the space on the disk."""
        self._file.close()
