"""How much exactness and system randomness cost, against NumPy's plain sampling.

Every result is a ratio within one run: the time of reticent's exact draw over the time
of what one would write with NumPy's generator and floats on the same problem. The goal
is a ratio of at most 10 for a million rows. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.mechanisms import (
    SystemSource,
    draw_bernoulli,
    draw_bernoulli_exp,
    draw_discrete_gaussian,
    draw_discrete_laplace,
    exponential_mechanism,
    geometric_vote,
    permute_and_flip_vote,
    soft_vote,
)

SIZES = {"small": 1_000, "medium": 100_000, "large": 1_000_000}
REPEATS = 9
EPSILON, VOTERS = 0.1, 100
GOAL = 10.0


def seconds(function: Callable[[], Any]) -> float:
    # Processor time, the system's share included: all of this runs in one thread, and
    # what else the machine does must not count.
    start = time.process_time()
    function()
    return time.process_time() - start


def peak_bytes(function: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def compare(ours: Callable[[], Any], plain: Callable[[], Any]) -> dict[str, float]:
    # In turns, and the best of each: a busy machine disturbs both alike.
    pairs = [(seconds(ours), seconds(plain)) for _ in range(REPEATS)]
    mine, theirs = (min(times) for times in zip(*pairs, strict=True))
    return {
        "seconds": mine,
        "numpy_seconds": theirs,
        "ratio": mine / theirs,
        "peak_bytes": peak_bytes(ours),
        "numpy_peak_bytes": peak_bytes(plain),
    }


def bench_binary_soft_vote(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    ones = rng.integers(0, VOTERS + 1, size)
    votes, source = np.stack([VOTERS - ones, ones], axis=1), SystemSource()

    def plain() -> Any:
        chance = 1 / (1 + np.exp(-EPSILON * (votes[:, 1] - VOTERS / 2)))
        return (rng.random(size) < chance).astype(np.int64)

    return compare(lambda: soft_vote(votes, EPSILON).draw(source), plain)


def bench_ten_class_soft_vote(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    votes = rng.multinomial(VOTERS, np.full(10, 0.1), size)
    source = SystemSource()

    def plain() -> Any:
        scores = EPSILON / 2 * votes
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        sums = weights.cumsum(axis=1)
        points = rng.random(size) * sums[:, -1]
        return (sums < points[:, None]).sum(axis=1)

    return compare(lambda: soft_vote(votes, EPSILON).draw(source), plain)


def bench_geometric_vote(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    ones = rng.integers(0, VOTERS + 1, size)
    votes, source = np.stack([VOTERS - ones, ones], axis=1), SystemSource()

    def plain() -> Any:
        margin = votes[:, 1] - VOTERS / 2
        chance = np.exp(-EPSILON * np.abs(margin)) / 2
        return (rng.random(size) < chance) ^ (margin > 0)

    return compare(lambda: geometric_vote(votes, EPSILON).draw(source), plain)


def bench_ten_class_permute_and_flip(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    votes = rng.multinomial(VOTERS, np.full(10, 0.1), size)
    source = SystemSource()

    def plain() -> Any:  # the same law by exponential noise
        noise = rng.exponential(2 / EPSILON, votes.shape)
        return (votes + noise).argmax(axis=1)

    return compare(lambda: permute_and_flip_vote(votes, EPSILON).draw(source), plain)


def bench_bernoulli(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    p, source = rng.random(size), SystemSource()
    return compare(lambda: draw_bernoulli(p, source), lambda: rng.random(size) < p)


def bench_bernoulli_exp(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    x, source = rng.exponential(size=size), SystemSource()
    return compare(
        lambda: draw_bernoulli_exp(x, source), lambda: rng.random(size) < np.exp(-x)
    )


def bench_selection(size: int) -> dict[str, float]:
    """One selection among `size` candidates."""
    rng = np.random.default_rng(0)
    scores, source = rng.integers(-100, 101, size), SystemSource()

    def plain() -> Any:
        weights = np.exp(EPSILON / 2 * (scores - scores.max()))
        return rng.choice(size, p=weights / weights.sum())

    return compare(
        lambda: exponential_mechanism(scores, EPSILON, bound=100).draw(source), plain
    )


def bench_noise(count: int) -> dict[str, dict[str, float]]:
    """Exact noise on a grid as it is served, over NumPy's standard normal numbers."""
    zeros, rng = np.zeros(count, dtype=np.int64), np.random.default_rng(0)
    source = SystemSource()
    return {
        name: compare(
            lambda draw=draw: draw(zeros, 1000.0, source),
            lambda: rng.standard_normal(count),
        )
        for name, draw in (
            ("laplace", draw_discrete_laplace),
            ("gaussian", draw_discrete_gaussian),
        )
    }


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    asked = [name for name in arguments if name in SIZES]
    sizes = asked or (list(SIZES)[:1] if quick else list(SIZES))
    report: dict[str, Any] = {"goal_ratio": GOAL, "numpy": np.__version__}
    for name in sizes:
        size = SIZES[name]
        report[name] = {
            "rows": size,
            "binary soft vote": bench_binary_soft_vote(size),
            "ten-class soft vote": bench_ten_class_soft_vote(size),
            "geometric vote": bench_geometric_vote(size),
            "ten-class permute-and-flip": bench_ten_class_permute_and_flip(size),
            "bernoulli": bench_bernoulli(size),
            "bernoulli exp": bench_bernoulli_exp(size),
            "selection among as many": bench_selection(size),
        }
    count = 100_000 if quick else 1_000_000
    noises = f"noise, {count:,} numbers"
    report[noises] = bench_noise(count)
    print(json.dumps(report, indent=2))
    if "large" in sizes:
        judged = ("binary soft vote", "ten-class soft vote")
        ratios = [report["large"][name]["ratio"] for name in judged]
        ratios += [noise["ratio"] for noise in report[noises].values()]
        worst = max(ratios)
        return 0 if worst <= GOAL else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
