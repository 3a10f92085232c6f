"""Units and shards: positions decide, and one replaced unit touches one shard."""

from __future__ import annotations

import datetime as dt
import zlib
from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from reticent.errors import InvalidDataError, InvalidParameterError, TooFewRecordsError
from reticent.estimators import deal_units, partition_rows, unit_positions
from reticent.mechanisms import noise_source

# Six people with 1 or 50 rows; a row is (person, number of the row).
ROWS = {"ann": 1, "bob": 50, "cem": 3, "dee": 1, "eve": 50, "flo": 2}
N_SHARDS = 3


class FixedOrder:
    """A source that always deals in one given order."""

    def __init__(self, order):
        self.order = np.array(order)

    def permutation(self, n):
        assert n == len(self.order)
        return self.order


def blocks(people):
    """List the rows person after person."""
    return [(name, row) for name, count in people for row in range(count)]


def interleaved(people):
    """List everybody's first rows, then everybody's second rows, and so on."""
    return sorted(blocks(people), key=lambda pair: pair[1])


def by_position(rows, source):
    """Return what each shard holds under the real partition."""
    ids = [name for name, _ in rows]
    partition = partition_rows(len(rows), N_SHARDS, source, units=ids)
    return [[rows[i] for i in shard] for shard in partition.rows_by_shard()]


def by_hash(rows, source):
    """Hash the id: fine for add/remove, wrong for replace-one."""
    shards = [[] for _ in range(N_SHARDS)]
    for name, row in rows:
        shards[zlib.crc32(name.encode()) % N_SHARDS].append((name, row))
    return shards


def by_sorted_id(rows, source):
    """Number units by the order of their ids, so that an id moves the others."""
    ids = sorted({name for name, _ in rows})
    shard_of = dict(zip(ids, deal_units(len(ids), N_SHARDS, source), strict=True))
    shards = [[] for _ in range(N_SHARDS)]
    for name, row in rows:
        shards[shard_of[name]].append((name, row))
    return shards


def by_label(rows, source):
    """Deal units label by label (here: few rows first), as stratifying does."""
    counts = Counter(name for name, _ in rows)
    ids = sorted(counts, key=lambda name: counts[name] > 3)
    shard_of = {name: place % N_SHARDS for place, name in enumerate(ids)}
    shards = [[] for _ in range(N_SHARDS)]
    for name, row in rows:
        shards[shard_of[name]].append((name, row))
    return shards


def neighbours():
    """Replace every person by strangers with ids from all over and 1 or 50 rows."""
    people = list(ROWS.items())
    for place in range(len(people)):
        for stranger in ("aaa", "gus", "zoe"):
            for count in (1, 50):
                yield [*people[:place], (stranger, count), *people[place + 1 :]]


def most_changed(partition, layout, seeds=range(20)):
    """Return the largest and smallest number of shards that one replacement changes."""
    changes = []
    for seed in seeds:
        before = partition(layout(ROWS.items()), noise_source(seed))
        for people in neighbours():
            after = partition(layout(people), noise_source(seed))
            changes.append(sum(a != b for a, b in zip(before, after, strict=True)))
    return min(changes), max(changes)


@pytest.mark.parametrize("layout", [blocks, interleaved])
def test_one_replaced_unit_changes_exactly_one_shard(layout):
    assert most_changed(by_position, layout) == (1, 1)


@pytest.mark.parametrize("wrong", [by_hash, by_sorted_id, by_label])
def test_the_check_catches_deals_that_look_at_the_data(wrong):
    assert most_changed(wrong, blocks)[1] > 1


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_a_unit_that_appears_later_moves_no_other_unit_in_law(late):
    """Over all equally likely orders, the rest of the shards has the same law."""
    rest = [("bob", 0), ("cem", 0), ("bob", 1), ("dee", 0)]
    first = [("ann", 0), *rest]
    later = [*rest[:late], ("new", 0), *rest[late:], ("new", 1)]

    def law(rows, replaced):
        deals = Counter()
        for order in permutations(range(4)):
            shards = by_position(rows, FixedOrder(order))
            home = next(
                i for i, s in enumerate(shards) if any(r[0] == replaced for r in s)
            )
            kept = tuple(tuple(r for r in s if r[0] != replaced) for s in shards)
            deals[home, kept] += 1
        return deals

    assert law(first, "ann") == law(later, "new")


