"""All cells of a file that a schema does not allow, by column and line.

A finding names columns and lines, never a value. It is for the curator of the file:
which lines are wrong is a fact about records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats
from reticent.errors import InvalidDataError
from reticent.schemas.cells import (
    MISSING,
    UNKNOWN,
    Lookup,
    RawColumn,
    number_of_cell,
    read_codes,
)
from reticent.schemas.columns import Categorical, ClassLabel, Column, Label, Numeric
from reticent.schemas.file_format import FileFormat
from reticent.schemas.files import RecordFile, read_raw
from reticent.schemas.places import Place
from reticent.schemas.readings import TextWords, computed, is_date
from reticent.schemas.schema import Schema
from reticent.schemas.table import unit_ids

_SHOWN = 5


@dataclass
class Fault:
    """One kind of wrong cell in one column.

    Attributes
    ----------
    column, problem : str
        Where, and what is wrong.
    count : int
        How many cells have it.
    rows, lines : list of int
        The first of them: rows below the header, and lines of a text file.
    harmless : bool
        Whether the file is read all the same: a number outside its range is moved.
    """

    column: str
    problem: str
    harmless: bool = False
    count: int = 0
    rows: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        places, word = (self.lines, "line") if self.lines else (self.rows, "row")
        shown = ", ".join(map(str, places))
        more = f" and {self.count - len(places)} more" if self.count > _SHOWN else ""
        s = "s" if self.count > 1 else ""
        return f"{self.column}: {self.problem} ({word}{s} {shown}{more})"


@dataclass(frozen=True)
class FileCheck:
    """What a check of a whole file found.

    Attributes
    ----------
    n_rows : int
        Rows that were read.
    faults : tuple of Fault
        What the schema does not allow, in the order of the columns.
    stopped : str
        Why the file was not read to its end, if so.
    """

    n_rows: int
    faults: tuple[Fault, ...]
    stopped: str = ""

    @property
    def fits(self) -> bool:
        """Whether the schema allows the file."""
        return not self.stopped and all(fault.harmless for fault in self.faults)


def check_file(
    path: str | PathLike[str],
    schema: Schema,
    *,
    labelled: bool = True,
    written: FileFormat | None = None,
) -> FileCheck:
    """Find every cell of a file that a schema does not allow.

    Parameters
    ----------
    path : path
        A CSV or Parquet file.
    schema : Schema
        What it must follow.
    labelled : bool, default=True
        Whether label and unit are required.
    written : FileFormat or None, default=None
        How a CSV file is written; None takes what the schema says.

    Raises
    ------
    InvalidDataError
        If columns are missing, or the file cannot be opened.
    """
    file, batches = read_raw(path, schema, labelled=labelled, written=written)
    found = _Faults(file)
    stopped = ""
    try:
        for batch in batches:
            found.add(batch, schema, labelled=labelled)
    except InvalidDataError as error:
        stopped = str(error)
    if not (found.n_rows or stopped):
        stopped = str(file.place.error("there are no rows. Add at least one."))
    return FileCheck(found.n_rows, found.sorted(schema), stopped)


class _Faults:
    """Faults by column and problem, added batch by batch."""

    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._found: dict[tuple[str, str], Fault] = {}
        self.n_rows = 0

    def add(
        self, batch: Mapping[str, RawColumn], schema: Schema, *, labelled: bool
    ) -> None:
        """Check one batch of cells."""
        bad_sources = self._dates(batch, schema)
        usable = {n: c for n, c in batch.items() if n not in bad_sources}
        readings = {
            name: reading
            for name, reading in schema.readings.items()
            if not bad_sources & set(reading.sources)
        }
        usable |= computed(readings, usable, Place("")) if readings else {}
        for name, spec in schema.columns.items():
            if name in usable and (name in readings or name not in schema.readings):
                self._feature(name, spec, usable[name])
        if labelled and schema.label is not None:
            self._label(schema.label, batch[schema.label.name])
        if labelled and schema.unit is not None:
            self._unit(schema.unit, batch[schema.unit])
        self.n_rows += len(next(iter(batch.values())))

    def sorted(self, schema: Schema) -> tuple[Fault, ...]:
        """Return the faults in the order of the schema's columns, with lines."""
        for fault in self._found.values():
            lines = [self._file.line_of(row) for row in fault.rows]
            fault.lines = [line for line in lines if line is not None]
        order = [*schema.needed(labelled=True), *schema.columns]
        return tuple(sorted(self._found.values(), key=lambda f: order.index(f.column)))

    def _note(
        self, name: str, bad: Bools, problem: str, *, harmless: bool = False
    ) -> None:
        rows = np.flatnonzero(bad)
        if not len(rows):
            return
        fault = self._found.setdefault(
            (name, problem), Fault(name, problem, harmless=harmless)
        )
        fault.count += len(rows)
        room = _SHOWN - len(fault.rows)
        fault.rows += [self.n_rows + int(row) + 1 for row in rows[:room]]

    def _dates(self, batch: Mapping[str, RawColumn], schema: Schema) -> set[str]:
        """Note cells that are not dates; return the columns that have some."""
        wrong = set()
        for reading in schema.readings.values():
            if isinstance(reading, TextWords):
                continue
            for name in reading.sources:
                cells = batch[name].values()
                bad = np.array([not is_date(c, reading.format) for c in cells])
                problem = f"not a date written as {reading.format}"
                known = self._found.get((name, problem))
                if bad.any():
                    wrong.add(name)
                    # Several columns may be computed from one date; note it once.
                    if known is None or not known.rows or known.rows[-1] <= self.n_rows:
                        self._note(name, bad, problem)
        return wrong

    def _feature(self, name: str, spec: Column, column: RawColumn) -> None:
        if isinstance(spec, Categorical):
            codes = read_codes(column, Lookup(spec.levels))
            if not spec.missing:
                self._note(name, codes == MISSING, "missing, which is not allowed")
            if not spec.other:
                self._note(name, codes == UNKNOWN, "not one of the levels")
            return
        numbers, bad = _numbers(column)
        self._note(name, bad, "not a number")
        self._number(name, numbers, bad, spec)

    def _number(self, name: str, numbers: Floats, bad: Bools, spec: Numeric) -> None:
        if not spec.missing:
            missing = np.isnan(numbers) & ~bad
            self._note(name, missing, "missing, which is not allowed")
        self._note(name, np.isinf(numbers), "not a finite number")
        outside = np.isfinite(numbers) & ((numbers < spec.low) | (numbers > spec.high))
        if spec.outside == "error":
            self._note(name, outside, "outside the range")
        else:
            problem = "outside the range, moved to its nearer end"
            self._note(name, outside, problem, harmless=True)

    def _label(self, label: Label, column: RawColumn) -> None:
        if isinstance(label, ClassLabel):
            codes = read_codes(column, Lookup(label.classes))
            self._note(label.name, codes < 0, "missing or not one of the classes")
            return
        numbers, bad = _numbers(column)
        bad |= ~np.isfinite(numbers)
        self._note(label.name, bad, "missing or not a finite number")
        outside = ~bad & ((numbers < label.low) | (numbers > label.high))
        problem = "outside the range, moved to its nearer end"
        self._note(label.name, outside, problem, harmless=True)

    def _unit(self, name: str, column: RawColumn) -> None:
        try:
            unit_ids(column, name, Place(""))
        except InvalidDataError:
            bad = np.array([not _names_a_unit(cell) for cell in column.values()])
            self._note(name, bad, "missing, or neither text nor an exact whole number")


def _names_a_unit(cell: Any) -> bool:
    if isinstance(cell, float):
        return cell.is_integer() and abs(cell) < 2**53
    if isinstance(cell, str):
        return cell != ""
    return isinstance(cell, int | np.integer) and not isinstance(cell, bool)


def _numbers(column: RawColumn) -> tuple[Floats, Bools]:
    """Return the cells as numbers, and which of them are not numbers."""
    fast = column.numbers()
    if fast is not None:
        return fast, np.zeros(len(fast), dtype=bool)
    found: list[float | None] = [
        number_of_cell(cell, untyped=column.untyped, written=column.written)
        for cell in column.values()
    ]
    bad: NDArray[Any] = np.array([number is None for number in found], dtype=bool)
    numbers = np.array([np.nan if n is None else n for n in found], dtype=np.float64)
    return numbers, bad
