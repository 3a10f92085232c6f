"""Time and memory against rows, shards, features and queries, on log-log axes.

    python -m benchmarks.growth [--quick] [--only WORD] [--again]

Time is processor time of one thread, the smallest of some repeats; memory is the peak
of what NumPy and Python allocate while fitting. The exponent is the slope of a line
through the logarithms, over two decades. The goal is an exponent of time of at most
1.1 in rows for every fit and in queries for every predict; for shards and features it
is for the record. Writes benchmarks/results/growth.json and docs/figures/growth.png;
with `--only`, the cases whose name holds the word are measured and replaced there.

Other work on the machine only ever adds to a time, most where much memory is moved. So
a case above the goal is measured up to twice more (`--again` starts from the results),
and at each size the smallest time of all sweeps counts; "sweeps" keeps the exponent of
each. Cases below the goal are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.growth.cases import CASES, LABELS, NOT_MEASURED, Case, ball
from reticent.prediction import PrivateVotingClassifier

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "growth.json"
FIGURE = ROOT / "docs" / "figures" / "growth.png"
GOAL, SWEEPS = 1.1, 2
ENOUGH, TOO_LONG = 0.3, 10.0


def seconds(work: Callable[[], Any], *, quick: bool, once: bool = False) -> float:
    """Return the processor time of the fastest of some runs, or of one."""
    taken: list[float] = []
    # Twice at least, unless it takes seconds: first calls get memory from the system.
    fewest, most = (1, 1) if once else (2, 2) if quick else (2, 5)
    long = TOO_LONG / 5 if quick else TOO_LONG
    while len(taken) < most and (
        sum(taken) < ENOUGH or (len(taken) < fewest and sum(taken) < long)
    ):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def peak_bytes(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(sizes: list[int], values: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def decades(most: int, *, quick: bool, least: int = 1) -> list[int]:
    """Return sizes over two decades up to `most`; quick runs end far below."""
    top = most // (30 if most >= 10**5 else 10) if quick else most
    top = max(top, 10 * least)
    sizes = np.geomspace(max(least, top / 100), top, 3 if quick else 5)
    return [round(size) for size in sizes]


def curve(sizes: list[int], times: list[float]) -> dict[str, Any]:
    return {"sizes": sizes, "seconds": times, "exponent": exponent(sizes, times)}


def fit_growth(case: Case, *, quick: bool) -> dict[str, Any]:
    sizes = decades(case.most_rows, quick=quick, least=case.least_rows)
    times, peaks = [], []
    for n in sizes:
        X, y = case.rows(n)
        if n == sizes[0]:
            case.fitted(X, y)  # imports and first calls belong to no size
        times.append(seconds(lambda: case.fitted(X, y), quick=quick))  # noqa: B023 (run at once)
        if not quick:
            peaks.append(peak_bytes(lambda: case.fitted(X, y)))  # noqa: B023 (run at once)
    if quick:
        return curve(sizes, times)
    return {
        **curve(sizes, times),
        "peak bytes": peaks,
        "exponent of memory": exponent(sizes, peaks),
    }


def predict_growth(case: Case, *, quick: bool) -> dict[str, Any]:
    rows = case.rows(min(case.most_rows, 20_000) // 4)
    sizes = decades(case.most_queries, quick=quick)
    queries = [case.rows(max(m, 1))[0] for m in sizes]

    def fresh() -> Callable[..., Any]:
        answer = getattr(case.fitted(*rows), case.ask)
        answer(case.rows(7)[0])
        return answer

    if case.remembers:
        times = [
            min(seconds(partial(fresh(), X), quick=quick, once=True) for _ in range(3))
            for X in queries
        ]
    else:
        answer = fresh()
        times = [seconds(partial(answer, X), quick=quick) for X in queries]
    return curve(sizes, times)


def voters(shards: int) -> PrivateVotingClassifier:
    return PrivateVotingClassifier(
        LogisticRegression(), 1.0, LABELS, n_shards=shards, random_state=0
    )


def shard_growth(*, quick: bool) -> dict[str, Any]:
    X, y = ball(20_000 if quick else 200_000)
    sizes = [10, 100, 1000]
    voters(10).fit(X, y)
    times = [seconds(lambda: voters(r).fit(X, y), quick=quick) for r in sizes]  # noqa: B023 (run at once)
    asked = []
    for r in sizes:
        model = voters(r).fit(X, y)
        asked.append(seconds(lambda: model.predict(X[:10_000]), quick=quick))  # noqa: B023 (run at once)
    return {"fit": curve(sizes, times), "predict": curve(sizes, asked)}


def feature_growth(*, quick: bool) -> dict[str, Any]:
    sizes = [2, 6, 20, 60, 200]
    times, asked = [], []
    for d in sizes:
        X, y = ball(4_000 if quick else 40_000, d)
        times.append(seconds(lambda: voters(50).fit(X, y), quick=quick))  # noqa: B023 (run at once)
        model = voters(50).fit(X, y)
        asked.append(seconds(lambda: model.predict(X), quick=quick))  # noqa: B023 (run at once)
    return {"fit": curve(sizes, times), "predict": curve(sizes, asked)}


def measure(names: list[str], *, quick: bool) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # short chains that have not mixed
    fits, predicts = {}, {}
    for name in names:
        fits[name] = fit_growth(CASES[name], quick=quick)
        predicts[name] = predict_growth(CASES[name], quick=quick)
        slopes = fits[name]["exponent"], predicts[name]["exponent"]
        print(
            f"{name:28s} rows {slopes[0]:5.2f}   queries {slopes[1]:5.2f}",
            file=sys.stderr,
            flush=True,
        )
    return {
        "quick": quick,
        "goal": GOAL,
        "rows": fits,
        "queries": predicts,
        "not measured": NOT_MEASURED,
    }


def with_largest(result: dict[str, Any]) -> dict[str, Any]:
    """Add the numbers that a later run is compared with."""
    largest = {
        f"largest exponent of {work}": max(
            case["exponent"] for case in result[axis].values()
        )
        for work, axis in (("fit in rows", "rows"), ("predict in queries", "queries"))
    }
    return {**result, "ratios": largest}


def again(result: dict[str, Any]) -> None:
    """Measure once more what is above the goal; the smallest times count."""
    ways = {"rows": fit_growth, "queries": predict_growth}
    for axis, way in ways.items():
        for name, known in result[axis].items():
            if known["exponent"] <= GOAL:
                continue
            new = way(CASES[name], quick=False)
            if new["sizes"] != known["sizes"]:  # the case is not what it was
                result[axis][name] = new
                continue
            pairs = zip(known["seconds"], new["seconds"], strict=True)
            best = curve(known["sizes"], [min(pair) for pair in pairs])
            sweeps = known.get("sweeps", [known["exponent"]])
            result[axis][name] = {
                **known,
                **best,
                "sweeps": [*sweeps, new["exponent"]],
            }
            print(name, axis, result[axis][name]["sweeps"], file=sys.stderr)


def missed(result: dict[str, Any]) -> list[str]:
    return [
        f"{name}, {axis}: {case['exponent']:.2f}"
        for axis in ("rows", "queries")
        for name, case in result[axis].items()
        if not case["exponent"] <= GOAL
    ]


def draw(result: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    panels = (("rows", "rows", "Fit"), ("queries", "queries", "Predict"))
    for axis, (field, label, title) in zip(axes, panels, strict=True):
        slopes = []
        for case in result[field].values():
            axis.loglog(
                case["sizes"], case["seconds"], color="#0072B2", alpha=0.45, lw=1
            )
            slopes.append(case["exponent"])
        low, high = axis.get_xlim()
        middle = np.sqrt(np.prod(axis.get_ylim()))
        guide = np.array([low, high])
        line = middle * guide / np.sqrt(low * high)
        axis.loglog(guide, line, color="#D55E00", lw=2, ls="--", label="exponent 1")
        axis.set(xlabel=label, ylabel="processor seconds", title=title)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, loc="upper left")
        axis.text(
            0.97,
            0.04,
            f"{len(slopes)} methods, exponents {min(slopes):.2f} to {max(slopes):.2f}",
            transform=axis.transAxes,
            ha="right",
        )
    figure.savefig(FIGURE, dpi=130)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a thirtieth of large sizes"
    )
    parser.add_argument("--only", default="", help="cases whose name holds this word")
    parser.add_argument("--again", action="store_true", help="what is above the goal")
    asked = parser.parse_args()
    names = [name for name in CASES if asked.only in name and not asked.again]
    result = measure(names, quick=asked.quick)
    if (asked.only or asked.again) and not asked.quick:
        known = json.loads(RESULT.read_text())
        for axis in ("rows", "queries"):
            both = known[axis] | result[axis]
            result[axis] = {name: both[name] for name in CASES if name in both}
        result = {**known, **result}
    else:
        result["shards"] = shard_growth(quick=asked.quick)
        result["features"] = feature_growth(quick=asked.quick)
    for _ in range(0 if asked.quick else SWEEPS):
        again(result)
    result = with_largest(result)
    print(json.dumps(result, indent=2))
    if not asked.quick:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        draw(result)
    for case in missed(result):
        print(f"grows faster than {GOAL}: {case}", file=sys.stderr)
    return 1 if missed(result) and not asked.quick else 0


if __name__ == "__main__":
    # The threads of the linear algebra count as processor time even while they wait.
    with threadpool_limits(1):
        sys.exit(main())
