"""Reads CSV and Parquet files of records, completely or in batches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas.cells import RawColumn
from reticent.schemas.csv_file import CsvFile
from reticent.schemas.file_format import FileFormat
from reticent.schemas.named_columns import NamedColumns
from reticent.schemas.places import Place
from reticent.schemas.table import Table, concatenated, table_of

if TYPE_CHECKING:
    from reticent.schemas.schema import Schema

_BATCH = 65_536
_PARQUET = b"PAR1"
_ZIP = b"PK\x03\x04"
_CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET_ENDINGS = (".parquet", ".pq")


class RecordFile(Protocol):
    """A file that knows its columns' names and yields its rows in chunks."""

    place: Place
    names: list[str]

    def chunks(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of the named columns."""

    def column(self, cells: Any) -> RawColumn:
        """Return a column of a record batch."""

    def explain_header(self) -> str:
        """Return a hint for the case that columns are missing."""

    def line_of(self, row: int) -> int | None:
        """Return the line of a row, if the file has lines."""


class ParquetFile:
    """A Parquet file.

    Parameters
    ----------
    path : Path
        The file.
    """

    untyped = False

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._path = path
        self.place = Place(str(path))
        damaged = False
        try:
            with parquet.ParquetFile(path) as file:
                self.names: list[str] = list(file.schema_arrow.names)
        except (pa.ArrowException, OSError):
            damaged = True
        if damaged:
            raise self._damaged()

    def chunks(self, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of the named columns, in order."""
        import pyarrow as pa
        from pyarrow import parquet

        damaged = False
        try:
            # With pre_buffer, pyarrow keeps what it has read until the file is closed.
            with parquet.ParquetFile(self._path, pre_buffer=False) as file:
                yield from file.iter_batches(columns=columns, use_threads=False)
        except (pa.ArrowException, OSError):
            damaged = True
        if damaged:
            raise self._damaged()

    def column(self, cells: Any) -> RawColumn:
        """Return a column of a record batch; its type is part of the file."""
        from reticent.schemas.arrow import ArrowColumn

        return ArrowColumn(cells, untyped=False)

    def explain_header(self) -> str:
        """Return no hint: Parquet files have no header that could be misread."""
        return ""

    def line_of(self, row: int) -> None:
        """Return None: such a file has no lines."""

    def _damaged(self) -> InvalidDataError:
        return self.place.error(
            "this is not a Parquet file, or it is damaged. Write it again, or give a "
            "CSV file the ending .csv."
        )


def open_records(
    path: str | PathLike[str], *, written: FileFormat | None = None
) -> RecordFile:
    """Open a CSV or Parquet file; content decides, the ending must agree."""
    try:
        importlib.import_module("pyarrow")
        absent = False
    except ImportError:
        absent = True
    if absent:
        raise InvalidParameterError(
            "reading files needs pyarrow, which is not installed. Run "
            "pip install 'reticent[cli]'."
        )
    file = Path(path)
    place = Place(fspath(path))
    magic, problem = b"", ""
    try:
        with file.open("rb") as opened:
            magic = opened.read(4)
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise place.error(
            f"cannot be read ({problem}). Check the path and its permissions."
        )
    name = file.name.lower()
    if magic == _ZIP:
        raise place.error(
            "this is a zip archive or a spreadsheet. Save the table as CSV."
        )
    if magic == _PARQUET or name.endswith(_PARQUET_ENDINGS):
        if not name.endswith(_PARQUET_ENDINGS):
            raise place.error("this is a Parquet file. Give it the ending .parquet.")
        return ParquetFile(file)
    if not name.endswith(_CSV_ENDINGS):
        raise place.error(
            f"the kind of file is unknown. It needs one of the endings "
            f"{', '.join(_CSV_ENDINGS + _PARQUET_ENDINGS)}."
        )
    written = written or FileFormat()
    if written.separator is None:
        written = replace(written, separator="\t" if ".tsv" in name else ",")
    return CsvFile(file, written=written)


def _regrouped(chunks: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield tables of exactly `rows` rows, and one with the rest."""
    import pyarrow as pa

    waiting: list[Any] = []
    n_waiting = 0
    for chunk in chunks:
        if chunk.num_rows == 0:
            continue
        waiting.append(chunk)
        n_waiting += chunk.num_rows
        if n_waiting < rows:
            continue
        table = pa.Table.from_batches(waiting)
        start = 0
        while n_waiting - start >= rows:
            yield table.slice(start, rows)
            start += rows
        waiting = table.slice(start).to_batches()
        n_waiting -= start
    if n_waiting:
        yield pa.Table.from_batches(waiting)


def read_batches(
    path: str | PathLike[str],
    schema: Schema,
    *,
    rows: int = _BATCH,
    labelled: bool = True,
    separator: str | None = None,
    written: FileFormat | None = None,
    clip: bool = True,
) -> Iterator[Table]:
    """Read and validate a CSV or Parquet file in batches of rows.

    Parameters
    ----------
    path : path
        A CSV file with a header (gzip allowed), or a Parquet file.
    schema : Schema
        What the file must follow.
    rows : int, default=65536
        Rows of one batch; memory grows with it and not with the file.
    labelled : bool, default=True
        Whether label and unit are required and read. If not, they are ignored.
    separator : str or None, default=None
        The character between fields of a CSV file, if not that of `written`.
    written : FileFormat or None, default=None
        How a CSV file is written; None takes what the schema says.
    clip : bool, default=True
        Whether numbers outside a range are moved to its nearer end, where the schema
        does so. If not, they are refused.

    Yields
    ------
    Table
        Validated rows, in the order of the file.

    Guarantee
    ---------
    An error names file, row (counted from 1 below the header, blank lines not
    counted) and column, and what to do. Neither the error nor any exception chained to
    it contains a cell's value.
    """
    if not (isinstance(rows, Integral) and not isinstance(rows, bool) and rows >= 1):
        raise InvalidParameterError(f"rows={rows!r} needs a whole number >= 1.")
    file = _opened(path, schema, _written(schema, separator, written), labelled)
    return _validated(file, schema, int(rows), labelled=labelled, clip=clip)


def _opened(
    path: str | PathLike[str], schema: Schema, written: FileFormat, labelled: bool
) -> RecordFile:
    """Open a file whose columns are those of a schema."""
    file = open_records(path, written=written)
    problem = ""
    try:
        schema.check_names(file.names, file.place, labelled=labelled)
    except InvalidDataError as error:
        problem = str(error)
    if problem:
        raise InvalidDataError(problem + file.explain_header())
    return file


def read_raw(
    path: str | PathLike[str],
    schema: Schema,
    *,
    labelled: bool,
    written: FileFormat | None,
) -> tuple[RecordFile, Iterator[dict[str, RawColumn]]]:
    """Open a file with the right columns; return it and its cells in batches."""
    file = _opened(path, schema, _written(schema, None, written), labelled)
    names = schema.needed(labelled=labelled)
    chunks = _regrouped(file.chunks(names), _BATCH)
    return file, ({n: file.column(c.column(n)) for n in names} for c in chunks)


def _written(
    schema: Schema, separator: str | None, written: FileFormat | None
) -> FileFormat:
    found = schema.file if written is None else written
    return found if separator is None else replace(found, separator=separator)


def _validated(
    file: RecordFile, schema: Schema, rows: int, *, labelled: bool, clip: bool
) -> Iterator[Table]:
    names = schema.needed(labelled=labelled)
    place = file.place
    chunks = _regrouped(file.chunks(names), rows)
    for chunk in chunks:
        columns = {name: file.column(chunk.column(name)) for name in names}
        frame = NamedColumns(names, columns.__getitem__)
        table = table_of(frame, schema, place, labelled=labelled, clip=clip)
        place = place.after(len(table))
        yield table
    if place == file.place:
        raise place.error("there are no rows. Add at least one.")


def read_table(
    path: str | PathLike[str],
    schema: Schema,
    *,
    labelled: bool = True,
    separator: str | None = None,
    written: FileFormat | None = None,
    clip: bool = True,
) -> Table:
    """Read and validate a whole CSV or Parquet file.

    The parameters and errors are those of `read_batches`.

    Returns
    -------
    Table
        All rows, in the order of the file.
    """
    batches = read_batches(
        path,
        schema,
        labelled=labelled,
        separator=separator,
        written=written,
        clip=clip,
    )
    return concatenated(list(batches))
