"""Tuning a release with its price included, against the defaults at the same budget.

Logistic regression by noisy gradient descent at (1, 1e-6) in all: once with its
defaults on all rows, and once chosen by `PrivateSearch` among twelve settings, which
pays for choosing and trains on four fifths of the rows.

    python -m benchmarks.studies.tuned [--quick]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import data
from reticent.guarantees import Budget
from reticent.learners import NoisyGradientClassifier, PrivateSearch

RESULTS = Path(__file__).parent.parent / "results"
BUDGET = Budget(1.0, 1e-6)
GRID = {"clip": [0.25, 0.5, 1.0], "steps": [50, 100, 200, 400]}
RUNS = 12.0
HOLDOUT = 0.1
# So that a run takes minutes: the first rows of a random order.
MOST_ROWS = 50_000


def summary(values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(spread)}


def compared(task: data.Task, seeds: int) -> dict[str, object]:
    X, y = task.encoded, task.y
    norm = float(np.sqrt(len(task.categorical)))
    known = {"norm_bound": norm, "classes": [0, 1]}
    train, test = task.train[:MOST_ROWS], task.test
    scores: dict[str, list[float]] = {"defaults": [], "tuned": []}
    chosen: Counter[str] = Counter()
    for seed in range(seeds):
        plain = NoisyGradientClassifier(
            BUDGET.epsilon, delta=BUDGET.delta, random_state=seed, **known
        ).fit(X[train], y[train])
        search = PrivateSearch(
            NoisyGradientClassifier(**known),
            GRID,
            BUDGET,
            runs=RUNS,
            holdout=HOLDOUT,
            random_state=seed,
        ).fit(X[train], y[train])
        scores["defaults"].append(float((plain.predict(X[test]) == y[test]).mean()))
        scores["tuned"].append(float((search.predict(X[test]) == y[test]).mean()))
        chosen[json.dumps(search.best_params_, sort_keys=True)] += 1
        print(task.name, seed, scores["defaults"][-1], scores["tuned"][-1], flush=True)
    return {**{name: summary(s) for name, s in scores.items()}, "chosen": dict(chosen)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    names = ("adult",) if quick else ("adult", "bank", "covtype")
    rows = {name: compared(data.load(name), 2 if quick else 10) for name in names}
    found = {
        "budget": str(BUDGET),
        "settings": int(np.prod([len(values) for values in GRID.values()])),
        "runs_on_average": RUNS,
        "tables": rows,
    }
    print(json.dumps({**found, "accuracy": rows}))
    if not quick:
        path = RESULTS / "tuned.json"
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