def test_every_deal_is_equally_likely():
    deals = Counter(
        tuple(deal_units(5, 2, FixedOrder(order))) for order in permutations(range(5))
    )
    assert len(deals) == 10  # five units, shards of three and two
    assert set(deals.values()) == {12}


@pytest.mark.parametrize("n_units", [1, 2, 7, 10, 97])
def test_shards_are_as_equal_as_possible(n_units):
    for n_shards in range(1, n_units + 1):
        sizes = np.bincount(deal_units(n_units, n_shards, noise_source(n_shards)))
        assert len(sizes) == n_shards
        assert sizes.max() - sizes.min() <= 1


def test_rows_of_a_shard_keep_the_order_of_the_table():
    partition = partition_rows(50, 4, noise_source(0), units=np.arange(50) % 11)
    rows = partition.rows_by_shard()
    assert all((np.diff(shard) > 0).all() for shard in rows)
    assert sorted(np.concatenate(rows)) == list(range(50))
    assert partition.n_units == 11


DAYS = [dt.date(2024, 1, day) for day in (5, 3, 5, 9)]


@pytest.mark.parametrize(
    "units",
    [
        [7, 3, 7, 9],
        [7.0, 3.0, 7.0, 9.0],
        ["x", "a", "x", "b"],
        [("x", 1), ("x", 2), ("x", 1), ("y", 1)],
        DAYS,
        np.array([7, 3, 7, 9], dtype=np.uint8),
        np.array(["x", "a", "x", "b"]),
        np.array(DAYS, dtype="datetime64[D]"),
        np.array(["x", 3, "x", 9], dtype=object),
        pd.Series(["x", "a", "x", "b"]),
        pd.Series(["x", "a", "x", "b"], dtype="category"),
        pd.Series([7, 3, 7, 9], dtype="Int64"),
        pl.Series([7, 3, 7, 9]),
        pl.Series(["x", "a", "x", "b"]),
    ],
    ids=lambda units: type(units).__name__,
)
def test_positions_count_ids_by_first_appearance(units):
    positions, n_units = unit_positions(units, 4)
    assert positions.tolist() == [0, 1, 0, 2]
    assert n_units == 3


def test_without_ids_every_row_is_a_unit():
    positions, n_units = unit_positions(None, 3)
    assert positions.tolist() == [0, 1, 2]
    assert n_units == 3


@pytest.mark.parametrize(
    "units",
    [
        [1, None],
        [1.0, float("nan")],
        np.array([1.0, np.nan]),
        np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]),
        pl.Series([1, None]),
        np.ma.masked_array([1, 2], mask=[False, True]),
    ],
    ids=str,
)
def test_a_missing_id_is_refused(units):
    with pytest.raises(InvalidDataError, match="missing id"):
        unit_positions(units, 2)


@pytest.mark.parametrize("units", [[1, 2, 3], np.ones((2, 2)), [[1], [2]]])
def test_ids_that_do_not_fit_the_rows_are_refused(units):
    with pytest.raises(InvalidDataError):
        unit_positions(units, 2)


def test_fewer_units_than_shards_are_refused():
    with pytest.raises(TooFewRecordsError, match=r"n_shards=3.*n_units=2"):
        partition_rows(4, 3, noise_source(0), units=[1, 1, 2, 2])


@pytest.mark.parametrize("n_shards", [0, -1, 1.5, float("nan"), "2"])
def test_a_number_of_shards_that_is_none_is_refused(n_shards):
    with pytest.raises(InvalidParameterError, match="n_shards"):
        partition_rows(4, n_shards, noise_source(0))
