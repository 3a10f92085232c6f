"""What private answers cost, against the plain arithmetic that they rest on.

Every result is a ratio within one run, each time the smallest of interleaved repeats,
in processor time (training on two cores: in time by the clock).

- `walk fit`: the projected walk on 10^7 points, over one `numpy.sort`; at most 3.
  `memory` is its peak over the size of the points; below 4.
- `walk answers`: 10^6 answers, over one `numpy.searchsorted`; at most 5.
- `stable selection`: one fresh answer over stumps, 100,000 rows of 50 features, over
  one `numpy.cumsum` of that matrix; at most 5.
- `one answer`: one row through 250 logistic models, sampling included, over one call of
  `LogisticRegression.predict`; at most 3.
- `batch`: 100,000 rows through them, sampling included, over the bare matrix product;
  at most 3.
- `training`: scikit-learn fitting the 250 shards through joblib on two cores, over
  `PrivateVotingClassifier.fit`; at least 3.
- `stable linear`: fitting one on 100,000 rows of 50 features, and one answer of it,
  over scikit-learn's `LogisticRegression`; no goal.

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
from sklearn.linear_model import LogisticRegression

from reticent.estimators import partition_rows
from reticent.hypotheses import Stumps
from reticent.mechanisms import noise_source
from reticent.prediction import (
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    StableLinearClassifier,
    StableSelectionClassifier,
)

SIZES = {
    "quick": {
        "points": 10**5,
        "queries": 10**4,
        "rows": 5_000,
        "shards": 50,
        "batch": 5_000,
        "repeats": 2,
    },
    "full": {
        "points": 10**7,
        "queries": 10**6,
        "rows": 100_000,
        "shards": 250,
        "batch": 100_000,
        "repeats": 5,
    },
}
FEATURES = 50
# The largest allowed ratio of each; of the last, the smallest.
AT_MOST = {
    "walk fit": 3.0,
    "walk answers": 5.0,
    "stable selection": 5.0,
    "one answer": 3.0,
    "batch": 3.0,
}
MEMORY_AT_MOST, TRAINING_AT_LEAST = 4.0, 3.0

Clock = Callable[[], float]


def least_seconds(
    functions: list[Callable[[], Any]],
    repeats: int,
    *,
    calls: int = 1,
    clock: Clock = time.process_time,
) -> list[float]:
    """Return the shortest time of each function; rounds alternate between them."""
    least = [float("inf")] * len(functions)
    for _ in range(repeats):
        for place, function in enumerate(functions):
            start = clock()
            for _ in range(calls):
                function()
            least[place] = min(least[place], (clock() - start) / calls)
    return least


def compared(ours: float, plain: float) -> dict[str, float]:
    return {"seconds": ours, "plain_seconds": plain, "ratio": ours / plain}


def peak_bytes(function: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bench_walk(size: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((size["points"], 1))
    y = (X[:, 0] > 0.3).astype(np.int64) ^ (rng.random(len(X)) < 0.1)
    queries = rng.random((size["queries"], 1))
    model = ProjectedWalkClassifier(1.0, classes=[0, 1])
    fit, plain = least_seconds(
        [lambda: model.fit(X, y), lambda: np.sort(X[:, 0])], size["repeats"]
    )
    memory = peak_bytes(lambda: model.fit(X, y)) / X.nbytes
    ordered = np.sort(X[:, 0])
    answers, search = least_seconds(
        [
            lambda: model.predict(queries),
            lambda: np.searchsorted(ordered, queries[:, 0]),
        ],
        size["repeats"],
    )
    return {
        "walk fit": {**compared(fit, plain), "memory": memory},
        "walk answers": compared(answers, search),
    }


def bench_selection(size: dict[str, int]) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.random((size["rows"], FEATURES))
    y = (X[:, 3] > 0.4).astype(int) ^ (rng.random(len(X)) < 0.1)
    model = StableSelectionClassifier(Stumps(), epsilon=1.0, classes=[0, 1]).fit(X, y)
    row = X[:1].copy()
    answer, plain = least_seconds(
        [lambda: model.predict(row), lambda: np.cumsum(X)], size["repeats"]
    )
    return compared(answer, plain)


def bench_voting(size: dict[str, int]) -> dict[str, Any]:
    shards = size["shards"]
    X, y = make_classification(100 * shards, FEATURES, random_state=0)
    model = PrivateVotingClassifier(LogisticRegression(), 0.1, [0, 1], shards, n_jobs=2)
    deal = partition_rows(len(X), shards, noise_source(0)).rows_by_shard()
    jobs = joblib.Parallel(n_jobs=2)

    def one_by_one() -> Any:
        fit = joblib.delayed(LogisticRegression.fit)
        return jobs(fit(clone(model.estimator), X[rows], y[rows]) for rows in deal)

    theirs, ours = least_seconds(
        [one_by_one, lambda: model.fit(X, y)], size["repeats"], clock=time.perf_counter
    )
    single = LogisticRegression().fit(X, y)
    row = X[:1].copy()
    answer, plain = least_seconds(
        [lambda: model.predict(row), lambda: single.predict(row)],
        size["repeats"],
        calls=200,
    )
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(size["batch"], FEATURES))
    weights = rng.normal(size=(FEATURES, shards))
    many, product = least_seconds(
        [lambda: model.predict(batch), lambda: batch @ weights], size["repeats"]
    )
    return {
        "one answer": compared(answer, plain),
        "batch": compared(many, product),
        "training": {
            "seconds": ours,
            "joblib_seconds": theirs,
            "times_faster": theirs / ours,
        },
    }


def bench_stable_linear(size: dict[str, int]) -> dict[str, Any]:
    X, y = make_classification(size["rows"], FEATURES, random_state=0)
    model = StableLinearClassifier(1.0, norm_bound=10.0, classes=[0, 1])
    plain = LogisticRegression()
    fits = least_seconds([lambda: model.fit(X, y), lambda: plain.fit(X, y)], 2)
    row = X[:1].copy()
    answers = least_seconds(
        [lambda: model.predict(row), lambda: plain.predict(row)],
        size["repeats"],
        calls=200,
    )
    return {"fit": compared(*fits), "one answer": compared(*answers)}


def verdict(results: dict[str, Any]) -> list[str]:
    """Name every goal that was missed."""
    missed = [name for name, most in AT_MOST.items() if results[name]["ratio"] > most]
    if results["walk fit"]["memory"] >= MEMORY_AT_MOST:
        missed.append("walk memory")
    if results["training"]["times_faster"] < TRAINING_AT_LEAST:
        missed.append("training")
    return missed


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    size = SIZES["quick" if quick else "full"]
    results: dict[str, Any] = {
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "size": size,
        **bench_walk(size),
        "stable selection": bench_selection(size),
        **bench_voting(size),
        "stable linear": bench_stable_linear(size),
    }
    results["missed"] = [] if quick else verdict(results)
    print(json.dumps(results, indent=2))
    return 1 if results["missed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
