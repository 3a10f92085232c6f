"""The privacy units of rows, and the shards that units are dealt to."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Ints
from reticent._numbers import whole
from reticent.errors import InvalidDataError, TooFewRecordsError
from reticent.estimators.cells import as_objects
from reticent.estimators.unit_ids import keys_of, missing_id, unit_key, whole_numbers
from reticent.mechanisms import RandomSource

#: The id of the unit of each row; None makes every row a unit of its own.
UnitIds: TypeAlias = ArrayLike | None

_SORTABLE_KINDS = "iufUSM"


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Which shard every row belongs to.

    Guarantee
    ---------
    Built by `partition_rows`: all rows of a unit are in one shard, and the numbers
    of units in two shards differ by at most one.
    """

    #: The shard of each row. Secret: it says which rows belong together.
    shard_of_row: Ints
    n_units: int  #: number of privacy units; public
    n_shards: int  #: number of shards; public

    def rows_by_shard(self) -> list[Ints]:
        """Return the rows of each shard, in the order of the table.

        In the order of the table and not of the deal, so that a replaced unit in
        another shard does not change this shard's list.
        """
        order = np.argsort(self.shard_of_row, kind="stable")
        sizes = np.bincount(self.shard_of_row, minlength=self.n_shards)
        return np.split(order, np.cumsum(sizes)[:-1])


def partition_rows(
    n_rows: int, n_shards: int, source: RandomSource, *, units: UnitIds = None
) -> Partition:
    """Deal the units of a table of `n_rows` rows to `n_shards` shards at random.

    Parameters
    ----------
    n_rows : int
        Number of rows of the table.
    n_shards : int
        Number of shards; at least one unit goes to each.
    source : RandomSource
        The source of the random order of units.
    units : array-like of shape (n_rows,), default=None
        The id of the unit that each row belongs to: whole numbers, text, bytes, dates
        or tuples of these. Ids are compared by their meaning, not by their type: 7,
        7.0, "7" and b"007" are one unit. None makes every row a separate unit.

    Returns
    -------
    Partition
        The shard of every row.

    Raises
    ------
    InvalidDataError
        If `units` is not one-dimensional, has another length, a missing id, or an
        ambiguous one, such as a fraction or a rounded number.
    TooFewRecordsError
        If there are fewer units than shards.

    Guarantee
    ---------
    A dataset is a sequence of units; the *position* of a unit is its place in the
    order in which ids first appear in the table. The shard of a position depends on
    the number of units, the number of shards and the source alone: not on ids, not
    on labels, not on how many rows a unit has. If one unit is replaced by another
    that takes its position, whatever its id, its rows or their number, exactly the
    shard of that position changes.

    Where rows of different units interleave, a replaced unit may first appear
    elsewhere, and the units in between move by one position. The order of units is
    uniformly random and independent of the table, so renaming positions does not
    change the law of the deal: for every deal of the one dataset there is an equally
    likely deal of the other that differs in one shard. What is certified over the
    randomness of the deal therefore holds for interleaved tables too. Only a deal
    that the adversary knows (a published seed) needs positions that stay.

    Examples
    --------
    >>> from reticent.mechanisms import noise_source
    >>> people = ["ann", "bob", "ann", "eve"]
    >>> deal = partition_rows(4, 3, noise_source(0), units=people)
    >>> bool(deal.shard_of_row[0] == deal.shard_of_row[2])
    True
    >>> deal.n_units
    3
    """
    positions, n_units = unit_positions(units, n_rows)
    return Partition(
        shard_of_row=deal_units(n_units, n_shards, source)[positions],
        n_units=n_units,
        n_shards=n_shards,
    )


def deal_units(n_units: int, n_shards: int, source: RandomSource) -> Ints:
    """Return the shard of each of `n_units` positions, sizes as equal as possible."""
    n_shards = whole("partition_rows", "n_shards", n_shards, least=1)
    if not n_units >= n_shards:
        raise TooFewRecordsError(
            f"n_shards={n_shards} needs one unit per shard; got n_units={n_units}. "
            "Lower n_shards or add units."
        )
    # The deal must not depend on the data. Dealing by label, or by a hash of the id,
    # would let one replaced unit move others or change two shards.
    order = source.permutation(n_units)
    shards = np.empty(n_units, dtype=np.int64)
    # The unit in place i of the order goes to shard i * n_shards // n_units. This is
    # done shard by shard, to save memory with a hundred million units.
    ends = [-(-shard * n_units // n_shards) for shard in range(n_shards + 1)]
    for shard in range(n_shards):
        shards[order[ends[shard] : ends[shard + 1]]] = shard
    return shards


def unit_positions(units: UnitIds, n_rows: int) -> tuple[Ints, int]:
    """Return the position of each row's unit, and the number of units.

    Positions count ids in the order of their first appearance.
    """
    if units is None:
        return np.arange(n_rows), n_rows
    local, distinct = _grouped(units, n_rows)
    if distinct.dtype.kind in "iu":
        return local, len(distinct)
    counter = UnitCounter()
    return counter.count(local, distinct), counter.n_units


class UnitCounter:
    """Positions of units in a table that arrives in batches.

    They equal the result of `unit_positions` for the whole table. Memory grows with the
    number of different ids, not with the number of rows.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}

    @property
    def n_units(self) -> int:
        """Number of different units so far."""
        return len(self._seen)

    def positions(self, units: UnitIds, n_rows: int) -> Ints:
        """Return the position of each row's unit among all units so far."""
        return self.count(*_grouped(units, n_rows))

    def count(self, local: Ints, distinct: NDArray[Any]) -> Any:
        """Return positions of rows whose ids are `distinct[local]`."""
        seen = self._seen
        known = [seen.setdefault(key, len(seen)) for key in keys_of(distinct)]
        return np.array(known, dtype=np.int64)[local]


def _grouped(units: UnitIds, n_rows: int) -> tuple[Ints, NDArray[Any]]:
    """Return each row's place among the distinct ids, and these in order of appearance.

    Some of them may still belong to one unit, such as "7" and "07".
    """
    ids = _as_ids(units)
    if ids.ndim != 1 or len(ids) != n_rows:
        raise InvalidDataError(
            f"units of shape {ids.shape} must hold one id for each of the "
            f"n_rows={n_rows} rows, in one dimension."
        )
    if ids.dtype.kind == "f":
        ids = whole_numbers(ids)
    if ids.dtype.kind not in _SORTABLE_KINDS:
        return _grouped_objects(ids)
    if ids.dtype.kind == "M" and np.isnat(ids).any():
        raise missing_id()
    _, first, group = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group], ids[np.sort(first)]


def _as_ids(units: Any) -> NDArray[Any]:
    if isinstance(units, np.ma.MaskedArray) and np.ma.is_masked(units):
        raise missing_id()
    if hasattr(units, "dtype") or hasattr(units, "__array__"):
        return np.asarray(units)
    # As objects, because NumPy would convert whole numbers in a list with floats.
    return as_objects(list(units))


def _grouped_objects(ids: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Group by type and value: 2.0**53 equals 2**53, but only one of them is exact."""
    seen: dict[Any, int] = {}
    local = np.empty(len(ids), dtype=np.int64)
    for row, unit in enumerate(ids):
        if isinstance(unit, tuple):
            unit = unit_key(unit)  # its parts may have different types
        try:
            local[row] = seen.setdefault((type(unit), unit), len(seen))
        except TypeError:
            raise InvalidDataError(
                "units holds ids that cannot be hashed. Use numbers, strings or tuples."
            ) from None
    return local, as_objects([unit for _, unit in seen])
