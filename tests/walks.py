"""Trace walks through the package: which functions run, and how often the room changes.

A walk is one thing that a user does. It runs in a fresh process, so that nothing is
cached, and with the same random bits each time. All calls in all threads are traced.
What counts:

- A *function* is a function, method or lambda whose source file lies in
  ``src/reticent``. A comprehension is part of the function around it. A generator or a
  coroutine counts when it starts, not when it resumes. What runs while a module of the
  package is imported (module and class bodies, decorators) does not count.
- A *room* is a top-level package of ``reticent``. The modules directly in ``reticent``
  are the *ground*, on which every room stands.
- *Changes* of room: list the calls of one thread in the order in which they begin, and
  write down the room of each, without the calls to the ground. Whenever a room differs
  from the one before it, the room has changed. The changes of all threads are added up.
  A return is not a call: it counts if another function of the first room is called
  afterwards. From one thread to another there is no change.

The HTTP answer is the first one of a running service, for one row, with a ledger on
disk. Starting the service is no part of it, nor is the client. How its threads meet may
add a function or two; all other counts are the same in every run.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dis
import gzip
import inspect
import io
import itertools
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "reticent"
RESULT = ROOT / "benchmarks" / "results" / "walks.json"
PAGE = ROOT / "docs" / "explain" / "architecture.md"
TABLE = re.compile(r"(?<=<!-- walks -->\n).*?(?=<!-- /walks -->)", re.DOTALL)

GROUND = "ground"
_PAUSES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Tracer:
    """Notes every call to a function of one package, in every thread.

    Parameters
    ----------
    package : Path
        The folder of the package.
    """

    def __init__(self, package: Path) -> None:
        self._start = f"{package}{os.sep}"
        self._recording = False
        self._starts: dict[CodeType, int] = {}
        self.calls: dict[int, list[CodeType]] = defaultdict(list)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Watch this thread and those that it starts; note nothing yet."""
        before = sys.getprofile(), threading.getprofile()
        sys.setprofile(self._profile)
        threading.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before[0])
            threading.setprofile(before[1])  # type: ignore[arg-type]

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Note the calls."""
        self.calls.clear()
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def room(self, code: CodeType) -> str:
        """Return the room of a function of the package."""
        inside = code.co_filename.removeprefix(self._start).split(os.sep)
        return inside[0] if len(inside) > 1 else GROUND

    def rooms(self) -> list[list[str]]:
        """Return the rooms of all calls in their order, one list per thread."""
        return [[self.room(code) for code in calls] for calls in self.calls.values()]

    def counts(self) -> dict[str, int]:
        """Return the numbers of the walk."""
        functions = {code for calls in self.calls.values() for code in calls}
        rooms = self.rooms()
        above = [[room for room in walk if room != GROUND] for walk in rooms]
        return {
            "functions": len(functions),
            "files": len({code.co_filename for code in functions}),
            "rooms": len({room for walk in above for room in walk}),
            "changes": sum(map(changes, above)),
            "threads": len(rooms),
        }

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._recording or event != "call":
            return
        code = frame.f_code
        name = code.co_name
        if not self._inside(code) or (name[0] == "<" and name != "<lambda>"):
            return
        if code.co_flags & _PAUSES and frame.f_lasti > self._first(code):
            return
        if not self._importing(frame):
            self.calls[threading.get_ident()].append(code)

    def _inside(self, code: CodeType) -> bool:
        return code.co_filename.startswith(self._start)

    def _importing(self, frame: FrameType | None) -> bool:
        """Return whether a module or class body of the package is under way."""
        while frame is not None:
            code = frame.f_code
            if not code.co_flags & inspect.CO_OPTIMIZED and self._inside(code):
                return True
            frame = frame.f_back
        return False

    def _first(self, code: CodeType) -> int:
        """Return where a generator or coroutine starts; beyond that, it resumes."""
        if code not in self._starts:
            steps = dis.get_instructions(code)
            self._starts[code] = next(s.offset for s in steps if s.opname == "RESUME")
        return self._starts[code]


def changes(rooms: list[str]) -> int:
    """Count the neighbours that differ."""
    return sum(one != other for one, other in itertools.pairwise(rooms))


def library(tracer: Tracer, _: Path) -> Iterator[str]:
    """Fit a voting classifier, then predict five rows."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from reticent.prediction import PrivateVotingClassifier

    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = PrivateVotingClassifier(pipeline, epsilon=0.5, classes=[0, 1])
    with tracer.recording():
        model.fit(X, y)
    yield "fit"
    with tracer.recording():
        model.predict(X[:5])
    yield "predict"


