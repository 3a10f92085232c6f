"""The machine of support vectors: fitted on few rows, counted on all of them."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from reticent.errors import InvalidParameterError
from reticent.generalization import (
    CompressionClassifier,
    SubsampleScheme,
    SVMScheme,
)
from reticent.generalization.compression.refitting import _rare
from reticent.generalization.compression.scheme import LabelledRows
from reticent.generalization.compression.side_information import BitReader
from reticent.mechanisms.sampling.randomness import SeededSource


def waves(n, seed=0):
    """Rows on either side of a curve, some of them on the wrong one."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    noise = 0.1 * rng.normal(size=n)
    return X, (np.sin(2 * X[:, 0]) + noise > X[:, 1] / 2).astype(np.int64)


def candidates(scheme, X, y, most=None, seed=0):
    data = LabelledRows(X, y, int(y.max()) + 1)
    most = len(y) if most is None else most
    return data, list(scheme.compress(data, most, SeededSource(seed)))


class Counting(SVC):
    """A machine that notes how many rows it is given."""

    fits: ClassVar = Counter()
    asked = 0

    def fit(self, X, y):
        Counting.fits[len(X)] += 1
        return super().fit(X, y)

    def predict(self, X):
        Counting.asked += len(X)
        return super().predict(X)


class Bare(ClassifierMixin, BaseEstimator):
    """The least that a machine has to offer."""

    def fit(self, X, y):
        self.machine_ = SVC().fit(X, y)
        self.classes_ = self.machine_.classes_
        self.support_ = self.machine_.support_
        return self

    def predict(self, X):
        return self.machine_.predict(X)


@pytest.mark.parametrize("n", [150, 1200])
@pytest.mark.parametrize("classes", [2, 4])
def test_mistakes_are_those_of_the_decoded_machine_on_all_rows(n, classes):
    X, y = make_classification(n, 7, n_informative=5, n_classes=classes, random_state=0)
    scheme = SVMScheme(working=200)
    data, found = candidates(scheme, X, y)
    assert len(found) == (1 if n <= 200 else 2)
    for candidate in found:
        rows, side = candidate.finish()
        assert len(rows) == candidate.n_kept <= 220
        decoded = scheme.decode(data.take(rows), BitReader(side))
        assert candidate.mistakes == np.count_nonzero(decoded(X) != y)


def test_a_table_of_so_many_rows_has_one_machine():
    X, y = waves(300)
    _, (found,) = candidates(SVMScheme(working=300), X, y)
    assert np.array_equal(np.sort(found.finish()[0]), np.sort(SVC().fit(X, y).support_))


def test_work_is_the_same_for_large_tables_but_for_counting():
    work = {}
    for n in (6_000, 12_000):
        Counting.fits, Counting.asked = Counter(), 0
        X, y = waves(n)
        CompressionClassifier(SVMScheme(Counting(), working=100), random_state=0).fit(
            X, y
        )
        assert max(Counting.fits) <= 105
        work[n] = Counting.fits.total(), Counting.asked
    # Five machines and their decoders; two candidates and the chosen model.
    assert [fits for fits, _ in work.values()] == [13, 13]
    asked = [rows - 5 * 5_000 for _, rows in work.values()]
    assert asked == [3 * 6_000, 3 * 12_000]


def test_rounds_come_close_to_the_machine_of_all_rows():
    X, y = waves(4_000)
    fresh, truth = waves(4_000, seed=1)
    whole = SVC().fit(X, y)

    def errors(rounds):
        scheme = SVMScheme(working=400, rounds=rounds)
        models = [
            CompressionClassifier(scheme, random_state=seed).fit(X, y)
            for seed in range(5)
        ]
        return np.mean([[m.training_error_, m.score(fresh, truth)] for m in models], 0)

    once, often = errors(0), errors(4)
    assert often[0] < once[0] - 0.005
    assert often[1] > once[1]
    assert often[1] > whole.score(fresh, truth) - 0.02


