"""What happens to the state of a lasting model if an error comes halfway through it.

A worker's state is a function of the log. If one record were applied in part, or twice,
workers would disagree about who can still pay, and units could exceed their budgets.
"""

from __future__ import annotations

import numpy as np
import pytest

from reticent.ledger import MemoryLedger, SQLLedger
from reticent.prediction import (
    LastingInterface,
    PrivateNeighborsClassifier,
    SnapshotFile,
    split_over,
)
from reticent.prediction.lasting import histories
from reticent.prediction.lasting.evidence import EvidenceHistory
from reticent.prediction.neighbors.law import LocalLaw
from reticent.signing import HMACSigner
from tests.prediction.test_lasting import replayed
from tests.prediction.test_neighbors_split import Pickling

RNG = np.random.default_rng(4)
ROWS = RNG.uniform(-1, 1, (60, 2))
ERRORS = (KeyboardInterrupt, MemoryError, ConnectionResetError)


def fitted(**given):
    known = {"classes": [0, 1], "questions": 5, "prior": False, "local": "always"}
    model = PrivateNeighborsClassifier(1.0, **known, **given)
    return model.fit(ROWS, (ROWS[:, 0] > 0).astype(int))


def state_of(interface):
    return interface._answers._state


def failing_at(monkeypatch, owner, name, call, error):
    """Let one call of a method fail after it has done its work."""
    usual, calls = getattr(owner, name), []

    def fail_once(self, *given, **known):
        found = usual(self, *given, **known)
        calls.append(name)
        if len(calls) == call:
            raise error("halfway")
        return found

    monkeypatch.setattr(owner, name, fail_once)


def same_as_the_log(interface, law, ledger):
    return np.array_equal(state_of(interface).spending.spent, replayed(law, ledger))


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", [1, 7, 12])
@pytest.mark.parametrize("name", ["speak", "_learn"])
def test_a_record_that_was_read_in_part_is_not_applied_twice(
    monkeypatch, name, call, error
):
    model, ledger = fitted(), MemoryLedger()
    one, other = (LastingInterface(model, ledger) for _ in range(2))
    other.ask(ROWS[:12] * 0.01)
    with monkeypatch.context() as patch:
        failing_at(patch, LocalLaw, name, call, error)
        with pytest.raises(error):
            one.ask([[0.5, 0.5]])
        assert state_of(one).version == 1
    one.ask([[0.5, 0.5]])
    other.ask([[-0.5, 0.5]])
    one.ask([[0.5, -0.5]])
    assert same_as_the_log(one, model.law_, ledger)
    # Whoever knows what others asked before finds it, once.
    assert one.ask(ROWS[:12] * 0.01).n_new == 0
    assert one._answers.evidence() == other._answers.evidence()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("owner", [EvidenceHistory, "state"])
def test_an_own_record_is_whole_or_read_again(monkeypatch, owner, error):
    """The error comes after the record is durable, before the state has followed."""
    model, ledger = fitted(), MemoryLedger()
    one, other = (LastingInterface(model, ledger) for _ in range(2))
    owner = type(state_of(one)) if owner == "state" else owner
    name = "add" if owner is EvidenceHistory else "_hold"
    with monkeypatch.context() as patch:
        failing_at(patch, owner, name, 1, error)
        with pytest.raises(error):
            one.ask(ROWS[:6] * 0.01)
    assert one.ask(ROWS[:6] * 0.01).n_new == 0  # it is in the log
    one.ask([[0.5, 0.5]])
    other.ask([[0.5, -0.5]])
    for each in (one, other):
        each._answers.spending()
        assert same_as_the_log(each, model.law_, ledger)


def test_nothing_half_applied_goes_into_a_snapshot(monkeypatch, tmp_path):
    model = fitted()
    ledger = SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    place = SnapshotFile(tmp_path / "state", HMACSigner(bytes(32)))
    one = LastingInterface(model, ledger, snapshots=place)
    other = LastingInterface(model, ledger)
    one.ask([[0.5, 0.5]])
    one.close()
    kept = place.path.read_bytes()
    other.ask(ROWS[:12] * 0.01)
    with monkeypatch.context() as patch:
        failing_at(patch, LocalLaw, "speak", 8, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            one.ask([[-0.5, 0.5]])
        one.close()
    assert place.path.read_bytes() == kept
    # From the snapshot on, as after a restart.
    one.ask([[-0.5, 0.5]])
    assert same_as_the_log(one, model.law_, ledger)
    one.close()
    monkeypatch.setattr(histories, "_histories", {})
    again = LastingInterface(model, ledger, snapshots=place)
    assert same_as_the_log(again, model.law_, ledger)


class Losing(Pickling):
    """Workers of which the second loses a call, after the first has answered."""

    fails = 0

    def call(self, method, given):
        self.fails -= method == "speak"
        if method == "speak" and self.fails == 0:
            self.workers[0].speak(*given[0])
            raise ConnectionResetError("a worker was not reached")
        return super().call(method, given)


def test_a_worker_that_was_not_reached_once_does_not_let_states_differ():
    model, ledger, workers = fitted(), MemoryLedger(), Losing(2)
    split = LastingInterface(split_over(model, workers), ledger)
    whole = LastingInterface(model, ledger)
    whole.ask(ROWS[:12] * 0.01)
    workers.fails = 9
    with pytest.raises(ConnectionResetError):
        split.ask([[0.5, 0.5]])
    split.ask([[0.5, 0.5]])
    whole._answers.spending()
    assert state_of(split).spending.to_bytes() == state_of(whole).spending.to_bytes()
    # While answers are drawn, from a copy that nobody keeps.
    workers.fails = 2
    with pytest.raises(ConnectionResetError):
        split.ask(ROWS[:3])
    split.ask(ROWS[:3])
    whole._answers.spending()
    assert state_of(split).spending.to_bytes() == state_of(whole).spending.to_bytes()
