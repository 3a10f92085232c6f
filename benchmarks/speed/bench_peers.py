"""Fit and predict, in time and memory, beside diffprivlib, DP-EBM and scikit-learn.

All on the same rows, one thread, each model in a process of its own: seconds of fit and
of predict, and the peak of resident memory over that of the process with the rows
loaded. Ratios are a peer's processor time over that of one of ours that does the same
job: released linear models, models with a delta, and a vote of 100 models against one.
Accuracy on as many fresh rows comes with them, all at epsilon 1: of the whole model, or
of each answer of the vote. `benchmarks.studies` compares accuracy on real data.
A full run also fits the default for tables and DP-EBM on 500,000 rows (`--large` does
nothing else).
Peers live in their own environment (.venv-peers, made from
benchmarks/peers/requirements.lock).

    python benchmarks/speed/bench_peers.py [--quick] [--large]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
VOTE = "PrivateVotingClassifier, 100 logistic"
TABULAR, BOOSTED = "PrivateTabularClassifier", "InterpretML DP-EBM"
LARGE = 500_000
# Name, which environment, and the expression that builds the model.
MODELS = {
    VOTE: ("own", "voting"),
    "ObjectivePerturbationClassifier": ("own", "objective"),
    "NoisyGradientClassifier": ("own", "gradient"),
    TABULAR: ("own", "tabular"),
    "scikit-learn LogisticRegression": ("own", "sklearn"),
    "scikit-learn HistGradientBoosting": ("own", "boosting"),
    "diffprivlib LogisticRegression": ("peers", "dpl_logistic"),
    "diffprivlib GaussianNB": ("peers", "dpl_bayes"),
    "diffprivlib RandomForest": ("peers", "dpl_forest"),
    BOOSTED: ("peers", "ebm"),
}
PAIRS = [
    ("ObjectivePerturbationClassifier", "diffprivlib LogisticRegression"),
    ("ObjectivePerturbationClassifier", "scikit-learn LogisticRegression"),
    ("NoisyGradientClassifier", BOOSTED),
    (TABULAR, BOOSTED),
    (VOTE, "scikit-learn LogisticRegression"),
    (VOTE, "scikit-learn HistGradientBoosting"),
    (VOTE, "diffprivlib RandomForest"),
]
WORKER = ROOT / "benchmarks" / "peers" / "timing.py"


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.random((n, 10))
    margin = 4 * (X[:, 0] - X[:, 1]) + random.logistic(size=n)
    return X / np.sqrt(10), (margin > 0).astype(int)


def measured(model: str, data: Path) -> dict[str, Any]:
    environment, kind = MODELS[model]
    python = PEERS if environment == "peers" else Path(sys.executable)
    done = subprocess.run(
        [python, WORKER, kind, data],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def measured_all(models: list[str], n: int) -> dict[str, dict[str, Any]]:
    """Measure models on n rows, and on as many fresh ones."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.npz"
        X, y = rows(2 * n)
        np.savez(data, X=X[:n], y=y[:n], X_new=X[n:], y_new=y[n:])
        return {model: measured(model, data) for model in models}


def large() -> dict[str, Any]:
    """Compare the default for tables with DP-EBM on many rows, in time and memory."""
    result = measured_all([TABULAR, BOOSTED], LARGE)
    report: dict[str, Any] = {"rows": LARGE, "models": result}
    if not any("error" in numbers for numbers in result.values()):
        own, peer = result[TABULAR], result[BOOSTED]
        report["fit of DP-EBM over ours, times_faster"] = (
            peer["fit seconds"] / own["fit seconds"]
        )
        report["memory of ours over the table, ratio"] = own[
            "peak bytes above the rows"
        ] / (LARGE * 10 * 8)
    return report


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    from benchmarks.peers import skipped

    absent = skipped(quick=quick)
    if "--large" in arguments:
        print(json.dumps(large(), indent=2))
        return 0
    models = [m for m, (place, _) in MODELS.items() if place == "own" or not absent]
    n = 5_000 if quick else 50_000
    result = measured_all(models, n)
    ratios = {
        f"{field} of {peer} over {own}, times_faster": (
            result[peer][f"{field} seconds"] / result[own][f"{field} seconds"]
        )
        for own, peer in PAIRS
        for field in ("fit", "predict")
        if peer in result and not {"error"} & (set(result[own]) | set(result[peer]))
    }
    report = {"rows": n, "features": 10, "models": result, "skipped": absent}
    report |= {"ratios": ratios} | ({} if quick else {"large": large()})
    print(json.dumps(report, indent=2))
    return 0 if all("error" not in numbers for numbers in result.values()) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
