"""The lines of a CSV file, each of which must be one whole row."""

from __future__ import annotations

import gzip
import io
import re
from typing import Any, BinaryIO

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"^\r?\n", re.MULTILINE)


class CsvLines(io.RawIOBase):
    r"""A file that is read up to its first line that is not one whole row.

    A quoted field may hold line breaks in some dialects. A stray quotation mark then
    swallows rows up to the next mark, however far away, and nobody notices. So here a
    line is a row: a field is free of marks, or it is quoted, closed on its line, and
    marks inside it are doubled. A return that no line feed follows and the character
    NUL, which readers understand in different ways, end the reading too, and so does a
    line that is not UTF-8.

    Blank lines before the first other line and a byte order mark are left out, and a
    last line without an end gets one.

    Parameters
    ----------
    file : binary file
        The file, uncompressed.
    separator : str
        The character between two fields.
    most_bytes : int
        The longest line that is read.

    Attributes
    ----------
    bad_line : int or None
        The number of the line that ended the reading, counted from 1.
    n_lines, n_blank : int
        Lines from the header on that were read, and how many of them are blank.
    """

    def __init__(
        self, file: BinaryIO | gzip.GzipFile, *, separator: str, most_bytes: int
    ) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._rest = b""  # a line whose end has not been read
        self._ready = memoryview(b"")
        self._n_skipped = 0
        self._at_start = True
        self._at_end = False
        self.bad_line: int | None = None
        self.n_lines = 0
        self.n_blank = 0
        between = re.escape(separator.encode())
        field = rb'(?:"(?:[^"\r\n\0]++|"")*+"|[^"\r\n\0%s]*+)' % between
        self._rows = re.compile(
            rb'(?:(?:[^"\r\n\0]*+|%s(?:%s%s)*+)\r?+\n)*+' % (field, between, field)
        )

    def readable(self) -> bool:
        """Return that the file can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read checked lines into a buffer, and return the number of bytes."""
        while not self._ready and not self._at_end:
            self._ready = memoryview(self._next_lines())
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _next_lines(self) -> bytes:
        """Return some whole lines that are rows, or note that there are no more."""
        data = self._file.read(self._most_bytes)
        if self._at_start:
            data = data.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        elif not data:
            self._at_end = True
            data = b"\n" if self._rest else b""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        piece, self._rest = data[:end], data[end:]
        if not self.n_lines:
            piece = self._without_blank_start(piece)
        text = _decodable(piece)
        stop = self._first_bad(text)
        if stop is None and len(text) < len(piece):
            stop = len(text)
        if stop is None and len(self._rest) > self._most_bytes:
            stop = len(piece)
        if stop is not None:
            self._at_end = True
            piece = piece[:stop]
        self._count(piece)
        if stop is not None:
            self.bad_line = self._n_skipped + self.n_lines + 1
        return piece

    def _without_blank_start(self, piece: bytes) -> bytes:
        while piece.startswith((b"\n", b"\r\n")):
            self._n_skipped += 1
            piece = piece.partition(b"\n")[2]
        return piece

    def _first_bad(self, piece: bytes) -> int | None:
        """Return where the first line starts that is no row, or None."""
        if (
            b'"' not in piece
            and b"\0" not in piece
            and piece.count(b"\r") == piece.count(b"\r\n")
        ):
            return None
        match = self._rows.match(piece)
        end = 0 if match is None else match.end()
        return None if end == len(piece) else end

    def _count(self, piece: bytes) -> None:
        self.n_lines += piece.count(b"\n")
        if b"\n\n" in piece or b"\n\r\n" in piece or piece.startswith((b"\n", b"\r\n")):
            self.n_blank += len(_BLANK.findall(piece))


def _decodable(piece: bytes) -> bytes:
    """Return the lines before the first one that is not UTF-8."""
    if piece.isascii():
        return piece
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError as error:
        return piece[: piece.rfind(b"\n", 0, error.start) + 1]
    return piece
