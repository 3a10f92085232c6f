"""A thousand connections that mean harm, in a process of its own.

    python tests/service/hostile_crowd.py PORT COUNT SECONDS

Every attacker connects, does what its kind does, and comes again when it is closed.
None of them has a key. It lasts for SECONDS, and until COUNT connections were made.
Prints how often each kind came, as JSON.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import random
import resource
import secrets
import struct
import sys
from collections.abc import Awaitable, Callable
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import uvloop

PREDICT = b"POST /v1/models/triage/predict HTTP/1.1\r\nhost: x\r\n"
ADMIN = b"POST /v1/admin/keys HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
BLOCK = b"x" * 65536


class Line:
    """A connection of one attacker."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


async def slow_headers(line: Line) -> None:
    await line.send(b"POST /v1/models HTTP/1.1\r\n")
    while True:
        await line.send(b"x")
        await asyncio.sleep(0.5)


async def slow_body(line: Line) -> None:
    path = random.choice((b"/login", b"/v1/models/triage/predict"))
    await line.send(b"POST %b HTTP/1.1\r\ncontent-length: 4000\r\n\r\n" % path)
    while True:
        await line.send(b"x")
        await asyncio.sleep(0.5)


async def huge_headers(line: Line) -> None:
    await line.send(b"GET / HTTP/1.1\r\n")
    for number in range(2000):
        await line.send(b"h%d: " % number + BLOCK + b"\r\n")


async def huge_body(line: Line) -> None:
    await line.send(ADMIN + b"content-length: 104857600\r\n\r\n")
    for _ in range(1600):
        await line.send(BLOCK)


async def endless_chunks(line: Line) -> None:
    await line.send(random.choice((ADMIN, PREDICT)) + CHUNKED)
    while True:
        await line.send(b"10000\r\n" + BLOCK + b"\r\n")


async def garbage_keys(line: Line) -> None:
    for _ in range(20):
        key = f"rk_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}".encode()
        await line.send(PREDICT + b"x-api-key: %b\r\ncontent-length: 2\r\n\r\n{}" % key)
        await line.reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)


async def half_closed(line: Line) -> None:
    await line.send(PREDICT + b"content-length: 100\r\n\r\nabc")
    line.writer.write_eof()
    await line.reader.read()


async def reset(line: Line) -> None:
    await line.send(PREDICT + b"content-length: 100\r\n\r\nabc")
    sock = line.writer.get_extra_info("socket")
    sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))


async def silent(line: Line) -> None:
    await line.reader.read()


async def pipelined(line: Line) -> None:
    await line.send(1000 * b"GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n")
    await asyncio.sleep(5)  # and reads nothing


async def wrong_probes(line: Line) -> None:
    for _ in range(20):
        await line.send(16 * b"POST /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        await line.reader.read(65536)
        await asyncio.sleep(0.1)


async def unread_heads(line: Line) -> None:
    for size in (0, *12 * [15_500]):
        name = b"x" * size
        await line.send(
            15 * b"GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n"
            + b"GET /v1/x HTTP/1.1\r\nx: %b\r\n\r\n" % name
        )
    await asyncio.sleep(5)  # and reads nothing


KINDS: tuple[Callable[[Line], Awaitable[None]], ...] = (
    slow_headers,
    slow_body,
    huge_headers,
    huge_body,
    endless_chunks,
    garbage_keys,
    half_closed,
    reset,
    silent,
    pipelined,
    wrong_probes,
    unread_heads,
)


async def attacker(
    port: int, place: int, came: collections.Counter[str], pause: float
) -> None:
    kind = KINDS[place % len(KINDS)]
    while True:
        await asyncio.sleep(random.uniform(0, 2 * pause))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            came[kind.__name__] += 1
            try:
                await kind(Line(reader, writer))
            finally:
                writer.close()


async def crowd(port: int, count: int, seconds: float) -> dict[str, int]:
    came: collections.Counter[str] = collections.Counter()
    everybody = [
        asyncio.ensure_future(attacker(port, place, came, pause=1.0))
        for place in range(count)
    ]
    await asyncio.sleep(seconds)
    while came.total() < count:  # on a busy machine they come more slowly
        await asyncio.sleep(0.1)
    for one in everybody:
        one.cancel()
    await asyncio.gather(*everybody, return_exceptions=True)
    return dict(came)


def main() -> None:
    # Attackers have machines of their own: here they take what others leave.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    port, count, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    sys.stdout.write(json.dumps(uvloop.run(crowd(port, count, seconds))))


if __name__ == "__main__":
    main()
