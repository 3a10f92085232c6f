"""The lines of a CSV file, each of which must be one complete row."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"^\r?\n", re.MULTILINE)


class CsvLines(io.RawIOBase):
    r"""A file that is read up to the first line that is not one complete row.

    In some dialects a quoted field may contain line breaks. A stray quotation mark then
    silently swallows rows up to the next mark, however far away. So here a line is a
    row: a field has no quotation marks, or it is quoted, closed on its line, and the
    marks inside it are doubled. Reading also ends at a carriage return without a line
    feed and at NUL, which readers interpret differently, and at a line that is not
    UTF-8.

    Leading blank lines and a byte order mark are skipped, and a last line without a
    line end gets one.

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
        Lines read, from the header on, and how many of them are blank.
    n_skipped : int
        Blank lines before the header.
    blank_lines : list of int
        The blank lines below the header, counted from the header as line 1.
    """

    def __init__(
        self, file: BinaryIO | gzip.GzipFile, *, separator: str, most_bytes: int
    ) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._rest = b""  # a line whose end has not been read
        self._ready = memoryview(b"")
        self.n_skipped = 0
        self._at_start = True
        self._at_end = False
        self.bad_line: int | None = None
        self.n_lines = 0
        self.n_blank = 0
        self.blank_lines: list[int] = []
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

    def pieces(self) -> Iterator[bytes]:
        """Yield checked lines, some at a time; the alternative to reading a buffer."""
        while not self._at_end:
            if piece := self._next_lines():
                yield piece

    def _next_lines(self) -> bytes:
        """Return some complete lines that are rows, or note that there are no more."""
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
            self.bad_line = self.n_skipped + self.n_lines + 1
        return piece

    def _without_blank_start(self, piece: bytes) -> bytes:
        while piece.startswith((b"\n", b"\r\n")):
            self.n_skipped += 1
            piece = piece.partition(b"\n")[2]
        return piece

    def _first_bad(self, piece: bytes) -> int | None:
        """Return the start of the first line that is not a row, or None."""
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
        if b"\n\n" in piece or b"\n\r\n" in piece or piece.startswith((b"\n", b"\r\n")):
            found = [match.start() for match in _BLANK.finditer(piece)]
            self.n_blank += len(found)
            self.blank_lines += [
                self.n_lines + 1 + piece.count(b"\n", 0, start) for start in found
            ]
        self.n_lines += piece.count(b"\n")


def _decodable(piece: bytes) -> bytes:
    """Return the lines before the first one that is not UTF-8."""
    if piece.isascii():
        return piece
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError as error:
        return piece[: piece.rfind(b"\n", 0, error.start) + 1]
    return piece
