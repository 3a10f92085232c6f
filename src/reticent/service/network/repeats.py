"""Requests that begin like the one before them on their connection.

A client that keeps its connection sends nearly the same head each time. What the parser
and the application found out about the first one is known for those that follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from reticent.service.network.connections import Connection
    from reticent.service.network.exchanges import Exchange

_END = b"\r\n\r\n"
_LENGTH, _KEY = b"content-length", b"idempotency-key"
# Requests with one of these are left to the parser.
_SPECIAL = frozenset({b"expect", b"transfer-encoding", b"content-encoding", b"upgrade"})
# Most bytes of the values that differ from request to request.
_LONGEST_LENGTH, _LONGEST_KEY = 7, 100
_LONGEST = {_LENGTH: _LONGEST_LENGTH, _KEY: _LONGEST_KEY}
# How often the head of a connection's requests is looked at, to recognise others.
_TRIES = 8
_NO_SCOPE: dict[str, Any] = {}
_VISIBLE = re.compile(rb"[!-~]+")


class RepeatedHead:
    """The head of a request, without the length of its body and its idempotency key.

    Parameters
    ----------
    parts : sequence of (bytes, int)
        The bytes before each of the values that may differ, and the length of its
        longest value.
    end : bytes
        What follows the last of them.
    headers : list of (bytes, bytes)
        The headers of the first request.
    way : object
        How the application answers such requests.

    Guarantee
    ---------
    A parser makes of a request that this head fits the same as of the first one, except
    for these two values: all other bytes are equal, and the values are plain text
    between the same bytes.
    """

    __slots__ = ("_end", "_parts", "headers", "way")

    def __init__(
        self,
        parts: Sequence[tuple[bytes, int]],
        end: bytes,
        headers: list[tuple[bytes, bytes]],
        way: Any,
    ) -> None:
        self._parts, self._end = tuple(parts), end
        self.headers, self.way = headers, way

    @classmethod
    def of(
        cls, head: bytes, headers: list[tuple[bytes, bytes]], way: Any
    ) -> RepeatedHead | None:
        """Return what other requests are compared with, None if this one is special."""
        names = [name for name, _ in headers]
        if (
            not head.startswith(b"POST ")
            or head.find(_END) != len(head) - len(_END)
            or names.count(_LENGTH) != 1
            or names.count(_KEY) > 1
            or not _SPECIAL.isdisjoint(names)
        ):
            return None
        parts: list[tuple[bytes, int]] = []
        place = 0
        for line in re.finditer(rb"\r\n([^:\r\n]+):[ \t]*([!-~]*)", head):
            name = line[1].lower()
            if name in _LONGEST:
                parts.append((head[place : line.start(2)], _LONGEST[name]))
                place = line.end(2)
        if len(parts) != 1 + names.count(_KEY):
            return None
        return cls(parts, head[place:], headers, way)

    def matched(self, data: bytes) -> tuple[bytes, bytes | None] | None:
        """Return the body and the idempotency key of a whole request with this head."""
        place, length, key = 0, b"", None
        for before, longest in self._parts:
            if not data.startswith(before, place):
                return None
            start = place + len(before)
            place = data.find(b"\r", start, start + longest + 1)
            if place < 0:
                return None
            if longest == _LONGEST_LENGTH:
                length = data[start:place]
            else:
                key = data[start:place]
        if not data.startswith(self._end, place):
            return None
        body = data[place + len(self._end) :]
        if not length.isdigit() or int(length) != len(body):
            return None
        if key is not None and _VISIBLE.fullmatch(key) is None:
            return None
        return body, key


class Repeat:
    """A whole request whose head is known; it waits to be read with others.

    Parameters
    ----------
    repeating : Repeating
        Where it comes from.
    head : RepeatedHead
        What it begins with.
    data : bytes
        All of it.
    body : bytes
        What follows its head.
    key : bytes or None
        The idempotency key that it carries.
    """

    __slots__ = (
        "_connection",
        "_repeating",
        "begun",
        "body",
        "data",
        "drawn",
        "gone",
        "head",
        "keep_alive",
        "key",
        "lane",
        "request",
        "request_id",
        "scope",
        "table",
    )

    def __init__(
        self,
        repeating: Repeating,
        head: RepeatedHead,
        data: bytes,
        body: bytes,
        key: bytes | None,
    ) -> None:
        self._repeating, self._connection = repeating, repeating.connection
        self.head, self.data, self.body, self.key = head, data, body, key
        self.keep_alive = True
        self.begun = self.gone = False
        # Set by the application.
        self.lane: Any = None
        self.request: Any = None
        self.request_id = ""
        self.scope: dict[str, Any] = _NO_SCOPE
        self.table: Any = None
        self.drawn = 0

    def leave(self) -> None:
        """Note that the client is gone."""
        self.gone = True

    def accept(self) -> None:
        """Note that it will be answered; what came after it may be read."""
        self._repeating.read_on()

    def as_usual(self) -> None:
        """Leave this request to the parser and the application."""
        self._repeating.parse_instead(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the connection."""
        return self._connection.loop

    def reply_when_read(self, status: int, headers: bytes, body: bytes) -> None:
        """Send a whole answer once the client reads what it was sent before."""
        if not self._connection.stalled:
            self._reply(status, headers, body)
            return

        async def later() -> None:
            await self._connection.drain()
            self._reply(status, headers, body)

        self._connection.keep(later())

    def _reply(self, status: int, headers: bytes, body: bytes) -> None:
        if self.gone:
            return
        self.begun = True
        connection = self._connection
        connection.transport.write(
            b"%b%bcontent-length: %d\r\n\r\n%b"
            % (
                connection.top(status, keep_alive=self.keep_alive),
                headers,
                len(body),
                body,
            )
        )
        connection.answered(self)


