"""Tuning a release with its price included, against the defaults at the same budget.

The default release of a table at (1, 1e-6) in all: once as it is, with the whole
budget, and once by `PrivateSearch` over twelve settings. It draws five of them, tries
them beside the defaults on a small share of the budget, and fits what it chose with the
rest. The defaults were settled on Adult, Bank and Covertype, among others, and not on
the generated tables. In "both ends", five of forty measurements are bad if they are too
low or too high. In "wide ranges", declared ranges are thirty times as wide as the
columns. In "products", columns matter in pairs. Neither the defaults nor the search
were changed after a look at the last.

    python -m benchmarks.studies.tuned [--estimate] [--write] [--quick]

Results are written seed by seed; started again, it goes on where it stopped. Results of
another version of the learner do not belong in the same table: they are replaced.
`--estimate` says how long the rest will take: it runs one seed of tables that have
none. `--write` puts the table on `docs/howto/tune.md`. All of it takes about half an
hour of processor time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import reticent
from benchmarks import data
from reticent.guarantees import Budget
from reticent.learners import PrivateSearch, PrivateTabularClassifier

RESULTS = Path(__file__).parent.parent / "results"
BUDGET = Budget(1.0, 1e-6)
GRID = {
    "detail": [0.3, 1.0, 3.0, 10.0],
    "interactions": [0.0, 0.45, 0.75],
}
SEEDS = 10
# So that a run takes seconds: the first rows of a random order.
MOST_ROWS = {"covtype": 60_000}
USUAL_ROWS = 30_000
MOST_TEST = 20_000
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "tune.md"
MARKS = ("<!-- tuned -->\n", "<!-- /tuned -->")


def both_ends(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw forty measurements, five of which matter by their distance from normal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * USUAL_ROWS, 40))
    score = (np.abs(X[:, :5]) - 0.8).sum(axis=1) + 0.3 * rng.normal(size=len(X))
    return X / 4, (score > 0).astype(int)


def wide_ranges(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a table whose declared ranges are much wider than its columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * USUAL_ROWS, 20))
    weights = rng.normal(size=20) * (rng.uniform(size=20) < 0.5)
    noise = 0.3 * np.linalg.norm(weights) * rng.normal(size=len(X))
    return np.clip(X / 30, -1, 1), (X @ weights + noise > 0).astype(int)


def products(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw twelve columns, six of which matter in pairs and one by itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(2 * USUAL_ROWS, 12))
    pairs = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] * X[:, 5]
    score = pairs + 0.4 * X[:, 6] + 0.2 * rng.normal(size=len(X))
    return X, (score > 0).astype(int)


GENERATED = {"both ends": both_ends, "wide ranges": wide_ranges, "products": products}
TABLES = ("adult", "bank", "covtype", *GENERATED)
NAMES = {"adult": "Adult", "bank": "Bank", "covtype": "Covertype"}


def rows_of(name: str) -> tuple[Any, ...]:
    """Return training rows, test rows, and the declared columns."""
    most = MOST_ROWS.get(name, USUAL_ROWS)
    if name in GENERATED:
        X, y = GENERATED[name](1)
        train, test = np.arange(most), np.arange(most, len(X))
        columns: list[Any] = [(-1.0, 1.0)] * X.shape[1]
    else:
        table = data.load_columns(name)
        X, y, train, test = table.X, table.y, table.train[:most], table.test
        columns = list(table.schema.columns.values())
    test = test[:MOST_TEST]
    return (X[train], y[train]), (X[test], y[test]), columns


def compared(rows: tuple[Any, ...], seed: int) -> dict[str, Any]:
    """Return the accuracy of the defaults and of a search, and what was chosen."""
    (X, y), (X_test, truth), columns = rows
    public = {"columns": columns, "classes": [0, 1]}
    started = time.process_time()
    plain = PrivateTabularClassifier(
        BUDGET.epsilon, delta=BUDGET.delta, random_state=seed, **public
    ).fit(X, y)
    search = PrivateSearch(
        PrivateTabularClassifier(**public), GRID, BUDGET, random_state=seed
    ).fit(X, y)
    return {
        "defaults": float((plain.predict(X_test) == truth).mean()),
        "tuned": float((search.predict(X_test) == truth).mean()),
        "chosen": search.best_params_,
        "seconds": time.process_time() - started,
    }


def learner() -> str:
    """Return a digest of the code that is measured."""
    code = Path(reticent.__file__).parent / "learners"
    files = sorted([*code.glob("tabular/*.py"), *code.glob("search/*.py")])
    return hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()[:12]


def facts() -> dict[str, Any]:
    """Return what results must agree in to stand in one table."""
    return {
        "version": reticent.__version__,
        "learner": learner(),
        "budget": str(BUDGET),
        "grid": GRID,
        "settings": int(np.prod([len(values) for values in GRID.values()])),
        "most_rows": {name: MOST_ROWS.get(name, USUAL_ROWS) for name in TABLES},
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means and standard errors over seeds, and how often each setting won."""
    columns = {name: [each[name] for each in found] for name in ("defaults", "tuned")}
    columns["difference"] = [each["tuned"] - each["defaults"] for each in found]
    row: dict[str, Any] = {}
    for name, values in columns.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
        row[name] = {"mean": float(np.mean(values)), "standard_error": float(error)}
    chosen = Counter(json.dumps(each["chosen"], sort_keys=True) for each in found)
    return {**row, "chosen": dict(chosen.most_common())}


