"""When units near a question should vote, and when a released model should answer.

A question of the lasting predictors looks for enough units that noise is small beside
their votes. With few units, many questions or many labels that is a large part of all
units, which is no longer near. This compares votes with a release of the same total on
generated tables, so that the limit owes nothing to any real table.

Votes run with local="always"; the release is `PrivateTabular*`. All questions are
asked, so units run out as they would. Scores are accuracies, or R^2 for numbers. What
local="auto" does follows from public facts, and from the error of the prior: measured
here without noise, where a fit measures it with some.

    python -m benchmarks.studies.local_or_release [--only TABLE] [--table] [--page]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import r2_score

from reticent.estimators import with_progress
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.prediction import PrivateNeighborsClassifier, PrivateNeighborsRegressor
from reticent.prediction.neighbors.fallback import SURE

RESULTS = Path(__file__).parent.parent / "results" / "local_or_release.json"
PAGE = Path(__file__).parents[2] / "docs" / "explain" / "individual-accounting.md"
BEGIN, END = "<!-- local or release -->\n", "<!-- /local or release -->"
QUESTIONS = (1_000, 10_000)
# Units and totals. From the few that vote at the least to those that always do.
SIZES = (
    (60_000, 2.0),
    (120_000, 1.0),
    (240_000, 0.5),
    (170_000, 1.0),
    (120_000, 2.0),
    (240_000, 1.0),
)
COLUMNS = 6
# The limits that the table tells apart: parts of all units, in thousandths.
EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)

Matrix = NDArray[np.float64]
Targets = NDArray[Any]


@dataclass(frozen=True)
class Case:
    table: str
    relation: str
    n: int
    total: float


def surface(rng: np.random.Generator, scores: int) -> Callable[[Matrix], Matrix]:
    """Draw smooth functions of all columns: sums of random waves, of variance one."""
    waves = rng.normal(0, 1.5, (scores, 40, COLUMNS))
    phases = rng.uniform(0, 2 * np.pi, (scores, 40))

    def values(X: Matrix) -> Matrix:
        pairs = zip(waves, phases, strict=True)
        return np.array([np.cos(X @ w.T + p).sum(axis=1) for w, p in pairs]) / 20**0.5

    return values


def waves(rng: np.random.Generator, n: int, labels: int) -> tuple[Matrix, Targets]:
    """Labels that follow smooth functions; a tenth is replaced at random."""
    X = rng.uniform(-1, 1, (n, COLUMNS))
    best = np.argmax(surface(rng, labels)(X), axis=0)
    return X, np.where(rng.random(n) < 0.1, rng.integers(0, labels, n), best)


def patches(rng: np.random.Generator, n: int, labels: int) -> tuple[Matrix, Targets]:
    """Groups around random places, each mostly of one label."""
    places = rng.uniform(-0.9, 0.9, (100, COLUMNS))
    usual = rng.integers(0, labels, 100)
    group = rng.integers(0, 100, n)
    X = np.clip(places[group] + rng.normal(0, 0.2, (n, COLUMNS)), -1, 1)
    other = rng.random(n) < 0.15
    return X, np.where(other, rng.integers(0, labels, n), usual[group])


def additive(rng: np.random.Generator, n: int, labels: int) -> tuple[Matrix, Targets]:
    """Two labels that follow a sum of functions of one column each."""
    assert labels == 2
    X = rng.uniform(-1, 1, (n, COLUMNS))
    score = np.sin(X * rng.uniform(1, 5, COLUMNS)) @ rng.normal(0, 2, COLUMNS)
    return X, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)


def numbers(rng: np.random.Generator, n: int, labels: int) -> tuple[Matrix, Targets]:
    """Numbers that follow a smooth function, with noise."""
    assert labels == 0
    X = rng.uniform(-1, 1, (n, COLUMNS))
    y = surface(rng, 1)(X)[0] + rng.normal(0, 0.3, n)
    return X, np.clip(y, -4, 4)


def patch_numbers(
    rng: np.random.Generator, n: int, labels: int
) -> tuple[Matrix, Targets]:
    """Groups around random places, each with a number of its own, with noise."""
    X, group = patches(rng, n, 1000)
    value = rng.uniform(-3, 3, 1000)
    return X, np.clip(value[group] + rng.normal(0, 0.3, n), -4, 4)


TABLES: dict[str, tuple[Callable[..., tuple[Matrix, Targets]], int]] = {
    "waves, 2 labels": (waves, 2),
    "waves, 7 labels": (waves, 7),
    "patches, 2 labels": (patches, 2),
    "patches, 5 labels": (patches, 5),
    "additive, 2 labels": (additive, 2),
    "waves, numbers": (numbers, 0),
    "patches, numbers": (patch_numbers, 0),
}


def cases(only: str = "") -> Iterator[Case]:
    """Yield what is compared; zero-out with one size only."""
    for table in TABLES:
        if table.startswith(only):
            for n, total in SIZES:
                yield Case(table, "replace-one", n, total)
            yield Case(table, "zero-out", 120_000, 1.0)


def compared(case: Case) -> list[dict[str, Any]]:
    """Fit both, ask both, and say how many units a question looked for."""
    make, labels = TABLES[case.table]
    rng = np.random.default_rng(sorted(TABLES).index(case.table))
    X, y = make(rng, case.n + max(QUESTIONS), labels)
    known: dict[str, Any] = {"random_state": 0}
    if labels:
        known["classes"] = list(range(labels))
        votes: Any = PrivateNeighborsClassifier
        release: Any = PrivateTabularClassifier
    else:
        known["bounds"] = (-4.0, 4.0)
        votes, release = PrivateNeighborsRegressor, PrivateTabularRegressor
    local = votes(case.total, relation=case.relation, local="always", **known)
    local.fit(X[: case.n], y[: case.n])
    other = release(case.total, relation=case.relation, **known)
    other.fit(X[: case.n], y[: case.n])
    error = prior_error(local.law_, X[: case.n], y[: case.n], labels)
    score = (lambda y, a: float(np.mean(y == a))) if labels else r2_score
    found = []
    for questions in QUESTIONS:
        asked = slice(case.n, case.n + questions)
        plan = local.plan_for(questions)
        law = replace(local.law_, plan=plan)
        answers = law.ask(law.encode(X[asked]), law.start()).answers
        found.append(
            {
                **asdict(case),
                "questions": questions,
                "wanted": round(plan.wanted, 1),
                "automatic": near(local, case, questions) and error >= SURE,
                "votes": float(score(y[asked], answers)),
                "release": float(score(y[asked], other.predict(X[asked]))),
            }
        )
    return found


def near(model: Any, case: Case, questions: int) -> bool:
    """Return whether units may vote on this number of questions, by public facts."""
    told = clone(model).set_params(questions=questions)
    return bool(told.local_questions(case.n) == questions)


def prior_error(law: Any, X: Matrix, y: Targets, labels: int) -> float:
    """Return the mean squared error of the prior, as a fit measures it with noise."""
    mean = law.model.mean(law.encode(X))
    if not labels:
        return float(np.mean((y / 4 - mean[0]) ** 2))
    if labels == 2:
        return float(np.mean((y - mean[0]) ** 2))
    own = y == np.arange(labels)[:, None]
    return float(((own - mean / mean.sum(axis=0)) ** 2).sum(axis=0).mean() / 2)


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def run(only: str, path: Path) -> None:
    """Compare what is not there yet; keep every record at once."""
    known = {(r["table"], r["relation"], r["n"], r["total"]) for r in read(path)}
    todo = [each for each in cases(only) if tuple(asdict(each).values()) not in known]
    for case in with_progress(todo, total=len(todo), label="cases", stream=sys.stderr):
        records = compared(case)
        lines = ",\n".join(json.dumps(record) for record in read(path) + records)
        beside = path.with_suffix(".part")
        beside.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        os.replace(beside, path)


def table(records: list[dict[str, Any]]) -> str:
    """Return how votes compare with the release, by the share that a question needs."""
    shown = ["| units that a question looks for | comparisons | better with votes |"]
    shown[0] += " votes less release | automatic less the better |"
    shown.append("|---|---|---|---|---|")
    for low, high in pairwise(EDGES):
        found = [r for r in records if low < 1000 * r["wanted"] / r["n"] <= high]
        if found:
            gains = np.array([each["votes"] - each["release"] for each in found])
            chosen = np.array([each["automatic"] for each in found])
            lost = np.where(chosen, np.maximum(-gains, 0), np.maximum(gains, 0))
            shown.append(
                f"| {low:g} to {high:g} in 1,000 | {len(found)} | "
                f"{(gains > 0).sum()} | "
                f"{gains.mean():+.3f} ({gains.min():+.3f} to {gains.max():+.3f}) | "
                f"{-lost.mean():+.3f} ({-lost.max():+.3f} at worst) |"
            )
    return "\n".join(shown) + "\n"


def write_page() -> None:
    """Put the table on the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    made = BEGIN + table(read(RESULTS)) + END
    PAGE.write_text(before + made + rest.partition(END)[2], "utf-8")


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="how the table's name begins")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--page", action="store_true", help="put it on its page")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    if not given.table:
        run(given.only, given.out)
    for record in read(given.out):
        share = 1000 * record["wanted"] / record["n"]
        print(
            f"{record['table']:18} {record['relation']:11} n={record['n']} "
            f"total={record['total']:g} questions={record['questions']}: "
            f"{share:.2f} in 1,000, votes {record['votes']:.4f}, "
            f"release {record['release']:.4f}"
        )
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
