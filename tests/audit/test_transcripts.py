"""The check of whole fits of released tables finds fits that cost too much."""

from __future__ import annotations

import numpy as np

from reticent.estimators.partitions import descent
from reticent.learners import PrivateTabularClassifier
from reticent.learners.tabular import base
from reticent.mechanisms import UnitFilter
from tests.audit.registered_neighbors import moves, releasing

UNITS = [(0.05, 0), (0.05, 1)]
RELEASE = releasing(PrivateTabularClassifier, classes=[0, 1])


def forgetful(self, units, squares, price, reserve=0.0):
    """Let everybody speak, and write down nothing."""
    return np.ones(len(squares), dtype=bool)


def test_only_the_account_of_each_unit_keeps_little_noise_within_the_promise(
    monkeypatch,
):
    monkeypatch.setattr(descent, "_STEPS", 24)
    # Noise for sixteen times the budget: units run out of theirs before the end.
    monkeypatch.setattr(base, "REST_SHARE", 16.0)
    check = moves(RELEASE, UNITS)
    honest = check()
    assert honest.holds
    assert honest.worst > 0.5 * honest.allowed
    monkeypatch.setattr(UnitFilter, "admit", forgetful)
    broken = check()
    assert not broken.holds
    assert broken.worst > 1.2 * broken.allowed
