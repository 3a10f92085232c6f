"""Noise labels: what an adaptive analyst reports, and what each guard promises.

Labels are coin flips, so every classifier has accuracy 1/2. An analyst looks for a
good one anyway and reports its accuracy on the data that the search has used. Without
a guard the report is far too good. With `ReusableHoldout`, `Ladder` or
`AdaptiveSession` it stays within the bound that was stated before the first look.

    python benchmarks/studies/reuse_overfitting.py [--quick] [--out docs/figures]

writes ``reuse_overfitting.json`` and ``reuse_overfitting.png``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import stats

import reticent
from reticent.errors import BudgetExhaustedError
from reticent.generalization import (
    AdaptiveSession,
    BoostingScheme,
    CompressionClassifier,
    Ladder,
    ReusableHoldout,
)

TRUTH = 0.5
SEED = 7


@dataclass(frozen=True)
class Sizes:
    """Rows of the training set and of the holdout, features, and submissions."""

    rows: int
    features: int


FULL, QUICK = Sizes(2000, 8000), Sizes(2000, 3000)


@dataclass(frozen=True)
class Report:
    """What an analyst believes, and how far off the guard admits it may be."""

    value: float
    bound: float

    @property
    def within(self) -> bool:
        return abs(self.value - TRUTH) <= self.bound


class Noise:
    """Coin-flip features and labels, for training and to be held out."""

    def __init__(self, sizes: Sizes, seed: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.sizes = sizes
        shape = (sizes.rows, sizes.features)
        self.train_X = self.rng.integers(0, 2, shape, dtype=np.int8)
        self.held_X = self.rng.integers(0, 2, shape, dtype=np.int8)
        self.train_y = self.rng.integers(0, 2, sizes.rows, dtype=np.int8)
        self.held_y = self.rng.integers(0, 2, sizes.rows, dtype=np.int8)
        self.guess = agreement(self.train_X, self.train_y).mean(axis=0)


def agreement(X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
    """Say where a feature alone would predict the label."""
    return np.equal(X, y[:, None])


@dataclass(frozen=True)
class Vote:
    """A vote of features, each for or against its own value."""

    weights: NDArray[np.float32]

    def predict(self, X: NDArray[Any]) -> NDArray[np.int8]:
        used = np.flatnonzero(self.weights)
        score = (2 * X[:, used].astype(np.float32) - 1) @ self.weights[used]
        return (score > 0).astype(np.int8)

    def right(self, X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(self.predict(X) == y)


def validated_vote(
    guess: NDArray[np.float64], held: NDArray[np.float64], rows: int
) -> Vote:
    """Keep the features that look good on both parts: the analyst's mistake."""
    least = 0.5 / np.sqrt(rows)
    sign = np.sign(guess - 0.5)
    good = (np.abs(guess - 0.5) > least) & ((held - 0.5) * sign > least)
    return Vote((sign * good).astype(np.float32))


def naive_holdout(data: Noise, seed: int) -> Report:
    """Validate every feature on the holdout, then report the vote's holdout score."""
    held = agreement(data.held_X, data.held_y).mean(axis=0)
    vote = validated_vote(data.guess, held, data.sizes.rows)
    return Report(float(vote.right(data.held_X, data.held_y).mean()), 0.0)


def guarded_holdout(
    data: Noise, seed: int, *, method: str = "auto", overfits: int = 3
) -> Report:
    """Do the same through a reusable holdout."""
    holdout = ReusableHoldout(
        data.held_X,
        data.held_y,
        queries=data.sizes.features + 1,
        overfits=overfits,
        method=method,
        random_state=seed,
    )
    held = holdout.query(agreement, guess=data.guess).value
    vote = validated_vote(data.guess, np.nan_to_num(held, nan=0.5), data.sizes.rows)
    train_score = float(vote.right(data.train_X, data.train_y).mean())
    try:
        value = float(holdout.query(vote.right, guess=train_score).value)
    except BudgetExhaustedError:  # a report that cannot be made is not within a bound
        value = float("nan")
    return Report(value, holdout.error_at_most)


def random_submissions(data: Noise) -> NDArray[np.int8]:
    shape = (data.sizes.features, data.sizes.rows)
    return data.rng.integers(0, 2, shape, dtype=np.int8)


