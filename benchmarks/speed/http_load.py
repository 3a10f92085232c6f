"""Load for a server on this machine, from a process of its own.

wrk where it is installed (a tenth of a core), else a client in Python. The same
generator drives both sides of a comparison.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

CONCURRENCY = 32
PREDICT = "/v1/models/adult/predict"

LUA = """
local head, tail = %s, %s
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
function init(args) math.randomseed(%d) end
function request()
  local age = 16 + 84 * math.random()
  return wrk.format(nil, nil, nil, head .. string.format("%%.12f", age) .. tail)
end
function done(summary, latency, requests)
  io.write(string.format(
    "RESULT %%d %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    summary.errors.status, summary.errors.timeout + summary.errors.read,
    latency:percentile(50), latency:percentile(99)))
end
"""


def load(
    port: int, key: str, row: dict[str, Any], seconds: float, path: str = PREDICT
) -> dict[str, float]:
    """Send rows that nobody asked before, as fast as 32 connections can."""
    text = json.dumps({"rows": [{**row, "age": "AGE"}]})
    head, tail = text.split('"AGE"')
    url = f"http://127.0.0.1:{port}{path}"
    if shutil.which("wrk"):
        return wrk(
            url,
            LUA % (json.dumps(head), json.dumps(tail), key, random.getrandbits(31)),
            seconds,
        )
    return asyncio.run(python_load(port, key, (head, tail), seconds, path))


def wrk(url: str, script: str, seconds: float) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{CONCURRENCY}", f"-d{seconds:g}s", "-s", file.name]
        done = subprocess.run(
            [*command, url], capture_output=True, text=True, check=True
        )
    line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT"))
    requests, micros, bad, lost, median, p99 = map(int, line.split()[1:])
    return {
        "per_second": requests / micros * 1e6,
        "p50_ms": median / 1000,
        "p99_ms": p99 / 1000,
        "errors": bad + lost,
    }


async def python_load(
    port: int, key: str, parts: tuple[str, str], seconds: float, path: str
) -> dict[str, float]:
    times: list[float] = []
    errors = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            body = f"{parts[0]}{random.uniform(16, 100):.12f}{parts[1]}".encode()
            start = time.perf_counter()
            writer.write(
                b"POST " + path.encode() + b" HTTP/1.1\r\nHost: x\r\n"
                b"Authorization: Bearer " + key.encode() + b"\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - start)
            errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CONCURRENCY)))
    taken = time.perf_counter() - begun
    return {
        "per_second": len(times) / taken,
        "p50_ms": 1000 * float(np.percentile(times, 50)),
        "p99_ms": 1000 * float(np.percentile(times, 99)),
        "errors": errors,
    }


def busy(seconds: float = 1.0) -> float:
    """Return the share of all processors that is in use."""

    def reading() -> tuple[int, int]:
        line = Path("/proc/stat").read_text().splitlines()[0]
        ticks = [int(field) for field in line.split()[1:]]
        return sum(ticks[:8]), ticks[3] + ticks[4]

    total, idle = reading()
    time.sleep(seconds)
    later, rested = reading()
    return 1.0 - (rested - idle) / max(1, later - total)


def processor_seconds(roots: list[int]) -> float:
    """Return what processes and their descendants have used of processors so far."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        process = int(folder.name)
        parents[process] = int(fields[1])
        used[process] = sum(map(int, fields[11:15]))
    wanted = set(roots)
    while True:
        found = {child for child, parent in parents.items() if parent in wanted}
        if found <= wanted:
            break
        wanted |= found
    return sum(used.get(process, 0) for process in wanted) / os.sysconf("SC_CLK_TCK")
