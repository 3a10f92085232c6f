"""Thousands of answers under one total: local answers against everything else.

Everybody may spend (total, 1e-6) in all, on 100, 1,000 or 10,000 questions, and all
promise it for replacing one unit; one line is about zeroing one unit and says so. All
fit on the same training rows and are asked the same test rows, drawn by the seed. With
few questions the score is an average over sessions, each of which starts from the state
after the fit.

The lasting predictor runs at its defaults, which follow from public facts and released
numbers; it is told the number of questions and nothing else. The settings of the rivals
by hand (number of teachers, radius, noise) and of the peers are their best on the test
rows, and nobody pays for that. diffprivlib is pure and uses no delta. Scores are
accuracies, for California R^2.

Every measurement is kept at once, so a run that stops goes on where it was.

    python -m benchmarks.studies.lasting [--seeds 5] [--only covtype/lasting/1]
                                         [--questions 100,1000] [--again] [--table]
    python -m benchmarks.studies.lasting_table      puts the table on its page
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.studies.lasting_by_hand import IndividualNeighbours, Pate, Peer
from benchmarks.studies.lasting_rivals import (
    QUESTIONS,
    Cell,
    Lasting,
    PartitionRelease,
    Release,
    Rival,
    Rows,
    Votes,
)
from reticent.estimators import with_progress

RESULTS = Path(__file__).parent.parent / "results" / "lasting.json"
DATA = ("covtype", "skin", "california", "adult", "bank", "covtype7")
# In the order in which they are measured.
TOTALS = (1.0, 0.5, 2.0)
# What is measured first, on all tables.
FIRST = ("lasting", "release, partitions")
Record = dict[str, Any]


def rivals() -> dict[str, Rival]:
    """Return all methods by name; peers only if their environment is there."""
    found: list[Rival] = [
        Lasting("replace-one"),
        Lasting("zero-out"),
        Release("release, splines"),
        PartitionRelease("release, partitions"),
        Votes("votes of shards"),
        Pate("PATE by hand"),
        IndividualNeighbours("individual neighbours by hand"),
    ]
    if peers.PYTHON.exists():
        found += [Peer("DP-EBM", "DP-EBM"), Peer("diffprivlib", "diffprivlib")]
    return {each.name: each for each in found}


def cells(
    methods: dict[str, Rival],
    *,
    seeds: int,
    only: str = "",
    questions: Sequence[int] = QUESTIONS,
    names: Sequence[str] = DATA,
) -> Iterator[Cell]:
    """Yield what is to be measured, what matters most first.

    That is our own methods at the total of one, then a first seed of all others, our
    own at the other totals, and the other seeds. `only` is dataset/method/total. A part
    that is left out is all; a method is chosen by how its name begins.
    """
    wanted = [*only.split("/"), "", "", ""][:3]
    first = [name for name in methods if name.startswith(FIRST)]
    rest = [name for name in methods if name not in first]
    every, one, few = range(seeds), range(1), range(1, min(3, seeds))
    stages = (
        (first, every, TOTALS[:1]),
        (rest, one, TOTALS),
        (first, range(min(3, seeds)), TOTALS[1:]),
        (rest, few, TOTALS),
        (first, range(3, seeds), TOTALS[1:]),
        (rest, range(3, seeds), TOTALS),
    )
    for group, numbers, totals in stages:
        asked = [t for t in totals if not wanted[2] or float(wanted[2]) == t]
        for name, method in product(names, group):
            if wanted[0] not in ("", name) or not method.startswith(wanted[1]):
                continue
            if methods[method].suits(name):
                # Some rivals fit once for all totals, so totals come after the seed.
                for seed, total, count in product(numbers, asked, questions):
                    yield Cell(name, method, total, count, seed)


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


def run(
    wanted: list[Cell],
    methods: dict[str, Rival],
    path: Path,
    *,
    again: bool = False,
    most_train: int | None = None,
) -> None:
    """Measure what is not there yet; keep every record at once."""
    known = {key_of(record) for record in read(path)}
    todo = [cell for cell in wanted if again or cell not in known]
    rows = Rows("", most_train)
    shown = with_progress(todo, total=len(todo), label="lasting", stream=sys.stderr)
    for cell in shown:
        if rows.name != cell.data:
            rows = Rows(cell.data, most_train)
        began = time.process_time()
        found = methods[cell.method].score(cell, rows)
        record = {
            **asdict(cell),
            "asked": sum(map(len, rows.sessions(cell.questions, cell.seed))),
            **found,
            "train": len(rows.train),
            "seconds": round(time.process_time() - began, 1),
        }
        # Read again: two parts may run beside each other.
        kept = [each for each in read(path) if key_of(each) != cell]
        write(path, [*kept, record])
        print(
            f"{cell.data} {cell.method} total={cell.total:g} "
            f"questions={cell.questions} seed={cell.seed}: {record['score']:.4f} "
            f"({record['seconds']:g} s)",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="dataset/method/total")
    parser.add_argument("--questions", default=",".join(map(str, QUESTIONS)))
    parser.add_argument("--again", action="store_true", help="measure again")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    from benchmarks.studies import lasting_table

    if not given.table:
        if not peers.PYTHON.exists():
            print(f"left out: {peers.SKIPPED}", file=sys.stderr)
        methods = rivals()
        counts = [int(count) for count in given.questions.split(",")]
        wanted = cells(methods, seeds=given.seeds, only=given.only, questions=counts)
        run(list(wanted), methods, given.out, again=given.again)
    print(lasting_table.table(read(given.out)))


if __name__ == "__main__":
    main()
