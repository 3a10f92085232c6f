"""One request and its answer on a connection, as an ASGI application sees them."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import httptools

from reticent.service.requests.problems import (
    MEDIA_TYPE,
    ProblemError,
    body_of,
    failed,
    plain,
)

if TYPE_CHECKING:
    from reticent.service.network.connections import Connection

_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in http.HTTPStatus
}
_REFUSALS = {
    400: ("bad_request", "this is not HTTP/1.1 as this server reads it."),
    408: ("too_slow", "the request did not arrive in time. Send it faster."),
    414: ("too_large", "the address is too long. Shorten it."),
    431: ("too_large", "the headers are too large or too many. Send fewer."),
}


def refusal(status: int) -> bytes:
    """Return the whole response to something that is not a request."""
    code, message = _REFUSALS[status]
    body = body_of(ProblemError(status, code, message), "")
    return (
        _LINES[status]
        + b"content-type: %b\r\nconnection: close\r\n" % MEDIA_TYPE.encode()
        + b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


class Exchange:
    """A request that is read when the application asks for it, and its answer.

    Parameters
    ----------
    connection : Connection
        Where it comes from.
    scope : dict
        What the request is, in ASGI's terms. ``reticent.exchange`` in it is this
        object until it is answered: through it the application can name a known caller
        and reply in one step.
    keep_alive : bool
        Whether another request may follow.
    """

    def __init__(
        self, connection: Connection, scope: dict[str, Any], *, keep_alive: bool
    ) -> None:
        scope["reticent.exchange"] = self
        self._connection = connection
        self.scope = scope
        self.keep_alive = keep_alive and scope["http_version"] == "1.1"
        self.since = connection.loop.time()
        self.body = bytearray()
        self.size = 0
        self.wanted = self.begun = self.finished = False
        self._complete = self._delivered = self._gone = self._chunked = False
        self._head = b""
        self._waiter: asyncio.Future[None] | None = None

    # ----- called by the connection -------------------------------------------

    def take(self, body: bytes) -> None:
        """Keep a part of the body, unless it is no longer wanted."""
        self.size += len(body)
        if not self.finished:
            self.body += body
            self._wake()

    def complete(self) -> None:
        """Note that the whole body is there."""
        self._complete = True
        self._wake()

    def leave(self) -> None:
        """Note that the client is gone."""
        self._gone = True
        self.body = bytearray()
        self._end()

    def _end(self) -> None:
        # Scope and exchange would otherwise keep each other until garbage is searched.
        self.scope.pop("reticent.exchange", None)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def whole(self) -> bool:
        """Whether all of the request is there, and nobody has read any of it."""
        return self._complete and not self.wanted

    # ----- called by the application --------------------------------------------

    def whole_body(self) -> bytes:
        """Return the body of a request that is `whole`."""
        self.wanted = self._delivered = True
        body, self.body = bytes(self.body), bytearray()
        return body

    async def run(self, app: Any) -> None:
        """Let an application answer."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception as error:  # noqa: BLE001 - the outer edge of a request
            failed(self.scope, error)
        if self.finished or self._gone:
            return
        if self.begun:
            self._connection.abort()
        else:
            body = body_of(plain(500), "")
            self.keep_alive = False
            self.reply(500, b"content-type: %b\r\n" % MEDIA_TYPE.encode(), body)

    def welcome(self) -> None:
        """Note that the request carries a key that is known."""
        self._connection.welcome()

    async def drain(self) -> None:
        """Wait until the client reads what it was sent before."""
        await self._connection.drain()

    async def receive(self) -> dict[str, Any]:
        """Return what there is of the body; wait if there is nothing."""
        if not self.wanted:
            self.wanted = True
            self._continue()
        while not (
            self._gone
            or self.finished
            or (not self._delivered and (self.body or self._complete))
        ):
            self._connection.flow.resume()
            self._waiter = self._connection.loop.create_future()
            await self._waiter
        if self._gone or self.finished:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        self._delivered = self._complete
        return {"type": "http.request", "body": body, "more_body": not self._complete}

    def _continue(self) -> None:
        """Ask for a body that the client holds back until it is asked for it."""
        if self._complete or self._gone or self.size:
            return
        for name, value in self.scope["headers"]:
            if name == b"expect" and value.lower() == b"100-continue":
                self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return

    async def send(self, message: Any) -> None:
        """Send a part of the answer."""
        await self._connection.drain()
        if self._gone:
            return
        if message["type"] == "http.response.start":
            self._start(message["status"], message.get("headers", ()))
            return
        if not self._head and not self.begun:
            raise RuntimeError("an answer must begin with its status.")
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body += b"" if more else b"0\r\n\r\n"
        if more and not body:
            return
        self._write(body, last=not more)

    def _start(self, status: int, headers: Any) -> None:
        parts = []
        sized = status in (204, 304)
        for name, value in headers:
            if b"\n" in value or b"\r" in value:
                raise RuntimeError("a header must be one line.")
            if name == b"content-length":
                sized = True
            elif name == b"connection" and b"close" in value.lower():
                self.keep_alive = False
                continue
            parts += [name, b": ", value, b"\r\n"]
        if not sized:
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
        self._head = self._top(status) + b"".join(parts) + b"\r\n"

    def _top(self, status: int) -> bytes:
        return self._connection.top(status, keep_alive=self.keep_alive)

    def reply(self, status: int, headers: bytes, body: bytes) -> None:
        """Send a whole answer; `headers` are lines that end with a line break."""
        if self._gone:
            return
        self._head = b"%b%bcontent-length: %d\r\n\r\n" % (
            self._top(status),
            headers,
            len(body),
        )
        self._write(b"" if self.scope["method"] == "HEAD" else body, last=True)

    def reply_when_read(self, status: int, headers: bytes, body: bytes) -> None:
        """Send a whole answer once the client reads what it was sent before."""
        if not self._connection.stalled:
            self.reply(status, headers, body)
            return

        async def later() -> None:
            await self._connection.drain()
            self.reply(status, headers, body)

        self._connection.keep(later())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the connection."""
        return self._connection.loop

    def _write(self, body: bytes, *, last: bool) -> None:
        self.begun = True
        head, self._head = self._head, b""
        self._connection.transport.write(head + body if head else body)
        if last:
            self.finished = True
            self._end()
            self._connection.answered(self)


def top_lines(
    status: int, headers: Iterable[tuple[bytes, bytes]], *, keep_alive: bool
) -> bytes:
    """Return the first lines of an answer: its status, and what the server adds."""
    lines = [_LINES[status]]
    for name, value in headers:
        lines += [name, b": ", value, b"\r\n"]
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    return b"".join(lines)


def addresses_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return who is at the ends of a connection, in ASGI's terms."""
    secure = transport.get_extra_info("sslcontext") is not None
    return {
        "server": _address(transport.get_extra_info("sockname")),
        "client": _address(transport.get_extra_info("peername")),
        "scheme": "https" if secure else "http",
    }


