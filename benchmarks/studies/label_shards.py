"""The accuracy of private votes for every number of shards, from few trained models.

Shards are disjoint, so models of shards of `m` rows are independent draws. Of a pool of
such models, every choice of `r` is as likely an ensemble of `r` shards as any other. So
the votes for a row follow from how many models of the pool say which label, by the law
of draws without replacement (with replacement where the pool is smaller than `r`), and
the exact law of an answer turns votes into accuracy. One pool per `m` serves all tables
of ``n = r m`` rows and every epsilon. Between two sizes of shards, accuracy is
interpolated for each `r`.

Nothing is decided by one lucky ensemble: all of them are averaged. What is left of
chance, in models and in test rows, is estimated by leaving out a fifth of both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.stats import binom, hypergeom
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks import data
from reticent.ensembles import SHARD_TREES
from reticent.mechanisms import geometric_vote, permute_and_flip_vote
from reticent.prediction import PrivateVotingClassifier
from reticent.prediction.sharded.counts import choose_shards

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
ROWS = (100, 200, 500, 1500, 5000)
COUNTS = (*range(1, 22, 2), 25, 31, 41, 51, 61, 81, 101, 151, 201, 301)
# Rows per shard. Boosted trees have leaves of ten rows, so with fewer than twenty they
# are constants: an ensemble of those answers with the majority, and is no model.
SIZES = {
    "linear": (8, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 453, 640, 905, 1280),
    "trees": (20, 32, 50, 80, 128, 256, 512),
}
LARGEST = {"linear": 1810, "trees": 1500}
# Boosted trees take long: they are trained on these tables.
TREES_ON = ("rare", "levels", "adult", "bank", "covtype")
GROUPS = 5
# Counts that lose more than this are not recorded.
_HOPELESS = 0.03
_GENERATED_ROWS = 40_000
_TEST_ROWS = 2000

# The rule was settled on the first; the others are reports.
SETTLED_ON = ("plain", "rare", "noisy", "bent", "levels", "five labels")
REPORTED_ON = ("breast cancer", "digits", "adult", "bank", "covtype")

Table = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]


def _generated(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, name)))
    n = _GENERATED_ROWS
    if name == "five labels":
        X = rng.normal(size=(n, 15))
        scores = X @ rng.normal(size=(15, 5)) + 1.5 * rng.gumbel(size=(n, 5))
        return X, scores.argmax(axis=1)
    if name == "rare":
        X = rng.normal(size=(n, 40))
        score = X[:, :5].sum(axis=1) / math.sqrt(5) - 1.3
        noise = 0.5
    elif name == "bent":
        X = rng.uniform(-1, 1, size=(n, 12))
        score = np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + X[:, 3] ** 2
        score += 0.4 * X[:, 4] - 0.33
        noise = 0.4
    elif name == "levels":
        X = np.eye(6)[rng.integers(0, 6, size=(n, 10))].reshape(n, 60)
        score = X @ rng.normal(size=60)
        score, noise = score - np.quantile(score, 0.7), 0.7 * score.std()
    else:
        columns, noise = {"plain": (10, 0.5), "noisy": (50, 1.0)}[name]
        X = rng.normal(size=(n, columns))
        weights = rng.normal(size=columns)
        if name == "noisy":
            weights *= rng.uniform(size=columns) ** 2
        score = X @ weights / np.linalg.norm(weights)
    return X, (score + noise * rng.normal(size=n) > 0).astype(int)


def table(name: str) -> Table:
    """Return columns for each kind of model, labels, training rows and test rows."""
    rng = np.random.default_rng(0)
    if name in ("adult", "bank", "covtype"):
        task = data.load(name)
        X = {"linear": task.encoded, "trees": task.raw}
        test = rng.permutation(task.test)[:_TEST_ROWS]
        return X, task.y, rng.permutation(task.train), test
    if name in ("breast cancer", "digits"):
        load = load_breast_cancer if name == "breast cancer" else load_digits
        rows, y = load(return_X_y=True)
        rows = (rows - rows.min(axis=0)) / np.maximum(np.ptp(rows, axis=0), 1e-9)
    else:
        rows, y = _generated(name)
    order = rng.permutation(len(y))
    held_out = min(_TEST_ROWS, len(y) // 3)
    return {"linear": rows, "trees": rows}, y, order[held_out:], order[:held_out]


@dataclass(frozen=True)
class Pool:
    """How often each label was voted for, by group of models, for each test row."""

    votes: np.ndarray  # groups x rows x labels
    truth: np.ndarray

    @classmethod
    def train(cls, rows: Table, kind: str, size: int) -> Pool:
        """Train models on disjoint parts of `size` rows, as shards are."""
        columns, y, train, test = rows
        X, labels = columns[kind], int(y.max()) + 1
        most = 100 if kind == "linear" else 25 if size < 500 else 5
        # A small table is dealt anew for each group, a large one only once.
        each = min(most // GROUPS, len(train) // size)
        again = each * size * GROUPS > len(train)
        base: Any = (
            LogisticRegression()
            if kind == "linear"
            else HistGradientBoostingClassifier(**SHARD_TREES)
        )
        found = []
        for group in range(GROUPS):
            rng = np.random.default_rng(group)
            start = 0 if again else group * each * size
            order = rng.permutation(train) if again else train
            part = order[start : start + each * size]
            model = PrivateVotingClassifier(
                base, 4.0, list(range(labels)), each, rule="soft", random_state=group
            ).fit(X[part], y[part])
            found.append(model.law_.votes(X[test]))
        return cls(np.stack(found), y[test])

    def without(self, group: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return votes and truth without one group of models and of test rows."""
        if group is None:
            return self.votes.sum(axis=0), self.truth
        kept = np.arange(len(self.truth)) % GROUPS != group
        others = np.delete(self.votes, group, axis=0).sum(axis=0)
        return others[kept], self.truth[kept]


