"""What accounting and derivations cost, as ratios within one run.

Two goals: the millionth charge of a running account costs what the first did (within
a factor of two), and a million charges at most twenty times a bare loop of as many
additions. The rest is for the record. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

from reticent.guarantees import (
    Account,
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
WINDOW = 2_000
GOAL_LATE, GOAL_LOOP = 2.0, 20.0
HUGE = Budget(1e9, 1e-6)


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def best(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    return min(seconds(function) for _ in range(repeats))


def peak_bytes(function: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def step(kind: Any) -> Certificate[Any]:
    return claim(kind, ReplaceOne(30162), Scope.ANSWER, statement="a benchmark")


STEPS = [step(BoundedRange(0.1)), step(PureDP(0.05)), step(ApproxDP(0.1, 1e-15))]


def additions(size: int) -> None:
    total = 0
    for _ in range(size):
        total += 1  # noqa: SIM113 - the loop that charges are compared with


def charges(account: Account, certificate: Certificate[Any], size: int) -> None:
    for _ in range(size):
        account.charge(certificate)


def charges_in_turn(account: Account, size: int) -> None:
    for certificate in islice(cycle(STEPS), size):
        account.charge(certificate)


def bench_charges(size: int) -> dict[str, float]:
    """So many charges of one certificate, against a bare loop of additions."""
    loops, ours, first, late = [], [], [], []
    for _ in range(REPEATS):  # in turns: a busy machine disturbs both alike
        account = Account(HUGE)
        first.append(seconds(lambda: charges(account, STEPS[0], WINDOW)))  # noqa: B023 - run at once
        rest = size - 2 * WINDOW
        middle = seconds(lambda: charges(account, STEPS[0], rest))  # noqa: B023, see above
        late.append(seconds(lambda: charges(account, STEPS[0], WINDOW)))  # noqa: B023, see above
        ours.append(first[-1] + middle + late[-1])
        loops.append(seconds(lambda: additions(size)))
    return {
        "seconds": min(ours),
        "microseconds a charge": 1e6 * min(ours) / size,
        "ratio to a bare loop": min(ours) / min(loops),
        "last charges over first": min(late) / min(first),
        "peak bytes": peak_bytes(lambda: charges(Account(HUGE), STEPS[0], 10_000)),
    }


def bench_alternating_charges(size: int) -> dict[str, float]:
    """The same with three certificates in turn."""
    ours = best(lambda: charges_in_turn(Account(HUGE, reserve=0.5), size), 3)
    return {"seconds": ours, "microseconds a charge": 1e6 * ours / size}


def bench_compose(size: int) -> dict[str, float]:
    """What so many equal steps cost to add up, by method."""

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
        "goals": {
            "last charges over first": GOAL_LATE,
            "ratio to a bare loop": GOAL_LOOP,
        }
    }
    for name in names or (["small"] if quick else list(SIZES)):
        size = SIZES[name]
        report[name] = {
            "charges": bench_charges(size),
            "charges in turn": bench_alternating_charges(size),
            "composition": bench_compose(size),
        }
    report["derivations"] = bench_derivations()
    print(json.dumps(report, indent=2))
    if "large" not in report:
        return 0
    judged = report["large"]["charges"]
    met = (
        judged["last charges over first"] <= GOAL_LATE
        and judged["ratio to a bare loop"] <= GOAL_LOOP
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
