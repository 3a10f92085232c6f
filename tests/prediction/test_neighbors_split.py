"""Rows that are split over workers: the same sums, states and answers."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.ledger import SQLLedger
from reticent.prediction import (
    DaskWorkers,
    LastingInterface,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
    SnapshotFile,
    Spending,
    split_over,
)
from reticent.prediction.neighbors.workers import UnitsWorker
from reticent.schemas import Encoder, Numeric, Schema
from reticent.signing import HMACSigner
from reticent.storage.kinds import kind_of
from tests.prediction.same_transcript import recorded

RNG = np.random.default_rng(8)
ROWS = RNG.uniform(-1, 1, (90, 2))
UNITS = np.sort(RNG.integers(0, 40, 90))
UNITS[:40] = np.arange(40)
KINDS = {
    "two": (PrivateNeighborsClassifier, {"classes": [0, 1]}, ROWS[:, 0] > 0),
    "three": (PrivateNeighborsClassifier, {"classes": [0, 1, 2]}, np.arange(90) % 3),
    "numbers": (PrivateNeighborsRegressor, {"bounds": (-1, 1)}, ROWS[:, 0]),
}


def fitted(kind, **given):
    model, known, y = KINDS[kind]
    known = {"prior": False, "questions": 50, **known, **given}
    y = y if kind == "numbers" else y.astype(int)
    return model(2.0, **known).fit(ROWS, y, units=UNITS)


class Pickling:
    """Workers in this process; all that they are told or tell is pickled."""

    def __init__(self, count):
        self.count = count
        self.workers = []

    def start(self, parts):
        self.workers = [UnitsWorker(pickle.loads(pickle.dumps(each))) for each in parts]

    def call(self, method, given):
        return [
            pickle.loads(pickle.dumps(getattr(worker, method)(*own)))
            for worker, own in zip(self.workers, given, strict=True)
        ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3, 1000])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_split_rows_give_the_same_transcript_and_state(kind, count, share):
    model = fitted(kind, client_share=share)
    law, split = model.law_, split_over(model, Pickling(count)).law_
    assert sum(split.sizes) == 40
    assert len(split.sizes) == count or count > 40 > len(split.sizes) > 20
    assert not len(split.codes)
    codes = law.encode(np.vstack([ROWS[:12], ROWS[:12] + 0.001]))
    spending, parts = law.start(), split.start()
    one, before = recorded(lambda: law.ask(codes, spending, "somebody"))
    other, now = recorded(lambda: split.ask(codes, parts, "somebody"), before)
    for mine, theirs in zip(before.sums, now.sums, strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(one.trace, other.trace)
    assert parts.to_bytes() == spending.to_bytes()
    # Back and forth, as from a snapshot; a copy goes its own way.
    back = parts.from_bytes(spending.to_bytes())
    ahead = back.copy()
    split.replay(codes, other.trace, ahead, "another")
    assert back.to_bytes() == spending.to_bytes() != ahead.to_bytes()
    law.replay(codes, one.trace, spending, "another")
    assert ahead.to_bytes() == spending.to_bytes()


def test_a_state_that_nobody_uses_is_forgotten_by_the_workers():
    workers = Pickling(2)
    law = split_over(fitted("two"), workers).law_
    spending = law.start()
    for _ in range(5):
        spending = spending.copy()
    assert [len(worker._states) for worker in workers.workers] == [1, 1]


def test_split_and_whole_models_share_one_log(tmp_path):
    model = fitted("two")
    ledger = SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    place = SnapshotFile(tmp_path / "snapshot", HMACSigner(bytes(32)))
    whole = LastingInterface(model, ledger)
    split = LastingInterface(split_over(model, Pickling(3)), ledger, snapshots=place)
    told = split.ask(ROWS[:5]).answers.tolist()
    assert whole.ask(ROWS[:5]).answers.tolist() == told
    assert whole.ask(ROWS[:5]).n_new == 0
    whole.ask(ROWS[5:9])
    assert split.ask(ROWS[5:9]).n_new == 0
    split.close()
    again = LastingInterface(split_over(model, Pickling(2)), ledger, snapshots=place)
    states = [each._answers._state.spending.to_bytes() for each in (whole, again)]
    assert states[0] == states[1]
    assert Spending.from_bytes(states[0]).spent.any()


def test_workers_of_one_model_do_not_answer_for_another():
    """Its certificate says nothing about units that another model's answers spend."""
    workers = Pickling(2)
    one = split_over(fitted("two"), workers)
    interface = LastingInterface(one)
    interface.ask(ROWS[:2])
    other = split_over(fitted("two"), workers)
    with pytest.raises(NotDeployableError, match="units of another split"):
        LastingInterface(one).ask(ROWS[2:4])
    with pytest.raises(KeyError):  # its state went with its units
        interface.ask(ROWS[2:4])
    LastingInterface(other).ask(ROWS[:2])


def test_a_snapshot_is_read_into_no_other_split():
    workers = Pickling(2)
    spending = split_over(fitted("two"), workers).law_.start()
    content = spending.to_bytes()
    split_over(fitted("two"), workers)
    with pytest.raises(NotDeployableError, match="units of another split"):
        spending.from_bytes(content)


def test_workers_of_clusters_are_used_once():
    class Client:
        def submit(self, make, *given, **how):
            return SimpleNamespace(result=lambda: make(*given))

    workers = DaskWorkers(Client(), 2)
    split_over(fitted("two"), workers)
    with pytest.raises(InvalidParameterError, match="DaskWorkers of its own"):
        split_over(fitted("two"), workers)


def test_a_split_model_keeps_no_state_in_memory_and_is_not_stored():
    model = split_over(fitted("two"), Pickling(2))
    with pytest.raises(NotDeployableError, match="LastingInterface"):
        model.predict(ROWS[:1])
    LastingInterface(model).ask(ROWS[:1])  # nothing was answered in memory
    with pytest.raises(InvalidParameterError, match="no rows to split"):
        split_over(model, Pickling(2))
    schema = Schema({"a": Numeric(-1, 1), "b": Numeric(-1, 1)})
    with pytest.raises(InvalidParameterError, match="with workers"):
        kind_of(model).pack(model, Encoder(schema))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_workers_of_clusters_answer_as_one(backend):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.prediction.split_clusters", backend],
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"same": True, "asked": 24}