def described(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    tables = {name: summary(seeds) for name, seeds in found.items() if seeds}
    return {**facts(), "tables": tables, "seeds": found}


def known(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the seeds that are done with this version."""
    if not path.exists():
        return {}
    recorded = json.loads(path.read_text())
    now = json.loads(json.dumps(facts()))
    changed = [name for name, value in now.items() if recorded.get(name) != value]
    if changed:
        print(f"{path.name} has another {', '.join(changed)}: starting anew")
        return {}
    return dict(recorded["seeds"])


def estimate(found: dict[str, list[dict[str, Any]]]) -> float:
    """Return about how many seconds of processor time the rest takes."""
    return sum(
        (SEEDS - len(done)) * float(np.mean([each["seconds"] for each in done]))
        for done in found.values()
    )


def page_table(recorded: dict[str, Any]) -> str:
    """Return the results as they stand on the page."""
    lines = [
        "| table | rows | seeds | defaults | tuned | difference | left the defaults |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, seeds in recorded["seeds"].items():
        row, rows = summary(seeds), recorded["most_rows"]
        most = rows[name] if isinstance(rows, dict) else rows
        gain = row["difference"]
        cells = [
            NAMES.get(name, f"generated, {name}"),
            f"{most:,}",
            str(len(seeds)),
            f"{row['defaults']['mean']:.4f}",
            f"{row['tuned']['mean']:.4f}",
            f"{gain['mean']:+.4f} ± {gain['standard_error']:.4f}",
            f"{len(seeds) - row['chosen'].get('{}', 0)} times",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    version = f"Version {recorded['version']}, learner `{recorded['learner']}`."
    return "\n".join([*lines, "", version]) + "\n"


def on_page(text: str, table: str) -> str:
    """Return the page with the table between its marks."""
    before, rest = text.split(MARKS[0])
    return before + MARKS[0] + table + MARKS[1] + rest.split(MARKS[1])[1]


def run(
    found: dict[str, list[dict[str, Any]]], path: Path | None, *, seeds: int
) -> None:
    """Run what is missing; write after each seed."""
    for name, done in found.items():
        rows = rows_of(name) if len(done) < seeds else ()
        for seed in range(len(done), seeds):
            done.append(compared(rows, seed))
            print(name, seed, json.dumps(done[-1]), flush=True)
            if path is not None:
                path.write_text(json.dumps(described(found), indent=1) + "\n")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--quick", "--estimate", "--write"):
        parser.add_argument(name, action="store_true")
    asked = parser.parse_args(arguments)
    path = RESULTS / "tuned.json"
    if asked.write:
        table = page_table(json.loads(path.read_text()))
        PAGE.write_text(on_page(PAGE.read_text("utf-8"), table), "utf-8")
        return
    if asked.quick:
        found: dict[str, list[dict[str, Any]]] = {"both ends": []}
        run(found, None, seeds=1)
    else:
        done = known(path)
        found = {name: done.get(name, []) for name in TABLES}
        run(found, path, seeds=1 if asked.estimate else SEEDS)
        print(f"left: about {estimate(found) / 60:.0f} minutes of processor time")
    print(json.dumps(described(found)["tables"]))


if __name__ == "__main__":
    main(sys.argv[1:])
