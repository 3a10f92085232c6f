"""Released models against diffprivlib and InterpretML's DP-EBM, on the same rows.

Every model is released once for the epsilon in the table: pure guarantees compete with
pure ones, and (epsilon, 1e-6) with (epsilon, 1e-6). All get the same declared bounds
and levels. Ours run with their defaults; diffprivlib's logistic regression gets its
best regularisation, and DP-EBM its best learning rate; both are chosen on the test
rows and paid for by nobody.

    python -m benchmarks.studies.release_accuracy [--data adult,bank] [--peers DP-EBM]
                                          [--ours gradient] [--epsilons 0.1,0.5]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
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
from reticent.schemas import Categorical, Encoder

RESULTS = Path(__file__).parent.parent / "results" / "release_accuracy.json"
DELTA = 1e-6
KNOTS = 8
Table = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True)
class Extent:
    """How much is measured; `strengths` are diffprivlib's C, `rates` DP-EBM's.

    The largest data sets are cut to `training` and `test` rows, for the time that the
    peers take.
    """

    data: str = "adult,bank,covtype,skin,california"
    seeds: int = 10
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)
    training: int = 100_000
    test: int = 50_000
    strengths: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 1.0)
    rates: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0)  # the first is its default


FULL = Extent()
QUICK = Extent("bank", 2, (1.0,), 8_000, 4_000, (0.01, 0.1), (0.1,))


class Tables:
    """One data set, encoded in the ways that the models need."""

    def __init__(self, name: str, extent: Extent = FULL) -> None:
        self.task, self.extent = data.load(name), extent
        self.name, self.bounds = name, self.task.bounds
        self.train = self.task.train[: extent.training]
        self.test = self.task.test[: extent.test]
        self.schema, self.frame, _ = data.declared(name)
        self.n_columns = self.schema.n_columns

    def encoded(self, basis: str) -> tuple[np.ndarray, float]:
        encoder = Encoder(self.schema, basis=basis, knots=KNOTS)
        rows = encoder.transform(self.schema.table(self.frame, name=self.name))
        return rows, encoder.row_norm_bound

    def score(self, model: object, rows: np.ndarray) -> float:
        return float(model.score(rows[self.test], self.task.y[self.test]))


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
                epsilon, delta=DELTA, random_state=seed, **known
            ),
            "approx gradient": lambda epsilon, seed: NoisyGradientClassifier(
                epsilon, delta=DELTA, random_state=seed, **known
            ),
        }
    limits = tables.bounds
    return {
        "pure objective": lambda epsilon, seed: ObjectivePerturbationRegressor(
            epsilon, bounds=limits, norm_bound=norm, l1_bound=sums, random_state=seed
        ),
        "pure output": lambda epsilon, seed: OutputPerturbationRegressor(
            epsilon, delta=0.0, bounds=limits, norm_bound=norm, random_state=seed
        ),
        "approx output": lambda epsilon, seed: OutputPerturbationRegressor(
            epsilon, delta=DELTA, bounds=limits, norm_bound=norm, random_state=seed
        ),
        "approx gradient": lambda epsilon, seed: NoisyGradientRegressor(
            epsilon, delta=DELTA, bounds=limits, norm_bound=norm, random_state=seed
        ),
    }


def summary(values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(spread)}


def ours(tables: Tables, word: str = "") -> Table:
    """Measure our models, those whose name holds a word."""
    extent = tables.extent
    table: Table = {str(epsilon): {} for epsilon in extent.epsilons}
    y = tables.task.y[tables.train]
    for basis in ("linear", "splines"):
        rows, norm = tables.encoded(basis)
        X = rows[tables.train]
        for name, release in releases(tables, norm).items():
            if word not in name:
                continue
            for epsilon in extent.epsilons:
                scores = [
                    tables.score(release(epsilon, seed).fit(X, y), rows)
                    for seed in range(extent.seeds)
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


def their_jobs(tables: Tables) -> tuple[list[dict], list[dict]]:
    """Jobs on encoded rows, and jobs on numbers and category codes."""
    extent = tables.extent
    runs = [
        {"epsilon": e, "seed": s} for e in extent.epsilons for s in range(extent.seeds)
    ]
    ebm = [
        {"model": "DP-EBM", "delta": DELTA, "learning_rate": rate, **run}
        for rate in extent.rates
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
        for strength in extent.strengths
        for run in runs
    ]
    forest = [{"model": "diffprivlib.RandomForestClassifier", **run} for run in runs]
    bayes = [{"model": "diffprivlib.GaussianNB", **run} for run in runs]
    hot = [{**job, "rows": "one column a level"} for job in forest]
    return logistic + bayes + hot, forest + ebm


def theirs(tables: Tables, only: list[str]) -> Table:
    on_encoded, on_raw = (
        [job for job in jobs if job["model"] in only or not only]
        for jobs in their_jobs(tables)
    )
    task = tables.task
    raw = np.nan_to_num(task.raw, nan=0.0)
    low, high = declared_ranges(tables)
    zero_one = (np.zeros(task.encoded.shape[1]), np.ones(task.encoded.shape[1]))
    scored = run_peers(tables, task.encoded, on_encoded, zero_one)
    scored += run_peers(tables, raw, on_raw, (low, high))
    table: Table = {str(epsilon): {} for epsilon in tables.extent.epsilons}
    for epsilon in tables.extent.epsilons:
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


def study(
    name: str, extent: Extent, before: dict, only: list[str], *, alone: bool = False
) -> dict[str, object]:
    """Measure one data set; what `before` holds is not measured again.

    Of the peers those in `only` are, or all; none if ours are `alone`.
    """
    tables = Tables(name, extent)
    mine = before.get("ours") or ours(tables)
    peer = {epsilon: {} for epsilon in mine} if alone else theirs(tables, only)
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


def again(before: dict, tables: Tables, word: str) -> dict[str, object]:
    """Replace those of ours whose name holds a word, and judge again."""
    new = ours(tables, word)
    mine = {e: {**kept, **new.get(e, {})} for e, kept in before["ours"].items()}
    return {**before, "ours": mine, "verdicts": verdicts(mine, before["theirs"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", help="names, with commas between them")
    parser.add_argument(
        "--ours", help="measure ours with this word only, keep the rest"
    )
    parser.add_argument("--epsilons", help="with --ours: for these only")
    parser.add_argument(
        "--peers",
        help="measure these peers only (or 'all'), and keep the rest of the last run",
    )
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL
    if arguments.ours and arguments.epsilons:
        wanted = tuple(float(epsilon) for epsilon in arguments.epsilons.split(","))
        extent = replace(extent, epsilons=wanted)
    skipped = peers.skipped(quick=arguments.quick)
    path = RESULTS.with_suffix(".quick.json") if arguments.quick else RESULTS
    RESULTS.parent.mkdir(exist_ok=True)
    accuracy = {}
    for name in (arguments.data or extent.data).split(","):
        done = json.loads(path.read_text()) if path.exists() else {}
        if arguments.ours:
            done[name] = again(done[name], Tables(name, extent), arguments.ours)
            path.write_text(json.dumps(done, indent=1) + "\n")
            continue
        before = done.get(name, {}) if arguments.peers else {}
        only = (
            arguments.peers.split(",") if arguments.peers not in (None, "all") else []
        )
        measured = study(name, extent, before, only, alone=bool(skipped))
        found = {"seeds": extent.seeds, **measured}
        # Kept data set by data set: a long run that stops has not run for nothing.
        done = json.loads(path.read_text()) if path.exists() else {}
        done[name] = found
        path.write_text(json.dumps(done, indent=1) + "\n")
        for verdict in done[name]["verdicts"]:
            print(name, verdict)
        accuracy[name] = {
            **{f"reticent, {who}": one for who, one in found["ours"]["1.0"].items()},
            **found["theirs"]["1.0"],
        }
    # At epsilon 1, for the comparison of runs.
    print(json.dumps({"accuracy": accuracy, "skipped": skipped}))


if __name__ == "__main__":
    main()
