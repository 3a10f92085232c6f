"""CSV files of any size as a stream of columns of text."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from reticent.errors import InvalidDataError
from reticent.schemas.cells import RawColumn
from reticent.schemas.csv_lines import CsvLines
from reticent.schemas.file_format import FileFormat, Recoded, distinct_names
from reticent.schemas.places import Place

# Our choice: large enough for any sensible row, and small enough for any machine.
_BLOCK_BYTES = 1 << 20

_GZIP = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# What a damaged or truncated compressed file raises while it is read.
_UNREADABLE = (OSError, EOFError, zlib.error)


# Why a line is refused. One text for all causes reveals nothing about the record.
NO_ROW = (
    "the line is not one whole row. A field holds a line break, a quotation mark that "
    "is not doubled or not closed, a lone carriage return or a NUL, or the line is "
    f"longer than {_BLOCK_BYTES >> 20} MB. Correct the line, or save the table as "
    "Parquet, where fields may hold anything."
)


class CsvFile:
    """A CSV file with a header, compressed with gzip or not.

    Parameters
    ----------
    path : Path
        The file.
    written : FileFormat
        How the file is written, with its separator.
    """

    untyped = True

    def __init__(self, path: Path, *, written: FileFormat) -> None:
        self._path = path
        self._written = written
        self._separator = written.separator or ","
        self.place = Place(str(path), line_of=self.line_of)
        self._last_read: CsvLines | None = None
        self.names = self._header()

    def _open(self) -> Any:
        """Open the file as UTF-8, whatever its encoding."""
        with self._path.open("rb") as file:
            compressed = file.read(2) == _GZIP
        opener = gzip.open if compressed else open
        opened: Any = opener(self._path, "rb")
        encoding = self._written.encoding
        if encoding == "utf-8" and opened.read(2) in _UTF16_MARKS:
            encoding = "utf-16"
        opened.seek(0)
        if encoding == "utf-8":
            return opened
        return io.BufferedReader(Recoded(opened, encoding))

    def _lines(self, file: BinaryIO | gzip.GzipFile) -> CsvLines:
        return CsvLines(file, separator=self._separator, most_bytes=_BLOCK_BYTES)

    def _header(self) -> list[str]:
        problem: InvalidDataError | None = None
        names: list[str] = []
        try:
            with self._open() as file:
                lines = self._lines(file)
                text = io.BufferedReader(lines).readline().decode("utf-8")
                if text:
                    (names,) = csv.reader([text], delimiter=self._separator)
                elif lines.bad_line is not None:
                    problem = self._no_row(lines.bad_line)
        except UnicodeDecodeError:
            problem = self._bad_encoding()
        except _UNREADABLE:
            problem = self._damaged()
        except csv.Error:
            problem = self.place.error("this is not a CSV file. Save the table as CSV.")
        if problem is not None:
            raise problem
        if not names:
            raise self.place.error(
                "the file is empty. It needs a line of column names and at least one "
                "row."
            )
        return distinct_names(names)

    def explain_header(self) -> str:
        """Return a hint if the header looks split by another separator, else ''."""
        if len(self.names) == 1:
            for other, described in ((";", "';'"), ("\t", "a tab"), (",", "','")):
                if other != self._separator and other in self.names[0]:
                    return (
                        f" The fields look separated by {described}: give --separator "
                        f"{'tab' if other == chr(9) else repr(other)}, or put "
                        '"file": {"separator": ...} into the schema.'
                    )
        if any(map(self._is_utf8, self.names)):
            return (
                f" The file may not be {self._written.encoding}: try --encoding utf-8."
            )
        return ""

    def _is_utf8(self, name: str) -> bool:
        """Return whether a name looks like UTF-8 that was read as something else."""
        if name.isascii() or self._written.encoding in ("utf-8", "utf-16"):
            return False
        try:
            name.encode(self._written.encoding).decode("utf-8")
        except UnicodeError:
            return False
        return True

    def chunks(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of the named columns, all text, in order."""
        import pyarrow as pa

        short_rows: list[tuple[int, int, int]] = []

        def remember(row: Any) -> str:
            place = n_rows + row.number - 1
            short_rows.append((place, row.actual_columns, row.expected_columns))
            return "error"

        problem: InvalidDataError | None = None
        n_rows = 0
        try:
            with self._open() as file:
                lines = self._last_read = self._lines(file)
                for number, piece in enumerate(lines.pieces()):
                    rows = piece if number else piece.partition(b"\n")[2]
                    if rows:
                        table = self._read(rows, columns, remember)
                        yield from table.to_batches()
                        n_rows += table.num_rows
                if not n_rows:
                    problem = self._malformed(short_rows, lines.bad_line)
                else:
                    problem = self._unfinished(lines, n_rows)
        except pa.ArrowInvalid:
            # Arrow's message quotes the record, so it is dropped here.
            problem = self._malformed(short_rows, lines.bad_line)
        except UnicodeDecodeError:
            problem = self._bad_encoding()
        except _UNREADABLE:
            problem = self._damaged()
        if problem is not None:
            raise problem

    def _read(self, rows: bytes, columns: list[str], remember: Any) -> Any:
        """Return a table of these lines, which lie in Arrow's own memory.

        Arrow reads on a thread of its own, which may end after this returns. So it
        gets nothing of Python's: a thread that waits for Python when the process ends
        would never end, or abort it.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        own = pa.BufferOutputStream()
        own.write(rows)
        return arrow_csv.read_csv(
            pa.BufferReader(own.getvalue()),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=2 * _BLOCK_BYTES,
                column_names=self.names,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._separator,
                # In a file of one column an empty line is a missing value.
                ignore_empty_lines=len(self.names) > 1,
                invalid_row_handler=remember,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.large_string()),
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )

    def line_of(self, row: int) -> int | None:
        """Return the line of a row that was read, both counted from 1."""
        lines = self._last_read
        if lines is None:
            return None
        line = row + 1
        if len(self.names) > 1:  # with one column, a blank line is a row
            for blank in lines.blank_lines:
                if blank > line:
                    break
                line += 1
        return lines.n_skipped + line

    def column(self, cells: Any) -> RawColumn:
        """Return a column of a record batch, whose text may stand for numbers."""
        from reticent.schemas.arrow import ArrowColumn

        return ArrowColumn(cells, untyped=True, written=self._written)

    def _malformed(
        self, short_rows: list[tuple[int, int, int]], bad_line: int | None
    ) -> InvalidDataError:
        if short_rows:
            row, found, expected = short_rows[0]
            return self.place.error(
                f"the row has {found} fields, the header {expected}. Check separators "
                f"and quotation marks.",
                row=row,
            )
        if bad_line is not None:
            return self._no_row(bad_line)
        if self._undecodable_line() is not None:
            return self._bad_encoding()
        if not self._has_rows():
            return self.no_rows()
        return self.place.error("this is not a CSV file. Save the table as CSV.")

    def _unfinished(self, lines: CsvLines, n_rows: int) -> InvalidDataError | None:
        """Return why the rows are not those of all lines, or None."""
        if lines.bad_line is not None:
            return self._no_row(lines.bad_line)
        below_header = lines.n_lines - 1
        if len(self.names) > 1:
            below_header -= lines.n_blank
        if n_rows != below_header:
            return self.place.error(
                f"{below_header} lines below the header gave {n_rows} rows. {NO_ROW}"
            )
        return None

    def _no_row(self, line: int) -> InvalidDataError:
        if self._undecodable_line() is not None:
            return self._bad_encoding()
        return self.place.line(line, NO_ROW)

    def no_rows(self) -> InvalidDataError:
        """Return the error for a file that holds a header and nothing else."""
        return self.place.error("there are no rows below the header. Add at least one.")

    def _damaged(self) -> InvalidDataError:
        return self.place.error(
            "the file cannot be read to its end; it is damaged or incomplete. Copy it "
            "again."
        )

    def _bad_encoding(self) -> InvalidDataError:
        line = self._undecodable_line()
        where = "" if line is None else f" (line {line} of the file)"
        encoding = self._written.encoding
        others = "cp1252 or latin-1" if encoding == "utf-8" else "another one"
        return self.place.error(
            f"this is not {encoding.upper()} text{where}. Save it as UTF-8, or name "
            f"its encoding: --encoding with {others}."
        )

    def _undecodable_line(self) -> int | None:
        number = 0
        try:
            with self._open() as file:
                for line in file:
                    number += 1
                    line.decode("utf-8")
        except UnicodeDecodeError:
            # Another encoding is decoded ahead of the lines, so no line is named.
            return number if self._written.encoding == "utf-8" else None
        return None

    def _has_rows(self) -> bool:
        with self._open() as file:
            return sum(1 for line in file if line.strip()) > 1
