"""Deadlines of all connections of a server, who is closed first, and whose turn it is.

What comes on connections on which nobody has shown a key has a small slice of each
round of the event loop. The rest of it waits for the next round, so however many
strangers send, those with a key wait for a few milliseconds at most.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from reticent.service.network.exchanges import top_lines
from reticent.service.network.flow import Flow

if TYPE_CHECKING:
    from uvicorn.server import ServerState

# How often deadlines are checked, in seconds.
_SWEEP = 1.0
# Seconds of each round of the event loop for what strangers send.
_SLICE = 0.002
# The most that is read of one of them at once: requests that all fit into one read of
# the network would otherwise take many slices.
_PART = 16 * 1024
# Bytes of strangers that may wait before large parts no longer may.
_MOST_HELD = 8 * 2**20


class Watched(Protocol):
    """A connection, as far as it is watched."""

    flow: Flow

    def late(self, now: float) -> bool:
        """Return whether a deadline has passed."""
        ...

    def expire(self) -> None:
        """End a connection that is late."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def read(self, data: bytes) -> None:
        """Read what was sent."""
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
        self._held: deque[tuple[Watched, bytes]] = deque()
        self._held_bytes = 0
        self._used = 0.0  # seconds of this round that strangers have had
        self._in_round = False

    @classmethod
    def of(
        cls, server: ServerState, loop: asyncio.AbstractEventLoop, most: int
    ) -> Watch:
        """Return the one watch of a server."""
        watch = _watches.get(server)
        if watch is None:
            watch = _watches[server] = cls(loop, most)
        return watch

    def read_stranger(self, connection: Watched, data: bytes) -> None:
        """Let a connection read what a stranger sent, now or in later rounds.

        A connection of which something waits is not read meanwhile, so at most one
        read of each waits. If too much waits, those who send more than a head are
        closed.
        """
        if not self._in_round:
            self._in_round = True
            self._loop.call_soon(self._next_round)
        if not self._held and self._used < _SLICE:
            data = self._read(connection, data)
        if not data:
            return
        if self._held_bytes + len(data) > _MOST_HELD and len(data) > _PART:
            connection.abort()
            return
        connection.flow.hold()
        self._held.append((connection, data))
        self._held_bytes += len(data)

    def _read(self, connection: Watched, data: bytes) -> bytes:
        """Let a connection read a part; return the rest. An error closes it alone."""
        begun = time.perf_counter()
        try:
            connection.read(data[:_PART])
        except Exception as error:  # noqa: BLE001 - others must be read all the same
            what = {"message": "a connection failed", "exception": error}
            self._loop.call_exception_handler(what)
            connection.abort()
            return b""
        finally:
            self._used += time.perf_counter() - begun
        return data[_PART:]

    def _next_round(self) -> None:
        """Read what waits, in its order, until strangers have had their time."""
        self._used = 0.0
        while self._held and self._used < _SLICE:
            connection, data = self._held.popleft()
            self._held_bytes -= len(data)
            rest = self._read(connection, data) if connection in self._open else b""
            if rest:
                self._held.append((connection, rest))
                self._held_bytes += len(rest)
            else:
                connection.flow.release()
        self._in_round = bool(self._held)
        if self._in_round:
            self._loop.call_soon(self._next_round)

    def top(
        self, status: int, headers: list[tuple[bytes, bytes]], *, keep_alive: bool
    ) -> bytes:
        """Return the first lines of an answer; of good ones, made once for all.

        The server replaces `headers` when one of them changes.
        """
        if status != 200 or not keep_alive:
            return top_lines(status, headers, keep_alive=keep_alive)
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


_watches: WeakKeyDictionary[ServerState, Watch] = WeakKeyDictionary()
