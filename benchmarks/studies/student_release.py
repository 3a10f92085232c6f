"""Students of private labels against the released default for tables.

All cost (1, 1e-6) in total for replacing one unit and answer without limit afterwards.
A part of the training rows loses its labels and counts as public; the others are
private. Teachers are boosted trees on disjoint shards of about 150 units each. The
number of labels follows from public facts: as many as leave a vote that is won by two
fifths of the teachers beyond the noise. Where there are no public rows, random ones are
labelled, drawn from the declared ranges and levels. A lasting predictor as a teacher
answers all public rows for one price.

    python -m benchmarks.studies.student_release [--data adult,bank] [--seeds 2]
        [--table]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.studies.release_methods import DELTA, Rows
from benchmarks.studies.release_peers import replace_one_rho
from benchmarks.studies.release_table import summary
from reticent.learners import PrivateTabularClassifier, StudentClassifier
from reticent.prediction import PrivateNeighborsClassifier, PrivateVotingClassifier

RESULTS = Path(__file__).parent.parent / "results" / "student_release.json"
PAGE = Path(__file__).parents[2] / "docs" / "explain" / "students.md"
BEGIN, END = "<!-- students -->\n", "<!-- /students -->\n"
EPSILON = 1.0
UNITS_PER_TEACHER, MOST_TEACHERS = 150, 500
PUBLIC_SHARE, MOST_PUBLIC = 0.25, 10_000


def trees() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=8, min_samples_leaf=5
    )


def counts(n: int, epsilon: float) -> tuple[int, int]:
    """Return how many teachers and labels there are, from public facts.

    Soft votes of bounded range e cost e^2/8 of zCDP each. A vote that two fifths of T
    teachers win is ``e T / 5`` in the exponent; the rule asks for two.
    """
    teachers = int(np.clip(n // UNITS_PER_TEACHER, 20, MOST_TEACHERS))
    rho = replace_one_rho(epsilon, DELTA)
    return teachers, int(np.clip(8 * rho * (teachers / 10) ** 2, 50, MOST_PUBLIC))


class Split:
    """Private rows, rows without labels, random rows, and test rows."""

    def __init__(self, name: str, seed: int) -> None:
        self.rows = Rows(name)
        rng = np.random.default_rng(seed)
        order = rng.permutation(self.rows.train)
        cut = min(int(len(order) * PUBLIC_SHARE), MOST_PUBLIC)
        X, y = np.nan_to_num(self.rows.table.X), self.rows.y
        self.public, self.private = X[order[:cut]], X[order[cut:]]
        self.y, self.test = y[order[cut:]], X[self.rows.test]
        levels = {k: len(self.rows.columns[k].levels) for k in self.rows.nominal}
        self.random = np.column_stack(
            [
                rng.integers(levels[k], size=cut)
                if k in levels
                else rng.uniform(column.low, column.high, cut)
                for k, column in enumerate(self.rows.columns)
            ]
        )

    def score(self, model: Any) -> float:
        return self.rows.score(model.predict(self.test))


def taught_by_votes(split: Split, seed: int, public: np.ndarray) -> float:
    teachers, labels = counts(len(split.private), EPSILON)
    vote = PrivateVotingClassifier(
        trees(), classes=split.rows.labels, n_shards=teachers
    )
    model = StudentClassifier(
        vote, trees(), EPSILON, delta=DELTA, n_labels=labels, random_state=seed
    )
    return split.score(model.fit(split.private, split.y, public=public))


def taught_by_neighbours(split: Split, seed: int) -> float:
    """A student of lasting answers: post-processing of what one filter covers."""
    teacher = PrivateNeighborsClassifier(
        EPSILON,
        delta=DELTA,
        columns=split.rows.columns,
        classes=split.rows.labels,
        random_state=seed,
    ).fit(split.private, split.y)
    labels = teacher.predict(split.public)
    if len(np.unique(labels)) < 2:
        return float((split.rows.y[split.rows.test] == labels[0]).mean())
    return split.score(trees().fit(split.public, labels))


def released(split: Split, seed: int) -> float:
    model = PrivateTabularClassifier(
        EPSILON,
        delta=DELTA,
        columns=split.rows.columns,
        classes=split.rows.labels,
        random_state=seed,
    )
    return split.score(model.fit(split.private, split.y))


def methods(split: Split, seed: int) -> dict[str, Callable[[], float]]:
    return {
        "released default": lambda: released(split, seed),
        "student, votes on public rows": lambda: taught_by_votes(
            split, seed, split.public
        ),
        "student, votes on random rows": lambda: taught_by_votes(
            split, seed, split.random
        ),
        "student, lasting answers on public rows": lambda: taught_by_neighbours(
            split, seed
        ),
    }


def table(found: dict[str, Any]) -> str:
    """Return the Markdown table of what was measured."""
    whom = list(dict.fromkeys(who for one in found.values() for who in one["accuracy"]))
    facts = [
        f"{name}: {one['private']:,} private and {one['public']:,} public rows, "
        f"{one['teachers']} teachers, {one['labels']} labels, seeds: {one['seeds']}"
        for name, one in found.items()
    ]
    lines = [
        "Accuracy at (1, 1e-6) in all. " + "; ".join(facts) + ".",
        "",
        "| who | " + " | ".join(found) + " |",
        "|---" * (1 + len(found)) + "|",
    ]
    for who in whom:
        cells = [
            f"{one['accuracy'][who]['mean']:.3f}" if who in one["accuracy"] else "-"
            for one in found.values()
        ]
        lines.append(f"| {who} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write() -> None:
    """Put the table on the page."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    shown = table(json.loads(RESULTS.read_text("utf-8")))
    PAGE.write_text(f"{head}{BEGIN}{shown}{END}{rest.partition(END)[2]}", "utf-8")


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="adult,bank,covtype 100k")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only write the page")
    given = parser.parse_args()
    if given.table:
        write()
        return
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in given.data.split(","):
        scores: dict[str, list[float]] = {}
        for seed in range(given.seeds):
            split = Split(name, seed)
            for who, measure in methods(split, seed).items():
                scores.setdefault(who, []).append(measure())
                print(name, seed, who, round(scores[who][-1], 4), flush=True)
            teachers, labels = counts(len(split.private), EPSILON)
            found[name] = {
                "seeds": seed + 1,
                "private": len(split.private),
                "public": len(split.public),
                "teachers": teachers,
                "labels": labels,
                "accuracy": {who: summary(one) for who, one in scores.items()},
            }
            given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
