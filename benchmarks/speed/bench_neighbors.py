"""What a local answer costs, against distances to all rows by one matrix product.

Every result is a ratio within one run, each time the smallest of interleaved repeats,
in processor time.

- `one answer`: one question to 10^6 rows of 20 columns, noise and charges included,
  over the squares of distances to all rows by brute force; at most 0.2. Fifty
  questions, which nobody has asked before, are timed together.
- `batch`: 1,000 questions, over the bare product of the same two matrices; at most 2.
- `constant time`: one question if every search looks at all rows; no goal.
- `worn out`: one question long after the planned number of them, when few units can
  pay: every search goes to the largest radius; no goal.
- `through a ledger`: one question through `LastingInterface`, which records it in a
  SQLite ledger before it is answered; no goal.
- `restart`: processor seconds of a process that loads the stored model, reads its log
  after 10^5 questions, and answers one more; at most 10. The process before was not
  closed, as if it had been killed. The model has 10^5 rows and is planned for as many
  questions, so that its units can pay to the end.

Units near a question vote on every answer (`local="always"`), and noise is the one that
is served. The rows lie in clusters, as rows of tables do, and the state is that after
the fit and some hundred questions, which settle the radius.

Prints one JSON object; `--quick` takes smaller sizes and judges nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reticent.ledger import SQLLedger
from reticent.prediction import (
    LastingInterface,
    LocalLaw,
    PrivateNeighborsClassifier,
    SnapshotFile,
)
from reticent.schemas import ClassLabel, Encoder, Numeric, Schema
from reticent.signing import HMACSigner
from reticent.storage import load_model, save_model

SIZES = {
    "quick": {
        "rows": 20_000,
        "batch": 100,
        "settling": 50,
        "repeats": 2,
        "asked": 1_000,
        "recorded": 20_000,
        "worn": 400,
    },
    "full": {
        "rows": 10**6,
        "batch": 1_000,
        "settling": 500,
        "repeats": 3,
        "asked": 10**5,
        "recorded": 10**5,
        "worn": 1_000,
    },
}
COLUMNS, CLUSTERS = 20, 200
AT_MOST = {"one answer": 0.2, "batch": 2.0}
MOST_SECONDS = 10.0
_ALONE = 50  # questions that are asked one by one in each repeat
_ALL_ROWS = 5  # of those, if every search looks at all rows, or far
_PLANNED = 5  # as many questions as make units spent, this many times
_BLOCK = 50  # questions whose products with all rows are in memory at once
_TOGETHER = 100  # questions to the ledger in one call
_KEY = bytes(range(32))


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


def opened(predictor: Any, folder: Path) -> LastingInterface:
    """Return an interface whose log and snapshots are in a folder."""
    ledger = SQLLedger(f"sqlite:///{folder / 'ledger.db'}")
    snapshots = SnapshotFile(folder / "snapshot", HMACSigner(_KEY))
    return LastingInterface(predictor, ledger, snapshots=snapshots)


def store(predictor: Any, folder: Path) -> None:
    names = [f"x{place}" for place in range(COLUMNS)]
    schema = Schema(
        columns=dict.fromkeys(names, Numeric(-1, 1)), label=ClassLabel("y", (0, 1))
    )
    encoder = Encoder(schema, style="ordinal")
    save_model(
        folder / "model",
        predictor,
        schema,
        signing_key=_KEY,
        encoder=encoder,
        dataset="data",
    )


def restarted(folder: Path) -> dict[str, Any]:
    """Do what a new process does before its first answer, and give it."""
    predictor = load_model(folder / "model", signing_key=_KEY).predictor
    interface = opened(predictor, folder)
    interface.predict(np.load(folder / "question.npy"))
    return {"seconds": time.process_time()}  # of this process since its start


def one_by_one(interface: LastingInterface, questions: np.ndarray) -> None:
    for question in questions:
        interface.predict(question[None])


class Bench:
    """A fitted predictor, its rows, and questions that nobody has asked yet."""

    def __init__(self, size: dict[str, int]) -> None:
        self.size, rng = size, np.random.default_rng(0)
        repeated = size["repeats"] * (size["batch"] + 2 * _ALONE + 2 * _ALL_ROWS)
        needed = size["settling"] + repeated + size["worn"] + size["asked"] + 2
        # Questions are rows of the same table that are not in it.
        X, self._y = table(size["rows"] + needed, rng)
        self.X, self._questions = X[needed:], X[:needed]
        self._y = self._y[needed:]
        self.squares = np.einsum("ij,ij->i", self.X, self.X)
        start = time.process_time()
        self.model = self.fitted(size["rows"])
        self.law = self.model.law_
        self.fit_seconds = time.process_time() - start
        self.constant = replace(self.law, constant_time=True)
        self.state = self.law.start()
        self.ask(self.law, self.next(size["settling"]))
        self.ask(self.constant, self.next(1))  # makes its index

    def fitted(self, n_rows: int, **given: Any) -> PrivateNeighborsClassifier:
        given = {"classes": [0, 1], "local": "always", **given}
        model = PrivateNeighborsClassifier(1.0, **given)
        return model.fit(self.X[:n_rows], self._y[:n_rows])

    def next(self, count: int) -> np.ndarray:
        asked, self._questions = self._questions[:count], self._questions[count:]
        return asked

    def ask(self, law: LocalLaw, questions: np.ndarray) -> None:
        law.ask(law.encode(questions), self.state)

    def one_by_one(self, law: LocalLaw, questions: np.ndarray) -> None:
        for question in questions:
            self.ask(law, question[None])

    def distances(self, questions: np.ndarray, X: np.ndarray | None = None) -> None:
        X = self.X if X is None else X
        squares = self.squares[: len(X)]
        for question in questions:
            squares - 2 * (X @ question) + question @ question

    def product(self, questions: np.ndarray) -> None:
        for start in range(0, len(questions), _BLOCK):
            self.X @ questions[start : start + _BLOCK].T

    def run(self) -> dict[str, Any]:
        times: dict[str, list[float]] = {}

        def timed(name: str, function: Callable[..., Any], *given: Any) -> None:
            times.setdefault(name, []).append(seconds(lambda: function(*given)))

        for number in range(self.size["repeats"]):
            print(f"repeat {number + 1}: {times}", file=sys.stderr, flush=True)
            alone, batch = self.next(_ALONE), self.next(self.size["batch"])
            timed("one", self.one_by_one, self.law, alone)
            timed("brute", self.distances, alone)
            all_rows = self.next(_ALL_ROWS)
            timed("constant", self.one_by_one, self.constant, all_rows)
            timed("brute for constant", self.distances, all_rows)
            timed("batch", self.ask, self.law, batch)
            timed("product", self.product, batch)
        return {
            "fit": {"seconds": self.fit_seconds},
            "one answer": compared(times["one"], times["brute"]),
            "constant time": compared(times["constant"], times["brute for constant"]),
            "batch": compared(times["batch"], times["product"]),
            "worn out": self.worn_out(),
            **self.recorded(),
        }

    def worn_out(self) -> dict[str, float]:
        """Ask many more questions than the noise is planned for, and then some."""
        count = self.size["worn"]
        plan = self.model.plan_for(count // _PLANNED)
        law, self.state = replace(self.law, plan=plan), self.law.start()
        self.ask(law, self.next(count))
        ours, brute = [], []
        for _ in range(self.size["repeats"]):
            some = self.next(_ALL_ROWS)
            ours.append(seconds(partial(self.one_by_one, law, some)))
            brute.append(seconds(partial(self.distances, some)))
        return compared(ours, brute)

    def recorded(self) -> dict[str, Any]:
        """Ask through a ledger, and start again."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # Begun in its ledger before it is stored, so that one log is all it has.
            model = self.fitted(self.size["recorded"], questions=self.size["asked"])
            interface = opened(model, folder)
            store(model, folder)
            plain = self.X[: self.size["recorded"]]
            for start in range(0, self.size["asked"], _TOGETHER):
                count = min(_TOGETHER, self.size["asked"] - start)
                interface.predict(self.next(count))
            ours, brute = [], []
            for _ in range(self.size["repeats"]):
                alone = self.next(_ALONE)
                ours.append(seconds(partial(one_by_one, interface, alone)))
                brute.append(seconds(partial(self.distances, alone, plain)))
            np.save(folder / "question.npy", self.next(1))
            command = [sys.executable, __file__, "--restart", str(folder)]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
        restart = json.loads(done.stdout)
        return {
            "through a ledger": compared(ours, brute),
            "restart": restart,
        }


def main(arguments: list[str]) -> int:
    if "--restart" in arguments:
        print(json.dumps(restarted(Path(arguments[-1]))))
        return 0
    quick = "--quick" in arguments
    size = SIZES["quick" if quick else "full"]
    results: dict[str, Any] = {
        "numpy": np.__version__,
        "size": size,
        **Bench(size).run(),
    }
    missed = [name for name, most in AT_MOST.items() if results[name]["ratio"] > most]
    if results["restart"]["seconds"] > MOST_SECONDS:
        missed.append("restart")
    results["missed"] = [] if quick else missed
    print(json.dumps(results, indent=2))
    return 1 if results["missed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
