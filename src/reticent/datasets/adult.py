"""A sample of the Adult census records, for demonstrations and tests."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reticent.schemas import Numeric, Schema

_FOLDER = Path(__file__).parent


class SampleFiles(NamedTuple):
    """Where the sample is on disk, for commands that take files."""

    data: Path
    schema: Path
    licence: Path


def adult_sample_files() -> SampleFiles:
    """Return the paths of the sample (CSV, gzip), its schema and its licence.

    Examples
    --------
    >>> adult_sample_files().data.name
    'adult_sample.csv.gz'
    """
    return SampleFiles(
        _FOLDER / "adult_sample.csv.gz",
        _FOLDER / "adult_schema.json",
        _FOLDER / "LICENSE-DATA.md",
    )


def load_adult_sample() -> tuple[dict[str, NDArray[Any]], Schema]:
    """Return 5,000 records of the 1994 census in the United States, and their schema.

    The task is to tell whether a person earns more than 50,000 dollars a year
    (column ``income``). The ranges and levels of the schema are from the published
    description of the data set, not from these rows. Needs no optional package.

    Returns
    -------
    columns : dict of str to ndarray
        Numeric columns as whole numbers, the others as text, ``income`` last.
    schema : Schema
        What is publicly known about them.

    References
    ----------
    B. Becker and R. Kohavi, *Adult*, UCI Machine Learning Repository, 1996,
    doi:10.24432/C5XW20, CC BY 4.0. Changes are listed in ``LICENSE-DATA.md``.

    Examples
    --------
    >>> columns, schema = load_adult_sample()
    >>> len(columns["income"]), schema.n_columns
    (5000, 12)
    >>> table = schema.table(columns, labelled=True)
    >>> schema.classes[table.label[:3]]
    array(['>50K', '<=50K', '<=50K'], dtype='<U5')
    """
    files = adult_sample_files()
    schema = Schema.read(files.schema)
    with gzip.open(files.data, "rt", encoding="utf-8", newline="") as lines:
        names, *records = csv.reader(lines)
    columns: dict[str, NDArray[Any]] = {}
    for name, cells in zip(names, zip(*records, strict=True), strict=True):
        numeric = isinstance(schema.columns.get(name), Numeric)
        columns[name] = (
            np.array([int(cell) for cell in cells], dtype=np.int64)
            if numeric
            else np.array(cells, dtype=object)
        )
    return columns, schema
