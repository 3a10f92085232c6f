"""Released models for tables: ours at their defaults against every peer.

One promise for all: (epsilon, 1e-6) for replacing one unit, for the whole model. What
others promise about other neighbours is converted (`release_peers` says how). All get
the same training and test rows and the same public ranges and levels. The seed draws
the noise; the split is the published one, or one fixed permutation. Ours are
`PrivateTabularClassifier` and `PrivateTabularRegressor` without any setting. Settings
of peers are tried, and the one that is best on the test rows counts; nobody pays for
that choice. Pure releases of ours are measured at epsilon 1. Scores are accuracies, for
California R^2, on at most 50,000 test rows.

Slow peers have fewer seeds, and so has Covertype with all its labels. Every measurement
is kept at once, so that a run that stops goes on where it was. `--estimate` says how
much processor time what is missing takes.

    python -m benchmarks.studies.release [--only adult/reticent/1] [--seeds 10]
        [--jobs 2] [--again] [--estimate] [--table] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import peers
from benchmarks.studies.release_methods import OURS, TABLES, Method, Rows, own_methods
from benchmarks.studies.release_peers import peer_methods
from reticent.estimators import with_progress

RESULTS = Path(__file__).parent.parent / "results" / "release.json"
EPSILONS = (1.0, 0.1, 0.5, 2.0, 4.0)  # what matters most is measured first
# Seven labels take seven times as long.
SEEDS = {"covtype 7": 3}
Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One measurement: a table, who, epsilon and a seed."""

    data: str
    method: str
    epsilon: float
    seed: int


def methods() -> dict[str, Method]:
    """Return all methods by name; peers only if their environment is there."""
    return {**own_methods(), **(peer_methods() if peers.PYTHON.exists() else {})}


def cells(known: dict[str, Method], *, seeds: int, only: str = "") -> Iterator[Cell]:
    """Yield what is to be measured: a first seed of everything, then the others.

    `only` is table/method/epsilon, several of a kind with a plus between them. A part
    that is left out is all; a method is chosen by its name or how its name begins.
    """
    wanted = [*only.split("/"), "", "", ""][:3]
    tables, whom, budgets = (part.split("+") if part else [] for part in wanted)
    for first, last in ((0, 1), (1, 3), (3, seeds)):
        for epsilon in EPSILONS:
            if budgets and epsilon not in map(float, budgets):
                continue
            for name in TABLES:
                if tables and name not in tables:
                    continue
                for who, method in known.items():
                    if _chosen(who, whom, known) and method.suits(name, epsilon):
                        most = min(last, seeds, method.seeds, SEEDS.get(name, seeds))
                        for seed in range(first, most):
                            yield Cell(name, who, epsilon, seed)


def _chosen(who: str, words: list[str], known: dict[str, Method]) -> bool:
    exact = [word for word in words if word in known]
    begins = tuple(word for word in words if word not in known)
    return not words or who in exact or bool(begins and who.startswith(begins))


def read(path: Path) -> list[Record]:
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def write(path: Path, records: list[Record]) -> None:
    """Write one line per record, and replace the file at once."""
    lines = ",\n".join(json.dumps(record) for record in records)
    beside = path.with_suffix(".part")
    beside.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    os.replace(beside, path)


def key_of(record: Record) -> Cell:
    return Cell(**{name: record[name] for name in Cell.__dataclass_fields__})


@lru_cache(maxsize=1)
def rows_of(name: str, most: int | None) -> Rows:
    return Rows(name, most)


def measured(cell: Cell, most: int | None = None) -> Record:
    """Measure one cell; the processor time includes other processes."""
    warnings.simplefilter("ignore")
    rows = rows_of(cell.data, most)
    began = _processor_seconds()
    scores = methods()[cell.method].scores(rows, cell.epsilon, cell.seed)
    return {
        **asdict(cell),
        "scores": {name: round(score, 5) for name, score in scores.items()},
        "train": len(rows.train),
        "test": len(rows.test),
        "seconds": round(_processor_seconds() - began, 1),
    }


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def run(
    todo: list[Cell], path: Path, *, jobs: int = 1, most: int | None = None
) -> None:
    """Measure cells; keep every record at once."""
    if jobs == 1:
        found = (measured(cell, most) for cell in todo)
        _keep(todo, found, path)
        return
    with ProcessPoolExecutor(jobs) as pool:
        _keep(todo, pool.map(measured, todo, [most] * len(todo)), path)


def _keep(todo: list[Cell], found: Iterator[Record], path: Path) -> None:
    shown = with_progress(found, total=len(todo), label="release", stream=sys.stderr)
    for record in shown:
        # Read again: two parts may run beside each other.
        kept = [each for each in read(path) if key_of(each) != key_of(record)]
        write(path, [*kept, record])
        best = max(record["scores"].items(), key=lambda pair: pair[1])
        print(*asdict(key_of(record)).values(), *best, record["seconds"], flush=True)


def estimate(todo: list[Cell], records: list[Record]) -> tuple[float, int]:
    """Return the seconds that cells take, and how many of them are not known."""
    times: dict[tuple[str, str], list[float]] = {}
    for record in records:
        place = (record["data"], record["method"])
        times.setdefault(place, []).append(record["seconds"])
    guesses = [times.get((cell.data, cell.method)) for cell in todo]
    return sum(median(g) for g in guesses if g), sum(g is None for g in guesses)


def quick() -> dict[str, Any]:
    """Measure one table with few rows and two seeds; return what a run compares."""
    found: dict[str, dict[str, float]] = {}
    cheap = "bank/reticent+reticent, splines+random+DP-EBM+boosted/1"
    for cell in cells(methods(), seeds=2, only=cheap):
        scores = measured(cell, 8_000)["scores"]
        who = "reticent, default" if cell.method == OURS else cell.method
        found.setdefault(who, {})[str(cell.seed)] = max(scores.values())
    from benchmarks.studies.release_table import summary

    accuracy = {who: summary(list(one.values())) for who, one in found.items()}
    skipped = [] if peers.PYTHON.exists() else [peers.SKIPPED]
    return {"accuracy": {"bank": accuracy}, "skipped": skipped}


def main() -> None:
    from benchmarks.studies import release_table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="table/method/epsilon")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="measure again")
    parser.add_argument("--estimate", action="store_true", help="say how long, no more")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--quick", action="store_true", help="one small table")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.quick:
        print(json.dumps(quick()))
        return
    if not given.table:
        if not given.estimate:
            peers.set_up()
        known = {key_of(record) for record in read(given.out)}
        wanted = cells(methods(), seeds=given.seeds, only=given.only)
        todo = [cell for cell in wanted if given.again or cell not in known]
        seconds, unknown = estimate(todo, read(given.out))
        print(
            f"{len(todo)} measurements are missing: {seconds / 3600:.1f} hours of "
            f"processor time, and {unknown} of which no time is known",
            file=sys.stderr,
        )
        if given.estimate:
            return
        run(todo, given.out, jobs=given.jobs)
    print(release_table.table(read(given.out)))


if __name__ == "__main__":
    main()
