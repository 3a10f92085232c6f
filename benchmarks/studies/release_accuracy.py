"""Released models against diffprivlib and InterpretML's DP-EBM, on the same rows.

Every model is released once for the epsilon in the table: pure guarantees compete with
pure ones, and (epsilon, 1e-6) with (epsilon, 1e-6). All get the same declared bounds
and levels. Ours run with their defaults; diffprivlib's logistic regression gets its
best regularisation, and DP-EBM its best learning rate; both are chosen on the test
rows and paid for by nobody.

    python -m benchmarks.studies.release_accuracy [--data adult,bank] [--peers DP-EBM]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, RidgeCV

from benchmarks import data, peers
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
)
from reticent.schemas import Categorical, Encoder, Numeric, Schema

RESULTS = Path(__file__).parent.parent / "results" / "release_accuracy.json"
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
# Rows of the largest data sets that are used, for the time that the peers take.
MOST_TRAINING, MOST_TEST = 100_000, 50_000
KNOTS = 8
STRENGTHS = (0.003, 0.01, 0.03, 0.1, 1.0)  # diffprivlib's C
RATES = (0.01, 0.1, 0.3, 1.0)  # DP-EBM's learning rate; the first is its default
TRANSFORMS = {"slog1p": "signed_log1p"}


class Tables:
    """One data set, encoded in the ways that the models need."""

    def __init__(self, name: str) -> None:
        self.task = data.load(name)
        self.name, self.bounds = name, self.task.bounds
        self.train = self.task.train[:MOST_TRAINING]
        self.test = self.task.test[:MOST_TEST]
        document = json.loads((data.folder() / "schema.json").read_text())[name]
        self.schema, self.frame = declared(document)
        self.n_columns = self.schema.n_columns

    def encoded(self, basis: str) -> tuple[np.ndarray, float]:
        encoder = Encoder(self.schema, basis=basis, knots=KNOTS)
        rows = encoder.transform(self.schema.table(self.frame, name=self.name))
        return rows, encoder.row_norm_bound

    def score(self, model: object, rows: np.ndarray) -> float:
        return float(model.score(rows[self.test], self.task.y[self.test]))


def declared(document: dict) -> tuple[Schema, pd.DataFrame]:
    """Return the declared schema and the rows as it wants them."""
    files = document["files"].values()
    frame = pd.concat(
        [pd.read_parquet(data.folder() / file) for file in files], ignore_index=True
    )
    columns, values = {}, {}
    for name, column in document["features"].items():
        if column["kind"] == "categorical":
            columns[name] = Categorical([str(level) for level in column["values"]])
            values[name] = frame[name].astype(str)
            continue
        kind = column.get("transform", "none")
        columns[name] = Numeric(
            column["lo"],
            column["hi"],
            transform=TRANSFORMS.get(kind, kind),
            missing=bool(frame[name].isna().any()),
        )
        values[name] = frame[name].astype(float)
    return Schema(columns), pd.DataFrame(values)


def releases(tables: Tables, norm: float) -> dict[str, Callable[[float, int], object]]:
    """Our models by name, pure ones first; epsilon and seed are still open."""
    sums = float(tables.n_columns)
    if tables.bounds is None:
        known = {"norm_bound": norm, "classes": [0, 1]}
        return {
            "pure objective": lambda epsilon, seed: ObjectivePerturbationClassifier(
                epsilon, l1_bound=sums, random_state=seed, **known
            ),
            "pure output": lambda epsilon, seed: OutputPerturbationClassifier(
                epsilon, random_state=seed, **known
            ),
            "approx output": lambda epsilon, seed: OutputPerturbationClassifier(
                epsilon, DELTA, random_state=seed, **known
            ),
            "approx gradient": lambda epsilon, seed: NoisyGradientClassifier(
                epsilon, DELTA, random_state=seed, **known
            ),
        }
    limits = tables.bounds
    return {
        "pure objective": lambda epsilon, seed: ObjectivePerturbationRegressor(
            epsilon, limits, norm_bound=norm, l1_bound=sums, random_state=seed
        ),
        "pure output": lambda epsilon, seed: OutputPerturbationRegressor(
            epsilon, 0.0, limits, norm_bound=norm, random_state=seed
        ),
        "approx output": lambda epsilon, seed: OutputPerturbationRegressor(
            epsilon, DELTA, limits, norm_bound=norm, random_state=seed
        ),
        "approx gradient": lambda epsilon, seed: NoisyGradientRegressor(
            epsilon, DELTA, limits, norm_bound=norm, random_state=seed
        ),
    }


def summary(values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(spread)}


def ours(tables: Tables, seeds: int) -> dict[str, dict[str, dict[str, float]]]:
    table: dict[str, dict[str, dict[str, float]]] = {str(e): {} for e in EPSILONS}
    y = tables.task.y[tables.train]
    for basis in ("linear", "splines"):
        rows, norm = tables.encoded(basis)
        X = rows[tables.train]
        for name, release in releases(tables, norm).items():
            for epsilon in EPSILONS:
                scores = [
                    tables.score(release(epsilon, seed).fit(X, y), rows)
                    for seed in range(seeds)
                ]
                entry = summary(scores)
                table[str(epsilon)][f"{name}, {basis}"] = entry
                print(tables.name, epsilon, name, basis, entry, flush=True)
    return table


def without_privacy(tables: Tables) -> dict[str, float]:
    found = {}
    y = tables.task.y[tables.train]
    for basis in ("linear", "splines"):
        rows, _ = tables.encoded(basis)
        model = (
            # Rare spline columns that no training row reaches need some penalty.
            RidgeCV(alphas=np.logspace(-3, 3, 13))
            if tables.bounds
            else LogisticRegression(C=10.0, max_iter=3000)
        )
        found[basis] = tables.score(model.fit(rows[tables.train], y), rows)
    return found


def their_jobs(tables: Tables, seeds: int) -> tuple[list[dict], list[dict]]:
    """Jobs on encoded rows, and jobs on numbers and category codes."""
    runs = [{"epsilon": e, "seed": s} for e in EPSILONS for s in range(seeds)]
    ebm = [
        {"model": "DP-EBM", "delta": DELTA, "learning_rate": rate, **run}
        for rate in RATES
        for run in runs
    ]
    if tables.task.categorical.any():
        nominal = np.flatnonzero(tables.task.categorical).tolist()
        ebm = [{**job, "nominal": nominal} for job in ebm]
    if tables.bounds:
        limits = {"bounds_y": list(tables.bounds)}
        linear = [
            {"model": "diffprivlib.LinearRegression", **limits, **run} for run in runs
        ]
        return linear, [{**job, **limits} for job in ebm]
    norm = float(np.sqrt(tables.n_columns))
    logistic = [
        {
            "model": "diffprivlib.LogisticRegression",
            "C": strength,
            "data_norm": norm,
            **run,
        }
        for strength in STRENGTHS
        for run in runs
    ]
    forest = [{"model": "diffprivlib.RandomForestClassifier", **run} for run in runs]
    bayes = [{"model": "diffprivlib.GaussianNB", **run} for run in runs]
    hot = [{**job, "rows": "one column a level"} for job in forest]
    return logistic + bayes + hot, forest + ebm


def theirs(
    tables: Tables, seeds: int, only: list[str]
) -> dict[str, dict[str, dict[str, float]]]:
    on_encoded, on_raw = (
        [job for job in jobs if job["model"] in only or not only]
        for jobs in their_jobs(tables, seeds)
    )
    task = tables.task
    raw = np.nan_to_num(task.raw, nan=0.0)
    low, high = declared_ranges(tables)
    zero_one = (np.zeros(task.encoded.shape[1]), np.ones(task.encoded.shape[1]))
    scored = run_peers(tables, task.encoded, on_encoded, zero_one)
    scored += run_peers(tables, raw, on_raw, (low, high))
    table: dict[str, dict[str, dict[str, float]]] = {str(e): {} for e in EPSILONS}
    for epsilon in EPSILONS:
        groups: dict[str, list[dict]] = {}
        for row in scored:
            if row["epsilon"] == epsilon:
                kind = "approx" if row["model"] == "DP-EBM" else "pure"
                setting = f" C={row['C']}" if "C" in row else ""
                setting += f", {row['rows']}" if "rows" in row else ""
                setting += f" rate={row['learning_rate']}" if kind == "approx" else ""
                groups.setdefault(f"{kind} {row['model']}{setting}", []).append(row)
        for name, rows in groups.items():
            failed = [row["error"] for row in rows if "error" in row]
            entry = (
                {"error": failed[0][:200]}
                if failed
                else summary([row.get("accuracy", row.get("r2")) for row in rows])
            )
            table[str(epsilon)][name] = entry
            print(tables.name, epsilon, name, entry, flush=True)
    return table


def declared_ranges(tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    low, high = [], []
    for spec in tables.schema.columns.values():
        if isinstance(spec, Categorical):
            low.append(0.0)
            high.append(float(len(spec.levels) - 1))
        else:
            low.append(spec.low)
            high.append(spec.high)
    return np.array(low), np.array(high)


def run_peers(
    tables: Tables, rows: np.ndarray, jobs: list[dict], bounds: tuple
) -> list[dict]:
    y = tables.task.y
    return peers.run(
        (rows[tables.train], y[tables.train]),
        (rows[tables.test], y[tables.test]),
        jobs,
        bounds,
    )


def verdicts(mine: dict, peer: dict) -> list[dict[str, object]]:
    """Compare the best of ours with the best of theirs, kind by kind."""
    found = []
    for epsilon in mine:
        for kind in ("pure", "approx"):
            best = leader(mine[epsilon], kind)
            rival = leader(peer[epsilon], kind)
            if best is None or rival is None:
                continue
            lead = best[1]["mean"] - rival[1]["mean"]
            doubt = np.hypot(best[1]["standard_error"], rival[1]["standard_error"])
            found.append(
                {
                    "epsilon": float(epsilon),
                    "kind": kind,
                    "ours": best[0],
                    "theirs": rival[0],
                    "lead": float(lead),
                    "standard_error": float(doubt),
                    "ahead": bool(lead > doubt),
                }
            )
    return found


def leader(entries: dict, kind: str) -> tuple[str, dict] | None:
    able = [
        (name, entry)
        for name, entry in entries.items()
        if name.startswith(kind) and "mean" in entry
    ]
    return max(able, key=lambda pair: pair[1]["mean"]) if able else None


def study(name: str, seeds: int, before: dict, only: list[str]) -> dict[str, object]:
    """Measure one data set; what `before` holds is not measured again.

    Of the peers those in `only` are, or all.
    """
    tables = Tables(name)
    mine = before.get("ours") or ours(tables, seeds)
    peer = theirs(tables, seeds, only)
    for epsilon, entries in before.get("theirs", {}).items():
        kept = {n: e for n, e in entries.items() if n.split()[1] not in only}
        peer[epsilon] = {**kept, **peer[epsilon]} if only else peer[epsilon]
    return {
        "rows": {"train": len(tables.train), "test": len(tables.test)},
        "measure": "r2" if tables.bounds else "accuracy",
        "without_privacy": without_privacy(tables),
        "ours": mine,
        "theirs": peer,
        "verdicts": verdicts(mine, peer),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", default="adult,bank,covtype,skin,california")
    parser.add_argument(
        "--peers",
        help="measure these peers only (or 'all'), and keep the rest of the last run",
    )
    arguments = parser.parse_args()
    seeds = 2 if arguments.quick else 10
    path = RESULTS.with_suffix(".quick.json") if arguments.quick else RESULTS
    RESULTS.parent.mkdir(exist_ok=True)
    for name in arguments.data.split(","):
        done = json.loads(path.read_text()) if path.exists() else {}
        before = done.get(name, {}) if arguments.peers else {}
        only = (
            arguments.peers.split(",") if arguments.peers not in (None, "all") else []
        )
        found = {"seeds": seeds, **study(name, seeds, before, only)}
        # Kept data set by data set: a long run that stops has not run for nothing.
        done = json.loads(path.read_text()) if path.exists() else {}
        done[name] = found
        path.write_text(json.dumps(done, indent=1) + "\n")
        for verdict in done[name]["verdicts"]:
            print(name, verdict)


if __name__ == "__main__":
    main()
