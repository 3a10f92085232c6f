"""Private prediction against diffprivlib and against no privacy, on one table.

Boosted trees on shards, every answer epsilon-DP on its own; diffprivlib releases a
whole model for the same epsilon. So the comparison states the number of queries, and
`ask_budget.py` says what many answers cost together.

    python -m benchmarks.studies.ask_accuracy [--quick]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks import data, peers
from reticent.prediction import PrivateVotingClassifier

RESULTS = Path(__file__).parent.parent / "results"
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
SHARDS = {
    0.1: (75, 101, 125),
    0.25: (35, 45, 61),
    0.5: (17, 25, 35),
    1.0: (11, 15, 21),
    2.0: (7, 11, 15),
}
PEERS = (
    "diffprivlib.GaussianNB",
    "diffprivlib.LogisticRegression",
    "diffprivlib.RandomForestClassifier",
    "diffprivlib.DecisionTreeClassifier",
)


def boosting(task: data.Task) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_iter=60,
        max_leaf_nodes=8,
        min_samples_leaf=10,
        l2_regularization=1.0,
        categorical_features=task.categorical,
    )


def accuracy(model: PrivateVotingClassifier, X: np.ndarray, y: np.ndarray) -> float:
    """Expected accuracy under the exact law of the answers."""
    law = model.response(X).probabilities
    return float(law[np.arange(len(y)), y].mean())


def summary(values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(spread)}


def ours(task: data.Task, seeds: int, *, quick: bool) -> dict[str, object]:
    X, y = task.raw[task.train], task.y[task.train]
    X_test, y_test = task.raw[task.test], task.y[task.test]
    table: dict[str, object] = {}
    # A quick run takes one epsilon and no grid of shards.
    for epsilon in (1.0,) if quick else EPSILONS:
        rows = {}
        for n_shards in ("auto", *(() if quick else SHARDS[epsilon])):
            scores = []
            for seed in range(seeds):
                model = PrivateVotingClassifier(
                    boosting(task), epsilon, [0, 1], n_shards, random_state=seed
                ).fit(X, y)
                scores.append(accuracy(model, X_test, y_test))
            rows[str(n_shards)] = {**summary(scores), "shards": model.n_shards_}
            print(f"epsilon={epsilon} shards={n_shards}", rows[str(n_shards)])
        table[str(epsilon)] = rows
    return table


def without_privacy(task: data.Task, seeds: int) -> dict[str, float]:
    X, y = task.raw[task.train], task.y[task.train]
    scores = [
        boosting(task)
        .set_params(random_state=seed)
        .fit(X, y)
        .score(task.raw[task.test], task.y[task.test])
        for seed in range(seeds)
    ]
    return summary(scores)


def theirs(task: data.Task, seeds: int) -> dict[str, object]:
    jobs = [
        {"model": name, "epsilon": 1.0, "seed": seed}
        for name in PEERS
        for seed in range(seeds)
    ]
    X, width = task.encoded, task.encoded.shape[1]
    # One category a group and numbers in [0, 1]: a row's norm is at most the root of
    # the number of original columns, which is public.
    norm = float(np.sqrt(len(task.categorical)))
    for job in jobs:
        job["data_norm"] = norm
    scored = peers.run(
        (X[task.train], task.y[task.train]),
        (X[task.test], task.y[task.test]),
        jobs,
        (np.zeros(width), np.ones(width)),
    )
    table = {}
    for name in PEERS:
        mine = [row for row in scored if row["model"] == name]
        failed = [row["error"] for row in mine if "error" in row]
        table[name] = (
            {"error": failed[0]}
            if failed
            else summary([row["accuracy"] for row in mine])
        )
        print(name, table[name])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    seeds = 2 if quick else 5
    task = data.load("adult")
    skipped = peers.skipped(quick=quick)
    if quick:
        task = replace(task, train=task.train[:8000], test=task.test[:4000])
    mine = ours(task, seeds, quick=quick)
    result = {
        "data": "adult, published split",
        "queries": len(task.test),
        "privacy": "ours: each answer epsilon-DP; peers: the model epsilon-DP",
        "seeds": seeds,
        "without_privacy": without_privacy(task, seeds),
        "ours": mine,
        "peers_at_epsilon_1": {} if skipped else theirs(task, seeds),
    }
    accuracy = {
        "without privacy": result["without_privacy"],
        **{f"reticent, epsilon {e} an answer": row["auto"] for e, row in mine.items()},
        **result["peers_at_epsilon_1"],
    }
    print(json.dumps({"accuracy": {"adult": accuracy}, "skipped": skipped}))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / "ask_accuracy.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
