"""Tuning a release with its price included, against the defaults at the same budget.

Logistic regression by noisy gradient descent at (1, 1e-6) in all: once with its
defaults on all rows, and once chosen by `PrivateSearch` among twelve settings, which
pays for choosing and trains on nine tenths of the rows. The defaults were settled on
Adult, Bank and Covertype, among others. They were not settled on the generated table:
its declared ranges are thirty times as wide as its columns, as careful people declare
them.

    python -m benchmarks.studies.tuned [--quick]

Results are written seed by seed; started again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from reticent.guarantees import Budget
from reticent.learners import NoisyGradientClassifier, PrivateSearch

RESULTS = Path(__file__).parent.parent / "results"
BUDGET = Budget(1.0, 1e-6)
GRID = {
    "clip": [0.05, 0.2, 0.5],
    "steps": [100, 200],
    "fit_intercept": [True, False],
}
RUNS = 12.0
HOLDOUT = 0.1
SEEDS = 10
TABLES = ("adult", "bank", "wide ranges", "covtype")
# So that a run takes seconds: the first rows of a random order.
MOST_ROWS = 30_000


def wide_ranges(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a table whose declared ranges are much wider than its columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * MOST_ROWS, 20))
    weights = rng.normal(size=20) * (rng.uniform(size=20) < 0.5)
    noise = 0.3 * np.linalg.norm(weights) * rng.normal(size=len(X))
    return np.clip(X / 30, -1, 1), (X @ weights + noise > 0).astype(int)


def rows_of(name: str) -> tuple[Any, ...]:
    """Return training rows, test rows, and the public bound on their norm."""
    if name == "wide ranges":
        X, y = wide_ranges(1)
        train, test = np.arange(MOST_ROWS), np.arange(MOST_ROWS, len(X))
        norm = float(np.sqrt(X.shape[1]))
    else:
        task = data.load(name)
        X, y, train, test = task.encoded, task.y, task.train[:MOST_ROWS], task.test
        norm = float(np.sqrt(len(task.categorical)))
    return (X[train], y[train]), (X[test], y[test]), norm


def compared(rows: tuple[Any, ...], seed: int) -> dict[str, Any]:
    """Return the accuracy of the defaults and of a search, and what was chosen."""
    (X, y), (X_test, truth), norm = rows
    known = {"norm_bound": norm, "classes": [0, 1]}
    plain = NoisyGradientClassifier(
        BUDGET.epsilon, delta=BUDGET.delta, random_state=seed, **known
    ).fit(X, y)
    search = PrivateSearch(
        NoisyGradientClassifier(**known),
        GRID,
        BUDGET,
        runs=RUNS,
        holdout=HOLDOUT,
        random_state=seed,
    ).fit(X, y)
    return {
        "defaults": float((plain.predict(X_test) == truth).mean()),
        "tuned": float((search.predict(X_test) == truth).mean()),
        "chosen": search.best_params_,
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means and standard errors over seeds, and how often each setting won."""
    row: dict[str, Any] = {}
    for name in ("defaults", "tuned"):
        values = [each[name] for each in found]
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
        row[name] = {"mean": float(np.mean(values)), "standard_error": float(error)}
    chosen = Counter(json.dumps(each["chosen"], sort_keys=True) for each in found)
    return {**row, "chosen": dict(chosen.most_common())}


def described(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "budget": str(BUDGET),
        "grid": GRID,
        "settings": int(np.prod([len(values) for values in GRID.values()])),
        "runs_on_average": RUNS,
        "most_rows": MOST_ROWS,
        "tables": {name: summary(seeds) for name, seeds in found.items()},
        "seeds": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    path = RESULTS / "tuned.json"
    found: dict[str, list[dict[str, Any]]] = {}
    if not quick and path.exists():
        found = json.loads(path.read_text())["seeds"]
    for name in ("wide ranges",) if quick else TABLES:
        done = found.setdefault(name, [])
        rows = rows_of(name)
        for seed in range(len(done), 2 if quick else SEEDS):
            done.append(compared(rows, seed))
            print(name, seed, json.dumps(done[-1]), flush=True)
            if not quick:
                path.write_text(json.dumps(described(found), indent=1) + "\n")
    print(json.dumps(described(found)["tables"]))


if __name__ == "__main__":
    main()
