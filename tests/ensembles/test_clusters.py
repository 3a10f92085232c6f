"""Shards on Dask, Ray and plain processes: a worker that dies loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
MARK = "RETICENT_TEST_RUN"


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that inherited the mark, orphans included."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def fit_with_a_killer(backend: str, deaths: int) -> dict[str, object]:
    mark = uuid.uuid4().hex
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.ensembles.lost_workers",
                backend,
                str(deaths),
            ],
            cwd=ROOT,
            env={**os.environ, MARK: mark},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        _, left = psutil.wait_procs(marked(mark), timeout=180)
        for process in left:
            process.kill()
    assert done.returncode == 0, done.stderr[-2000:]
    assert not left
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    # Ray alone takes a minute and more to notice the death and to start again.
    "backend",
    ["loky", "dask", pytest.param("ray", marks=pytest.mark.long)],
)
def test_a_killed_worker_loses_nothing(backend):
    result = fit_with_a_killer(backend, deaths=1)
    assert result == {"died": 1, "failures": 0, "same": True}


def test_a_shard_that_kills_every_worker_ends_the_fit():
    """Otherwise a fit would go on for ever; also, the killer does kill."""
    assert fit_with_a_killer("loky", deaths=99) == {"error": "TerminatedWorkerError"}


def test_marked_processes_are_found():
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        ["cat"],
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        # The kernel shows an empty environment until a program has really begun.
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"\n"
        assert [process.pid for process in marked(mark)] == [child.pid]
        child.kill()
    assert not marked(mark)
