"""What many models cost, against what one model or one matrix product costs.

Results are ratios within one run, each the smallest of interleaved repeats.

- `one_answer`: the votes of 250 logistic models on one row, over one call of
  scikit-learn's `LogisticRegression.predict` on it; at most 3.
- `batch`: the votes of 250 logistic models on 100,000 rows, over the bare product of
  the rows with the 250 weight vectors; at most 2. `batch_reused` writes the product
  into memory that is already there.
- `training`: scikit-learn fitting 250 shards through joblib on two cores, over fused
  training on two threads; at least 3. `difference` is the largest distance of a
  coefficient from scikit-learn's, run to convergence.
- `trees`: asking the models one by one, over walking flat arrays, for batches of 1,
  16 and 128 rows; more is better.

Prints one JSON object; `--quick` takes smaller sizes and judges nothing.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from reticent.ensembles import ClassifierEnsemble
from reticent.ensembles.fitting import fit_shards
from reticent.ensembles.linear_recipe import linear_recipe
from reticent.ensembles.linear_training import train_linear
from reticent.estimators import Partition, partition_rows
from reticent.mechanisms import noise_source

SIZES = {
    "quick": {"shards": 50, "rows": 5_000, "batch": 10_000, "repeats": 2},
    "full": {"shards": 250, "rows": 25_000, "batch": 100_000, "repeats": 7},
}
FEATURES = 50
ANSWER_GOAL, BATCH_GOAL, TRAINING_GOAL = 3.0, 2.0, 3.0

Case = tuple[np.ndarray, np.ndarray, Partition]


def least_seconds(
    functions: list[Callable[[], Any]],
    repeats: int,
    calls: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Return the shortest time of each function; rounds alternate between them.

    Processor time, unless several threads are compared: other work on the machine
    must not count.
    """
    least = [float("inf")] * len(functions)
    for _ in range(repeats + 1):
        for place, function in enumerate(functions):
            start = clock()
            for _ in range(calls):
                function()
            least[place] = min(least[place], (clock() - start) / calls)
    return least


def peak_bytes(function: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def case(size: dict[str, int], features: int = FEATURES, shards: int = 0) -> Case:
    X, y = make_classification(
        size["rows"], features, n_informative=min(10, features), random_state=0
    )
    return X, y, partition_rows(len(y), shards or size["shards"], noise_source(0))


def ensemble(estimator: Any, data: Case) -> ClassifierEnsemble:
    X, y, partition = data
    fitted = fit_shards(estimator, X, y, partition, noise_source(1))
    return ClassifierEnsemble(fitted.models, fitted.columns, [0, 1])


def bench_one_answer(size: dict[str, int]) -> dict[str, float]:
    data = case(size)
    row, single = data[0][:1], LogisticRegression().fit(*data[:2])
    results = {}
    for name, estimator in (
        ("plain", LogisticRegression()),
        ("scaled", make_pipeline(StandardScaler(), LogisticRegression())),
    ):
        voters = ensemble(estimator, data)
        ours, theirs = least_seconds(
            [lambda v=voters: v.votes(row), lambda: single.predict(row)],
            size["repeats"],
            calls=200,
        )
        results |= {
            f"{name}_seconds": ours,
            f"{name}_predict_seconds": theirs,
            f"{name}_ratio": ours / theirs,
        }
    return results


def bench_batch(size: dict[str, int]) -> dict[str, float]:
    data = case(size)
    voters = ensemble(LogisticRegression(), data)
    rows = np.resize(data[0], (size["batch"], FEATURES))
    weights = np.ascontiguousarray(voters.fusion.models.weights[:, 0].T)
    memory = np.empty((len(rows), weights.shape[1]))
    ours, bare, reused = least_seconds(
        [
            lambda: voters.votes(rows),
            lambda: rows @ weights,
            lambda: np.dot(rows, weights, out=memory),
        ],
        size["repeats"],
    )
    return {
        "seconds": ours,
        "product_seconds": bare,
        "ratio": ours / bare,
        "ratio_reused": ours / reused,
        "peak_bytes": peak_bytes(lambda: voters.votes(rows)),
    }


def bench_training(size: dict[str, int], features: int) -> dict[str, float]:
    X, y, partition = case(size, features)
    shards = partition.rows_by_shard()
    estimator = LogisticRegression()
    recipe = linear_recipe(estimator)

    def fused() -> Any:
        return train_linear(recipe, X, y, partition, n_classes=2, n_jobs=2)

    def one_by_one() -> Any:
        return joblib.Parallel(n_jobs=2)(
            joblib.delayed(clone(estimator).fit)(X[rows], y[rows]) for rows in shards
        )

    ours, theirs = least_seconds(
        [fused, one_by_one], max(2, size["repeats"] // 2), clock=time.perf_counter
    )
    exact = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000)
    weights = fused().weights[:, 0]
    difference = max(
        np.abs(clone(exact).fit(X[rows], y[rows]).coef_[0] - weights[shard]).max()
        for shard, rows in enumerate(shards[:20])
    )
    return {
        "seconds": ours,
        "joblib_seconds": theirs,
        "ratio": theirs / ours,
        "difference": float(difference),
        "peak_bytes": peak_bytes(fused),
    }


def bench_trees(size: dict[str, int]) -> dict[str, dict[str, float]]:
    results = {}
    for name, shards, estimator in (
        ("tree", 100, DecisionTreeClassifier()),
        ("forest", 25, RandomForestClassifier(50)),
        ("boosted", 25, HistGradientBoostingClassifier(max_iter=100)),
    ):
        data = case(size, 20, shards)
        voters = ensemble(estimator, data)
        results[name] = {"shards": float(shards)}
        for n_rows in (1, 16, 128):
            rows = data[0][:n_rows]
            ours, looped = least_seconds(
                [
                    lambda v=voters, r=rows: v.votes(r),
                    lambda v=voters, r=rows: v.votes(r, fused=False),
                ],
                size["repeats"],
            )
            results[name][f"rows_{n_rows}_seconds"] = ours
            results[name][f"rows_{n_rows}_ratio"] = looped / ours
    return results


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    size = SIZES["quick" if quick else "full"]
    results: dict[str, Any] = {
        "size": size,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "one_answer": bench_one_answer(size),
        "batch": bench_batch(size),
        "training_20_features": bench_training(size, 20),
        "training_100_features": bench_training(size, 100),
        "trees": bench_trees(size),
    }
    reached = {
        "one_answer": results["one_answer"]["scaled_ratio"] <= ANSWER_GOAL,
        "batch": results["batch"]["ratio_reused"] <= BATCH_GOAL,
        "training": results["training_20_features"]["ratio"] >= TRAINING_GOAL,
    }
    results["reached"] = reached
    print(json.dumps(results, indent=2))
    return 0 if quick or all(reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
