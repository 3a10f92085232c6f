"""The perceptron scheme: the textbook's mistakes, in time linear in the rows."""

import numpy as np
import pytest

from reticent.generalization import CompressionClassifier, PerceptronScheme
from reticent.generalization.compression.perceptron import (
    _GRID,
    _mistakes,
    _normalised,
    _Order,
    _Pocket,
    _State,
)
from reticent.generalization.compression.rules import kept_error
from reticent.generalization.compression.scheme import LabelledRows
from reticent.generalization.compression.side_information import BitReader
from reticent.mechanisms.sampling.randomness import SeededSource

CHUNK, PIECE, TRIED = 4096, 16, 2048


def noisy(rng, n, d=3):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def separable(rng, n, d=3):
    X = rng.normal(size=(n, d))
    X[:, 0] += np.sign(X[:, 0])
    return X, (X[:, 0] > 0).astype(int)


def one_class(rng, n, d=3):
    return rng.normal(size=(n, d)), np.ones(n, dtype=int)


def tied(rng, n, d=3):
    """Few different values, repeated rows and labels that contradict each other."""
    return rng.integers(0, 3, size=(n, d)).astype(float), rng.integers(0, 2, n)


def examples(make, n, seed=0):
    X, y = make(np.random.default_rng(seed), n)
    return LabelledRows(X, y.astype(np.int64), 2)


def in_whole_numbers(X):
    """Return the rows that the scheme adds up, in units of its grid."""
    units = _normalised(X) * _GRID
    assert (units == np.rint(units)).all()
    return units.astype(np.int64).astype(object)


def textbook(data, order, passes):
    """Return the mistaken rows one by one, with scores in exact arithmetic."""
    rows = in_whole_numbers(data.X) * (2 * data.y - 1)[:, None]
    weights, mistaken = rows[0] * 0, []
    for _ in range(passes):
        before = len(mistaken)
        for row in order:
            if rows[row] @ weights <= 0:
                weights = weights + rows[row]
                mistaken.append(int(row))
        if len(mistaken) == before:
            break
    return mistaken


def decoded(scheme, data, candidate):
    rows, side = candidate.finish()
    assert len(np.unique(rows)) == len(rows) == candidate.n_kept
    assert len(side) == candidate.n_bits
    reader = BitReader(side)
    labelling = scheme.decode(data.take(rows), reader)
    reader.finish()
    return labelling


def candidates(data, seed=0, most=None, passes=10):
    most = len(data) if most is None else most
    scheme = PerceptronScheme(passes)
    return scheme, list(scheme.compress(data, most, SeededSource(seed)))


@pytest.mark.parametrize("make", [noisy, separable, one_class])
@pytest.mark.parametrize("n", [1, 2, 300, CHUNK + 500])
def test_the_search_finds_the_mistakes_of_the_textbook(make, n):
    data = examples(make, n)
    order = _Order(n, SeededSource(1))
    found = [row for row, _, _ in _mistakes(data, order, passes=3)]
    rows = np.concatenate(list(order))
    assert found == textbook(data, rows, passes=3)
    if make is noisy and n > 2:
        # Another order makes other mistakes, so the comparison is not idle.
        assert found != textbook(data, rows[::-1], passes=3)


def test_each_mistake_comes_with_its_weights_and_the_rows_before_it():
    data = examples(noisy, CHUNK + 500)
    order = _Order(len(data), SeededSource(1))
    rows = in_whole_numbers(data.X) * (2 * data.y - 1)[:, None]
    place = np.argsort(np.concatenate(list(order)))
    total, last = rows[0] * 0, -1
    for row, weights, run in _mistakes(data, order, passes=1):
        total = total + rows[row]
        assert (total == (weights * _GRID).astype(object)).all()
        assert run == place[row] - last - 1
        last = place[row]


@pytest.mark.parametrize("n", [1, PIECE + 1, CHUNK, CHUNK + 1, 2 * CHUNK, 10_001])
def test_a_pass_visits_every_row_once(n):
    order = _Order(n, SeededSource(0))
    first, second = (np.concatenate(list(order)) for _ in range(2))
    assert np.array_equal(np.sort(first), np.arange(n))
    assert np.array_equal(first, second)
    if n <= CHUNK:
        assert np.array_equal(first, SeededSource(0).permutation(n))


