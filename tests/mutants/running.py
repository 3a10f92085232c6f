"""Run each mutant's related tests in a fork of one warm, collected session."""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import json
import os
import pickle
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutating import Mutant, code_of
from tests.mutants.targets import Package, Target, parsed

# Tests that need more processor time than this are not asked about mutants.
LONGEST_TEST = 1.0
# Related tests of one mutant: the fastest ones, up to so many seconds of them.
SECONDS = 4.0
# A mutant that loops, or fills the memory, is found too.
CPU_SECONDS = 6
MEMORY = 6 * 2**30
# The verdict on a mutant that changes nothing, such as twice a number that is zero.
IDLE = "(changes nothing)"


@dataclass
class Related:
    """Which tests run which functions, and how long each test takes."""

    tests: dict[str, list[str]]
    seconds: dict[str, float]
    killers: dict[str, str] = field(default_factory=dict)
    _breadth: Counter[str] = field(default_factory=Counter)

    def of(self, target: Target) -> list[str]:
        """Return the tests that run a function, the fast and special ones first."""
        if not self._breadth:
            self._breadth.update(
                Counter(t for each in self.tests.values() for t in each)
            )
        found = self.tests.get(target.place, [])
        return sorted(
            found, key=lambda t: (0.002 + self.seconds[t]) * self._breadth[t] ** 2
        )


@dataclass
class Verdict:
    """What became of a mutant: the test that noticed it, if one did."""

    mutant: str
    killed_by: str | None
    tests: int
    seconds: float


def started(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start `work` in a child process; return what waits for its answer.

    None if the child dies.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - the child must not go on
            answer = ("error", repr(error))
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)

    def wait() -> Any:
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return pickle.loads(text) if text else None

    return wait


