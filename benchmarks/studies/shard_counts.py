"""How close ``n_shards="auto"`` comes to the best number of shards, at every epsilon.

The regret is the best count's score less that of the count that "auto" chooses. For
numbers, models are trained for a grid of shard counts and scored with drawn noise. For
labels, pools of models give the exact expected accuracy of every count
(`label_shards`), and a miss is clear only beyond two standard errors.

    python -m benchmarks.studies.shard_counts [--quick] [--only labels] [--write]

Pools of models are kept in `results/label_shards.json`, table by table; started again,
it goes on where it stopped, and delete the file to begin anew. `--write` puts the
counts for labels on `docs/howto/evaluate.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from benchmarks import data
from benchmarks.studies import label_shards
from reticent.ensembles import SHARD_TREES
from reticent.prediction import PrivateAveragingRegressor
from reticent.prediction.sharded.counts import choose_shards_for_numbers

RESULTS = Path(__file__).parent.parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "evaluate.md"
MARKS = ("<!-- shard counts -->\n", "<!-- /shard counts -->")
EPSILONS = label_shards.EPSILONS
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


def worst(found: dict[str, Any]) -> dict[str, float]:
    """Return the largest regret of each table."""
    return {
        name: max(each["regret"] for each in row.values())
        for name, row in found.items()
    }


def all_numbers(kinds: tuple[str, ...]) -> dict[str, Any]:
    """Return how "auto" does for numbers, on every table."""
    return {
        f"{name}, {kind}": numbers(table, kind, 0)
        for name, table in number_tables().items()
        for kind in kinds
    }


def all_labels(*, quick: bool) -> dict[str, Any]:
    """Return how "auto" does for labels: each setting, and counts of them."""
    parts = {
        "settled on": label_shards.SETTLED_ON,
        "reported on": label_shards.REPORTED_ON,
    }
    if quick:
        parts = {"settled on": label_shards.SETTLED_ON[:1]}
    names = tuple(name for part in parts.values() for name in part)
    path = None if quick else RESULTS / "label_shards.json"
    found = label_shards.study(names, path)
    counted = {part: label_shards.judged(found, each) for part, each in parts.items()}
    return {"labels_counted": counted}


def page_table(recorded: dict[str, Any]) -> str:
    """Return the counts for labels as they stand on the page."""
    lines = [
        "| tables | settings | within half a point | clearly not | worst | mean |",
        "|---|---|---|---|---|---|",
    ]
    for part, row in recorded["labels_counted"].items():
        floor = row["floor"]
        cells = [
            f"{row['settings']} | {row['within_half_a_point']} | {row['clearly_not']} "
            f"| {100 * row['worst']:.1f} | {100 * row['mean']:.2f}",
            f"{floor['settings']} | {floor['within_half_a_point']} | "
            f"| {100 * floor['worst']:.1f} | ",
        ]
        lines += [f"| {part} | {cells[0]} |", f"| the best such rule | {cells[1]} |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("numbers", "labels"))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    kinds = ("linear",) if asked.quick else KINDS
    path = RESULTS / "shard_counts.json"
    if asked.write:
        before, rest = PAGE.read_text("utf-8").split(MARKS[0])
        table = page_table(json.loads(path.read_text()))
        rest = rest.partition(MARKS[1])[2]
        PAGE.write_text(before + MARKS[0] + table + MARKS[1] + rest, "utf-8")
        return
    found: dict[str, Any] = json.loads(path.read_text()) if asked.only else {}
    if asked.only != "labels":
        found["numbers"] = all_numbers(kinds)
        found["worst"] = worst(found["numbers"])
    if asked.only != "numbers":
        found |= all_labels(quick=asked.quick)
    print(json.dumps(found.get("labels_counted"), indent=1))
    if not asked.quick:
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
