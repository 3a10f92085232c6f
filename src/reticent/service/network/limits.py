"""What one connection may send, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may send, and how long it may take."""

    # Bytes of the address in the request line, and of line and headers together.
    line: int = 4096
    head: int = 16 * 1024
    headers: int = 64  # number of headers
    # For the whole head, from the first moment of a connection.
    head_seconds: float = 10.0
    # A body may take this long, and one second more for each `body_rate` bytes.
    body_seconds: float = 20.0
    body_rate: float = 16 * 1024.0
    reply_seconds: float = 30.0  # for a client that does not read its answer
    # Requests that may wait on one connection while another is answered.
    pipelined: int = 16
    # Connections of one process on which nobody has shown a key. The oldest of them is
    # closed when one more comes.
    strangers: int = 512