def check_forks() -> None:
    """Refuse to fork a process whose copies would wait for threads that they lack."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    # One of them is there from the beginning; the others are those that compute.
    if sum(name.startswith("polars") for name in names) > 1:
        raise NotRunError(
            "a module of tests computes with polars while it is imported. Have its "
            "tests do that, or make the same frame from NumPy."
        )


def listen(package: Package, targets: list[Target], hits: set[str]) -> None:
    """Let every target note that it ran."""
    builtins.__certified_hits__ = hits
    for target in targets:
        node = package.node(target)
        if node is not None:
            note = ast.parse(f"__certified_hits__.add({target.place!r})").body[0]
            node.body.insert(0, note)
            ast.fix_missing_locations(parsed(target.function.__code__.co_filename))
    for target in targets:
        target.function.__code__ = code_of(target)


class Runner:
    """A pytest plugin that runs tests only in forks of the collected session."""

    def __init__(
        self,
        package: Package,
        targets: list[Target],
        mutants: list[Mutant],
        *,
        report: Callable[[Verdict], None] = lambda _: None,
        map_file: Path | None = None,
        jobs: int = 1,
        expected: frozenset[str] = frozenset(),
    ) -> None:
        self.package, self.targets, self.mutants = package, targets, mutants
        self.report, self.map_file, self.jobs = report, map_file, jobs
        self.expected = expected  # to survive, so that fewer tests are asked
        self.verdicts: list[Verdict] = []
        self.items: dict[str, pytest.Item] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find the related tests, then go through the mutants."""
        self.items = {item.nodeid: item for item in session.items}
        check_forks()
        related = self.related()
        self._remember(related)
        gc.collect()
        gc.freeze()  # a collection in a child would copy every page
        parts = [self.mutants[start :: self.jobs] for start in range(self.jobs)]
        for wait in [started(partial(self._go_through, p, related)) for p in parts]:
            verdicts = wait()
            if not isinstance(verdicts, list):
                raise NotRunError(f"the mutants could not be judged: {verdicts}")
            self.verdicts += verdicts
        self._remember(related)
        self._control()
        return True

    def _remember(self, related: Related) -> None:
        if self.map_file is not None:
            killed = {v.mutant: v.killed_by for v in self.verdicts if v.killed_by}
            kept = {
                "tests": related.tests,
                "seconds": related.seconds,
                "killers": related.killers | killed,
            }
            self.map_file.write_text(json.dumps(kept), encoding="utf-8")

    def _control(self) -> None:
        """Check that what noticed the mutants passes without one."""
        killers = {verdict.killed_by for verdict in self.verdicts} & self.items.keys()
        items = [self.items[str(name)] for name in sorted(map(str, killers))]

        def failing() -> list[str]:
            pairs = pairwise([*items, None])
            return [item.nodeid for item, after in pairs if not passes(item, after)]

        wrong = started(failing)()
        if wrong != []:
            raise NotRunError(f"these tests fail without a mutant: {wrong}")

    def _go_through(self, mutants: list[Mutant], related: Related) -> list[Verdict]:
        for mutant in mutants:
            verdict = self.judge(mutant, related)
            self.verdicts.append(verdict)
            self.report(verdict)
        return self.verdicts

    def related(self) -> Related:
        """Run every test once, unchanged, and note which functions it runs."""
        known: dict[str, Any] = {"tests": {}, "seconds": {}}
        if self.map_file is not None and self.map_file.exists():
            known = json.loads(self.map_file.read_text(encoding="utf-8"))
        new = [
            item for name, item in self.items.items() if name not in known["seconds"]
        ]
        found = started(lambda: self._map(new))()
        if not isinstance(found, Related):
            raise NotRunError(f"the unchanged tests could not be run: {found}")
        for place, names in known["tests"].items():
            found.tests[place] = found.tests.get(place, []) + names
        found.seconds.update(known["seconds"])
        found.killers.update(known.get("killers", {}))
        return found

    def _map(self, items: list[pytest.Item]) -> Related:
        hits: set[str] = set()
        listen(self.package, self.targets, hits)
        tests: dict[str, list[str]] = {}
        seconds: dict[str, float] = {}
        signal.signal(signal.SIGPROF, too_long)
        for number, (item, following) in enumerate(pairwise([*items, None])):
            if number % 100 == 0:
                print(
                    f"{number} of {len(items)} tests", file=sys.__stderr__, flush=True
                )
            hits.clear()
            start = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, LONGEST_TEST)
            passed = passes(item, following)
            signal.setitimer(signal.ITIMER_PROF, 0)
            seconds[item.nodeid] = time.process_time() - start
            for place in hits if passed else ():
                tests.setdefault(place, []).append(item.nodeid)
        return Related(tests, seconds)

    def judge(self, mutant: Mutant, related: Related) -> Verdict:
        """Run a mutant's related tests until one fails."""
        names, total = [], 0.0
        killers = {v.killed_by for v in self.verdicts[-40:]}
        killers.add(related.killers.get(mutant.key))
        order = related.of(mutant.hit)
        order.sort(key=lambda name: name not in killers)
        for name in order:
            total += related.seconds[name]
            if names and total > (SECONDS if mutant.key not in self.expected else 1.0):
                break
            if name in self.items:
                names.append(name)
        start = time.perf_counter()
        answer = started(lambda: self._attack(mutant, names))()
        seconds = time.perf_counter() - start
        if answer is None:
            answer = "(did not end)"
        elif isinstance(answer, tuple):
            raise NotRunError(f"{mutant.key}: {answer[1]}")
        return Verdict(mutant.key, answer or None, len(names), seconds)

    def _attack(self, mutant: Mutant, names: list[str]) -> str:
        gc.disable()
        mutant.apply()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        items = [self.items[name] for name in names]
        for item, following in pairwise([*items, None]):
            if not passes(item, following):
                return item.nodeid
        return IDLE if mutant.idle() else ""


class NotRunError(Exception):
    """A child process did not do its work."""


class TooLongError(BaseException):
    """A test takes too long to be asked about every mutant."""


def too_long(*_: Any) -> None:
    """Stop the test that runs now."""
    raise TooLongError


def passes(item: Any, following: Any) -> bool:
    """Run one test; whether it passed.

    Without pytest's own report, which takes longer than most tests.
    """
    state = item.session._setupstate
    try:
        item._initrequest()
        state.setup(item)
        item.runtest()
    except BaseException:  # noqa: BLE001 - whatever it is, the test noticed
        passed = False
    else:
        passed = True
    with contextlib.suppress(BaseException):
        state.teardown_exact(following)
    return passed


def session(runner: Runner, paths: list[str]) -> int:
    """Collect the tests under `paths` and hand them to the runner."""
    options = ["-q", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
    return int(pytest.main([*options, *paths], plugins=[runner]))
