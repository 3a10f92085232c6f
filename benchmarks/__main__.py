"""Run every benchmark, collect what they print, and compare with the last run.

    python -m benchmarks [--quick] [--only WORD]

Parts are found by convention: scripts ``benchmarks/speed/bench_*.py``, the modules
``benchmarks.growth`` and ``benchmarks.scale.out_of_core``, and every module under
``benchmarks/studies`` that takes ``--quick``. Each runs in a process of its own and
prints one JSON object. Ratios are numbers under a name with "ratio", "times_faster" or
" / " in it; `benchmarks.report` says which of them should be large.

A quick run takes under five minutes: a part that would not end in time is left out,
and the report says so; studies that were quickest last time go first. Results go to
benchmarks/results/bench.json (bench_quick.json) and the table to
docs/reference/benchmarks.md. The run fails if a part fails, or if a ratio is worse than
the committed one by more than the factor below.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.report import Run, compared, ratios_of, table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
# Ratios of short runs scatter more; committed ones come from one quiet machine.
WORSE = {"full": 1.5, "quick": 3.0}
QUICK_SECONDS, QUICK_PART_SECONDS, QUICK_STUDY_SECONDS = 270.0, 75.0, 20.0
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
NO_DATA = "the benchmark data are not here"


def parts(last: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the name and the command of each part, quickest studies first.

    `last` says how the parts of the last run ended.
    """
    found = {
        f"speed/{path.stem.removeprefix('bench_')}": [path.relative_to(ROOT).as_posix()]
        for path in sorted((ROOT / "benchmarks" / "speed").glob("bench_*.py"))
    }
    found["scale"] = ["-m", "benchmarks.scale.out_of_core"]
    found["growth"] = ["-m", "benchmarks.growth"]
    studies = {
        f"studies/{path.stem}": ["-m", f"benchmarks.studies.{path.stem}"]
        for path in sorted((ROOT / "benchmarks" / "studies").glob("*.py"))
        if '"--quick"' in path.read_text(encoding="utf-8")
    }

    def patience(name: str) -> tuple[bool, float]:
        before = last.get(name, {"state": "new", "seconds": 0.0})
        return before["state"] == "out of time", before["seconds"]

    return found | {name: studies[name] for name in sorted(studies, key=patience)}


def run_part(command: list[str], *, quick: bool, limit: float | None) -> dict[str, Any]:
    """Run one part; say how it ended, how long it took and what it printed."""
    options = ["--quick"] if quick else []
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        if quick and _takes_folder(command):
            options += ["--out", scratch]  # a quick run overwrites no figure
        code, out, err = _finished([sys.executable, *command, *options], limit)
    ended = {"seconds": time.perf_counter() - start, "command": " ".join(command)}
    if code is None:
        return {**ended, "state": "out of time"}
    reason = err.strip().splitlines()[-1:]
    if code and NO_DATA in err:
        return {**ended, "state": "no data", "reason": reason}
    if code:
        return {**ended, "state": "failed", "reason": reason, "printed": _json_in(out)}
    return {**ended, "state": "done", "printed": _json_in(out)}


def _finished(command: list[str], limit: float | None) -> tuple[int | None, str, str]:
    """Run a command with all its children; None instead of a code if it is too slow."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # servers of a part included
            process.communicate()
            return None, "", ""
    return process.returncode, out, err


def _takes_folder(command: list[str]) -> bool:
    module = command[-1].replace(".", "/") + ".py"
    path = ROOT / module
    return path.exists() and '"--out"' in path.read_text(encoding="utf-8")


def _json_in(text: str) -> Any:
    """Return the JSON object that a part printed, perhaps after other lines."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        return json.loads(text[start:])
    except json.JSONDecodeError:
        return None


def committed(path: Path) -> dict[str, float]:
    """Return the ratios of the last committed run, none if there is none."""
    name = path.relative_to(ROOT).as_posix()
    done = subprocess.run(
        ["git", "show", f"HEAD:{name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)["ratios"] if done.returncode == 0 else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under five minutes")
    parser.add_argument("--only", default="", help="parts whose name holds this word")
    asked = parser.parse_args()
    mode = "quick" if asked.quick else "full"
    end = time.perf_counter() + QUICK_SECONDS
    run = Run(mode=mode, machine=f"{os.cpu_count()} processors, {platform.machine()}")
    path = RESULTS / ("bench_quick.json" if asked.quick else "bench.json")
    ended_last = json.loads(path.read_text())["parts"] if path.exists() else {}
    for name, command in parts(ended_last).items():
        if asked.only not in name:
            continue
        most = QUICK_STUDY_SECONDS if "studies/" in name else QUICK_PART_SECONDS
        left = min(end - time.perf_counter(), most)
        limit = left if asked.quick else None
        if limit is not None and limit < 5:
            run.parts[name] = {"state": "out of time", "seconds": 0.0}
        else:
            run.parts[name] = run_part(command, quick=asked.quick, limit=limit)
        ended = run.parts[name]
        print(
            f"{name:28s} {ended['state']:12s} {ended['seconds']:7.1f} s",
            file=sys.stderr,
            flush=True,
        )
    run.ratios = ratios_of(run.parts)
    rows = compared(run.ratios, committed(path), WORSE[mode])
    if not asked.only:
        path.write_text(json.dumps(run.as_dict(), indent=1) + "\n", encoding="utf-8")
        if not asked.quick or not PAGE.exists():
            PAGE.write_text(table(run, rows, WORSE[mode]), encoding="utf-8")
    print(json.dumps(run.as_dict()["ratios"], indent=1))
    worse = [row for row in rows if row.worse]
    for row in worse:
        print(f"worse than the committed run: {row}", file=sys.stderr)
    failed = [name for name, part in run.parts.items() if part["state"] == "failed"]
    for name in failed:
        print(f"failed: {name}: {run.parts[name]['reason']}", file=sys.stderr)
    return 1 if worse or failed else 0


if __name__ == "__main__":
    sys.exit(main())
