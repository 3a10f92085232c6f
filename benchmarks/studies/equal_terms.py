"""Accuracy at equal privacy and an equal number of queries, on the same rows.

Everybody may spend (1, 1e-6) in all, on one answer or on 100 (a quick run: 10).
Released models answer any number for it; votes share it among the answers. Ours are the
planner's first choice and its votes of boosted trees, as the planner sets them without
a look at the data. "PATE by hand" is a Gaussian noisy argmax of boosted trees with zCDP
accounting, written here. diffprivlib's models and InterpretML's DP-EBM are released
ones; diffprivlib's are pure and use no delta. For each peer, the setting that did best
on the test rows counts, PATE's number of teachers included; ours have no such choice.

Rows: Adult, Bank and Covertype where the data are (`benchmarks.data` says where it
looks), the 5,000 records of Adult that come with the package otherwise; scikit-learn's
breast cancer table always. A quick run takes the first of them and two seeds.

    python -m benchmarks.studies.equal_terms [--quick]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks import data, peers
from benchmarks.studies.plan_choices import Table, from_sklearn, measure
from benchmarks.studies.plan_choices import load as load_table
from reticent.datasets import load_adult_sample
from reticent.guarantees import zcdp_epsilon
from reticent.planning import plan
from reticent.schemas import Categorical

RESULTS = Path(__file__).parent.parent / "results" / "equal_terms.json"
EPSILON, DELTA = 1.0, 1e-6
SIZES = {
    "quick": {
        "seeds": 2,
        "rows": 6_000,
        "test": 2_000,
        "queries": (1, 10),
        "teachers": (25, 50),
        "strengths": (0.01, 0.1),
        "rates": (0.1,),
    },
    "full": {
        "seeds": 10,
        "rows": 30_000,
        "test": 4_000,
        "queries": (1, 100),
        "teachers": (15, 50, 150, 250),
        "strengths": (0.003, 0.01, 0.03, 0.1, 1.0),
        "rates": (0.01, 0.1, 0.3),
    },
}
Scores = dict[str, list[float]]


def tables(*, quick: bool) -> Iterator[tuple[str, Table]]:
    try:
        data.folder()
    except SystemExit:
        yield "adult, the package's sample", bundled()
        if quick:
            return
    else:
        for name in ("adult",) if quick else ("adult", "bank", "covtype"):
            yield name, load_table(name)
    if not quick:
        yield "breast cancer", from_sklearn("breast cancer")


def bundled() -> Table:
    columns, schema = load_adult_sample()
    y = schema.table(columns, labelled=True).label
    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 2 // 3
    return Table(schema, pd.DataFrame(columns), y, order[:cut], order[cut:])


def trees(table: Table) -> HistGradientBoostingClassifier:
    nominal = [isinstance(c, Categorical) for c in table.schema.columns.values()]
    return HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=10, categorical_features=nominal
    )


def answers(queries: int) -> str:
    return "1 answer" if queries == 1 else f"{queries} answers"


def ours(table: Table, size: dict) -> Scores:
    """Measure the planner's first choice and its vote, for each number of queries."""
    scores: Scores = {}
    for queries in size["queries"]:
        found = plan(
            "classification",
            len(table.train),
            EPSILON,
            delta=DELTA,
            queries=queries,
            schema=table.schema,
        )
        vote = next(o for o in found.options if o.method == "vote-trees")
        options = {f"reticent, vote-trees, {answers(queries)}": vote}
        if found.best.method != vote.method:
            options[f"reticent, {found.best.method}, {answers(queries)}"] = found.best
        for name, option in options.items():
            scores[name] = [
                measure(option, table, seed) for seed in range(size["seeds"])
            ]
    return scores


def votes_of(table: Table, teachers: int, seed: int) -> np.ndarray:
    """Return the votes for label 1 of teachers on disjoint parts of the rows."""
    rows, y = table.encoded(style="ordinal"), table.y
    deal = np.random.default_rng(seed).permutation(table.train)
    votes = np.zeros(len(table.test), dtype=int)
    for part in np.array_split(deal, teachers):
        if len(np.unique(y[part])) < 2:
            votes += int(y[part][0])
        else:
            votes += (
                clone(trees(table)).fit(rows[part], y[part]).predict(rows[table.test])
            )
    return votes


