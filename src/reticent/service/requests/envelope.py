"""Around every request: an id, a limit on concurrency, headers, a line in the log."""

from __future__ import annotations

import logging
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent.mechanisms import SystemSource
from reticent.service.requests.limits import Gate
from reticent.service.requests.problems import ProblemError, failed, reply
from reticent.service.telemetry import Metrics

log = logging.getLogger("reticent.service")

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
# Buffered, so that a request does not cost a system call.
_bits = SystemSource()
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_HEALTH = ("/v2/health/live", "/v2/health/ready")


class Envelope:
    """Outermost layer of the application.

    Parameters
    ----------
    app : ASGI application
        What is inside.
    gate : Gate
        How many requests may be inside at once; probes always may.
    metrics : Metrics
        Counts requests by route, status and error code.
    """

    def __init__(self, app: ASGIApp, *, gate: Gate, metrics: Metrics) -> None:
        self._app = app
        self._gate = gate
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _bits.bytes(8).hex()
        outcome: dict[str, Any] = {"code": ""}
        scope["reticent.request_id"] = request_id
        scope["reticent.outcome"] = outcome
        status = 0
        header = (b"x-request-id", request_id.encode())

        async def send_in_envelope(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], header, *_HEADERS]
            await send(message)

        probe = scope["path"] in _HEALTH
        try:
            if not probe:
                self._gate.enter()
                self._metrics.in_flight.set(self._gate.inside)
        except ProblemError as problem:
            self._metrics.shed.labels(problem.code).inc()
            await reply(problem, scope)(scope, receive, send_in_envelope)
            self._note(scope, status, request_id, outcome)
            return
        try:
            await self._app(scope, receive, send_in_envelope)
        except Exception as error:  # noqa: BLE001 - the outer edge of a request
            response = failed(scope, error)
            if not status:
                await response(scope, receive, send_in_envelope)
        finally:
            if not probe:
                self._gate.leave()
                self._metrics.in_flight.set(self._gate.inside)
            self._note(scope, status, request_id, outcome)

    def _note(
        self, scope: Scope, status: int, request_id: str, outcome: dict[str, Any]
    ) -> None:
        # The route's pattern, not the path: a path may hold anything.
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.count(route, status, outcome["code"])
        if log.isEnabledFor(logging.INFO):
            fields = {
                "request_id": request_id,
                "method": scope["method"] if scope["method"] in _METHODS else "?",
                "route": route,
                "status": status,
                **outcome,
            }
            log.info("request", extra={"fields": fields})
