"""Connections that send raw bytes to a server on this machine, and read what comes."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

#: How long a test waits for a server that has stopped answering.
PATIENCE = 60.0


@contextlib.contextmanager
def connection(url: str) -> Iterator[socket.socket]:
    """Connect to a server."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE) as made:
        made.settimeout(PATIENCE)
        yield made


def rest(made: socket.socket) -> bytes:
    """Read until the server closes, or resets, the connection."""
    found = bytearray()
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while part := made.recv(65536):
            found += part
    return bytes(found)


def request(
    path: str, body: bytes = b"", *, method: str = "POST", **headers: Any
) -> bytes:
    """Return a request as bytes; ``length=`` lies about the body."""
    length = headers.pop("length", len(body))
    lines = [f"{method} {path} HTTP/1.1", "host: clinic.test"]
    if length is not None:
        lines.append(f"content-length: {length}")
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answers(made: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """Read a number of answers; return the status and the body of each."""
    reader, found = made.makefile("rb"), []
    for _ in range(count):
        status = int(reader.readline().split()[1])
        length = 0
        while (line := reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        found.append((status, reader.read(length)))
    return found
