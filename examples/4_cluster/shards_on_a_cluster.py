"""Train the shards of a private predictor on Dask or on Ray.

Shards are independent joblib tasks, so only `joblib.parallel_config` changes. The task
of a shard contains its rows and its seed. If a worker dies, another one fits the shard
again with the same result.

    python examples/4_cluster/shards_on_a_cluster.py            # dask
    python examples/4_cluster/shards_on_a_cluster.py --on ray

Both commands start a cluster on this machine. To use an existing cluster, pass its
address to `distributed.Client(...)` or `ray.init(address=...)`.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
from collections.abc import Iterator

import joblib
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from reticent.datasets import load_adult_sample
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Encoder


@contextlib.contextmanager
def dask_cluster() -> Iterator[None]:
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    options |= {"silence_logs": logging.ERROR}
    with LocalCluster(**options) as cluster, Client(cluster):
        yield


@contextlib.contextmanager
def ray_cluster() -> Iterator[None]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.util.joblib import register_ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train shards on a cluster.")
    parser.add_argument("--on", choices=["dask", "ray"], default="dask")
    asked = parser.parse_args()

    frame, schema = load_adult_sample()
    rows = schema.table(frame, labelled=True)
    X = Encoder(schema, style="ordinal").transform(rows)
    y = rows.label
    # The seed is only for the comparison below; leave it out for real records.
    model = PrivateVotingClassifier(
        RandomForestClassifier(10, max_depth=6),
        epsilon=1.0,
        classes=[0, 1],
        n_shards=12,
        random_state=0,
    )
    here = model.fit(X, y).response(X[:200]).probabilities

    cluster = {"dask": dask_cluster, "ray": ray_cluster}[asked.on]
    with cluster(), joblib.parallel_config(backend=asked.on, n_jobs=2):
        there = model.fit(X, y).response(X[:200]).probabilities
    print(model.certificate_.headline())
    print(f"{asked.on} and one machine give the same models:", end=" ")
    print("yes" if np.array_equal(here, there) else "no")
    assert np.array_equal(here, there)


if __name__ == "__main__":
    main()