def _address(found: Any) -> tuple[str, int] | None:
    if isinstance(found, (list, tuple)) and len(found) >= 2:
        return str(found[0]), int(found[1])
    return None


def scope_of(
    parser: Any, url: bytes, headers: list[tuple[bytes, bytes]], common: dict[str, Any]
) -> dict[str, Any] | None:
    """Return what a request is in ASGI's terms, None if its address cannot be read.

    Parameters
    ----------
    parser : httptools.HttpRequestParser
        It has read the head of the request.
    url : bytes
        The address in the request line.
    headers : list of (bytes, bytes)
        Their names in lower case.
    common : dict
        What all requests of the connection have in common.
    """
    try:
        address = httptools.parse_url(url)
        path = address.path.decode("ascii")
    except (httptools.HttpParserError, ValueError, AttributeError):
        return None
    root: str = common["root_path"]
    return {
        **common,
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": parser.get_http_version(),
        "method": parser.get_method().decode("ascii"),
        "path": root + (unquote(path) if "%" in path else path),
        "raw_path": root.encode("ascii") + address.path,
        "query_string": address.query or b"",
        "headers": headers,
        "state": common["state"].copy(),
    }


#: Answers a whole request in few steps, perhaps by what it returns; or returns false,
#: and leaves it to the application.
Direct: TypeAlias = Callable[[Exchange], Coroutine[Any, Any, None] | bool]

#: Refuses a request at once, by its head alone; or returns false.
Door: TypeAlias = Callable[[Exchange], bool]


def envelope_of(app: Any) -> Any | None:
    """Return what answers requests in few steps, if an application offers that.

    What the server wraps around an application concerns addresses, which such requests
    do not depend on.
    """
    while app is not None:
        envelope = getattr(app, "envelope", None)
        if envelope is not None:
            return envelope
        app = getattr(app, "app", None)
    return None
