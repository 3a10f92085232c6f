"""Connections: what a client may send, how fast, and which are closed first.

The protocol that uvicorn runs for each connection. Every byte from the network passes
here first: lines, headers and bodies are bounded, senders have deadlines, and no more
of a body is read before the application asks for it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import httptools

from reticent.service.network.exchanges import (
    Direct,
    Door,
    Exchange,
    addresses_of,
    envelope_of,
    refusal,
    scope_of,
)
from reticent.service.network.flow import Flow
from reticent.service.network.limits import Limits
from reticent.service.network.pipeline import Pipeline
from reticent.service.network.repeats import Repeat, Repeating, RepeatReader
from reticent.service.network.watch import Watch

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

# A client that still sends when it has its answer may do so for a moment. If we closed
# at once, its own bytes under way would make it lose the answer.
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 2**20
_UNREAD = 2**16
_USUAL = Limits()


class Connection(asyncio.Protocol):
    """One connection: parses requests and runs the application for one at a time.

    Parameters
    ----------
    config, server_state, app_state
        As uvicorn gives them.
    limits : Limits
        What is taken.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Limits | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self.loop = _loop or asyncio.get_running_loop()
        self.limits = _USUAL if limits is None else limits
        self.server_state = server_state
        self._app: Any = config.loaded_app
        envelope = envelope_of(self._app)
        self._direct: Direct | None = getattr(envelope, "direct", None)
        self._door: Door | None = getattr(envelope, "turned_away", None)
        rounds: RepeatReader | None = getattr(envelope, "rounds", None)
        self._repeating = Repeating(self, rounds) if rounds else None
        self._common = {"root_path": config.root_path, "state": app_state}
        self._keep_alive = config.timeout_keep_alive
        self._watch = Watch.of(server_state, self.loop, self.limits.strangers)
        self._stranger = True
        self.transport: Any = None
        self.flow = Flow()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._current: Exchange | Repeat | None = None
        self._unstarted: Exchange | None = None  # the current one, not yet begun
        self._waiting = Pipeline(self.limits)
        self._receiving: Exchange | None = None  # whose body is under way
        self._deadline = self.loop.time() + self.limits.head_seconds
        self._writes_until = math.inf
        self._drained: asyncio.Future[None] | None = None
        self._refused: int | None = None
        self._last = False  # no further request is taken
        self._part, self._ended, self._amid = 0, False, False
        self._begin()

    def _begin(self) -> None:
        """Forget the previous request: another one begins."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = self._fed = 0
        self._in_head = True

    # ----- called by the event loop ------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self.transport = self.flow.transport = transport
        self.server_state.connections.add(self)  # type: ignore[arg-type]
        self._watch.add(self)
        self._common |= addresses_of(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection that is closed."""
        self.server_state.connections.discard(self)
        self._watch.discard(self)
        for exchange in (self._current, self._receiving):
            if exchange is not None:
                exchange.leave()
        self._waiting.drop()
        self.resume_writing()
        # These refer back: connections would stay until garbage is searched, and to
        # free a thousand of them at once takes 50 ms.
        self._current = self._unstarted = self._receiving = None
        self._parser = self._repeating = None

    def data_received(self, data: bytes) -> None:
        """Read on; what strangers send may have to wait for a moment."""
        if self._stranger or self.flow.held:
            self._watch.read_stranger(self, data)
        else:
            self.read(data)

    def read(self, data: bytes) -> None:
        """Read what was sent, unless the connection was closed meanwhile."""
        if self.transport.is_closing():
            return
        if self._repeating is not None and self._repeating.takes(data):
            return
        self.parse(data)

    def parse(self, data: bytes) -> None:
        """Read on, whether or not the beginning is known."""
        # In small parts, so that no head grows by a whole read before it is measured.
        for place in range(0, len(data), self.limits.head):
            if self._last and self._receiving is None:
                return
            self._feed(data[place : place + self.limits.head])

    def _feed(self, data: bytes) -> None:
        between = self.between
        self._part, self._ended = len(data), False
        self._fed += self._part
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._last = True  # no other protocol is spoken here
        except httptools.HttpParserError:
            self._refused = self._refused or 400
        if self._refused is None and self._fed > self.limits.head and self._in_head:
            self._refused = 431
        begun = self._unstarted
        if begun is not None and (begun.whole or self._refused is None):
            self._begin_with(begun, data if between else b"")
        if self._refused is not None:
            self._refuse(self._refused)
            return
        receiving = self._receiving
        if receiving is None:
            return
        if receiving.finished:
            if self._fed > (_UNREAD if self._stranger else _LINGER_BYTES):
                self._last, self._receiving = True, None
                self.transport.close()
        elif self._fed - 8 * receiving.size > _UNREAD + self.limits.head:
            self._refuse(400)  # hardly anything of a chunked body is content
        elif not receiving.wanted or len(receiving.body) > _UNREAD:
            self.flow.pause()

    def pause_writing(self) -> None:
        """Note that the client does not read; it has to before it may send more."""
        self.flow.stall()
        self._writes_until = self.loop.time() + self.limits.reply_seconds
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self._writes_until = math.inf
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self._start_waiting()
        self.flow.flow_again()

    # ----- called by uvicorn --------------------------------------------------

    def shutdown(self) -> None:
        """Finish what is being answered, then close."""
        self._last = True
        if self._current is None:
            self.transport.close()
        else:
            self._current.keep_alive = False

    # ----- called by the parser -----------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._begin()
        self._amid = True
        # Where another request ended in this part, nobody knows how much is ours.
        self._fed = 0 if self._ended else self._part
        if self._current is None:
            self._deadline = self.loop.time() + self.limits.head_seconds

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        if len(self._url) + len(url) > self.limits.line:
            self._refused = self._refused or 414
        else:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after a body are dropped."""
        if not self._in_head:
            return
        self._head_size += len(name) + len(value) + 4
        if (
            len(self._headers) >= self.limits.headers
            or self._head_size + len(self._url) > self.limits.head
        ):
            self._refused = self._refused or 431
        else:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin to answer, or queue the request behind those before it."""
        self._in_head, self._fed = False, 0
        if self._refused is not None or self._last:
            return
        size = self._head_size + len(self._url)
        if not self._waiting.takes(size, stranger=self._stranger):
            self._refused = 400
            return
        scope = scope_of(self._parser, self._url, self._headers, self._common)
        if scope is None:
            self._refused = 400
            return
        alive = self._parser.should_keep_alive()
        exchange = self._receiving = Exchange(self, scope, keep_alive=alive)
        if self._current is None and not self._waiting:
            # Most requests are one part: begin when all of that part is read.
            self._current = self._unstarted = exchange
            self._deadline = self.loop.time() + self.limits.body_seconds
        else:
            self._waiting.add(exchange, size)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        receiving = self._receiving
        if receiving is not None:
            receiving.take(body)
            if self._current is receiving:
                self._deadline = (
                    receiving.since
                    + self.limits.body_seconds
                    + receiving.size / self.limits.body_rate
                )

    def on_message_complete(self) -> None:
        """End a request."""
        self._fed, self._ended, self._amid = 0, True, False
        receiving, self._receiving = self._receiving, None
        if receiving is None:
            return
        receiving.complete()
        if receiving.finished:
            self._next(receiving)
        elif self._current is receiving:
            self._deadline = math.inf

    # ----- called by exchanges ------------------------------------------------

    def welcome(self) -> None:
        """Note that somebody with a key is on this connection."""
        if self._stranger:
            self._stranger = False
            self._watch.welcome(self)

    @property
    def stalled(self) -> bool:
        """Whether the client does not read."""
        return self._drained is not None

    async def drain(self) -> None:
        """Wait until the client reads."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def top(self, status: int, *, keep_alive: bool) -> bytes:
        """Return the first lines of an answer; they change once a second."""
        headers = self.server_state.default_headers
        return self._watch.top(status, headers, keep_alive=keep_alive)

    @property
    def between(self) -> bool:
        """Whether what was parsed so far are whole requests."""
        return not (self._amid or self._fed or self._receiving is not None)

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered, and the next request may begin."""
        free = self._current is None and self.between
        return free and not (self._last or self.stalled)

    def begin(self, repeat: Repeat | None) -> None:
        """Note a request that is answered without being parsed, or is no longer."""
        self._current, self._deadline = repeat, math.inf
        if repeat is None and self._last:
            self.transport.close()

    def answered(self, exchange: Exchange | Repeat) -> None:
        """Continue with the next request once this one is answered and fully read."""
        self.server_state.total_requests += 1
        if isinstance(exchange, Exchange) and self._receiving is exchange:
            exchange.body = bytearray()
            self._deadline = self.loop.time() + _LINGER_SECONDS
            self.flow.resume()
        else:
            self._next(exchange)

    # ----- the rest -------------------------------------------------------------

    def late(self, now: float) -> bool:
        """Return whether a deadline has passed."""
        return now > self._deadline or now > self._writes_until

    def expire(self) -> None:
        """End a connection that is late."""
        receiving, begun = self._receiving, self._in_head and bool(self._fed)
        if begun or (receiving is not None and not receiving.begun):
            self._refuse(408)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    def _start(self, exchange: Exchange) -> None:
        self._current = exchange
        until = self.loop.time() + self.limits.body_seconds
        self._deadline = until if self._receiving is exchange else math.inf
        self._begin_with(exchange)

    def _begin_with(self, exchange: Exchange, data: bytes = b"") -> None:
        self._unstarted = None
        if self._stranger and self._door is not None and self._door(exchange):
            return
        work: Coroutine[Any, Any, None] | bool = False
        if self._direct is not None and exchange.whole:
            work = self._direct(exchange)
        if work is not True:
            self.keep(work or exchange.run(self._app))
        elif data and self._repeating is not None:
            self._repeating.learn(data, exchange)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that the server waits for before it stops."""
        task = self.loop.create_task(work)
        task.add_done_callback(self.server_state.tasks.discard)
        self.server_state.tasks.add(task)

    def _next(self, exchange: Exchange | Repeat) -> None:
        self._current = None
        if not exchange.keep_alive or self._last or self.transport.is_closing():
            self.transport.close()
            return
        self._deadline = self.loop.time() + self._keep_alive
        self._start_waiting()
        self.flow.resume()

    def _start_waiting(self) -> None:
        """Begin with the next request, unless the client does not read its answers."""
        if self._waiting and self._current is None and self._drained is None:
            self._start(self._waiting.next())

    def _refuse(self, status: int) -> None:
        """Say what is wrong, if nothing else is being said, and close."""
        current, receiving = self._current, self._receiving
        self._last, self._receiving = True, None
        self._unstarted = None
        self._waiting.drop()
        if current is not None and current is not receiving:
            current.keep_alive = False  # what came before is still answered
            return
        self._current = None
        if current is None or not current.begun:
            self.transport.write(refusal(status))
        if current is not None:
            current.leave()
        self.transport.close()