class RepeatReader(Protocol):
    """What reads requests that arrive at the same time together."""

    def way(self, scope: dict[str, Any]) -> Any | None:
        """Return how requests like this one are answered, None if not here."""
        ...

    def take(self, repeat: Repeat) -> None:
        """Take a request: it is accepted, or left to the parser."""
        ...


class Repeating:
    """Recognises the requests of one connection that begin like one before them.

    Parameters
    ----------
    connection : Connection
        The connection.
    rounds : RepeatReader
        What reads such requests.
    """

    __slots__ = ("_head", "_held", "_rounds", "_tries", "connection")

    def __init__(self, connection: Connection, rounds: RepeatReader) -> None:
        self.connection, self._rounds = connection, rounds
        self._head: RepeatedHead | None = None
        self._tries = _TRIES
        self._held: list[bytes] | None = None  # what came while a request waits

    def takes(self, data: bytes) -> bool:
        """Take a whole request that begins like the last one; false if it does not."""
        if self._held is not None:
            self._held.append(data)
            return True
        head, connection = self._head, self.connection
        if head is None or not connection.idle or len(data) > connection.limits.head:
            return False
        found = head.matched(data)
        if found is None:
            return False
        self._held = []
        repeat = Repeat(self, head, data, *found)
        connection.begin(repeat)
        self._rounds.take(repeat)
        return True

    def learn(self, data: bytes, exchange: Exchange) -> None:
        """Recognise the next request if it begins like this one, all of `data`.

        A client whose heads always differ is not worth the attempt each time.
        """
        if not self._tries or not exchange.keep_alive:
            return
        self._tries -= 1
        way = self._rounds.way(exchange.scope)
        if way is not None:
            head = data[: len(data) - exchange.size]
            self._head = RepeatedHead.of(head, exchange.scope["headers"], way)

    def read_on(self) -> None:
        """Read what came while a request waited to be read."""
        held, self._held = self._held or [], None
        for data in held:
            self.connection.read(data)

    def parse_instead(self, repeat: Repeat) -> None:
        """Read a request, and what came after it, as if nothing were known of it."""
        held, self._held = self._held or [], None
        if not repeat.gone:
            self.connection.begin(None)
            for data in (repeat.data, *held):
                self.connection.parse(data)
