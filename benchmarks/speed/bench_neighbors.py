"""What a local answer costs, against distances to all rows by one matrix product.

Every result is a ratio within one run, each time the smallest of interleaved repeats,
in processor time.

- `one answer`: one question to 10^6 rows of 20 columns, noise and charges included,
  over the squares of distances to all rows by brute force; at most 0.2. Twenty
  questions, which nobody has asked before, are timed together.
- `batch`: 1,000 questions, over the bare product of the same two matrices; at most 2.
- `constant time`: one question if every search looks at all rows; no goal.

The rows lie in clusters, as rows of tables do, and the state is that after the fit and
some hundred questions, which settle the radius.

Prints one JSON object; `--quick` takes smaller sizes and judges nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from reticent.prediction import LocalLaw, PrivateNeighborsClassifier

SIZES = {
    "quick": {"rows": 20_000, "batch": 100, "settling": 50, "repeats": 2},
    "full": {"rows": 10**6, "batch": 1_000, "settling": 500, "repeats": 3},
}
COLUMNS, CLUSTERS = 20, 200
AT_MOST = {"one answer": 0.2, "batch": 2.0}
_ALONE = 20  # questions that are asked one by one in each repeat
_BLOCK = 50  # questions whose products with all rows are in memory at once


def table(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    centers = rng.uniform(-0.8, 0.8, (CLUSTERS, COLUMNS))
    X = centers[rng.integers(CLUSTERS, size=rows)]
    X = X + rng.normal(0, 0.1, X.shape)
    y = (np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(int)
    return np.clip(X, -1, 1), y


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def compared(ours: list[float], plain: list[float]) -> dict[str, float]:
    """Return the smallest times of both and their ratio."""
    least, bare = min(ours), min(plain)
    return {"seconds": least, "plain_seconds": bare, "ratio": least / bare}


class Bench:
    """A fitted predictor, its rows, and questions that nobody has asked yet."""

    def __init__(self, size: dict[str, int]) -> None:
        self.size, rng = size, np.random.default_rng(0)
        needed = size["settling"] + size["repeats"] * (size["batch"] + 2 * _ALONE)
        # Questions are rows of the same table that are not in it.
        X, y = table(size["rows"] + needed, rng)
        self.X, self._questions = X[needed:], X[:needed]
        self.squares = np.einsum("ij,ij->i", self.X, self.X)
        start = time.process_time()
        model = PrivateNeighborsClassifier(1.0, classes=[0, 1], random_state=0)
        self.law = model.fit(self.X, y[needed:]).law_
        self.fit_seconds = time.process_time() - start
        self.constant = replace(self.law, constant_time=True)
        self.state = self.law.start()
        self.ask(self.law, self.next(size["settling"]))
        self.ask(self.constant, self.next(1))  # makes its index

    def next(self, count: int) -> np.ndarray:
        asked, self._questions = self._questions[:count], self._questions[count:]
        return asked

    def ask(self, law: LocalLaw, questions: np.ndarray) -> None:
        law.ask(law.encode(questions), self.state)

    def one_by_one(self, law: LocalLaw, questions: np.ndarray) -> None:
        for question in questions:
            self.ask(law, question[None])

    def distances(self, questions: np.ndarray) -> None:
        for question in questions:
            self.squares - 2 * (self.X @ question) + question @ question

    def product(self, questions: np.ndarray) -> None:
        for start in range(0, len(questions), _BLOCK):
            self.X @ questions[start : start + _BLOCK].T

    def run(self) -> dict[str, Any]:
        times: dict[str, list[float]] = {}

        def timed(name: str, function: Callable[..., Any], *given: Any) -> None:
            times.setdefault(name, []).append(seconds(lambda: function(*given)))

        for _ in range(self.size["repeats"]):
            alone, batch = self.next(_ALONE), self.next(self.size["batch"])
            timed("one", self.one_by_one, self.law, alone)
            timed("brute", self.distances, alone)
            timed("constant", self.one_by_one, self.constant, self.next(_ALONE - 1))
            timed("batch", self.ask, self.law, batch)
            timed("product", self.product, batch)
        return {
            "fit": {"seconds": self.fit_seconds},
            "one answer": compared(times["one"], times["brute"]),
            "constant time": compared(times["constant"], times["brute"]),
            "batch": compared(times["batch"], times["product"]),
        }


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    size = SIZES["quick" if quick else "full"]
    results: dict[str, Any] = {
        "numpy": np.__version__,
        "size": size,
        **Bench(size).run(),
    }
    missed = [name for name, most in AT_MOST.items() if results[name]["ratio"] > most]
    results["missed"] = [] if quick else missed
    print(json.dumps(results, indent=2))
    return 1 if results["missed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