def http(tracer: Tracer, folder: Path) -> Iterator[str]:
    """Answer one row over HTTP, with a durable ledger."""
    from reticent.ledger import SQLLedger
    from tests.service.clinic import ROW, clinic, settings_for

    settings = settings_for(folder)
    with clinic(settings, ledger=SQLLedger(settings.ledger)) as running:
        with tracer.recording():
            answer = running.predict(ROW)
        assert answer.status_code == 200, answer.text
    yield "HTTP answer"


def cli_fit(tracer: Tracer, folder: Path) -> Iterator[str]:
    """Run ``reticent fit`` on the bundled census sample."""
    from reticent.datasets import adult_sample_files

    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # of this process alone
    files = adult_sample_files()
    words = ["fit", files.data, "--schema", files.schema, "--name", "income"]
    _command(tracer, *words, "--home", folder / "home")
    yield "reticent fit"


def cli_predict(tracer: Tracer, folder: Path) -> Iterator[str]:
    """Run ``reticent predict`` on four rows, in the home that `cli_fit` made."""
    from reticent.datasets import adult_sample_files

    queries = folder / "queries.csv"
    with gzip.open(adult_sample_files().data, "rt", newline="") as lines:
        rows = [row[:-1] for row in itertools.islice(csv.reader(lines), 5)]
    with queries.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    _command(tracer, "predict", "income", queries, "--home", folder / "home")
    yield "reticent predict"


def _command(tracer: Tracer, *words: Any) -> None:
    """Run the command line as its entry point does."""
    from reticent.cli import main

    said, code = io.StringIO(), None
    sys.argv = ["reticent", *map(str, words)]
    quiet = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
    with quiet[0], quiet[1], tracer.recording():
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert not code, said.getvalue()


Walk = Callable[[Tracer, Path], Iterator[str]]
WALKS: tuple[Walk, ...] = (library, http, cli_fit, cli_predict)


def walked(walk: Walk, folder: Path) -> dict[str, tuple[dict[str, int], list[str]]]:
    """Return the counts of each part of a walk, and its calls as text."""
    tracer = Tracer(PACKAGE)
    found = {}
    # Exact samplers look at more bits now and then; the counts must not depend on it.
    bits = mock.patch("os.urandom", random.Random(0).randbytes)
    with bits, tracer.installed():
        for name in walk(tracer, folder):
            found[name] = tracer.counts(), [*_lines(tracer)]
    return found


def _lines(tracer: Tracer) -> Iterator[str]:
    for number, calls in enumerate(tracer.calls.values(), 1):
        yield f"thread {number}"
        for room, group in itertools.groupby(calls, tracer.room):
            yield f"  {room}: {', '.join(code.co_qualname for code in group)}"


def all_walks(walks: tuple[Walk, ...] = WALKS) -> dict[str, Any]:
    """Trace walks, each in a process of its own, one after another."""
    found: dict[str, Any] = {}
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as pool,
    ):
        for walk in walks:
            found |= pool.submit(walked, walk, Path(folder)).result()
    return found


def table(result: dict[str, Any]) -> str:
    """Return the counts as Markdown; what was before stands in brackets."""
    heads = ["functions", "files", "changes of room", "threads"]
    keys = ["functions", "files", "changes", "threads"]
    lines = [f"| walk | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, now in result["after"].items():
        before = result["before"].get(name, {})
        cells = [f"{now[key]} ({before.get(key, '-')})" for key in keys]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def read() -> dict[str, Any]:
    """Return the stored counts."""
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def write(result: dict[str, Any]) -> None:
    """Store the counts and put them on the map."""
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(table(result), page), encoding="utf-8")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/walks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="store what is found")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--show", metavar="NAME", help="print the calls of one walk")
    options = parser.parse_args()
    found = all_walks()
    counts = {name: numbers for name, (numbers, _) in found.items()}
    if options.show:
        print("\n".join(found[options.show][1]))  # noqa: T201 - a command's output
    if options.json:
        text = json.dumps(counts, indent=2) + "\n"
        options.json.write_text(text, encoding="utf-8")
    result = {**read(), "after": counts}
    if options.write:
        write(result)
    print(table(result))  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
