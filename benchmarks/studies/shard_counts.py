"""How close ``n_shards="auto"`` comes to the best number of shards, at every epsilon.

For each table and kind of model, models are trained for a grid of shard counts, and
scored at every epsilon: labels by the exact law of the answers, numbers with drawn
noise. The regret is the best count's score less that of the count that "auto" chooses
(interpolated between the nearest two of the grid).

    python -m benchmarks.studies.shard_counts [--quick]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks import data
from reticent.ensembles import SHARD_TREES
from reticent.mechanisms import geometric_vote
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier
from reticent.prediction.sharded.counts import choose_shards, choose_shards_for_numbers

RESULTS = Path(__file__).parent.parent / "results"
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
LABEL_SHARDS = (1, 3, 5, 7, 9, 11, 15, 21, 31, 41, 61, 81, 101, 151, 201, 301)
ROWS_PER_SHARD = (20, 30, 45, 60, 100, 150, 220, 330, 500, 800, 1500)
KINDS = ("linear", "trees")


def regret(scores: dict[int, float], chosen: int) -> float:
    """Return the best score less the chosen one's."""
    counts = sorted(scores)
    values = [scores[count] for count in counts]
    return float(max(values) - np.interp(np.log(chosen), np.log(counts), values))


def number_tables() -> dict[str, dict[str, Any]]:
    """California, and two generated tables; the last also with a known spread."""
    task = data.load("california")
    rng = np.random.default_rng(0)
    found = {
        "california": {
            "linear": task.encoded,
            "trees": task.raw,
            "y": task.y,
            "train": task.train,
            "test": task.test,
            "bounds": task.bounds,
        }
    }
    X, y = make_friedman1(16_000, n_features=10, noise=1.0, random_state=0)
    halves = {"train": np.arange(10_000), "test": np.arange(10_000, 16_000)}
    scaled = 1000 * y  # from about 0 to 30,000
    found["friedman"] = {"X": X, "y": scaled, "bounds": (0, 30_000), **halves}
    X = rng.uniform(size=(16_000, 8))
    powers = X @ np.array([1.5, 1.0, 0.8, 0.5, 0, 0, 0, 0])
    y = 1000 * np.exp(powers + 0.3 * rng.normal(size=len(X)))
    found["skewed"] = {"X": X, "y": y, "bounds": (0, 35_000), **halves}
    wide = {"X": X, "y": y, "bounds": (0, 150_000), "spread": 6000.0}
    found["skewed, wide bounds, spread given"] = {**wide, **halves}
    return found


def numbers(table: dict[str, Any], kind: str, seed: int) -> dict[str, Any]:
    """Return the R2 of every count at every epsilon, and the regret of "auto"."""
    X = table.get(kind, table.get("X"))
    train, test, (low, high) = table["train"], table["test"], table["bounds"]
    truth = table["y"][test]
    base = Ridge() if kind == "linear" else HistGradientBoostingRegressor(**SHARD_TREES)
    noise = np.random.default_rng(seed)
    scores: dict[float, dict[int, float]] = {epsilon: {} for epsilon in EPSILONS}
    for rows in ROWS_PER_SHARD:
        shards = max(1, len(train) // rows)
        model = PrivateAveragingRegressor(
            base, 1.0, bounds=(low, high), n_shards=shards, random_state=seed
        ).fit(X[train], table["y"][train])
        exact = np.clip(model.response(X[test]).location, low, high)
        for epsilon in EPSILONS:
            drawn = noise.laplace(size=(8, len(test))) * (high - low)
            answers = np.clip(exact + drawn / (shards * epsilon), low, high)
            error = ((answers - truth) ** 2).mean() / truth.var()
            scores[epsilon][shards] = 1 - float(error)
    spread = table.get("spread")
    result = {}
    for epsilon in EPSILONS:
        chosen = choose_shards_for_numbers(
            "auto",
            n_units=len(train),
            noise=np.sqrt(2) / epsilon,
            spread=None if spread is None else spread / (high - low),
            estimator=base,
        ).n_shards
        result[str(epsilon)] = {
            "auto": chosen,
            "best": max(scores[epsilon], key=scores[epsilon].__getitem__),
            "regret": regret(scores[epsilon], chosen),
        }
    return result


def labels(task: data.Task, kind: str, n: int, seeds: int) -> dict[str, Any]:
    """Return the regret of "auto" on `n` rows at every epsilon."""
    X = task.encoded if kind == "linear" else task.raw
    test = np.random.default_rng(0).permutation(task.test)[:1500]
    base = (
        LogisticRegression()
        if kind == "linear"
        else HistGradientBoostingClassifier(**SHARD_TREES)
    )
    scores: dict[float, dict[int, float]] = {epsilon: {} for epsilon in EPSILONS}
    for shards in LABEL_SHARDS:
        if n / shards < (10 if kind == "linear" else 20):
            continue
        right = np.zeros(len(EPSILONS))
        for seed in range(seeds):
            rows = np.random.default_rng(seed).permutation(task.train)[:n]
            model = PrivateVotingClassifier(
                base, 4.0, [0, 1], shards, random_state=seed
            ).fit(X[rows], task.y[rows])
            votes = model.law_.votes(X[test])
            for place, epsilon in enumerate(EPSILONS):
                law = geometric_vote(votes, epsilon).probabilities
                right[place] += law[np.arange(len(test)), task.y[test]].mean()
        for place, epsilon in enumerate(EPSILONS):
            scores[epsilon][shards] = right[place] / seeds
    result = {}
    for epsilon in EPSILONS:
        chosen = choose_shards(
            "auto", n_units=n, n_labels=2, epsilon=epsilon, estimator=base
        ).n_shards
        result[str(epsilon)] = {
            "auto": chosen,
            "best": max(scores[epsilon], key=scores[epsilon].__getitem__),
            "regret": regret(scores[epsilon], chosen),
        }
    return result


def worst(found: dict[str, Any]) -> dict[str, float]:
    """Return the largest regret of each table."""
    return {
        name: max(each["regret"] for each in row.values())
        for name, row in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    kinds = ("linear",) if quick else KINDS
    found: dict[str, Any] = {"numbers": {}, "labels": {}}
    for name, table in number_tables().items():
        for kind in kinds:
            found["numbers"][f"{name}, {kind}"] = numbers(table, kind, 0)
    for name in ("adult",) if quick else ("adult", "bank", "covtype"):
        task = data.load(name)
        for kind in kinds:
            for n in (500,) if quick else (200, 500, 1500, 5000):
                seeds = 2 if quick else max(3, min(12, 6000 // n))
                row = labels(task, kind, n, seeds)
                found["labels"][f"{name}, {kind}, {n} rows"] = row
                print(name, kind, n, row, flush=True)
    found["worst"] = {part: worst(found[part]) for part in ("numbers", "labels")}
    print(json.dumps(found))
    if not quick:
        path = RESULTS / "shard_counts.json"
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
