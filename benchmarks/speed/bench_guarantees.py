"""What composition and derivations cost, for the record. Prints one JSON object."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    Budget,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    answers_within,
    claim,
    compose,
    dp_to_stability,
    flip_stable,
    recheck,
    repeat,
)
from reticent.guarantees.loss import pld_epsilon

SIZES = {"small": 10_000, "medium": 100_000, "large": 1_000_000}
REPEATS = 5


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def best(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    return min(seconds(function) for _ in range(repeats))


def step(kind: Any) -> Certificate[Any]:
    return claim(kind, ReplaceOne(30162), Scope.ANSWER, statement="a benchmark")


STEPS = [step(BoundedRange(0.1)), step(PureDP(0.05)), step(ApproxDP(0.1, 1e-15))]


def bench_compose(size: int) -> dict[str, float]:
    """What a number of equal steps costs to add up, by method."""

    def by(method: str) -> float:
        pld_epsilon.cache_clear()
        count = min(size, 10_000) if method == "pld" else size
        return best(
            lambda: repeat(STEPS[1], count, delta=1e-6, methods=(method,)),
            1 if method == "pld" else REPEATS,
        )

    listed = [STEPS[1]] * size
    results = {
        f"{method}, milliseconds": 1e3 * by(method)
        for method in ("basic", "exact", "zcdp", "pld")
    }
    results["a list of them, microseconds each"] = (
        1e6 * best(lambda: compose(listed), 3) / size
    )
    return results


def bench_derivations() -> dict[str, float]:
    """One chain of rules: derive, write, read, check again."""
    made = flip_stable(dp_to_stability(STEPS[1]), p=0.1)
    text = made.to_json()
    many = 200

    def each(function: Callable[[], Any]) -> float:
        def loop() -> None:
            for _ in range(many):
                function()

        return 1e6 * best(loop) / many

    return {
        "derive, microseconds": each(lambda: dp_to_stability(STEPS[1])),
        "to JSON, microseconds": each(made.to_json),
        "from JSON, microseconds": each(lambda: Certificate.from_json(text)),
        "recheck, microseconds": each(lambda: recheck(made)),
        "answers within a budget, milliseconds": 1e3
        * best(lambda: answers_within(STEPS[0], Budget(8.0, 1e-6))),
    }


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    names = [name for name in arguments if name in SIZES]
    report: dict[str, Any] = {
        name: {"composition": bench_compose(SIZES[name])}
        for name in names or (["small"] if quick else list(SIZES))
    }
    report["derivations"] = bench_derivations()
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
