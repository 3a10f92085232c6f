"""Fits on a cluster whose worker is killed on the way; prints what came out as JSON.

Run as ``python -m tests.ensembles.lost_workers dask``, in a process of its own, so that
clusters, their threads and their signal handlers end with it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path

import joblib
import numpy as np
from sklearn.tree import DecisionTreeClassifier

from reticent.ensembles.fitting import fit_shards
from reticent.estimators import partition_rows
from reticent.mechanisms import noise_source

N, SHARDS, LAST = 1_200, 12, 7
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 5))
Y = (X[:, 0] + RANDOM.normal(size=N) > 0).astype(int)


class KillsItsWorker(DecisionTreeClassifier):
    """A tree whose fit ends the worker's process, while notes of deaths are few."""

    def __init__(self, notes=None, deaths=0, max_features=2, random_state=None):
        super().__init__(max_features=max_features, random_state=random_state)
        self.notes = notes
        self.deaths = deaths

    def fit(self, X, y):
        owner, *died = sorted(path.name for path in Path(self.notes).iterdir())
        # The eighth shard, so that some models are finished and some are not.
        mine = float(X[0, 0]) == float(Path(self.notes, owner).read_text())
        if mine and len(died) < self.deaths:
            Path(self.notes, f"died-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


def fit(notes, deaths, n_jobs):
    source = noise_source(3)
    partition = partition_rows(N, SHARDS, source)
    first = partition.rows_by_shard()[LAST][0]
    Path(notes, "a-shard").write_text(repr(float(X[first, 0])))
    model = KillsItsWorker(str(notes), deaths)
    return fit_shards(model, X, Y, partition, source, n_jobs=n_jobs)


@contextlib.contextmanager
def dask_cluster():
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    options |= {"silence_logs": logging.CRITICAL}
    with LocalCluster(**options) as cluster, Client(cluster):
        yield


@contextlib.contextmanager
def ray_cluster():
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    import ray
    from ray.util.joblib import register_ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
        object_store_memory=100 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
    )
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


CLUSTERS = {"dask": dask_cluster, "ray": ray_cluster, "loky": contextlib.nullcontext}


def same(one, other):
    return all(
        np.array_equal(a.tree_.threshold, b.tree_.threshold)
        and np.array_equal(a.tree_.value, b.tree_.value)
        and a.get_params()["random_state"] == b.get_params()["random_state"]
        for a, b in zip(one.models, other.models, strict=True)
    )


def main(backend: str, deaths: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as notes:
        expected = fit(notes, deaths=0, n_jobs=1)
        with CLUSTERS[backend](), joblib.parallel_config(backend=backend, n_jobs=2):
            try:
                found = fit(notes, deaths, n_jobs=2)
            except Exception as error:  # noqa: BLE001 (reported)
                return {"error": type(error).__name__}
        died = len(list(Path(notes).glob("died-*")))
    return {
        "died": died,
        "failures": len(found.failures),
        "same": same(expected, found),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
