"""Tables larger than memory: rows are written to disk and read back by shard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.ensembles.row_files import RowFile
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import Partition, UnitCounter, UnitIds, deal_units
from reticent.mechanisms import RandomSource

# Bytes of rows in memory at a time, besides the caller's batch.
_PIECE_BYTES = 1 << 26


class RowSpool:
    """Rows in the order of arrival, on disk until they are dealt to shards.

    Use it as a context manager: leaving it frees the space on the disk.

    Parameters
    ----------
    scratch : path or None
        A folder on a disk with space for twice the rows; None is the system's folder
        for temporary files. The rows are stored there unencrypted, in unnamed files,
        until the fit ends.

    Guarantee
    ---------
    Rows, units and shards are those of `partition_rows` on the whole table: the same
    source deals them the same way, and each shard keeps the order of the table.
    """

    def __init__(self, scratch: str | PathLike[str] | None = None) -> None:
        self._scratch = scratch
        self._open = ExitStack()
        self._rows: RowFile | None = None
        self._targets: RowFile | None = None
        self._positions: RowFile | None = None
        self._counter: UnitCounter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._open.close()

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return 0 if self._rows is None else self._rows.n_rows

    @property
    def n_units(self) -> int:
        """Number of privacy units so far."""
        return self.n_rows if self._counter is None else self._counter.n_units

    def append(self, X: NDArray[Any], targets: Floats, units: UnitIds = None) -> None:
        """Add a batch of rows with their targets, and their units or None."""
        if self._rows is None:
            single = X.dtype == np.float32
            dtype = np.float32 if single else np.float64
            self._rows = self._file(X.shape[1], dtype)
            self._targets = self._file(1, np.float64)
            if units is not None:
                self._counter = UnitCounter()
                self._positions = self._file(1, np.int64)
        if not np.can_cast(X.dtype, self._rows.dtype, "safe"):
            raise InvalidDataError(
                f"a batch of {X.dtype} follows batches of {self._rows.dtype}. Give all "
                "batches one type."
            )
        if (units is None) != (self._counter is None):
            raise InvalidDataError(
                "some batches have units and others have none. Give every batch the "
                "ids of its rows' units, or none."
            )
        if self._counter is not None and self._positions is not None:
            self._positions.append(self._counter.positions(units, len(X)))
        self._rows.append(X)
        if self._targets is not None:
            self._targets.append(targets)

    def deal(self, n_shards: int, source: RandomSource) -> DealtRows:
        """Deal the units to shards, and sort the rows on disk by shard."""
        if self._rows is None or self._targets is None:
            raise InvalidDataError("there are no rows. Give at least one batch.")
        shard_of_unit = deal_units(self.n_units, n_shards, source)
        rows = self._file(self._rows.width, self._rows.dtype)
        targets = self._file(1, np.float64)
        sizes = np.zeros(n_shards, dtype=np.int64)
        for start, stop in self._pieces():
            sizes += np.bincount(
                self._shards(shard_of_unit, start, stop), minlength=n_shards
            )
        following = np.cumsum(sizes) - sizes
        for start, stop in self._pieces():
            shards = self._shards(shard_of_unit, start, stop)
            # Stable: a shard's rows keep the order of the table.
            order = np.argsort(shards, kind="stable")
            counts = np.bincount(shards, minlength=n_shards)
            piece = self._rows.read(start, stop)[order]
            goals = self._targets.read(start, stop)[order]
            ends = np.cumsum(counts)
            for shard in np.flatnonzero(counts):
                own = slice(ends[shard] - counts[shard], ends[shard])
                rows.write(int(following[shard]), piece[own])
                targets.write(int(following[shard]), goals[own])
            following += counts
        self._rows.close()
        self._targets.close()
        return DealtRows(rows, targets, sizes, self.n_units)

    def _file(self, width: int, dtype: Any) -> RowFile:
        file = RowFile(self._scratch, width, dtype)
        self._open.callback(file.close)
        return file

    def _pieces(self) -> Iterator[tuple[int, int]]:
        width = 1 if self._rows is None else self._rows.row_bytes
        step = max(1, _PIECE_BYTES // (width + 32))
        for start in range(0, self.n_rows, step):
            yield start, min(start + step, self.n_rows)

    def _shards(self, shard_of_unit: Ints, start: int, stop: int) -> Ints:
        if self._positions is None:
            return shard_of_unit[start:stop]
        return np.asarray(shard_of_unit[self._positions.read(start, stop)[:, 0]])


class DealtRows:
    """Rows on disk, sorted by shard; readable while the spool is open.

    Parameters
    ----------
    rows, targets : RowFile
        The rows and their targets, sorted by shard.
    sizes : ndarray of int of shape (n_shards,)
        Rows of each shard.
    n_units : int
        Number of privacy units.
    """

    def __init__(
        self, rows: RowFile, targets: RowFile, sizes: Ints, n_units: int
    ) -> None:
        self._rows = rows
        self._targets = targets
        self._ends = np.concatenate([[0], np.cumsum(sizes)])
        self.n_units = n_units
        self.n_shards = len(sizes)
        self.n_columns = rows.width

    def shard(self, shard: int) -> tuple[NDArray[Any], Floats]:
        """Return the rows and targets of one shard, in the order of the table."""
        if not 0 <= shard < self.n_shards:
            raise InvalidParameterError(
                f"shard={shard} must be one of the {self.n_shards} shards, counted "
                "from 0."
            )
        return self._read(shard, shard + 1)

    def groups(self) -> Iterator[tuple[int, NDArray[Any], Floats, Partition]]:
        """Yield runs of whole shards that fit in memory together.

        Each run is its first shard's number, the rows, their targets, and the shard
        within the run of each row.
        """
        step = _PIECE_BYTES // (self._rows.row_bytes + 8)
        first = 0
        while first < self.n_shards:
            room = np.searchsorted(self._ends, self._ends[first] + step, side="right")
            last = max(first + 1, int(room) - 1)
            X, targets = self._read(first, last)
            sizes = np.diff(self._ends[first : last + 1])
            owner = np.repeat(np.arange(last - first), sizes)
            # Units are not counted again: nothing downstream needs them.
            yield first, X, targets, Partition(owner, len(owner), last - first)
            first = last

    def _read(self, first: int, last: int) -> tuple[NDArray[Any], Floats]:
        start, stop = int(self._ends[first]), int(self._ends[last])
        return self._rows.read(start, stop), self._targets.read(start, stop)[:, 0]
