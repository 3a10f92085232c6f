"""Functions of the caller: one row at a time, and told apart from the library's."""

import numpy as np
import pytest

from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Member,
    Rectangles,
    Stumps,
    Thresholds,
    runs_own_functions,
)

LIBRARY = [Conjunctions(), Halfspaces(), Intervals(1), Rectangles(), Stumps()]
LIBRARY += [Thresholds(), FiniteClass.from_table([[0.0], [1.0]], [[0, 1]])]


def above_the_others(X):
    return (X[:, 0] > X[:, 0].mean()).astype(int)


class Mine(FiniteClass):
    pass


class MyThresholds(Thresholds):
    pass


@pytest.mark.parametrize("family", LIBRARY, ids=repr)
def test_the_librarys_classes_run_no_functions_of_the_caller(family):
    assert not runs_own_functions(family)
    assert not runs_own_functions(family.on(2 if family == Rectangles() else 1))


@pytest.mark.parametrize(
    "family",
    [
        FiniteClass([above_the_others]),
        Mine([above_the_others]),
        Mine.from_table([[0.0], [1.0]], [[0, 1]]),
        MyThresholds(),
    ],
    ids=repr,
)
def test_functions_and_subclasses_are_the_callers(family):
    assert runs_own_functions(family)


def test_a_label_does_not_depend_on_the_rows_beside_it():
    family = FiniteClass([above_the_others, lambda X: np.full(len(X), len(X) % 2)])
    X = np.array([[0.0], [1.0], [1e9], [2.0]])
    for index in range(2):
        together = family.predict(Member(index), X)
        alone = [family.predict(Member(index), row[None])[0] for row in X]
        assert together.tolist() == alone
    projection = family.project(X)
    assert projection.predict(X[:1]).tolist() == projection.predict(X)[:, :1].tolist()
    # No row is above its own mean, and one row is an odd number of rows.
    assert family.minimise(X, [1, 1, 1, 0]).value == 1


def test_a_function_cannot_change_the_rows():
    def spoil(X):
        X[:] = 7.0
        return np.zeros(len(X))

    X = np.array([[0.0], [1.0]])
    FiniteClass([spoil]).predict(Member(0), X)
    assert X.tolist() == [[0.0], [1.0]]


def test_a_tally_of_all_members_counts_the_same_mistakes(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 4, size=(50, 1)).astype(float), rng.integers(0, 2, 50)
    weights = rng.integers(-3, 4, 50)
    cuts = [lambda X, cut=cut: (X[:, 0] > cut) * 1 for cut in range(-1, 4)]
    table = FiniteClass.from_table(np.arange(4), [[0, 1, 0, 1], [0, 1, 1, 1]])
    for family in (FiniteClass(cuts), table):
        tally = family.presort(X).tally(y, weights)
        for points in (X, X[:1], X[:3]):
            found = family.project(points)
            counted = found.mistakes(X, y, weights)
            assert found.mistakes(tally).tolist() == counted.tolist()