def test_every_chunk_is_a_sample_of_a_sorted_table():
    n = 40 * CHUNK
    half = np.repeat([0, 1], n // 2)

    def furthest(chunks):
        return max(abs(np.mean(half[rows]) - 0.5) for rows in chunks)

    # 256 pieces in a chunk: more than seven standard deviations of the share.
    assert furthest(_Order(n, SeededSource(0))) < 0.22
    assert furthest(np.arange(n).reshape(40, CHUNK)) == 0.5
    # Neighbours in the table are no neighbours in the order.
    rows = np.concatenate(list(_Order(n, SeededSource(0))))
    assert np.mean(np.abs(np.diff(rows)) < PIECE) < 0.01


@pytest.mark.parametrize("make", [noisy, separable, one_class, tied])
@pytest.mark.parametrize("n", [1, 150, CHUNK + 1500])
def test_mistakes_are_those_of_the_decoded_hypothesis_on_all_rows(make, n):
    data = examples(make, n)
    scheme, found = candidates(data)
    assert found
    for candidate in found:
        labels = decoded(scheme, data, candidate)(data.X)
        assert candidate.mistakes == np.count_nonzero(labels != data.y)


@pytest.mark.parametrize("what", ["error", "bound"])
@pytest.mark.parametrize("n", [40, 250])
def test_the_best_of_all_states_of_a_small_table_is_kept(what, n, seed):
    data = examples(noisy, n, seed)
    order = SeededSource(seed).permutation(n)
    mistaken = textbook(data, order, passes=10)
    rows = in_whole_numbers(data.X)
    signed = rows * (2 * data.y - 1)[:, None]
    ranks = []
    for length in range(1, len(mistaken) + 1):
        weights = signed[mistaken[:length]].sum(axis=0)
        mistakes = np.count_nonzero((rows @ weights > 0) != (data.y > 0))
        kept = len(set(mistaken[:length]))
        bits = 4 * kept + int(n).bit_length()
        bound = kept_error(kept=kept, side_bits=bits, sizes=n, n=n, beta=0.05)
        value = mistakes if what == "error" else mistakes / n + bound
        ranks.append((value, kept, mistakes))
    model = CompressionClassifier(
        "perceptron", minimise=what, random_state=seed, classes=[0, 1]
    ).fit(data.X, data.y)
    _, kept, mistakes = min(ranks)
    assert (len(model.kept_), model.training_error_) == (kept, mistakes / n)
    assert max(ranks)[2] > mistakes


def test_few_of_many_states_of_a_large_table_are_counted():
    data = examples(noisy, 30_000)
    _, found = candidates(data)
    order = _Order(len(data), SeededSource(0))
    states = sum(1 for _ in _mistakes(data, order, passes=10))
    assert states > 10_000
    assert len(found) < 150
    # Mistakes on the sample are close to those on all rows, so the choice is good.
    assert min(c.mistakes for c in found) < 1.1 * np.mean(
        sorted(c.mistakes for c in found)[:10]
    )


@pytest.mark.parametrize(
    ("n", "run", "chosen"),
    [
        (3 * TRIED, TRIED + 1, [*range(1, 33), 60, 100]),
        (3 * TRIED, TRIED, [*range(1, 33), 100]),
        (TRIED, TRIED, [1, 100]),
    ],
)
def test_equals_on_the_sample_are_told_apart_by_how_long_they_last(n, run, chosen):
    pocket = _Pocket(examples(separable, n), SeededSource(0))
    weights = np.array([1.0, 0.0, 0.0, 0.0])
    for length in range(1, 101):
        pocket.offer(_State(weights, length, length), run if length == 61 else 0)
    assert [state.length for state in pocket.chosen()] == chosen


def test_a_pass_without_mistakes_is_a_hypothesis_without_mistakes():
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    X = X[np.abs(X[:, 0]) > 0.02]
    data = LabelledRows(X, (X[:, 0] > 0).astype(np.int64), 2)
    _, found = candidates(data, passes=1000)
    assert found[-1].mistakes == 0
    assert found[-2].mistakes > 0


@pytest.mark.parametrize("key", ["class", "column", "score"])
def test_sorted_tables_are_learned_as_well_as_shuffled_ones(key):
    X, y = noisy(np.random.default_rng(0), 30_000)
    keys = {"class": y, "column": X[:, 1], "score": X[:, 0]}
    order = np.argsort(keys[key], kind="stable")
    shuffled, ordered = (
        CompressionClassifier("perceptron", random_state=0, classes=[0, 1])
        .fit(X[rows], y[rows])
        .training_error_
        for rows in (np.arange(len(y)), order)
    )
    # The best halfspace is wrong about 9.3 rows in a hundred.
    assert shuffled < 0.11
    assert ordered < 0.11


def test_a_limit_ends_the_walk_at_any_size():
    data = examples(noisy, 10_000)
    scheme, found = candidates(data, most=30)
    assert max(c.n_kept for c in found) == 30
    best = min(found, key=lambda c: c.mistakes)
    labels = decoded(scheme, data, best)(data.X)
    assert np.mean(labels != data.y) < 0.25


@pytest.mark.parametrize("make", [noisy, tied])
def test_a_label_does_not_depend_on_the_rows_beside_it(make):
    X, y = make(np.random.default_rng(0), CHUNK + 200)
    X[::7] *= 1e180
    model = CompressionClassifier("perceptron", random_state=0).fit(X, y)
    some = np.arange(0, len(X), 41)
    alone = [model.predict(X[row : row + 1])[0] for row in some]
    assert np.array_equal(model.predict(X)[some], alone)
    assert np.array_equal(model.predict(X[some]), alone)