@lru_cache(maxsize=4096)
def _drawn(pool: int, count: int) -> np.ndarray:
    """Return the law of right votes among `count`, by how many in the pool are."""
    right, votes = np.arange(pool + 1)[:, np.newaxis], np.arange(count + 1)
    if count <= pool:
        return np.asarray(hypergeom.pmf(votes, pool, right, count))
    return np.asarray(binom.pmf(votes, count, right / pool))


@lru_cache(maxsize=4096)
def _kept(count: int, epsilon: float) -> np.ndarray:
    """Return the probability of a right answer for each number of right votes."""
    votes = np.arange(count + 1)
    law = geometric_vote(np.stack([count - votes, votes], axis=1), epsilon)
    return np.asarray(law.probabilities[:, 1])


def accuracies(votes: np.ndarray, truth: np.ndarray, count: int) -> list[float]:
    """Return the expected accuracy of `count` models of the pool at every epsilon."""
    pool, labels = int(votes[0].sum()), votes.shape[1]
    if labels == 2:
        right = votes[np.arange(len(truth)), truth]
        shares = np.bincount(right, minlength=pool + 1) / len(truth)
        law = shares @ _drawn(pool, count)
        return [float(law @ _kept(count, epsilon)) for epsilon in EPSILONS]
    rng, found = np.random.default_rng(count), np.zeros(len(EPSILONS))
    drawn = _several(votes, count, rng)
    for place, epsilon in enumerate(EPSILONS):
        law = permute_and_flip_vote(drawn, epsilon).probabilities
        found[place] = law[np.arange(len(truth)), truth].mean()
    return [float(each) for each in found]


