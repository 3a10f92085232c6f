"""Tests of the toy rule, run only by the mutants' own test."""

import math

from tests.mutants.toy.formulas import pinned, unpinned


def test_pinned():
    assert pinned(1.0) == math.tanh(0.25) - 2


def test_unpinned():
    assert unpinned(1.0) > 0
