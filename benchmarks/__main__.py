"""Run every benchmark, collect what they print, and compare with the last run.

    python -m benchmarks [--quick] [--only WORD] [--missing] [--again] [--estimate]

`benchmarks.parts` finds the parts. Ratios are numbers under a name with "ratio",
"times_faster" or " / " in it, accuracies are means under "accuracy";
`benchmarks.report` says which of them should be large, and which are worse.

A quick run takes under five minutes: smaller sizes, one table, two seeds; a part that
would not end in time is left out, and the report says so. A full run takes at most
three hours. What each part of it printed is kept at once, in
benchmarks/results/bench.unfinished.json: a run that was interrupted, or that ran out of
time, goes on where it stopped; `--again` starts over. `--estimate` says how long the
parts to come took last time. Studies that take no times run two at once, everything
else alone, the longest studies last.

Results go to benchmarks/results/bench.json (bench_quick.json) and to
docs/reference/benchmarks.md; a full run also keeps what each speed script printed, in
benchmarks/results/speed_*.json. With `--only`, a quick run writes nothing and a full
one replaces those parts. `--missing` runs the parts that the last run does not have,
and adds them to it, however long they take.

A part with a number that is worse than in the last committed run is run once more, and
the better numbers count: noise of a busy machine rarely strikes twice in one place. The
run fails if a part fails, or if a number is worse in both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.parts import RESULTS, ROOT, Part, keep, parts, run_part
from benchmarks.report import Run, better_of, compared

QUICK_SECONDS, QUICK_PART_SECONDS = 285.0, 75.0
FULL_SECONDS = 3 * 3600.0
UNFINISHED = RESULTS / "bench.unfinished.json"
AT_ONCE = min(2, os.cpu_count() or 1)
Runner = Callable[[Part], dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under five minutes")
    parser.add_argument("--only", default="", help="parts whose name holds this word")
    parser.add_argument("--missing", action="store_true", help="not in the last run")
    parser.add_argument("--again", action="store_true", help="start a full run over")
    parser.add_argument("--estimate", action="store_true", help="say how long, no more")
    asked = parser.parse_args()
    run = Run(
        mode="quick" if asked.quick else "full",
        machine=f"{os.cpu_count()} processors, {platform.machine()}",
    )
    path = RESULTS / run.file
    last, commit = committed(path.relative_to(ROOT).as_posix())
    known = read(path)
    chosen = [part for part in parts() if asked.only in part.name]
    if asked.missing:
        done = {name for name, one in known["parts"].items() if one["state"] == "done"}
        chosen = [part for part in chosen if part.name not in done]
    unfinished = Unfinished(UNFINISHED, resume=not (asked.quick or asked.again))
    if asked.estimate:
        say(estimate(chosen, known, unfinished))
        return 0
    in_time = asked.quick and not asked.missing
    run_all(
        run, chosen, runner(quick=asked.quick, unfinished=unfinished, in_time=in_time)
    )
    settle(run, last, {part.name: part for part in chosen}, quick=asked.quick)
    run.compared_with = commit
    result = run.as_dict()
    if not (asked.only and asked.quick) or asked.missing:
        if (asked.only or asked.missing) and known:
            result = merged(known, result)
        if asked.missing:
            result["comparison"] = known["comparison"]  # what was there was compared
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        page.write()
    if all(part["state"] != "out of time" for part in run.parts.values()):
        unfinished.end()
    return verdict(run)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class Unfinished:
    """What the parts of a full run printed so far, kept for the next attempt."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.parts: dict[str, dict[str, Any]] = read(path) if resume else {}
        self.lock = threading.Lock()

    def add(self, name: str, ended: dict[str, Any]) -> None:
        with self.lock:
            self.parts[name] = ended
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(self.parts) + "\n", encoding="utf-8")
            os.replace(beside, self.path)

    def end(self) -> None:
        self.path.unlink(missing_ok=True)


