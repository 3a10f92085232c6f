"""Conjunctions: listing labelings, and when not to."""

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.hypotheses import Conjunction, Conjunctions

ROOM = "reticent.hypotheses.conjunctions"


@pytest.mark.parametrize("negations", [True, False])
def test_integer_program_agrees_with_enumeration(negations, seed):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        X = rng.integers(0, 2, size=(40, 7))
        y, weights = rng.integers(0, 2, 40), rng.integers(-3, 4, 40)
        family = Conjunctions(7, negations=negations, method="enumerate")
        listed = family.minimise(X, y, weights)
        solved = Conjunctions(7, negations=negations, method="milp").minimise(
            X, y, weights
        )
        assert listed.value == solved.value
        assert listed.exact
        assert solved.exact


def test_auto_turns_to_the_integer_program_when_labelings_are_many(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 2, size=(30, 5)), rng.integers(0, 2, 30)
    expected = Conjunctions(method="milp").minimise(X, y)
    monkeypatch.setattr(f"{ROOM}._ENUMERATED", 3)
    assert Conjunctions().minimise(X, y) == expected


def test_lists_that_would_not_fit_are_refused(seed, monkeypatch):
    monkeypatch.setattr(f"{ROOM}.MAX_LABELINGS", 3)
    X = np.random.default_rng(seed).integers(0, 2, size=(30, 5))
    with pytest.raises(InvalidParameterError, match="labelings"):
        Conjunctions().project(X)
    with pytest.raises(InvalidParameterError, match="milp"):
        Conjunctions(method="enumerate").minimise(X, X[:, 0])


def test_representative_has_every_literal_that_is_true_on_its_ones():
    X = [[1, 0, 1], [1, 0, 0], [0, 1, 1]]
    found = Conjunctions().consistent(X, [1, 1, 0])
    assert found == Conjunction(positive=(0,), negated=(1,))


def test_empty_conjunction_is_true_and_a_contradiction_false():
    X = [[0, 0], [0, 1], [1, 0], [1, 1]]
    family = Conjunctions()
    assert family.predict(Conjunction(()), X).tolist() == [1, 1, 1, 1]
    assert family.predict(Conjunction((0,), (0,)), X).tolist() == [0, 0, 0, 0]
