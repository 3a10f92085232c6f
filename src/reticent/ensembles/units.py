"""Rows, the privacy units they belong to, and the shards the units are dealt to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError, TooFewRecordsError
from reticent.guarantees.numbers import whole
from reticent.mechanisms import RandomSource

_SORTABLE_KINDS = "biufUSmM"


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Which shard every row belongs to.

    Parameters
    ----------
    shard_of_row : ndarray of int
        The shard of each row. Secret: it says which rows belong together.
    n_units : int
        Number of privacy units; public.
    n_shards : int
        Number of shards; public.

    Guarantee
    ---------
    Built by `partition_rows`: all rows of a unit are in one shard, and the numbers
    of units in two shards differ by at most one.
    """

    shard_of_row: NDArray[np.int64]
    n_units: int
    n_shards: int

    def rows_by_shard(self) -> list[NDArray[np.int64]]:
        """Return the rows of each shard, in the order of the table.

        The order of the table and not that of the deal, so that rows which a
        replaced unit adds or takes away elsewhere leave this shard's list alone.
        """
        order = np.argsort(self.shard_of_row, kind="stable")
        sizes = np.bincount(self.shard_of_row, minlength=self.n_shards)
        return np.split(order, np.cumsum(sizes)[:-1])


def partition_rows(
    n_rows: int, n_shards: int, source: RandomSource, *, units: Any = None
) -> Partition:
    """Deal the units of a table of `n_rows` rows to `n_shards` shards at random.

    Parameters
    ----------
    n_rows : int
        Number of rows of the table.
    n_shards : int
        Number of shards; at least one unit goes to each.
    source : RandomSource
        Where the random order of the units comes from.
    units : array-like of shape (n_rows,), default=None
        The id of the unit that each row belongs to: numbers, strings, dates or
        anything hashable. None makes every row a unit of its own.

    Returns
    -------
    Partition
        The shard of every row.

    Raises
    ------
    InvalidDataError
        If `units` is not one-dimensional, has another length or a missing id.
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


def deal_units(n_units: int, n_shards: int, source: RandomSource) -> NDArray[np.int64]:
    """Return the shard of each of `n_units` positions, sizes as equal as possible."""
    n_shards = whole("partition_rows", "n_shards", n_shards, least=1)
    if not n_units >= n_shards:
        raise TooFewRecordsError(
            f"n_shards={n_shards} needs one unit per shard; got n_units={n_units}. "
            "Lower n_shards or add units."
        )
    # The deal must not look at the data. Dealing label by label, or by a hash of the
    # id, would let one replaced unit move others or touch two shards.
    order = source.permutation(n_units)
    shards = np.empty(n_units, dtype=np.int64)
    # The unit in place i of the order goes to shard i * n_shards // n_units; shard by
    # shard, because a hundred million units leave no room for arrays of places.
    ends = [-(-shard * n_units // n_shards) for shard in range(n_shards + 1)]
    for shard in range(n_shards):
        shards[order[ends[shard] : ends[shard + 1]]] = shard
    return shards


def unit_positions(units: Any, n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Return the position of each row's unit, and the number of units.

    Positions count ids in the order of their first appearance.
    """
    if units is None:
        return np.arange(n_rows), n_rows
    ids = _as_ids(units)
    if ids.ndim != 1 or len(ids) != n_rows:
        raise InvalidDataError(
            f"units of shape {ids.shape} must hold one id for each of the "
            f"n_rows={n_rows} rows, in one dimension."
        )
    if ids.dtype.kind in _SORTABLE_KINDS:
        return _positions_by_sorting(ids)
    return _positions_by_hashing(ids)


class UnitCounter:
    """Positions of units in a table that arrives in batches.

    Batch after batch they are what `unit_positions` says about the whole table.
    Memory grows with the number of different ids, not with the number of rows.
    """

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    @property
    def n_units(self) -> int:
        """Number of different units so far."""
        return len(self._seen)

    def positions(self, units: Any, n_rows: int) -> NDArray[np.int64]:
        """Return the position of each row's unit among all units so far."""
        ids = _as_ids(units)
        local, _ = unit_positions(ids, n_rows)
        _, first = np.unique(local, return_index=True)
        seen = self._seen
        known = [seen.setdefault(unit, len(seen)) for unit in ids[first].tolist()]
        return np.array(known, dtype=np.int64)[local]


def _as_ids(units: Any) -> NDArray[Any]:
    if isinstance(units, np.ma.MaskedArray) and np.ma.is_masked(units):
        raise _missing_id()
    if hasattr(units, "dtype") or hasattr(units, "__array__"):
        return np.asarray(units)
    # A list goes through objects: as an array, [1, "1"] would become one unit.
    items = list(units)
    ids = np.empty(len(items), dtype=object)
    ids[:] = items
    return ids


def _positions_by_sorting(ids: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    # Floating-point NaN and the missing time are the values unequal to themselves.
    if (ids != ids).any():
        raise _missing_id()
    _, first, group = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group], len(first)


def _positions_by_hashing(ids: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    seen: dict[Any, int] = {}
    try:
        positions = [seen.setdefault(unit, len(seen)) for unit in ids.tolist()]
    except TypeError as error:
        raise InvalidDataError(
            "units holds ids that cannot be hashed. Use numbers, strings or tuples."
        ) from error
    if any(_is_missing(unit) for unit in seen):
        raise _missing_id()
    return np.array(positions, dtype=np.int64), len(seen)


def _is_missing(unit: Any) -> bool:
    if unit is None:
        return True
    try:
        return not bool(unit == unit)
    except (TypeError, ValueError):  # pandas' NA refuses to be true or false
        return True


def _missing_id() -> InvalidDataError:
    return InvalidDataError(
        "units holds a missing id. Every row needs the id of its unit; give rows of "
        "unknown people ids of their own."
    )
