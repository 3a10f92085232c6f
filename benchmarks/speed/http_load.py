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
from collections.abc import Callable, Coroutine
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
    port: int,
    key: str,
    row: dict[str, Any],
    seconds: int,
    path: str = PREDICT,
    connections: int = CONCURRENCY,
) -> dict[str, float]:
    """Send rows that nobody asked before, as fast as the connections can."""
    text = json.dumps({"rows": [{**row, "age": "AGE"}]})
    head, tail = text.split('"AGE"')
    url = f"http://127.0.0.1:{port}{path}"
    if shutil.which("wrk"):
        return wrk(
            url,
            LUA % (json.dumps(head), json.dumps(tail), key, random.getrandbits(31)),
            seconds,
            connections,
        )
    return _run(
        python_load(port, key, (head, tail), seconds, path, connections=connections)
    )


def steady(
    port: int,
    key: str,
    row: dict[str, Any],
    rate: float,
    seconds: float,
    path: str = PREDICT,
) -> dict[str, float]:
    """Send a number of requests a second, each when its time has come.

    Connections are kept and used again, as at the highest rate; where all are in use,
    another one is opened.
    """
    text = json.dumps({"rows": [{**row, "age": "AGE"}]})
    head, tail = text.split('"AGE"')
    return _run(python_load(port, key, (head, tail), seconds, path, rate))


def _run(work: Coroutine[Any, Any, dict[str, float]]) -> dict[str, float]:
    """Run the load on the fastest loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def wrk(url: str, script: str, seconds: int, connections: int) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", file.name]
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


class _Client(asyncio.Protocol):
    """Sends one request after the other, and does little else: it is the load."""

    def __init__(self, make: Callable[[], bytes], end: float) -> None:
        self._make, self._end = make, end
        self.idle: list[_Client] | None = None
        self._found = b""
        self._begun = 0.0
        self.times: list[float] = []
        self.errors = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.send()

    def send(self) -> None:
        self._begun = time.perf_counter()
        self._transport.write(self._make())

    def data_received(self, data: bytes) -> None:
        self._found += data
        head = self._found.find(b"\r\n\r\n")
        if head < 0:
            return
        place = self._found.find(b"content-length: ")
        length = int(self._found[place + 16 : self._found.index(b"\r", place)])
        if len(self._found) < head + 4 + length:
            return
        now = time.perf_counter()
        self.times.append(now - self._begun)
        self.errors += not self._found.startswith(b"HTTP/1.1 200")
        self._found = b""
        if now < self._end:
            self.send()
        elif self.idle is not None:
            self.idle.append(self)
        else:
            self._transport.close()
            self.over.set_result(None)

    def leave(self) -> None:
        self._transport.close()
        self.over.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.over.done():
            return
        if self.idle is not None and self in self.idle:
            self.idle.remove(self)  # it was not needed for a while, and closed
        else:
            self.errors += 1
        self.over.set_result(None)


async def python_load(
    port: int,
    key: str,
    parts: tuple[str, str],
    seconds: float,
    path: str,
    rate: float | None = None,
    connections: int = CONCURRENCY,
) -> dict[str, float]:
    """Send requests from a number of connections, or `rate` of them a second."""
    begun = time.perf_counter()

    def made() -> bytes:
        body = f"{parts[0]}{random.uniform(16, 100):.12f}{parts[1]}".encode()
        return (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    loop = asyncio.get_running_loop()
    clients: list[_Client] = []

    async def client(end: float, idle: list[_Client] | None = None) -> None:
        one = _Client(made, end)
        one.idle = idle
        clients.append(one)
        await loop.create_connection(lambda: one, "127.0.0.1", port)
        await one.over

    if rate is None:
        await asyncio.gather(*(client(begun + seconds) for _ in range(connections)))
    else:
        idle: list[_Client] = []
        tasks, wanted = [], int(rate * seconds)
        for place in range(wanted):
            await asyncio.sleep(begun + place / rate - time.perf_counter())
            if idle:
                idle.pop().send()
            else:
                tasks.append(asyncio.ensure_future(client(0.0, idle)))
        for _ in range(1000):  # until the last answer has come, ten seconds at most
            if sum(len(one.times) for one in clients) >= wanted:
                break
            await asyncio.sleep(0.01)
        for one in idle:
            one.leave()
        await asyncio.gather(*tasks)
    times = [each for client in clients for each in client.times]
    return {
        "per_second": len(times) / (time.perf_counter() - begun),
        "p50_ms": 1000 * float(np.percentile(times, 50)),
        "p99_ms": 1000 * float(np.percentile(times, 99)),
        "errors": sum(client.errors for client in clients),
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


def stolen_seconds() -> float:
    """Return how long the host has kept this machine from its processors so far.

    A virtual machine that is stopped for a while answers nobody meanwhile.
    """
    line = Path("/proc/stat").read_text().splitlines()[0]
    return int(line.split()[8]) / os.sysconf("SC_CLK_TCK")


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
