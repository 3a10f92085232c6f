"""What exact oracles cost, against the NumPy call that nobody can do without.

Results are ratios within one run. One fresh answer of stable selection over stumps
(draw a subset, list its labelings, count mistakes on all the data, choose, predict)
over one cumulative sum of the data matrix: at most 5. Minimising signed weights over
stumps, private and public points together, over one argsort of every feature: at most
3. Prints one JSON object; `--quick` takes smaller sizes and judges nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.hypotheses import Halfspaces, Intervals, Rectangles, Stumps, Thresholds

SIZES = {
    "quick": {"rows": 10_000, "line": 100_000, "plane": 300, "anchors": 60},
    "full": {"rows": 100_000, "line": 1_000_000, "plane": 2_000, "anchors": 200},
}
FEATURES, PUBLIC, REPEATS = 50, 500, 5
ANSWER_GOAL, MINIMISE_GOAL = 5.0, 3.0


def median_seconds(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times)


def peak_bytes(function: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def compared(ours: Callable[[], Any], plain: Callable[[], Any]) -> dict[str, float]:
    mine, theirs = median_seconds(ours), median_seconds(plain)
    return {"seconds": mine, "numpy_seconds": theirs, "ratio": mine / theirs}


def bench_fresh_answer(n_rows: int, subset: int) -> dict[str, float]:
    """One answer of P5 over stumps; the data were sorted once, before."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, FEATURES)), rng.integers(0, 2, n_rows)
    stumps, query = Stumps(FEATURES), rng.normal(size=(1, FEATURES))
    tally = stumps.presort(X).tally(y)

    def answer() -> Any:
        rows = rng.choice(n_rows, subset, replace=False)
        projection = stumps.project(X[rows])
        wrong = projection.mistakes(tally)
        weight = np.cumsum(np.exp(-0.01 * (wrong - wrong.min())))
        chosen = int(np.searchsorted(weight, rng.random() * weight[-1]))
        return stumps.predict(projection[chosen], query)

    result = compared(answer, lambda: np.cumsum(X, axis=0))
    start = time.perf_counter()
    stumps.presort(X).tally(y)
    return result | {
        "presort_seconds": time.perf_counter() - start,
        "representatives": len(stumps.project(X[:subset])),
        "peak_bytes": peak_bytes(answer),
    }


def bench_signed_minimum(n_rows: int) -> dict[str, float]:
    """The oracle of M4 over stumps: private rows, and noise on public ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + PUBLIC, FEATURES))
    y = rng.integers(0, 2, len(X))
    noise = np.rint(rng.laplace(scale=2.0 * PUBLIC, size=PUBLIC)).astype(np.int64)
    weights = np.concatenate([np.ones(n_rows, dtype=np.int64), noise])
    stumps = Stumps(FEATURES)

    def fit() -> Any:
        found = stumps.minimise(X, y, weights).hypothesis
        public = X[n_rows:]
        return stumps.consistent(public, stumps.predict(found, public))

    def argsort() -> Any:
        for feature in range(FEATURES):
            np.argsort(X[:, feature])

    result = compared(fit, argsort)
    presorted = stumps.presort(X)
    again = median_seconds(lambda: stumps.minimise(presorted, y, weights))
    return result | {
        "presorted_seconds": again,
        "presorted_ratio": again / result["numpy_seconds"],
        "peak_bytes": peak_bytes(fit),
        "data_bytes": X.nbytes,
    }


def bench_line(n_rows: int) -> dict[str, dict[str, float]]:
    """Thresholds and unions of intervals, over one argsort of the line."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=n_rows), rng.integers(0, 2, n_rows)
    weights = rng.integers(-5, 6, n_rows)
    return {
        repr(family): compared(
            lambda family=family: family.minimise(x, y, weights),  # type: ignore[misc]
            lambda: np.argsort(x),
        )
        for family in (Thresholds("either"), Intervals(2), Intervals(8))
    }


def bench_many_representatives(n_points: int) -> dict[str, float]:
    """Mistakes of all intervals on so many points; seconds, no ratio is claimed."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=100_000), rng.integers(0, 2, 100_000)
    projection = Intervals(2, "0").project(rng.normal(size=n_points))
    tally = Intervals(2, "0").presort(x).tally(y)
    seconds = median_seconds(lambda: projection.mistakes(tally))
    return {"seconds": seconds, "representatives": len(projection)}


def bench_plane(n_points: int, n_anchors: int) -> dict[str, float]:
    """Seconds for classes whose cost is not that of a sort; no ratio is claimed."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_points, 2)), rng.integers(0, 2, n_points)
    few, labels = X[:n_anchors], y[:n_anchors]
    half = Halfspaces(2, method="enumerate")
    return {
        "rectangles": n_points,
        "rectangles_seconds": median_seconds(lambda: Rectangles().minimise(X, y), 1),
        "halfspaces": n_anchors,
        "halfspaces_seconds": median_seconds(lambda: half.minimise(few, labels), 1),
        "halfspaces_project_seconds": median_seconds(lambda: half.project(few), 1),
        "halfspaces_labelings": half.growth(points=few),
    }


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    size = SIZES["quick" if quick else "full"]
    subsets = (100, 1_000) if quick else (300, 1_000, 3_000)
    answers = {m: bench_fresh_answer(size["rows"], m) for m in subsets}
    minimum = bench_signed_minimum(2 * size["rows"])
    report = {
        "numpy": np.__version__,
        "features": FEATURES,
        "rows": size["rows"],
        "answer_goal": ANSWER_GOAL,
        "fresh answer by subset size": answers,
        "minimise_goal": MINIMISE_GOAL,
        "signed minimum over stumps, twice the rows": minimum,
        "line": bench_line(size["line"]),
        "all intervals on 1,500 points": bench_many_representatives(1_500),
        "plane": bench_plane(size["plane"], size["anchors"]),
    }
    print(json.dumps(report, indent=2))
    if quick:
        return 0
    slow = max(result["ratio"] for result in answers.values()) > ANSWER_GOAL
    return int(slow or minimum["ratio"] > MINIMISE_GOAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
