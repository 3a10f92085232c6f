"""Find the parts of the benchmarks, and run one in a process of its own.

Scripts ``benchmarks/speed/bench_*.py``, the modules ``benchmarks.growth`` and
``benchmarks.scale.out_of_core``, and every module under ``benchmarks/studies`` that
takes ``--quick``. Each prints one JSON object, perhaps after other lines.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
NO_DATA = "the benchmark data are not here"
# Accuracy against the peers comes first, so that no quick run ends without it.
FIRST = (
    "studies/equal_terms",
    "studies/release",
    "studies/ask_accuracy",
    "studies/public_student",
)
# These take an hour or more in full and can be interrupted, so they come last there.
LONG = {"studies/release", "studies/lasting"}
# These take times themselves, so nothing may run beside them.
TIMED_STUDIES = {"studies/scale_plan"}
# What a quick run leaves out: replicas on PostgreSQL, which take minutes to start.
QUICK_OPTIONS = {"speed/service": ["--only", "sqlite"]}


@dataclass(frozen=True)
class Part:
    """A part: its name, how Python is to run it, and whether it takes times."""

    name: str
    command: tuple[str, ...]

    @property
    def timed(self) -> bool:
        return not self.name.startswith("studies/") or self.name in TIMED_STUDIES

    @property
    def long(self) -> bool:
        return self.name in LONG

    def takes(self, option: str) -> bool:
        last = self.command[-1]
        path = last if last.endswith(".py") else last.replace(".", "/") + ".py"
        found = ROOT / path
        return found.exists() and f'"{option}"' in found.read_text(encoding="utf-8")


def parts() -> list[Part]:
    """Return all parts: studies that take no times, then all that do."""
    speed = [
        Part(f"speed/{path.stem.removeprefix('bench_')}", (_relative(path),))
        for path in sorted((ROOT / "benchmarks" / "speed").glob("bench_*.py"))
    ]
    studies = [
        Part(f"studies/{path.stem}", ("-m", f"benchmarks.studies.{path.stem}"))
        for path in sorted((ROOT / "benchmarks" / "studies").glob("*.py"))
        if '"--quick"' in path.read_text(encoding="utf-8")
    ]
    others = [
        Part("growth", ("-m", "benchmarks.growth")),
        Part("scale", ("-m", "benchmarks.scale.out_of_core")),
    ]
    order = [*FIRST, *(part.name for part in studies)]
    studies.sort(key=lambda part: (part.timed, order.index(part.name)))
    free = [part for part in studies if not part.timed]
    timed = [part for part in studies if part.timed]
    # The longest come last: out of time, a quick run misses one part and not many.
    return [*free, others[0], *speed, others[1], *timed]


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def run_part(part: Part, *, quick: bool, limit: float | None) -> dict[str, Any]:
    """Run one part; say how it ended, how long it took and what it printed."""
    options = ["--quick", *QUICK_OPTIONS.get(part.name, [])] if quick else []
    command = [*part.command, *options]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        # A quick run overwrites no figure.
        out_of_the_way = ["--out", scratch] if quick and part.takes("--out") else []
        code, out, err = _finished([sys.executable, *command, *out_of_the_way], limit)
    ended: dict[str, Any] = {
        "seconds": round(time.perf_counter() - start, 1),
        "command": " ".join(command),
    }
    if code is None:
        return {**ended, "state": "out of time"}
    reason = err.strip().splitlines()[-1:]
    if code and NO_DATA in err:
        return {**ended, "state": "no data", "reason": reason}
    printed = json_in(out)
    if isinstance(printed, Mapping) and printed.get("skipped"):
        ended["skipped"] = printed["skipped"]
    if code:
        return {**ended, "state": "failed", "reason": reason, "printed": printed}
    return {**ended, "state": "done", "printed": printed}


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


def json_in(text: str) -> Any:
    """Return the last JSON object that a part printed, perhaps after other lines."""
    found = None
    for start in re.finditer(r"^\{", text, re.MULTILINE):
        try:
            found = json.loads(text[start.start() :])
        except json.JSONDecodeError:
            continue
        break
    return found


def keep(part: Part, ended: Mapping[str, Any]) -> None:
    """Write what a speed script printed in a full run, for tables and the README."""
    if part.name.startswith("speed/") and ended.get("printed") is not None:
        path = RESULTS / f"{part.name.replace('/', '_')}.json"
        path.write_text(json.dumps(ended["printed"], indent=1) + "\n", "utf-8")