def _several(votes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `count` of the votes for each row, one label after the other."""
    pool = int(votes[0].sum())
    if count > pool:
        return rng.multinomial(count, votes / pool)
    drawn = np.zeros_like(votes)
    rest, wanted = np.full(len(votes), pool), np.full(len(votes), count)
    for label in range(votes.shape[1]):
        rest = rest - votes[:, label]
        drawn[:, label] = rng.hypergeometric(votes[:, label], rest, wanted)
        wanted = wanted - drawn[:, label]
    return drawn


class Curves:
    """Accuracy for every number of shards and rows, of one table and kind of model."""

    def __init__(self, rows: Any, kind: str) -> None:
        self.kind, self.labels = kind, int(rows[1].max()) + 1
        usable = len(rows[2])
        sizes = (*SIZES[kind], LARGEST[kind])
        self.sizes = [size for size in sizes if size <= usable]
        self.pools = [Pool.train(rows, kind, size) for size in self.sizes]
        self.n = [n for n in ROWS if n <= usable]
        self._found: dict[tuple[int, int | None], np.ndarray] = {}

    def _at(self, count: int, group: int | None) -> np.ndarray:
        """Return accuracies by size and epsilon, without one group."""
        if (count, group) not in self._found:
            self._found[count, group] = np.array(
                [accuracies(*pool.without(group), count) for pool in self.pools]
            )
        return self._found[count, group]

    def score(self, n: int, count: int, group: int | None = None) -> np.ndarray:
        """Return the accuracy of `count` shards of `n` rows at every epsilon."""
        curve = PchipInterpolator(np.log(self.sizes), self._at(count, group))
        return np.asarray(curve(math.log(n / count)))

    def counts(self, n: int) -> list[int]:
        low, high = self.sizes[0], self.sizes[-1]
        most = 301 if self.labels == 2 else 101
        return [c for c in COUNTS if low <= n / c <= high and c <= most]


def settings(curves: Curves) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield rows, the place of an epsilon, and how "auto" did there."""
    base = LogisticRegression()
    if curves.kind == "trees":
        base = HistGradientBoostingClassifier()
    for n in curves.n:
        counts = curves.counts(n)
        scores = np.array([curves.score(n, count) for count in counts])
        for place, epsilon in enumerate(EPSILONS):
            chosen = choose_shards(
                "auto",
                n_units=n,
                n_labels=curves.labels,
                epsilon=epsilon,
                estimator=base,
            ).n_shards
            if not counts[0] <= chosen:
                continue
            best = counts[int(scores[:, place].argmax())]
            lost = _lost(curves, n, best, min(chosen, counts[-1]), place)
            behind = scores[:, place].max() - scores[:, place]
            regrets = {
                str(count): round(float(lost), 5)
                for count, lost in zip(counts, behind, strict=True)
                if lost < _HOPELESS
            }
            about = {"labels": curves.labels, "regrets": regrets}
            yield n, place, {"auto": chosen, "best": best, **lost, **about}


def _lost(
    curves: Curves, n: int, best: int, chosen: int, place: int
) -> dict[str, float]:
    """Return what is lost to the best count, and the standard error of that."""

    def difference(group: int | None) -> float:
        better = curves.score(n, best, group)[place]
        return float(better - curves.score(n, chosen, group)[place])

    left_out = np.array([difference(group) for group in range(GROUPS)])
    error = math.sqrt((GROUPS - 1) * left_out.var())
    return {"regret": difference(None), "standard_error": error}


def study(names: tuple[str, ...], path: Path | None) -> dict[str, Any]:
    """Return every setting by table, kind, rows and epsilon.

    What `path` has is not measured again, and what is new is added to it.
    """
    found: dict[str, Any] = {}
    if path is not None and path.exists():
        found = json.loads(path.read_text())
    for name in names:
        kinds = ("linear", "trees") if name in TREES_ON else ("linear",)
        left = [
            kind
            for kind in kinds
            if not any(key.startswith(f"{name}, {kind}") for key in found)
        ]
        rows = table(name) if left else None
        for kind in left:
            for n, place, row in settings(Curves(rows, kind)):
                each = found.setdefault(f"{name}, {kind}, {n} rows", {})
                each[str(EPSILONS[place])] = row
            print(f"{name}, {kind}: done", flush=True)
            if path is not None:
                path.write_text(json.dumps(found) + "\n")
    return found


def judged(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Count settings within half a point, and those that are clearly not.

    The floor is the best that any rule can do that goes by rows, labels, the kind of
    model and epsilon: the count whose largest regret on these tables is least.
    """
    rows: list[dict[str, Any]] = []
    cells: dict[Any, list[dict[str, float]]] = {}
    for key, each in found.items():
        name, facts = key.split(", ", 1)
        for epsilon, row in each.items() if name in names else ():
            rows.append(row)
            cells.setdefault((facts, row["labels"], epsilon), []).append(row["regrets"])
    floors = [_least_worst(tables) for tables in cells.values()]
    return {
        "settings": len(rows),
        "within_half_a_point": sum(row["regret"] <= 0.005 for row in rows),
        "clearly_not": sum(
            row["regret"] - 2 * row["standard_error"] > 0.005 for row in rows
        ),
        "worst": max(row["regret"] for row in rows),
        "mean": float(np.mean([row["regret"] for row in rows])),
        "largest_standard_error": max(row["standard_error"] for row in rows),
        "floor": {
            "settings": len(floors),
            "within_half_a_point": sum(each <= 0.005 for each in floors),
            "worst": max(floors),
        },
    }


def _least_worst(tables: list[dict[str, float]]) -> float:
    every = {count for each in tables for count in each}
    return min(max(each.get(count, _HOPELESS) for each in tables) for count in every)
