"""Headers that all answers have, and who adds them."""

from __future__ import annotations

from starlette.types import Message, Scope, Send

# Pages and answers are not cached, framed or sniffed. Scripts and styles come from this
# host alone.
_HEADERS: list[tuple[bytes, bytes]] = [
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; "
        b"frame-ancestors 'none'",
    ),
    # Not "no-referrer": browsers would then hide from us where our own forms come from.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
#: The same as lines.
COMMON_LINES = b"".join(b"%b: %b\r\n" % header for header in _HEADERS)


class Sender:
    """Sends an answer with the headers that all answers have, and notes its status."""

    __slots__ = ("_id", "_send", "status")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self._id = send, request_id.encode()
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Send a part of an answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            header = (b"x-request-id", self._id)
            message["headers"] = [*message["headers"], header, *_HEADERS]
        await self._send(message)

    async def answer(self, scope: Scope, headers: bytes, body: bytes) -> None:
        """Send a whole answer, in one step where the connection is ours."""
        exchange = scope.get("reticent.exchange")
        if exchange is not None:
            self.status = 200
            await exchange.drain()
            lines = b"%bx-request-id: %b\r\n%b" % (headers, self._id, COMMON_LINES)
            exchange.reply(200, lines, body)
            return
        pairs = [tuple(line.split(b": ", 1)) for line in headers.split(b"\r\n") if line]
        pairs.append((b"content-length", b"%d" % len(body)))
        await self({"type": "http.response.start", "status": 200, "headers": pairs})
        await self({"type": "http.response.body", "body": body})


def good_headers(request_id: str) -> bytes:
    """Return the headers of an answer."""
    return b"content-type: application/json\r\nx-request-id: %b\r\n%b" % (
        request_id.encode(),
        COMMON_LINES,
    )
