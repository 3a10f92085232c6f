"""Random partitions, noisy quantiles and sums over them (L12, L13, L14)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from reticent.errors import InvalidDataError
from reticent.estimators import (
    STEPS,
    CodedColumns,
    PartitionPlan,
    RoundBudget,
    Rounds,
    UnitRows,
    fit_prior,
    noisy_relevance,
    noisy_shares,
    part_scores,
)
from reticent.estimators.partitions import descent as learning
from reticent.estimators.partitions.features import part_features
from reticent.estimators.partitions.sums import PackedParts
from reticent.estimators.partitions.trees import random_trees, single_columns
from reticent.guarantees.gaussian_curve import gaussian_delta
from reticent.mechanisms import UnitFilter, noise_source
from reticent.mechanisms.individual import FULL
from reticent.mechanisms.sampling.listening import Listener, listen
from reticent.schemas import Numeric

COLUMNS = CodedColumns.of([(0.0, 1.0), (-5.0, 5.0), 3, 40], 4)


def some_codes(rng, n_rows):
    return np.column_stack(
        [rng.integers(0, column.n_codes, n_rows) for column in COLUMNS.columns]
    ).astype(np.int16)


def some_partitions(seed, depth=3):
    rng = np.random.default_rng(seed)
    shares = (np.sort(rng.random(STEPS)), None, None, None)
    trees = random_trees(
        COLUMNS, shares, n_trees=6, depth=depth, source=noise_source(seed)
    )
    return single_columns(COLUMNS).joined(trees)


def dense(partitions, codes):
    """Return the matrix with a one where a row is in a part."""
    parts = partitions.parts(codes)
    starts = np.cumsum(partitions.n_parts) - partitions.n_parts
    found = np.zeros((len(codes), int(partitions.n_parts.sum())), dtype=np.int64)
    for own, start in zip(parts, starts, strict=True):
        found[np.arange(len(codes)), own.astype(np.int64) + start] = 1
    return found


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 50),
    st.integers(1, 8),
    st.sampled_from([1, 300, 70_000]),
)
def test_scores_and_sums_are_those_of_a_dense_matrix(seed, n_rows, depth, most):
    rng = np.random.default_rng(seed)
    partitions, codes = some_partitions(seed, depth), some_codes(rng, n_rows)
    matrix = dense(partitions, codes)
    # Each row is in one part of each partition.
    assert (matrix.sum(axis=1) == len(partitions)).all()
    parts, sizes = partitions.parts(codes), partitions.n_parts
    values = rng.integers(-(2**20), 2**20, (2, matrix.shape[1])).astype(float)
    np.testing.assert_array_equal(part_scores(parts, sizes, values), values @ matrix.T)
    packed = PackedParts.of(partitions, codes, most=most)
    assert len(packed.groups) <= len(partitions)
    np.testing.assert_array_equal(packed.scores(values), values @ matrix.T)
    numbers = rng.integers(-(2**40), 2**40, (2, n_rows))
    sums = packed.sums(numbers.astype(float))
    assert sums.dtype == np.int64
    np.testing.assert_array_equal(sums, numbers @ matrix)
    # A row's parts and scores do not depend on the others.
    alone = part_scores(partitions.parts(codes[:1]), sizes, values / 3)
    assert alone.tobytes() == part_scores(parts, sizes, values / 3)[:, :1].tobytes()


def test_a_row_is_in_the_same_part_whatever_the_data_are():
    # Trees are drawn from public numbers: the same source gives the same trees.
    one, other = some_partitions(3), some_partitions(3)
    codes = some_codes(np.random.default_rng(0), 30)
    np.testing.assert_array_equal(one.parts(codes), other.parts(codes))


@given(
    st.lists(
        st.floats(allow_nan=True, allow_infinity=False, width=64),
        min_size=1,
        max_size=9,
    )
)
def test_codes_stay_in_their_range(values):
    columns = CodedColumns.of([(0.0, 1.0), 7], 2)
    with np.errstate(over="ignore"):
        codes = columns.encode(np.array([values, values]).T)
    assert codes.min() >= 0
    assert codes[:, 0].max() <= STEPS
    assert codes[:, 1].max() <= 7
    for value, (number, level) in zip(values, codes.tolist(), strict=True):
        assert (number == STEPS) == math.isnan(value)
        known = value in range(7)
        assert level == (int(value) if known else 7)
    again = CodedColumns.from_list(columns.as_list())
    assert again == columns


def test_codes_refuse_what_is_no_table():
    with pytest.raises(InvalidDataError, match="infinity"):
        COLUMNS.encode([[np.inf, 0, 0, 0]])
    with pytest.raises(InvalidDataError, match="4 columns"):
        COLUMNS.encode([[0.0, 0.0]])


class Hearing(Listener):
    """Keep what noise is added to; add none."""

    def __init__(self):
        self.sums, self.scales = [], []

    def drawn(self, draw, sample):
        if draw.kind != "rounded gaussian":
            return sample()
        self.sums.append(np.array(draw.arguments[0]))
        self.scales.append(Fraction(draw.arguments[1]))
        return self.sums[-1]


def unit_rows(codes, targets, positions, n_units):
    order = np.argsort(positions, kind="stable")
    unit = np.asarray(positions)[order]
    starts = np.searchsorted(unit, np.arange(n_units + 1))
    return UnitRows(codes[order], targets[:, order], unit, starts)


def rounds_for(n_units, relation, mu=1.0):
    budget = RoundBudget(mu, relation)
    return Rounds(budget, UnitFilter(n_units, budget.cap), noise_source(0))


def shares_of(rows, columns, rounds):
    noisy_shares(rows, columns, rounds, share=0.9999)


def relevance_of(rows, columns, rounds):
    none = (None,) * len(columns)
    noisy_relevance(rows, columns, none, rounds, share=0.9999, logistic=True)


def counts_told(release, codes, positions, n_units, relation):
    columns = CodedColumns.of([(0.0, 1.0), (0.0, 1.0)], 2)
    # A row that is missing somewhere has the other label.
    targets = (codes > 1000).any(axis=1).astype(float)[None]
    rows = unit_rows(codes, targets, positions, n_units)
    rounds = rounds_for(n_units, relation)
    with listen(Hearing()) as heard:
        release(rows, columns, rounds)
    return heard, rounds


@pytest.mark.parametrize("release", [shares_of, relevance_of])
@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_noisy_counts_reach_their_price_and_no_more(relation, release):
    # All units that one unit can be, with up to three rows in two bins or missing.
    others = np.array([[0, 0], [900, 3]], np.int16)
    domain = [
        [[0, 0]],
        [[900, 900]],
        [[0, 900]],
        [[1024, 1024]],
        [[0, 0], [900, 900]],
        [[0, 0], [0, 0], [900, 0]],
        [[1024, 0], [3, 4]],
    ]
    told = []
    for rows in domain:
        codes = np.vstack([others, rows]).astype(np.int16)
        heard, rounds = counts_told(
            release, codes, [0, 1] + [2] * len(rows), 3, relation
        )
        told.append(np.concatenate([each.ravel() for each in heard.sums]))
        spent = Fraction(int(rounds.account.spent[2]), FULL)
    without, _ = counts_told(release, others, [0, 1], 2, relation)
    if relation == "zero-out":
        nothing = np.concatenate([each.ravel() for each in without.sums])
        pairs = [(one, nothing) for one in told]
    else:
        pairs = [(one, other) for one in told for other in told]
    scale = heard.scales[0]
    assert set(heard.scales) == {scale}
    squares = [sum(int(n) ** 2 for n in one - other) for one, other in pairs]
    mu_square = Fraction(max(squares)) / scale**2
    assert spent <= 1
    assert Fraction(99, 100) <= mu_square <= 1
    # By the exact test between the two furthest: a threshold on their difference.
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        mu = math.sqrt(mu_square)
        best = ndtr(mu / 2 - epsilon / mu)
        best -= math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        assert 0.9 * gaussian_delta(1.0, epsilon) <= best
        assert best <= gaussian_delta(1.0, epsilon) + 1e-15


def test_noisy_shares_are_the_quantiles():
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, 100, 4000), np.full(4000, 1024)]).astype(
        np.int16
    )
    columns = CodedColumns.of([(0.0, 1.0), 2000], 2)
    rows = unit_rows(codes, np.zeros((1, 4000)), np.arange(4000), 4000)
    found = noisy_shares(rows, columns, rounds_for(4000, "zero-out", 9.0), share=0.5)
    assert found[1] is None
    assert (np.diff(found[0]) >= 0).all()
    assert found[0][50] == pytest.approx(0.5, abs=0.05)
    assert found[0][-1] <= 1


@pytest.mark.parametrize("n_scores", [1, 3])
def test_columns_that_say_more_about_the_target_weigh_more(n_scores):
    rng = np.random.default_rng(n_scores)
    codes = some_codes(rng, 4000)
    labels = codes[:, 2] % 3 if n_scores == 3 else codes[:, 2] % 3 == 1
    targets = np.eye(3)[labels].T if n_scores == 3 else labels[None].astype(float)
    rows = unit_rows(codes, targets, np.arange(4000), 4000)

    def found(mu):
        rounds = rounds_for(4000, "replace-one", mu)
        return noisy_relevance(
            rows, COLUMNS, (None,) * 4, rounds, share=0.5, logistic=True
        )

    assert found(9.0).sum() == pytest.approx(1)
    assert found(9.0).argmax() == 2
    assert found(9.0)[2] > 0.5
    # Each column keeps half of what it would have among equals.
    assert found(9.0).min() >= 0.125
    # Nothing but noise: all columns are the same.
    np.testing.assert_array_equal(found(1e-3), np.full(4, 0.25))


def test_trees_ask_columns_by_their_weights():
    drawn = random_trees(
        COLUMNS,
        (None,) * 4,
        n_trees=200,
        depth=5,
        source=noise_source(0),
        weights=np.array([0.0, 0.7, 0.3, 0.0]),
    )
    asked = np.bincount(np.concatenate(drawn.columns), minlength=4)
    assert asked[0] == asked[3] == 0
    assert 600 < asked[1] < 800


def some_features(seed, *, linear=0.3, bins=0.4, trees=True):
    rng = np.random.default_rng(seed)
    shares = tuple(
        np.sort(rng.random(STEPS)) if column.numeric else None
        for column in COLUMNS.columns
    )
    drawn = random_trees(COLUMNS, shares, n_trees=6, depth=3, source=noise_source(seed))
    return part_features(
        COLUMNS,
        shares,
        single_columns(COLUMNS),
        drawn if trees else None,
        linear=linear,
        bins=bins,
    )


def dense_features(features, codes):
    """Return the features of rows as a matrix, from the definition."""
    parts = features.partitions.parts(codes)
    blocks = [each[own] for each, own in zip(features.maps, parts, strict=False)]
    for own, size in zip(
        parts[len(blocks) :],
        features.partitions.n_parts[len(blocks) :].tolist(),
        strict=True,
    ):
        blocks.append(features.tree * np.eye(size, dtype=np.int64)[own])
    return np.concatenate(blocks, axis=1)


@pytest.mark.parametrize("trees", [True, False])
@given(seed=st.integers(0, 2**32 - 1))
def test_features_are_a_dense_matrix_with_rows_of_bounded_norm(trees, seed):
    rng = np.random.default_rng(seed)
    features = some_features(seed, bins=0.4 if trees else 0.7, trees=trees)
    codes = some_codes(rng, 40)
    matrix = dense_features(features, codes)
    squares = (matrix**2).sum(axis=1)
    assert squares.max() <= features.square
    # The bound is nearly reached: noise is not wasted on it.
    assert squares.max() >= 0.6 * features.square
    packed = PackedParts.of(features.partitions, codes, most=1000)
    numbers = rng.integers(-(2**20), 2**20, (2, len(codes)))
    sums = features.sums(packed.sums(numbers.astype(float)))
    np.testing.assert_array_equal(sums, numbers @ matrix)
    point = rng.integers(-8, 8, (2, features.n_features)).astype(float)
    np.testing.assert_array_equal(
        packed.scores(features.values(point)), point @ matrix.T
    )


@pytest.mark.parametrize("n_scores", [1, 3])
def test_steps_are_dense_gradients_that_units_pay_for(n_scores, monkeypatch):
    monkeypatch.setattr(learning, "_STEPS", 4)
    monkeypatch.setattr(learning, "_TREES", 5)
    monkeypatch.setattr(learning, "_SIGNAL", 1e-3)
    rng = np.random.default_rng(n_scores)
    n_units, n_rows = 12, 30
    positions = np.concatenate([np.arange(n_units), rng.integers(0, n_units, 18)])
    codes = some_codes(rng, n_rows)
    targets = rng.integers(0, 2, (n_scores, n_rows)).astype(float)
    rows = unit_rows(codes, targets, positions, n_units)
    rounds = rounds_for(n_units, "replace-one", 4.0)
    none = (None,) * 4
    plan = PartitionPlan.of(COLUMNS, none, rounds, n_units=n_units, share=0.5)
    assert (plan.features.partitions.n_parts[-5:] == 8).all()
    before = rounds.account.spent.copy()
    with listen(Hearing()) as heard:
        fit_prior(rows, plan, rounds, logistic=True, share=0.5)
    # The first step is at zero, where every slope is 1/2 less the target.
    slopes = 0.5 - rows.targets
    norms = np.sqrt((slopes**2).sum(axis=0))
    slopes = slopes * (0.5 / np.maximum(norms, 0.5))
    whole = np.trunc(slopes * (2**12 / rows.sizes[rows.unit])).astype(np.int64)
    matrix = dense_features(plan.features, rows.codes)
    np.testing.assert_array_equal(heard.sums[0], whole @ matrix)
    # What each unit really contributed to that step is at most what it paid for it.
    cap = Fraction(rounds.budget.cap)
    spent = [Fraction(int(n), FULL) * cap for n in rounds.account.spent - before]
    for unit in range(n_units):
        own = rows.unit == unit
        vector = whole[:, own] @ matrix[own]
        square = Fraction(int((vector**2).sum()))
        paid = 2 * square / heard.scales[0] ** 2
        assert paid <= spent[unit]
    assert rounds.account.spent.max() <= FULL


def test_little_signal_makes_a_linear_model_and_much_makes_trees():
    none, facts = (None,) * 4, {"share": 0.9}
    few = PartitionPlan.of(
        COLUMNS, none, rounds_for(50, "replace-one"), n_units=50, **facts
    )
    many = PartitionPlan.of(
        COLUMNS, none, rounds_for(10**6, "replace-one"), n_units=10**6, **facts
    )
    assert len(few.features.partitions) == len(COLUMNS)
    assert few.linear > 0.9
    assert many.linear < 0.01
    assert len(many.features.partitions) > 100


def test_codes_of_a_row_do_not_depend_on_how_many_are_encoded_with_it():
    facts = [(-1.0, 3.0), 5, Numeric(0, 9, transform="log1p"), (0.1, 0.7), (-2.0, 2.0)]
    columns = CodedColumns.of(facts, len(facts))
    rng = np.random.default_rng(8)
    X = np.round(rng.uniform(-3, 6, (300, len(facts))), 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    whole = columns.encode(X)
    parts = [columns.encode(X[start : start + 3]) for start in range(0, 300, 3)]
    assert np.array_equal(np.concatenate(parts), whole)