def test_the_smallest_bound_takes_the_smaller_machine():
    X, y = waves(5_000)
    by_error, by_bound = (
        CompressionClassifier("svm", minimise=what, random_state=0).fit(X, y)
        for what in ("error", "bound")
    )
    assert len(by_bound.kept_) < len(by_error.kept_)
    assert by_bound.error_at_most_ < by_error.error_at_most_
    whole = CompressionClassifier(SVMScheme(working=5_000)).fit(X, y)
    assert by_bound.error_at_most_ < whole.error_at_most_ - 0.05


def test_a_rare_class_is_not_missed():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 3)), np.zeros(20_000, dtype=np.int64)
    y[-6:] = 1
    X[-6:, 0] += 9
    scheme = SVMScheme(working=200)
    model = CompressionClassifier(scheme, random_state=0).fit(X, y)
    assert model.training_error_ == 0
    # A random set has nothing of it, and a machine needs two classes.
    random = SubsampleScheme(SVC(), examples=200, draws=1)
    blind = CompressionClassifier(random, random_state=0).fit(X, y)
    assert blind.training_error_ == 6 / 20_000


@pytest.mark.parametrize("fewest", [0, 1, 3, 50])
def test_rare_classes_are_filled_up(fewest, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(5), [1, 4, 30, 100, 0]))
    data = LabelledRows(np.zeros((len(y), 1)), y, 5)
    rows = rng.choice(len(y), 20, replace=False)
    more = _rare(data, rows, fewest, SeededSource(seed))
    assert not np.intersect1d(rows, more).size
    assert len(np.unique(more)) == len(more)
    before, there = (np.bincount(y[at], minlength=5) for at in (rows, np.arange(135)))
    after = before + np.bincount(y[more], minlength=5)
    assert np.array_equal(after, np.maximum(before, np.minimum(fewest, there)))


def test_sorted_tables_are_learned_as_well_as_shuffled_ones():
    X, y = waves(3_000)
    scheme = SVMScheme(working=400)
    for key in (np.zeros(len(y)), y, X[:, 0]):
        order = np.argsort(key, kind="stable")
        model = CompressionClassifier(scheme, random_state=0).fit(X[order], y[order])
        assert model.training_error_ < 0.08


def test_a_limit_below_the_support_vectors_tries_sets_of_a_large_table():
    X, y = waves(1_000)
    _, found = candidates(SVMScheme(working=200, draws=7), X, y, most=15)
    assert [candidate.n_kept for candidate in found] == [15] * 7


def test_a_machine_needs_no_more_than_its_support():
    X, y = waves(1_000)
    scheme = SVMScheme(Bare(), working=300)
    model = CompressionClassifier(scheme, random_state=0).fit(X, y)
    assert model.training_error_ < 0.1
    same = CompressionClassifier(SVMScheme(working=300), random_state=0).fit(X, y)
    assert np.array_equal(model.kept_.indices, same.kept_.indices)


@pytest.mark.parametrize(("working", "rounds"), [(2, 0), (2, 3), (11, 1), (999, 9)])
def test_any_number_of_rows_and_rounds_works(working, rounds):
    X, y = waves(1_000)
    scheme = SVMScheme(working=working, rounds=rounds)
    model = CompressionClassifier(scheme, random_state=0).fit(X, y)
    assert 1 <= len(model.kept_) <= working + 2
    again = CompressionClassifier(scheme, random_state=0, classes=[0, 1])
    assert np.array_equal(again.decode(model.kept_).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"working": 1}, "working=1"), ({"rounds": -1}, "rounds=-1")],
)
def test_too_few_rows_or_rounds_are_refused(settings, match):
    X, y = waves(20)
    with (
        config_context(skip_parameter_validation=True),
        pytest.raises(InvalidParameterError, match=match),
    ):
        CompressionClassifier(SVMScheme(**settings)).fit(X, y)
