"""The schema: what is publicly known about a table before its records are read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas.columns import (
    Categorical,
    ClassLabel,
    Column,
    Label,
    Numeric,
    NumericTarget,
    checked_text,
)
from reticent.schemas.document import (
    VERSION,
    VERSION_KEY,
    parts_of,
    read_document,
    write_document,
)
from reticent.schemas.file_format import PLAIN, FileFormat, repeated_name
from reticent.schemas.layout import Layout
from reticent.schemas.named_columns import column_of, named_columns
from reticent.schemas.places import Place, listed
from reticent.schemas.readings import Reading
from reticent.schemas.rows import RowReader
from reticent.schemas.table import Table, label_values, table_of


@dataclass(frozen=True, eq=False)
class Schema:
    """Columns with public ranges and levels, a label, and the privacy unit.

    Parameters
    ----------
    columns : mapping of str to Numeric or Categorical
        The features, in order.
    label : ClassLabel, NumericTarget or None, default=None
        What is to be predicted.
    unit : str or None, default=None
        The column that says which privacy unit a row belongs to. None makes every
        row a unit of its own.
    ignored : sequence of str, default=()
        Columns that may be in a file and are not read.
    file : FileFormat, default=FileFormat()
        How CSV files of such rows are written.
    readings : mapping of str to DatePart, DateSpan or TextWords, default={}
        How columns are computed from columns of the file, by their names. The others
        are in the file as they are.

    Guarantee
    ---------
    A schema contains only what its author wrote. Everything computed from it
    (encodings, their names, widths and norm bounds) is a function of the schema alone,
    so it reveals nothing about the records. `from_sample` reads a file, and only after
    the caller has declared the file public.

    Examples
    --------
    >>> schema = Schema(
    ...     {"age": Numeric(0, 120), "blood": Categorical(["A", "B", "AB", "0"])},
    ...     label=ClassLabel("ill", [False, True]),
    ... )
    >>> schema.rows([{"age": 150, "blood": "AB"}]).numbers
    array([[120.]])
    """

    columns: Mapping[str, Column]
    label: Label | None = field(default=None, kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    ignored: tuple[str, ...] = field(default=(), kw_only=True)
    file: FileFormat = field(default=PLAIN, kw_only=True)
    readings: Mapping[str, Reading] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not (isinstance(self.columns, Mapping) and len(self.columns) > 0):
            raise InvalidParameterError(
                "columns needs at least one column, as a mapping from names to "
                "Numeric or Categorical."
            )
        for name, spec in self.columns.items():
            if not isinstance(spec, Numeric | Categorical):
                raise InvalidParameterError(
                    f"columns[{name!r}] needs Numeric(...) or Categorical(...); got "
                    f"{type(spec).__name__}."
                )
        if not (
            self.label is None or isinstance(self.label, ClassLabel | NumericTarget)
        ):
            raise InvalidParameterError(
                f"label needs ClassLabel(...) or NumericTarget(...); got "
                f"{type(self.label).__name__}."
            )
        if isinstance(self.ignored, str) or not isinstance(self.ignored, Iterable):
            raise InvalidParameterError("ignored needs a list of column names.")
        if not isinstance(self.file, FileFormat):
            raise InvalidParameterError(
                f"file needs a FileFormat; got {type(self.file).__name__}."
            )
        for name, reading in self.readings.items():
            if not (isinstance(reading, Reading) and name in self.columns):
                raise InvalidParameterError(
                    f"readings[{name!r}] needs DatePart(...), DateSpan(...) or "
                    "TextWords(...), for a column of the schema."
                )
        object.__setattr__(self, "readings", MappingProxyType(dict(self.readings)))
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        self._check_names()

    def _check_names(self) -> None:
        seen: dict[str, str] = {}
        roles = [
            *(("columns", name) for name in self.columns),
            *([("label", self.label.name)] if self.label is not None else []),
            *([("unit", self.unit)] if self.unit is not None else []),
            *(("ignored", name) for name in self.ignored),
        ]
        for role, name in roles:
            checked_text(f"a name in {role}", name)
            if name in seen:
                raise InvalidParameterError(
                    f"{name!r} is in {seen[name]} and in {role}. Give a column one "
                    f"role and one name."
                )
            seen[name] = role
        for name in self.sources:
            if seen.get(name, "columns") != "columns":
                raise InvalidParameterError(
                    f"{name!r} is in {seen[name]}, and columns are computed from it. "
                    f"Give a column one role."
                )

    @cached_property
    def layout(self) -> Layout:
        """The columns as blocks of numbers and of codes."""
        return Layout(self.columns)

    @cached_property
    def _without_readings(self) -> Schema:
        return replace(self, readings={}) if self.readings else self

    @cached_property
    def row_reader(self) -> RowReader:
        """Validates rows that clients send."""
        return RowReader(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the schema: equal schemas, and only they, have equal digests."""
        text = json.dumps(self.as_dict(), separators=(",", ":"), ensure_ascii=True)
        return sha256(text.encode("ascii")).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it is immutable

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.as_dict(),)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return len(self.columns)

    @property
    def classes(self) -> NDArray[Any]:
        """The public labels, in the order of their codes."""
        if not isinstance(self.label, ClassLabel):
            raise InvalidParameterError(
                "this schema declares no classes. Add a label with classes to it."
            )
        return np.array(self.label.classes)

    def as_dict(self) -> dict[str, Any]:
        """Return the schema for JSON."""
        return {
            VERSION_KEY: VERSION,
            "columns": [
                {"name": name, **spec.as_dict(), **self._from(name)}
                for name, spec in self.columns.items()
            ],
            "label": None if self.label is None else self.label.as_dict(),
            "unit": self.unit,
            "ignored": list(self.ignored),
            **({"file": self.file.as_dict()} if self.file != PLAIN else {}),
        }

    def _from(self, name: str) -> dict[str, Any]:
        reading = self.readings.get(name)
        return {} if reading is None else {"from": reading.as_dict()}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Rebuild a schema from `as_dict`; everything is validated again."""
        return cls(**parts_of(data))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Read a schema from a JSON file."""
        data = read_document(path)
        problem = ""
        try:
            return cls.from_dict(data)
        except InvalidParameterError as error:
            problem = str(error)
        raise InvalidDataError(f"{fspath(path)} is not a schema: {problem}")

    def write(self, path: str | PathLike[str]) -> None:
        """Write the schema to a JSON file that people can read and edit."""
        write_document(path, self.as_dict())

    @classmethod
    def from_sample(
        cls,
        sample: Any,
        *,
        public: bool,
        label: str | None = None,
        unit: str | None = None,
        ignored: Iterable[str] = (),
        categorical: Iterable[str] = (),
        file: FileFormat = PLAIN,
    ) -> Self:
        """Draft a schema from a sample that is public.

        Ranges are rounded outwards to round numbers, text columns list their values,
        columns with missing values allow them. Check the draft before use: other data
        may go beyond the sample.

        Parameters
        ----------
        sample : path or data frame
            A CSV or Parquet file, a data frame, or a mapping of arrays.
        public : bool
            Must be True: the caller declares the sample public. Ranges and levels of
            sensitive records are sensitive themselves.
        label, unit : str or None, default=None
            The columns with the label and with the privacy unit.
        ignored : iterable of str, default=()
            Columns to leave out.
        categorical : iterable of str, default=()
            Columns of whole numbers that are codes rather than amounts.
        file : FileFormat, default=FileFormat()
            How a CSV file is written.
        """
        from reticent.schemas.sample import draft

        parts = draft(
            sample,
            public=public,
            label=label,
            unit=unit,
            ignored=tuple(ignored),
            categorical=tuple(categorical),
            written=file,
        )
        return cls(**parts)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The columns that a file or a client gives, in order."""
        names = (
            self.readings[name].sources if name in self.readings else (name,)
            for name in self.columns
        )
        return tuple(dict.fromkeys(name for some in names for name in some))

    def needed(self, *, labelled: bool) -> list[str]:
        """Return the required columns, with or without label and unit."""
        names = list(self.sources)
        if labelled and self.label is not None:
            names.append(self.label.name)
        if labelled and self.unit is not None:
            names.append(self.unit)
        return names

    def check_names(self, found: list[Any], place: Place, *, labelled: bool) -> None:
        """Refuse missing, surplus and repeated columns.

        In a file without a header the names are the first record, so names are quoted
        only if all columns of the schema were found among them.
        """
        needed = self.needed(labelled=labelled)
        counts = Counter(found)
        absent = [name for name in needed if name not in counts]
        if absent:
            seen = len(needed) - len(absent)
            header = "" if seen else " The first line must hold the columns' names."
            raise place.error(
                f"the columns {listed(absent)} are missing; {seen} of {len(needed)} "
                f"were found.{header} Capitals and spaces count."
            )
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise place.error(
                f"the column {twice[0]!r} occurs twice. Rename or remove one."
            )
        allowed = {*self.needed(labelled=True), *self.ignored}
        surplus = [name for name in found if name not in allowed]
        if surplus:
            again = repeated_name(surplus[0], found)
            if again is not None:
                raise place.error(
                    f"the column {again!r} occurs twice; the second one is called "
                    f"{surplus[0]!r}. Remove one of them, or put {surplus[0]!r} into "
                    f"the schema: under 'ignored' (--ignore), or as a column."
                )
            raise place.error(
                f"the columns {listed(surplus)} are not in the schema. Remove them, or "
                f"list them under 'ignored' in the schema (--ignore where a command "
                f"writes it)."
            )

    def table(
        self, source: Any, *, labelled: bool = False, name: str = "table"
    ) -> Table:
        """Validate a table in memory.

        Parameters
        ----------
        source : pandas or polars data frame, pyarrow table, mapping, or 2-d array
            The rows. The columns of an array are taken in the order of the schema.
        labelled : bool, default=False
            Whether label and unit are required and read. If not, they are ignored.
        name : str, default="table"
            The name of the source in errors.

        Returns
        -------
        Table
            The validated rows.
        """
        place = Place(name)
        # A table holds what files hold, or computed columns, as rows of clients do.
        plain = self._without_readings
        width = getattr(source, "shape", (0, 0))[-1]
        by_place = self if width == len(self.needed(labelled=labelled)) else plain
        frame = named_columns(source, positions=by_place.needed(labelled=labelled))
        raw = set(self.sources) <= set(frame.names)
        schema = self if raw or not set(self.columns) <= set(frame.names) else plain
        schema.check_names(frame.names, place, labelled=labelled)
        table = table_of(frame, schema, place, labelled=labelled)
        if schema is not self:
            table = replace(table, schema=self)
        if not len(table):
            raise place.error("there are no rows. Give at least one.")
        return table

    def rows(self, rows: list[dict[str, Any]], *, clip: bool = True) -> Table:
        """Validate rows that a client sent as JSON objects.

        Types are strict: text is not a number, true and false are not numbers, only
        null is missing, and the keys must be exactly the columns.

        Parameters
        ----------
        rows : list of dict
            The rows.
        clip : bool, default=True
            Whether numbers outside a range are moved to its nearer end, where the
            schema does so. If not, they are refused: a typing error then costs no
            answer.
        """
        return self.row_reader.table(rows, clip=clip)

    def encode_label(self, values: Any) -> NDArray[Any]:
        """Return labels as positions in `classes`, or a target clipped to its bounds.

        Parameters
        ----------
        values : array-like of shape (n_rows,)
            The labels as they are in the data.
        """
        if self.label is None:
            raise InvalidParameterError(
                "this schema declares no label. Add one to encode labels."
            )
        return label_values(column_of(values), self.label, Place("labels"))
