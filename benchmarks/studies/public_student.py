"""Students of private answers against voting itself and against released linear models.

Of the training rows at most 50,000, or three quarters, are private; some of the others
are public and lose their labels. Every method costs the same (epsilon, delta) in total
and answers all test rows afterwards: students and linear models without limit; plain
votes by spending the whole budget on the test rows, to show why students are needed.
"PATE by hand" is a Gaussian noisy argmax with zCDP accounting, written here, on as many
teachers.

    python -m benchmarks.studies.public_student [--quick]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks import data
from reticent.guarantees import zcdp_epsilon
from reticent.learners import (
    NoisyGradientClassifier,
    OutputPerturbationClassifier,
    StudentClassifier,
)
from reticent.prediction import PrivateVotingClassifier

RESULTS = Path(__file__).parent.parent / "results" / "public_student.json"
FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "public_student.png"
DATA = ("adult", "covtype")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
MOST_PRIVATE, MOST_TEST = 50_000, 10_000
# Public rows that are labelled; chosen once, not tuned.
LABELLED = {"adult": 500, "covtype": 1000}
TEACHERS = 250


class Split:
    """Private rows, public rows without labels, and test rows."""

    def __init__(self, name: str, seed: int, most: int = MOST_PRIVATE) -> None:
        task = data.load(name)
        order = np.random.default_rng(seed).permutation(task.train)
        cut = min(most, 3 * len(order) // 4)
        self.private, rest = order[:cut], order[cut:]
        self.public = rest[: LABELLED[name]]
        self.test = task.test[:MOST_TEST]
        self.rows, self.y = task.encoded, task.y
        # A number in [0, 1], or one level, from each declared column.
        self.norm = float(np.sqrt(task.raw.shape[1]))

    def score(self, model: object) -> float:
        return float(np.mean(model.predict(self.rows[self.test]) == self.y[self.test]))


def linear() -> LogisticRegression:
    return LogisticRegression(C=1.0, max_iter=200)


def student(rule: str, epsilon: float, seed: int, split: Split, **settings) -> float:
    teacher = PrivateVotingClassifier(
        linear(), classes=[0, 1], n_shards=TEACHERS, rule=rule
    )
    settings = {"student": linear(), **settings}
    model = StudentClassifier(
        teacher, epsilon=epsilon, delta=DELTA, random_state=seed, **settings
    )
    rows, y = split.rows[split.private], split.y[split.private]
    return split.score(model.fit(rows, y, public=split.rows[split.public]))


def teachers_votes(split: Split, rows: np.ndarray, seed: int) -> np.ndarray:
    """Votes for label 1, of teachers on disjoint parts; hand-written."""
    deal = np.random.default_rng(seed).permutation(split.private)
    votes = np.zeros(len(rows), dtype=int)
    for part in np.array_split(deal, TEACHERS):
        if len(np.unique(split.y[part])) < 2:
            votes += int(split.y[part][0])
            continue
        votes += linear().fit(split.rows[part], split.y[part]).predict(rows)
    return votes


def noisy_argmax(votes: np.ndarray, epsilon: float, seed: int) -> np.ndarray:
    """Gaussian noise on counts of sensitivity sqrt 2: 1/sigma^2 of zCDP each."""

    def surplus(rho: float) -> float:
        return zcdp_epsilon(rho, DELTA) - epsilon

    rho = brentq(surplus, 1e-12, 1e4)
    sigma = np.sqrt(len(votes) / rho)
    noise = np.random.default_rng(seed + 1).normal(0, sigma, size=(2, len(votes)))
    return (votes + noise[0] > TEACHERS - votes + noise[1]).astype(int)


def pate(epsilon: float, split: Split, seed: int, votes: np.ndarray) -> float:
    labels = noisy_argmax(votes, epsilon, seed)
    if len(np.unique(labels)) < 2:
        return float((split.y[split.test] == labels[0]).mean())
    return split.score(linear().fit(split.rows[split.public], labels))


def methods(split: Split, seed: int) -> dict[str, Callable[[float], float]]:
    rows, y = split.rows[split.private], split.y[split.private]
    known = {"norm_bound": split.norm, "classes": [0, 1], "random_state": seed}
    asked = teachers_votes(split, split.rows[split.public], seed)
    tested = teachers_votes(split, split.rows[split.test], seed)
    trees = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    return {
        "student, soft votes": lambda e: student("soft", e, seed, split),
        "student, Gaussian votes": lambda e: student("gaussian", e, seed, split),
        "student of trees, soft votes": lambda e: student(
            "soft", e, seed, split, student=trees
        ),
        "PATE by hand": lambda e: pate(e, split, seed, asked),
        "votes on all test rows": lambda e: float(
            (noisy_argmax(tested, e, seed) == split.y[split.test]).mean()
        ),
        "output perturbation": lambda e: split.score(
            OutputPerturbationClassifier(e, delta=DELTA, **known).fit(rows, y)
        ),
        "noisy gradient": lambda e: split.score(
            NoisyGradientClassifier(e, delta=DELTA, **known).fit(rows, y)
        ),
    }


def without_privacy(split: Split) -> dict[str, float]:
    rows, y = split.rows[split.private], split.y[split.private]
    votes = teachers_votes(split, split.rows[split.public], 0)
    open_labels = split.y[split.public]
    return {
        "trained on private rows": split.score(linear().fit(rows, y)),
        "trained on public rows with true labels": split.score(
            linear().fit(split.rows[split.public], open_labels)
        ),
        "student of votes without noise": split.score(
            linear().fit(split.rows[split.public], (2 * votes > TEACHERS).astype(int))
        ),
        "majority": float(max(np.mean(y), 1 - np.mean(y))),
    }


def study(
    name: str, seeds: int, epsilons: tuple[float, ...], most: int = MOST_PRIVATE
) -> dict[str, object]:
    scores: dict[str, dict[str, list[float]]] = {}
    for seed in range(seeds):
        split = Split(name, seed, most)
        for method, run in methods(split, seed).items():
            for epsilon in epsilons:
                found = scores.setdefault(method, {}).setdefault(str(epsilon), [])
                found.append(run(epsilon))
                print(name, seed, method, epsilon, round(found[-1], 4), flush=True)
    split = Split(name, 0, most)
    return {
        "private": len(split.private),
        "public": len(split.public),
        "test": len(split.test),
        "teachers": TEACHERS,
        "delta": DELTA,
        "seeds": seeds,
        "without_privacy": without_privacy(split),
        "accuracy": {
            method: {
                epsilon: {
                    "mean": float(np.mean(values)),
                    "standard_error": float(
                        np.std(values, ddof=1) / np.sqrt(len(values))
                    ),
                }
                for epsilon, values in row.items()
            }
            for method, row in scores.items()
        },
    }


def draw(found: dict[str, dict]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(11, 4.2), layout="constrained")
    for axis, (name, entry) in zip(axes, found.items(), strict=True):
        for place, (method, row) in enumerate(entry["accuracy"].items()):
            axis.errorbar(
                [float(e) for e in row],
                [value["mean"] for value in row.values()],
                yerr=[2 * value["standard_error"] for value in row.values()],
                marker="osD^v*x"[place],
                label=method,
                capsize=2,
                linestyle="--" if "votes on" in method else "-",
            )
        plain = entry["without_privacy"]
        axis.axhline(plain["trained on private rows"], color="0.4", linewidth=0.8)
        axis.axhline(plain["majority"], color="0.4", linewidth=0.8, linestyle=":")
        axis.set_xscale("log", base=2)
        axis.set_xticks([float(e) for e in row], [str(e) for e in row])
        axis.set_title(
            f"{name}: {entry['private']} private rows, {entry['public']} labelled"
        )
        axis.set_xlabel("epsilon in all, delta = 1e-6")
    axes[0].set_ylabel("accuracy on test rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true", help="draw the last results")
    arguments = parser.parse_args()
    path = RESULTS.with_suffix(".quick.json") if arguments.quick else RESULTS
    if not arguments.draw:
        found = {}
        for name in DATA[:1] if arguments.quick else DATA:
            found[name] = (
                study(name, 2, (1.0,), 10_000)
                if arguments.quick
                else study(name, 3, EPSILONS)
            )
            path.write_text(json.dumps(found, indent=1) + "\n")
    if not arguments.quick:
        draw(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
