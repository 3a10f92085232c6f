"""What one connection may send, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may send, and how long it may take.

    Attributes
    ----------
    line, head : int
        Bytes of the address in the request line, and of line and headers together.
    headers : int
        Number of headers.
    head_seconds : float
        For the whole head, from the first moment of a connection.
    body_seconds, body_rate : float
        A body may take this long, and one second more for each `body_rate` bytes.
    reply_seconds : float
        For a client that does not read its answer.
    pipelined : int
        Requests that may wait on one connection while another is answered.
    strangers : int
        Connections of one process on which nobody has shown a key. The oldest of them
        is closed when one more comes.
    """

    line: int = 4096
    head: int = 16 * 1024
    headers: int = 64
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    body_rate: float = 16 * 1024.0
    reply_seconds: float = 30.0
    pipelined: int = 16
    strangers: int = 512
