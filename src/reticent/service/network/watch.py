"""Deadlines of all connections of a server, and which are closed first."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from reticent.service.network.exchanges import top_lines

# How often deadlines are checked, in seconds.
_SWEEP = 1.0


class Watched(Protocol):
    """A connection, as far as it is watched."""

    def late(self, now: float) -> bool:
        """Return whether a deadline has passed."""
        ...

    def expire(self) -> None:
        """End a connection that is late."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Watch:
    """Closes the connections of one server that are late, or too many.

    Parameters
    ----------
    loop : event loop
        On which the connections are served.
    most : int
        The largest number of connections on which nobody has shown a key.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self._open: set[Watched] = set()
        self._strangers: dict[Watched, None] = {}  # oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._top: tuple[Any, bytes] = (None, b"")

    def top(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the first lines of a good answer, made once for all connections.

        The server replaces `headers` when one of them changes.
        """
        known, lines = self._top
        if known is not headers:
            lines = top_lines(200, headers, keep_alive=True)
            self._top = headers, lines
        return lines

    def add(self, connection: Watched) -> None:
        """Watch a new connection; the oldest one without a key may be closed for it."""
        self._open.add(connection)
        self._strangers[connection] = None
        if len(self._strangers) > self._most:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.abort()
        if self._timer is None:
            self._timer = self._loop.call_later(_SWEEP, self._sweep)

    def discard(self, connection: Watched) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        self._strangers.pop(connection, None)

    def welcome(self, connection: Watched) -> None:
        """Note that the caller on a connection is known."""
        self._strangers.pop(connection, None)

    def _sweep(self) -> None:
        now = self._loop.time()
        for connection in [each for each in self._open if each.late(now)]:
            connection.expire()
        self._timer = self._loop.call_later(_SWEEP, self._sweep) if self._open else None
