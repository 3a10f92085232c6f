"""Learning curves of shard models on public data: where the planner gets its defaults.

For each size of a shard: the error of one model, and of the majority of many. From the
two follow how fast models learn and how much they agree.

    python -m benchmarks.studies.plan_curves
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import data
from benchmarks.studies.ask_accuracy import boosting
from reticent.prediction import PrivateVotingClassifier

RESULTS = Path(__file__).parent.parent / "results" / "plan_curves.json"
SIZES = (60, 125, 250, 500, 1000, 2000)
MODELS = 25


def errors(votes: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the error of one model, and of the majority of all."""
    right = votes[np.arange(len(y)), y]
    total = votes.sum(axis=1)
    return {
        "one": float(1 - (right / total).mean()),
        "majority": float((2 * right < total).mean()),
        # For the spread of agreement over queries.
        "second_moment": float(((right / total) ** 2).mean()),
    }


def curve(task: data.Task, learner: str) -> dict[str, dict[str, float]]:
    rows = task.raw if learner == "trees" else task.encoded
    base = boosting(task) if learner == "trees" else LogisticRegression(max_iter=500)
    test = task.test[:4000]
    found = {}
    for size in SIZES:
        used = task.train[: size * MODELS]
        if len(used) < size * MODELS:
            break
        model = PrivateVotingClassifier(base, 1.0, [0, 1], MODELS, random_state=0)
        model.fit(rows[used], task.y[used])
        found[str(size)] = errors(model.ensemble_.votes(rows[test]), task.y[test])
        print(task.name, learner, size, found[str(size)], flush=True)
    return found


def whole(task: data.Task) -> dict[str, float]:
    """Return the error without privacy or shards, on up to 50,000 rows."""
    used, test = task.train[:50_000], task.test[:20_000]
    y = task.y
    trees = boosting(task).fit(task.raw[used], y[used])
    linear = LogisticRegression(C=10.0, max_iter=1000).fit(task.encoded[used], y[used])
    return {
        "rows": len(used),
        "trees": 1 - float(trees.score(task.raw[test], y[test])),
        "linear": 1 - float(linear.score(task.encoded[test], y[test])),
        "chance": float(min(y[test].mean(), 1 - y[test].mean())),
    }


def main() -> None:
    result: dict[str, object] = {}
    for name in ("adult", "bank", "covtype", "skin"):
        task = data.load(name)
        result[name] = {
            "columns": task.raw.shape[1],
            "encoded": task.encoded.shape[1],
            "whole": whole(task),
            **{kind: curve(task, kind) for kind in ("trees", "linear")},
        }
        print(name, result[name]["whole"], flush=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
