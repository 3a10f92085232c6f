"""Models that are sums over partitions, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ModelFileError
from reticent.estimators import CodedColumns, PartitionModel, Partitions

#: The names of the arrays.
PARTITION_ARRAYS = frozenset({"asked", "n_asked", "n_parts", "tables", "values"})
_TYPES = {
    "values": "<f8",
    "n_parts": "<i8",
    "asked": "<i8",
    "n_asked": "<i8",
    "tables": "<u2",
}


def pack_partitions(model: PartitionModel) -> dict[str, NDArray[Any]]:
    """Take a model apart."""
    parts = model.partitions
    tables = [table for each in parts.tables for table in each]
    return {
        "values": model.values,
        "n_parts": parts.n_parts,
        "n_asked": np.array([len(asked) for asked in parts.columns], dtype=np.int64),
        "asked": np.concatenate([np.zeros(0, np.int64), *parts.columns]),
        "tables": np.concatenate([np.zeros(0, np.uint16), *tables]),
    }


def unpack_partitions(
    arrays: Mapping[str, NDArray[Any]], columns: CodedColumns, *, logistic: bool
) -> PartitionModel:
    """Put a model together; a table is as long as its column has codes.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        As `pack_partitions` returned them; they are checked.
    columns : CodedColumns
        The columns that the model is about.
    logistic : bool
        Whether scores are log-odds.

    Raises
    ------
    ModelFileError
        If the arrays are not a model of these columns.
    """
    values, n_parts, asked = arrays["values"], arrays["n_parts"], arrays["asked"]
    n_asked, flat = arrays["n_asked"], arrays["tables"]
    if not (
        all(arrays[name].dtype == np.dtype(kind) for name, kind in _TYPES.items())
        and all(each.ndim == 1 for each in (n_parts, asked, n_asked, flat))
        and len(n_parts) > 0
        and _within(asked, len(columns))
        and n_asked.shape == n_parts.shape
        and (n_asked > 0).all()
        and n_asked.sum() == len(asked)
        and (n_parts > 0).all()
        and (n_parts <= 1 << 16).all()
        and values.ndim == 2
        and values.shape[1] == n_parts.sum()
        and np.isfinite(values).all()
    ):
        raise ModelFileError("the parts of the released model do not fit together.")
    sizes = [columns.columns[place].n_codes for place in asked.tolist()]
    if sum(sizes) != len(flat):
        raise ModelFileError("the released part of the model does not fit its columns.")
    tables = np.split(flat, np.cumsum(sizes)[:-1])
    ends = np.cumsum(n_asked)
    starts = ends - n_asked
    partitions = Partitions(
        tuple(asked[a:b] for a, b in zip(starts, ends, strict=True)),
        tuple(tuple(tables[a:b]) for a, b in zip(starts, ends, strict=True)),
        n_parts,
    )
    for tables_of, size in zip(partitions.tables, n_parts.tolist(), strict=True):
        if not sum(int(table.max()) for table in tables_of) < size:
            raise ModelFileError("the released part of the model names unknown parts.")
    return PartitionModel(partitions, values, logistic)


def _within(values: NDArray[Any], n: int) -> bool:
    return bool(((values >= 0) & (values < n)).all())