def naive_board(data: Noise, seed: int) -> Report:
    """Submit coin flips, then the vote of those that scored above one half."""
    tries = random_submissions(data)
    scores = (tries == data.held_y).mean(axis=1)
    vote = (2.0 * tries - 1).T @ np.sign(scores - 0.5)
    final = float(((vote > 0) == data.held_y).mean())
    return Report(max(final, float(scores.max())), 0.0)


def ladder_board(data: Noise, seed: int) -> Report:
    """Climb the same way on a Ladder: the vote of what made the score shown rise."""
    board = Ladder(
        data.held_y, step=0.05, submissions=data.sizes.features + 1, improvements=5
    )
    vote = np.zeros(data.sizes.rows)
    try:
        for entry in random_submissions(data):
            before = board.best
            sign = 1.0 if board.submit(entry) > before else -1.0
            vote += sign * (2.0 * entry - 1)
        board.submit((vote > 0).astype(np.int8))
    except BudgetExhaustedError:  # closed: what is shown stays
        pass
    return Report(board.best, board.error_at_most)


def session(data: Noise, seed: int) -> Report:
    """Search with private means, few-bit choices and a compression learner."""
    session = AdaptiveSession(
        data.held_X, data.held_y, epsilon=0.05, kept=5, bits=80, random_state=seed
    )
    order = np.argsort(-np.abs(data.guess - 0.5))[:20]
    noisy = session.mean(
        lambda X, y: agreement(X[:, order], y), epsilon=0.05 / 20, queries=20
    )
    weights = np.zeros(data.sizes.features, dtype=np.float32)
    weights[order] = np.sign(noisy - 0.5)
    for _ in range(3):
        unused = weights == 0
        best = session.choose(
            lambda X, y, unused=unused: int(
                np.abs((agreement(X, y).mean(axis=0) - 0.5) * unused).argmax()
            ),
            range(data.sizes.features),
        )
        weights[best] = 5.0
    scheme = BoostingScheme(rounds=1, examples=5, weight_bits=0)
    tree = CompressionClassifier(
        scheme, report_error=False, classes=[0, 1], random_state=seed
    )
    tree = session.fit(tree)
    candidates = [Vote(weights), tree]
    values = [session.score(each, levels=50) for each in candidates]
    return Report(max(values), session.bound + 0.01)


ANALYSTS: dict[str, Callable[[Noise, int], Report]] = {
    "naive holdout": naive_holdout,
    "ReusableHoldout": guarded_holdout,
    "naive leaderboard": naive_board,
    "Ladder": ladder_board,
    "AdaptiveSession": session,
}
GUARDED = ("ReusableHoldout", "Ladder", "AdaptiveSession")


def simulate(
    repetitions: int, sizes: Sizes, seed: int = SEED
) -> dict[str, list[Report]]:
    """Let every analyst loose on fresh noise, again and again."""
    reports: dict[str, list[Report]] = {name: [] for name in ANALYSTS}
    for repetition in range(repetitions):
        data = Noise(sizes, [seed, repetition])
        for name, analyst in ANALYSTS.items():
            reports[name].append(analyst(data, repetition))
        if sys.stderr.isatty():
            print(f"\r{repetition + 1}/{repetitions}", end="", file=sys.stderr)
    return reports


def summary(reports: dict[str, list[Report]]) -> dict[str, Any]:
    """Return means with intervals, and how often the stated bound held."""
    result = {}
    for name, found in reports.items():
        values = np.array([report.value for report in found])
        held = sum(report.within for report in found)
        interval = stats.binomtest(held, len(found)).proportion_ci(0.95)
        half = 1.96 * values.std(ddof=1) / np.sqrt(len(found))
        result[name] = {
            "mean": round(float(values.mean()), 4),
            "mean_95": [round(float(values.mean() + s * half), 4) for s in (-1, 1)],
            "worst": round(float(np.abs(values - TRUTH).max()), 4),
            "bound": round(max(report.bound for report in found), 4),
        }
        if name in GUARDED:
            result[name]["within_bound"] = held / len(found)
            result[name]["within_bound_95"] = [
                round(interval.low, 4),
                round(interval.high, 4),
            ]
    return result