def estimate(
    chosen: list[Part], known: Mapping[str, Any], unfinished: Unfinished
) -> str:
    """Say how long the parts took last time that have not been run yet."""
    todo = [part for part in chosen if part.name not in unfinished.parts]
    times = {name: part["seconds"] for name, part in known.get("parts", {}).items()}
    free = sum(times.get(part.name, 0.0) for part in todo if not part.timed)
    alone = sum(times.get(part.name, 0.0) for part in todo if part.timed)
    new = [part.name for part in todo if part.name not in times]
    minutes = (free / AT_ONCE + alone) / 60
    unknown = f"; no time is known of {', '.join(new)}" if new else ""
    most = f"at most {FULL_SECONDS / 3600:.0f} hours in all"
    return f"{len(todo)} parts: about {minutes:.0f} minutes{unknown}; {most}"


def merged(known: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Replace in a known run the parts that were run again."""
    result = {**known, **new}
    for field in ("ratios", "accuracy"):
        kept = {
            name: value
            for name, value in known[field].items()
            if name.partition(": ")[0] not in new["parts"]
        }
        result[field] = {**kept, **new[field]}
    result["parts"] = {**known["parts"], **new["parts"]}
    return result


def runner(
    *, quick: bool, unfinished: Unfinished | None = None, in_time: bool | None = None
) -> Runner:
    """Return what runs a part within the time that is left.

    `in_time` ends a part and a run after the seconds of a quick run.
    """
    hurry = quick if in_time is None else in_time
    end = time.perf_counter() + (QUICK_SECONDS if hurry else FULL_SECONDS)

    def one(part: Part) -> dict[str, Any]:
        if not quick and unfinished and part.name in unfinished.parts:
            say(f"{part.name:28s} was run before the interruption")
            return unfinished.parts[part.name]
        limit = end - time.perf_counter()
        limit = min(limit, QUICK_PART_SECONDS) if hurry else limit
        if limit < 5:
            ended: dict[str, Any] = {"state": "out of time", "seconds": 0.0}
        else:
            ended = run_part(part, quick=quick, limit=limit)
        say(f"{part.name:28s} {ended['state']:12s} {ended['seconds']:7.1f} s")
        if not quick:
            keep(part, ended)
            if unfinished and ended["state"] == "done":
                unfinished.add(part.name, ended)
        return ended

    return one


def run_all(run: Run, chosen: list[Part], one: Runner) -> None:
    """Run the parts: those that take no times two at once, the others alone."""
    free = sorted((p for p in chosen if not p.timed), key=lambda part: part.long)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for part, ended in zip(free, pool.map(one, free), strict=True):
            run.add(part.name, ended)
    for part in chosen:
        if part.timed:
            run.add(part.name, one(part))


def settle(
    run: Run, last: Mapping[str, Any], known: Mapping[str, Part], *, quick: bool
) -> None:
    """Compare with the last run; parts that look worse are run once more."""
    doubtful = {row.part for row in compared(run, last) if row.worse}
    for name in sorted(doubtful):
        say(f"{name}: worse than in the last run, so once more")
        again = Run(run.mode, run.machine)
        limit = QUICK_PART_SECONDS if quick else None
        again.add(name, run_part(known[name], quick=quick, limit=limit))
        better_of(run, again)
        run.parts[name]["runs"] = 2
    run.rows = compared(run, last)


def committed(name: str) -> tuple[dict[str, Any], str]:
    """Return the last committed run and its commit; empty if there is none."""
    shown = _git("show", f"HEAD:{name}")
    if shown is None:
        return {}, ""
    commit = _git("log", "-1", "--format=%h", "--", name) or ""
    return json.loads(shown), commit.strip()


def _git(*words: str) -> str | None:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def verdict(run: Run) -> int:
    """Print what was left out, failed or became worse; return the exit code."""
    print(json.dumps(run.summary(), indent=1))
    for name, part in run.parts.items():
        for words in part.get("skipped", []):
            say(f"skipped in {name}: {words}")
        if part["state"] in ("failed", "no data"):
            say(f"{part['state']}: {name}: {part['reason']}")
    worse = [row for row in run.rows if row.worse]
    for row in worse:
        say(f"worse than the committed run: {row}")
    failed = any(part["state"] == "failed" for part in run.parts.values())
    return 1 if worse or failed else 0


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
