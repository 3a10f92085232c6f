"""Rows on disk: dealt as in memory, shard by shard, and gone afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from reticent.ensembles import RowSpool, spool
from reticent.ensembles.fitting import fit_shards, fit_spooled
from reticent.ensembles.linear_recipe import linear_recipe
from reticent.ensembles.linear_training import train_linear, train_spooled
from reticent.ensembles.row_files import RowFile
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import partition_rows, unit_positions
from reticent.estimators.units import UnitCounter
from reticent.mechanisms import noise_source

N, SHARDS = 600, 7
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 3))
PLACES = (X[:, 0] + RANDOM.normal(size=N) > 0).astype(np.int64)
PEOPLE = RANDOM.integers(0, 90, size=N)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """Rows in many pieces, and few shards in memory at a time."""
    monkeypatch.setattr(spool, "_PIECE_BYTES", 4_000)


def batches(units=None, *, step=37):
    for start in range(0, N, step):
        some = slice(start, start + step)
        yield (
            X[some],
            PLACES[some].astype(float),
            None if units is None else units[some],
        )


def dealt(held, units=None, seed=3):
    for batch in batches(units):
        held.append(*batch)
    return held.deal(SHARDS, noise_source(seed))


@pytest.mark.parametrize(
    "units", [None, PEOPLE, PEOPLE.astype(str)], ids=["rows", "numbers", "text"]
)
def test_every_shard_has_the_rows_of_the_table_in_memory(units):
    partition = partition_rows(N, SHARDS, noise_source(3), units=units)
    with RowSpool() as held:
        rows = dealt(held, units)
        assert rows.n_units == partition.n_units
        for shard, own in enumerate(partition.rows_by_shard()):
            values, targets = rows.shard(shard)
            assert np.array_equal(values, X[own])
            assert np.array_equal(targets, PLACES[own])


def test_groups_are_runs_of_whole_shards():
    with RowSpool() as held:
        rows = dealt(held)
        groups = list(rows.groups())
        assert len(groups) > 1
        found = []
        for first, values, targets, partition in groups:
            for place, own in enumerate(partition.rows_by_shard()):
                expected = rows.shard(first + place)
                assert np.array_equal(values[own], expected[0])
                assert np.array_equal(targets[own], expected[1])
                found.append(first + place)
    assert found == list(range(SHARDS))


@pytest.mark.parametrize("n_classes", [2, None], ids=["labels", "numbers"])
def test_linear_models_are_those_of_the_table_in_memory(n_classes):
    recipe = linear_recipe(Ridge() if n_classes is None else LogisticRegression())
    partition = partition_rows(N, SHARDS, noise_source(3), units=PEOPLE)
    targets = PLACES if n_classes else PLACES.astype(float)
    expected = train_linear(recipe, X, targets, partition, n_classes=n_classes)
    with RowSpool() as held:
        found = train_spooled(recipe, dealt(held, PEOPLE), n_classes=n_classes)
    assert np.array_equal(found.shards, expected.shards)
    assert np.array_equal(found.weights, expected.weights)
    assert np.array_equal(found.intercepts, expected.intercepts)


def test_other_models_are_those_of_the_table_in_memory():
    tree = DecisionTreeClassifier(max_features=1, max_depth=4)
    source = noise_source(3)
    partition = partition_rows(N, SHARDS, source)
    expected = fit_shards(tree, X, PLACES, partition, source)
    source = noise_source(3)
    with RowSpool() as held:
        for batch in batches():
            held.append(*batch)
        rows = held.deal(SHARDS, source)
        found = fit_spooled(tree, rows, source, labels=np.array([0, 1]))
    for one, other in zip(found.models, expected.models, strict=True):
        assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_another_deal_gives_other_models():
    recipe = linear_recipe(LogisticRegression())
    with RowSpool() as held:
        one = train_spooled(recipe, dealt(held), n_classes=2)
    with RowSpool() as held:
        other = train_spooled(recipe, dealt(held, seed=4), n_classes=2)
    assert not np.array_equal(one.weights, other.weights)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([3, 1, 3, 2, 1, 9]),
        np.array(["b", "a", "b", "c", "a", "d"]),
        [1, "1", 1, (2, 3), "1", 4],
    ],
    ids=["numbers", "text", "mixed"],
)
def test_units_keep_their_positions_over_batches(ids):
    expected, n_units = unit_positions(ids, len(ids))
    counter = UnitCounter()
    found = [counter.positions(ids[k : k + 2], len(ids[k : k + 2])) for k in (0, 2, 4)]
    assert np.array_equal(np.concatenate(found), expected)
    assert counter.n_units == n_units


def test_single_precision_stays_single():
    with RowSpool() as held:
        held.append(X[:40].astype(np.float32), np.zeros(40))
        held.append(np.ones((40, 3), dtype=np.int8), np.zeros(40))
        with pytest.raises(InvalidDataError, match="one type"):
            held.append(X[:40], np.zeros(40))
        values, _ = held.deal(1, noise_source(0)).shard(0)
    assert values.dtype == np.float32
    assert np.array_equal(values[:40], X[:40].astype(np.float32))


def test_units_come_with_every_batch_or_with_none():
    with RowSpool() as held:
        held.append(X[:5], np.zeros(5))
        with pytest.raises(InvalidDataError, match="every batch"):
            held.append(X[:5], np.zeros(5), np.arange(5))


def test_a_missing_unit_is_refused():
    with RowSpool() as held, pytest.raises(InvalidDataError, match="missing id"):
        held.append(X[:2], np.zeros(2), np.array([1.0, np.nan]))


def test_no_rows_and_no_such_shard():
    with RowSpool() as held, pytest.raises(InvalidDataError, match="no rows"):
        held.deal(1, noise_source(0))
    with RowSpool() as held:
        rows = dealt(held)
        with pytest.raises(InvalidParameterError, match="shard=7"):
            rows.shard(SHARDS)


def test_files_have_no_name_and_vanish(tmp_path):
    with RowSpool(tmp_path) as held:
        rows = dealt(held)
        assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="closed"):
        rows.shard(0)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"scratch=.*absent"):
        RowFile(tmp_path / "absent", 1, np.float64)


def test_a_full_disk_is_reported():
    try:
        file = RowFile("/dev/shm", 1, np.float64)
    except InvalidParameterError:
        pytest.skip("no shared memory here")
    file._file.close()
    file._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    with pytest.raises(InvalidParameterError, match="cannot grow"):
        file.append(np.zeros((4, 1)))
    file.close()