def selection_curve(sizes: Sizes, repetitions: int) -> dict[str, Any]:
    """Report the vote's score as the analyst keeps more and more features."""
    counts = [10, 20, 50, 100, 200, 500]
    curves: dict[str, list[list[float]]] = {"naive": [], "guarded": []}
    for repetition in range(repetitions):
        data = Noise(sizes, [SEED, 1, repetition])
        exact = agreement(data.held_X, data.held_y).mean(axis=0)
        holdout = ReusableHoldout(
            data.held_X,
            data.held_y,
            queries=sizes.features + len(counts),
            overfits=len(counts) + 1,
            random_state=repetition,
        )
        answers = holdout.query(agreement, guess=data.guess).value
        for name, held in (("naive", exact), ("guarded", answers)):
            joint = np.minimum(
                np.abs(data.guess - 0.5),
                (held - 0.5) * np.sign(data.guess - 0.5),
            )
            order = np.argsort(-joint)
            line = []
            for count in counts:
                weights = np.zeros(sizes.features, dtype=np.float32)
                chosen = order[:count]
                weights[chosen] = np.sign(data.guess[chosen] - 0.5)
                vote = Vote(weights)
                if name == "naive":
                    line.append(float(vote.right(data.held_X, data.held_y).mean()))
                else:
                    train = float(vote.right(data.train_X, data.train_y).mean())
                    line.append(float(holdout.query(vote.right, guess=train).value))
            curves[name].append(line)
    return {
        "features": counts,
        "bound": round(holdout.error_at_most, 4),
        **{
            name: np.mean(lines, axis=0).round(4).tolist()
            for name, lines in curves.items()
        },
    }


def plot(reports: dict[str, list[Report]], curve: dict[str, Any], target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=(3, 2))
    rng = np.random.default_rng(0)
    for place, (name, found) in enumerate(reports.items()):
        guarded = name in GUARDED
        colour = "#1b6ca8" if guarded else "#c0392b"
        if guarded:
            bound = max(report.bound for report in found)
            left.bar(
                place, 2 * bound, bottom=TRUTH - bound, width=0.7, color="#d6e6f2",
                label="stated bound" if name == GUARDED[0] else None,
            )  # fmt: skip
        spread = place + rng.uniform(-0.2, 0.2, len(found))
        left.plot(spread, [r.value for r in found], ".", color=colour, alpha=0.5)
    left.axhline(TRUTH, color="black", linewidth=1, label="truth")
    left.set_xticks(range(len(reports)), [n.replace(" ", "\n") for n in reports])
    left.set_ylabel("accuracy reported")
    left.set_ylim(0.3, 1.0)
    left.set_title(f"What the analyst reports, {len(found)} repetitions")
    left.legend(loc="upper right", frameon=False)

    right.plot(curve["features"], curve["naive"], "o-", color="#c0392b", label="naive")
    right.plot(
        curve["features"], curve["guarded"], "o-", color="#1b6ca8",
        label="ReusableHoldout",
    )  # fmt: skip
    right.axhline(TRUTH, color="black", linewidth=1, label="truth")
    right.axhspan(
        TRUTH - curve["bound"], TRUTH + curve["bound"], color="#d6e6f2", zorder=0
    )
    right.set_xscale("log")
    right.set_ylim(0.3, 1.0)
    right.set_xlabel("features in the vote")
    right.set_title("One holdout, asked again and again")
    right.legend(loc="upper left", frameon=False)
    figure.suptitle("Labels are coin flips: no classifier is better than 0.5")
    figure.tight_layout()
    figure.savefig(target, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 small repetitions")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    repetitions = 10 if options.quick else options.repetitions
    reports = simulate(repetitions, sizes)
    curve = selection_curve(sizes, 3 if options.quick else 20)
    result = {
        "study": "reuse_overfitting",
        "repetitions": repetitions,
        "rows": sizes.rows,
        "features": sizes.features,
        "seed": SEED,
        "versions": {
            "reticent": reticent.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "analysts": summary(reports),
        "selection": curve,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2)
    (options.out / "reuse_overfitting.json").write_text(text + "\n", encoding="utf-8")
    plot(reports, curve, options.out / "reuse_overfitting.png")
    print(text)


if __name__ == "__main__":
    main()