def pate(table: Table, size: dict) -> Scores:
    """Gaussian noise on counts of sensitivity sqrt 2, for so many answers in all."""

    def surplus(rho: float) -> float:
        return zcdp_epsilon(rho, DELTA) - EPSILON

    rho, truth = brentq(surplus, 1e-12, 1e4), table.y[table.test]
    tried: dict[int, Scores] = {queries: {} for queries in size["queries"]}
    for teachers in size["teachers"]:
        if teachers > len(table.train) // 20:
            continue
        for seed in range(size["seeds"]):
            votes = votes_of(table, teachers, seed)
            for queries in size["queries"]:
                sigma = np.sqrt(queries / rho)
                noise = np.random.default_rng(seed).normal(0, sigma, (2, len(votes)))
                ones = votes + noise[0] > teachers - votes + noise[1]
                found = tried[queries].setdefault(str(teachers), [])
                found.append(float((ones == truth).mean()))
    return {
        f"PATE by hand, {answers(queries)}": max(scores.values(), key=np.mean)
        for queries, scores in tried.items()
    }


def theirs(table: Table, size: dict) -> Scores:
    """Released models of other libraries, each at its best setting."""
    runs = [{"epsilon": EPSILON, "seed": seed} for seed in range(size["seeds"])]
    norm = float(np.sqrt(len(table.schema.columns)))
    nominal = [
        place
        for place, column in enumerate(table.schema.columns.values())
        if isinstance(column, Categorical)
    ]
    linear = [
        {
            "model": "diffprivlib.LogisticRegression",
            "C": c,
            "data_norm": norm,
            "try": c,
            **r,
        }
        for c in size["strengths"]
        for r in runs
    ]
    bayes = [{"model": "diffprivlib.GaussianNB", "try": 0, **r} for r in runs]
    forest = [
        {"model": "diffprivlib.RandomForestClassifier", "try": 0, **r} for r in runs
    ]
    boosted = [
        {
            "model": "DP-EBM",
            "delta": DELTA,
            "learning_rate": rate,
            "nominal": nominal,
            "try": rate,
            **r,
        }
        for rate in size["rates"]
        for r in runs
    ]
    unit, codes = table.encoded(scale="unit"), table.encoded(style="ordinal")
    between = (np.zeros(unit.shape[1]), np.ones(unit.shape[1]))
    scored = scored_peers(table, unit, linear + bayes, between)
    scored += scored_peers(table, codes, forest + boosted, declared_ends(table))
    tried: dict[str, Scores] = {}
    for row in scored:
        if "accuracy" in row:
            settings = tried.setdefault(row["model"], {})
            settings.setdefault(str(row["try"]), []).append(row["accuracy"])
    return {name: max(found.values(), key=np.mean) for name, found in tried.items()}


def declared_ends(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the public ranges of numbers, and those of the codes of levels."""
    ends = [
        (0.0, len(column.levels) - 1.0)
        if isinstance(column, Categorical)
        else (column.low, column.high)
        for column in table.schema.columns.values()
    ]
    low, high = np.array(ends, dtype=float).T
    return low, high


def scored_peers(
    table: Table, rows: np.ndarray, jobs: list[dict], bounds: tuple
) -> list[dict]:
    rows, train, test = np.nan_to_num(rows, nan=0.0), table.train, table.test
    return peers.run(
        (rows[train], table.y[train]), (rows[test], table.y[test]), jobs, bounds
    )


def without_privacy(table: Table) -> Scores:
    found: Scores = {}
    for name, model, rows in (
        ("linear", LogisticRegression(max_iter=2000), table.encoded()),
        ("trees", trees(table), table.encoded(style="ordinal")),
    ):
        model.fit(rows[table.train], table.y[table.train])
        score = model.score(rows[table.test], table.y[table.test])
        found[f"scikit-learn without privacy, {name}"] = [float(score)]
    return found


def summary(values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(spread)}


def study(*, quick: bool) -> dict[str, object]:
    size = SIZES["quick" if quick else "full"]
    skipped = peers.skipped(quick=quick)
    accuracy, rows = {}, {}
    for name, table in tables(quick=quick):
        table.train, table.test = (
            table.train[: size["rows"]],
            table.test[: size["test"]],
        )
        rows[name] = {"train": len(table.train), "test": len(table.test)}
        scores = without_privacy(table) | ours(table, size) | pate(table, size)
        if not skipped:
            scores |= theirs(table, size)
        accuracy[name] = {who: summary(found) for who, found in scores.items()}
    return {
        "epsilon": EPSILON,
        "delta": DELTA,
        "seeds": size["seeds"],
        "rows": rows,
        "accuracy": accuracy,
        "skipped": skipped,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one table, two seeds")
    quick = parser.parse_args().quick
    result = study(quick=quick)
    if not quick:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
