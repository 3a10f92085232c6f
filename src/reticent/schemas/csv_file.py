"""CSV files as a stream of columns of text, however large the file is."""

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
from reticent.schemas.places import Place

# Our choice: large enough for any sensible row, and small enough for any machine,
# although Arrow reads a few dozen blocks ahead.
_BLOCK_BYTES = 1 << 20

_GZIP = b"\x1f\x8b"
# What a damaged or truncated compressed file raises while it is read.
_UNREADABLE = (OSError, EOFError, zlib.error)


class _QuoteCounter(io.RawIOBase):
    """A file that counts quotation marks as it is read.

    A mark that is never closed swallows the rest of the file as one field, and with
    it rows. Closed fields have marks in pairs, so an odd total shows it.
    """

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file = file
        self.n_quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.n_quotes += data.count(b'"')
        return data


class CsvFile:
    """A CSV file with a header, in UTF-8, compressed with gzip or not.

    Parameters
    ----------
    path : Path
        The file.
    separator : str
        The character between two fields.
    """

    untyped = True

    def __init__(self, path: Path, *, separator: str) -> None:
        self._path = path
        self._separator = separator
        self.place = Place(str(path))
        self.names = self._header()

    def _open(self) -> BinaryIO | gzip.GzipFile:
        with self._path.open("rb") as file:
            compressed = file.read(2) == _GZIP
        return gzip.open(self._path) if compressed else self._path.open("rb")

    def _header(self) -> list[str]:
        problem: InvalidDataError | None = None
        try:
            with self._open() as file:
                text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
                lines = csv.reader(text, delimiter=self._separator)
                names = next((fields for fields in lines if fields), None)
        except UnicodeDecodeError:
            problem = self._bad_encoding()
        except _UNREADABLE:
            problem = self._damaged()
        except csv.Error:
            problem = self.place.error("this is not a CSV file. Save the table as CSV.")
        if problem is not None:
            raise problem
        if names is None:
            raise self.place.error(
                "the file is empty. It needs a line of column names and at least one "
                "row."
            )
        return names

    def explain_header(self) -> str:
        """Return a hint if the header looks split by another separator, else ''."""
        if len(self.names) == 1:
            for other, spoken in ((";", "';'"), ("\t", "a tab"), (",", "','")):
                if other != self._separator and other in self.names[0]:
                    return (
                        f" The fields look separated by {spoken}: give that separator."
                    )
        return ""

    def chunks(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of the named columns, all text, in order."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        short_rows: list[tuple[int | None, int, int]] = []

        def remember(row: Any) -> str:
            short_rows.append((row.number, row.actual_columns, row.expected_columns))
            return "error"

        problem: InvalidDataError | None = None
        n_quotes = 0
        try:
            with self._open() as file:
                counter = _QuoteCounter(file)
                reader = arrow_csv.open_csv(
                    counter,
                    read_options=arrow_csv.ReadOptions(
                        use_threads=False, block_size=_BLOCK_BYTES
                    ),
                    parse_options=arrow_csv.ParseOptions(
                        delimiter=self._separator,
                        newlines_in_values=True,
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
                yield from reader
                n_quotes = counter.n_quotes
        except pa.ArrowInvalid:
            # Arrow's message quotes the record, so it goes no further than this line.
            problem = self._malformed(short_rows)
        except _UNREADABLE:
            problem = self._damaged()
        if problem is None and n_quotes % 2:
            problem = self.place.error(
                "a quotation mark is not closed, so rows may be lost. Double each mark "
                "inside a field and close each quoted field."
            )
        if problem is not None:
            raise problem

    def column(self, cells: Any) -> RawColumn:
        """Return a column of a record batch, whose text may stand for numbers."""
        from reticent.schemas.arrow import ArrowColumn

        return ArrowColumn(cells, untyped=True)

    def _malformed(
        self, short_rows: list[tuple[int | None, int, int]]
    ) -> InvalidDataError:
        if short_rows:
            number, found, expected = short_rows[0]
            # Arrow counts the header as the first row.
            row = None if number is None else number - 2
            return self.place.error(
                f"the row has {found} fields, the header {expected}. Check separators "
                f"and quotation marks.",
                row=row,
            )
        if self._undecodable_line() is not None:
            return self._bad_encoding()
        if not self._has_rows():
            return self.no_rows()
        return self.place.error(
            f"a row is longer than {_BLOCK_BYTES >> 20} MB, or a quotation mark is not "
            f"closed. Double each mark inside a field and close each quoted field."
        )

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
        return self.place.error(f"this is not UTF-8 text{where}. Save it as UTF-8.")

    def _undecodable_line(self) -> int | None:
        with self._open() as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    return number
        return None

    def _has_rows(self) -> bool:
        with self._open() as file:
            return sum(1 for line in file if line.strip()) > 1
