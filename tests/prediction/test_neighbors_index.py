"""Neighbourhoods: the index loses nothing, and few rows score like many."""

import math

import numpy as np
import pytest

from reticent.estimators import CodedColumns, PartitionModel
from reticent.estimators.partitions.trees import random_trees, single_columns
from reticent.mechanisms import noise_source
from reticent.prediction.neighbors.index import Axis, BallIndex, grid_axes
from reticent.prediction.neighbors.metric import Metric, plain_metric, spread_of

COLUMNS = CodedColumns.of([(0.0, 1.0), 5, (-1.0, 1.0), 40, (0.0, 2.0)], 5)


def coded_rows(count):
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.uniform(0, 1, count),
            rng.integers(0, 5, count),
            rng.normal(0, 0.3, count),
            rng.integers(0, 40, count),
            rng.exponential(0.3, count),
        ]
    )
    X[rng.random(X.shape) < 0.05] = np.nan
    return COLUMNS.encode(X)


@pytest.mark.parametrize("n_axes", [0, 1, 2, 5])
@pytest.mark.parametrize(("spread_known", "n_units"), [(False, 800), (True, 10**6)])
def test_the_index_finds_exactly_the_rows_within_a_radius(
    spread_known, n_units, n_axes
):
    codes = coded_rows(800)
    shares = [None] * 5
    if spread_known:
        for place in (0, 2, 4):
            counts = np.bincount(codes[:, place], minlength=1025)[:1024]
            shares[place] = np.cumsum(counts) / counts.sum()
    metric = plain_metric(COLUMNS)
    axes = grid_axes(COLUMNS, tuple(shares), spread_of(metric, tuple(shares)), n_units)
    index = BallIndex(codes, axes[:n_axes])
    found_some = 0
    for query in coded_rows(40):
        tables = metric.tables(query)
        squares = sum(table[codes[:, c]].astype(int) for c, table in enumerate(tables))
        for radius in (0, 10**5, 10**7, 2 * 10**8, 2**30):
            rows, at = index.within(tables, radius)
            expected = np.flatnonzero(squares <= radius)
            assert np.array_equal(np.sort(rows), expected)
            assert np.array_equal(at, squares[rows])
            found_some += 0 < len(rows) < len(codes)
    assert found_some > 40


@pytest.mark.parametrize("place", [0, 3])
def test_the_index_finds_rows_by_a_grid_of_any_form(place):
    """Bins may be in any order, and empty: then a run has rows that are too far."""
    codes, metric = coded_rows(500), plain_metric(COLUMNS)
    rng = np.random.default_rng(2)
    axes = tuple(
        Axis(column, rng.permutation(2 * COLUMNS.columns[column].n_codes)[: c.n_codes])
        for column, c in [(each, COLUMNS.columns[each]) for each in (1, place)]
    )
    index = BallIndex(codes, axes)
    for query in coded_rows(20):
        tables = metric.tables(query)
        squares = sum(table[codes[:, c]].astype(int) for c, table in enumerate(tables))
        for radius in (0, 10**7, 2 * 10**8):
            rows, _ = index.within(tables, radius)
            assert np.array_equal(np.sort(rows), np.flatnonzero(squares <= radius))


def test_distances_are_those_of_the_definition():
    metric = Metric(COLUMNS, np.array([1.0, 0.03, 0.7, 0.003, 0.5]))
    unit = (1 << 30) / math.fsum(metric.squares)
    for query in [*coded_rows(60), np.array([0, 5, 1023, 40, 1024], np.int16)]:
        for column, square, at, table in zip(
            COLUMNS.columns, metric.squares, query, metric.tables(query), strict=True
        ):
            last, codes = column.n_codes - 1, np.arange(column.n_codes)
            far = ((codes - int(at)) / 1024) ** 2
            if column.numeric:
                far = np.where((codes == last) | (at == last), 0.0625, far)
            else:
                far = np.ones(column.n_codes)
            far[at] = 0.0
            assert np.array_equal(table, np.rint(far * (unit * square)))


def test_few_rows_have_the_parts_and_scores_that_they_have_among_many():
    codes = coded_rows(200)
    shares = (None,) * 5
    drawn = random_trees(COLUMNS, shares, n_trees=30, depth=4, source=noise_source(0))
    partitions = single_columns(COLUMNS).joined(drawn)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, int(partitions.n_parts.sum())))
    model = PartitionModel(partitions, values, logistic=True)
    parts, scores = partitions.parts(codes), model.scores(codes)
    for size in (1, 2, 8):
        for start in range(0, 40, size):
            few = slice(start, start + size)
            assert np.array_equal(partitions.parts(codes[few]), parts[:, few])
            # To the last bit: what a unit pays follows from it.
            assert np.array_equal(model.scores(codes[few]), scores[:, few])
