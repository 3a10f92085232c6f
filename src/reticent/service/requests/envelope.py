"""Around every request: who asks, a slot, an id, headers, a line in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from reticent._ids import random_name
from reticent.home import KeyRecord
from reticent.service.requests.access import Access, require_admin
from reticent.service.requests.bodies import again, bounded, read_body
from reticent.service.requests.direct_routes import DirectAnswer, DirectRoutes
from reticent.service.requests.limits import Gate, Strangers
from reticent.service.requests.probes import PROBES, Probes
from reticent.service.requests.problems import (
    ProblemError,
    failed,
    parts_of,
    response_to,
)
from reticent.service.requests.rounds import Lane, RequestRounds, Tools
from reticent.service.requests.sending import COMMON_LINES, Sender, good_headers
from reticent.service.telemetry import Metrics, RequestRecord

if TYPE_CHECKING:
    from reticent.service.network.exchanges import Exchange
    from reticent.service.network.repeats import Repeat
    from reticent.service.traces import Traces

log = logging.getLogger("reticent.service")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_KEYED = ("/v1/", "/v2/models/")
_ADMIN = "/v1/admin/"
# All users of the dashboard count as one client; no client has such a name.
_PAGES = "(dashboard)"
# Where pages send files to.
_UPLOADS = "/batch"
#: The largest size in bytes of a body that is neither rows nor tensors.
SMALL_BODY = 64 * 1024
# The same for somebody without a key: the form that a key is entered into.
_STRANGERS_BODY = 4096


class Envelope:
    """Outermost layer of the application: it sees a request before anything else does.

    A request with a key is recognised by its headers alone. Then it gets a slot, and
    only then is its body read. Requests without a key, which concern pages and logins,
    have slots of their own, and their small bodies are read before they get one.

    Parameters
    ----------
    app : ASGI application
        What is inside.
    access : Access
        Recognises keys.
    gate : Gate
        How many requests may be inside at once; probes always may.
    metrics : Metrics
        Counts requests by route, status and error code.
    direct : DirectRoutes
        Routes that are answered without the application's router.
    probes : Probes
        Says what is answered to probes.
    signed_in : callable
        Says of a request's scope whether it carries a login of the dashboard.
    upload : int
        The largest size in bytes of a file that is uploaded on a page.
    traces : Traces or None, default=None
        Gets a span for each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        gate: Gate,
        metrics: Metrics,
        direct: DirectRoutes,
        probes: Probes,
        signed_in: Callable[[Scope], bool],
        upload: int = SMALL_BODY,
        traces: Traces | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._gate = gate
        self._metrics = metrics
        self._direct = direct
        self._signed_in = signed_in
        self._upload = upload
        self._traces = traces
        self._strangers = Strangers()
        self._probes = probes
        self._lines: list[dict[str, Any] | str] = []
        self._lanes: set[Lane] = set()  # with answers that are not counted yet
        self._untidy = False
        #: Reads requests that arrive together; none where each gets a span of its own.
        self.rounds = None if traces is not None else self._rounds()

    def _rounds(self) -> RequestRounds:
        return RequestRounds(
            Tools(self._access, self._gate, self._direct.answering, self._direct),
            reply=self._reply,
            note=self._note_in_lane,
            headers=good_headers,
        )

    def _note_in_lane(self, exchange: Repeat, lane: Lane, line: str) -> None:
        self._tidy_soon(exchange)
        self._lanes.add(lane)
        self._lines.append(line)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, outcome = _begin(scope, self._strangers)
        sender = Sender(send, request_id)
        path = _route_path(scope)
        try:
            if path.startswith(_KEYED):
                await self._with_key(path, scope, receive, sender)
            elif path in PROBES:
                await self._app(scope, receive, sender)
            else:
                await self._without_key(scope, receive, sender)
        except Exception as error:  # noqa: BLE001 - the outer edge of a request
            if not sender.status:
                await response_to(scope, error)(scope, receive, sender)
            elif outcome["code"] != "internal":  # not answered as a failure yet
                failed(scope, error)
        finally:
            self._note(scope, sender.status, request_id, outcome)

    async def _with_key(
        self, path: str, scope: Scope, receive: Receive, sender: Sender
    ) -> None:
        record = await self._access.identified(scope["headers"])
        _name_caller(scope, record)
        self._access.take_turn(record)
        if path.startswith(_ADMIN):
            require_admin(record)
        self._enter(self._gate.enter, record.client)
        try:
            found = self._direct.find(scope["method"], path)
            if found is None:
                await self._app(scope, bounded(receive, SMALL_BODY), sender)
                return
            route, name, version = found
            scope["reticent.route"] = route.pattern
            answer = await self._direct.answer(route, scope, receive, name, version)
            await sender.answer(scope, answer.headers, answer.body)
        finally:
            self._leave(record.client)

    def turned_away(self, exchange: Exchange) -> bool:
        """Refuse a request that its head alone decides; false for every other.

        It says what `__call__` would say, without a task: strangers must cost little.
        """
        scope = exchange.scope
        path = _route_path(scope)
        if path.startswith(_KEYED):
            problem = self._access.refusal(scope["headers"])
        elif path in PROBES:
            found = self._probes.known(path, scope["method"])
            scope["reticent.route"] = path
            return found is not None and self._answered_at_once(exchange, found)
        else:
            known = self._signed_in(scope) or self._access.knows(scope["headers"])
            problem = None if known else self._strangers.refusal()
        return problem is not None and self._answered_at_once(exchange, problem)

    def _answered_at_once(
        self, exchange: Exchange, answer: DirectAnswer | ProblemError
    ) -> bool:
        _begin(exchange.scope, self._strangers)
        self._reply(exchange, answer)
        return True

    def direct(self, exchange: Exchange) -> Coroutine[Any, Any, None] | bool:
        """Answer a whole request for rows whose key is known; false for every other.

        It does what `__call__` does, in fewer steps; nearly all requests of a busy
        service go this way. Returns what has to be awaited, if anything.
        """
        scope = exchange.scope
        found = self._direct.find(scope["method"], scope["path"])
        if found is None:
            return False
        try:
            record = self._access.seen(scope["headers"])
        except ProblemError:
            return False
        if record is None:
            return False
        route, *_ = found
        _begin(scope, self._strangers)
        scope["reticent.route"] = route.pattern
        inside = False

        def then(answer: DirectAnswer | Exception) -> None:
            nonlocal inside
            if inside:
                inside = False
                self._gate.leave(record.client)
            self._reply(exchange, answer)

        try:
            _name_caller(scope, record)
            self._access.take_turn(record)
            self._enter(self._gate.enter, record.client, shown=False)
            inside = True
            self._tidy_soon(exchange)
            body = exchange.whole_body()
            rest = self._direct.answer_then(route, scope, body, found[1:], then)
        except Exception as error:  # noqa: BLE001 - the outer edge of a request
            then(error)
            return True
        return True if rest is None else _awaited(rest, then)

    def _reply(
        self, exchange: Exchange | Repeat, answer: DirectAnswer | Exception
    ) -> None:
        """Send an answer, or what is said about an error; then note it."""
        scope, status = exchange.scope, 200
        if isinstance(answer, ProblemError):
            status, headers, body = parts_of(answer, scope)
        elif isinstance(answer, Exception):
            response = response_to(scope, answer)
            status, body = response.status_code, bytes(response.body)
            headers = b"".join(
                b"%b: %b\r\n" % pair
                for pair in response.raw_headers
                if pair[0] != b"content-length"
            )
        else:
            body, headers = answer
        request_id: str = scope["reticent.request_id"]
        lines = b"%bx-request-id: %b\r\n%b" % (
            headers,
            request_id.encode(),
            COMMON_LINES,
        )
        exchange.reply_when_read(status, lines, body)
        self._tidy_soon(exchange)
        outcome = scope["reticent.outcome"]
        line = self._counted(scope, status, request_id, outcome)
        if line is not None:
            self._lines.append(line)

    def _tidy_soon(self, exchange: Exchange | Repeat) -> None:
        if not self._untidy:
            self._untidy = True
            exchange.loop.call_soon(self._tidy)

    def _tidy(self) -> None:
        """Show how many are inside, and log what was just answered, all at once."""
        self._untidy, lines, self._lines = False, self._lines, []
        self._metrics.in_flight.set(self._gate.inside)
        lanes, self._lanes = self._lanes, set()
        for lane in lanes:
            self._metrics.count(lane.pattern, 200, "", lane.requests)
            self._direct.answering.count_drawn(
                lane.model.name, lane.drawn, lane.remembered
            )
            lane.requests = lane.drawn = lane.remembered = 0
        if lines and log.isEnabledFor(logging.INFO):
            log.handle(RequestRecord(lines))

    async def _without_key(
        self, scope: Scope, receive: Receive, sender: Sender
    ) -> None:
        if self._signed_in(scope):
            _welcome(scope)
            self._enter(self._gate.enter, _PAGES)
            most = self._upload if scope["path"].endswith(_UPLOADS) else SMALL_BODY
            try:
                await self._app(scope, bounded(receive, most), sender)
            finally:
                self._gate.leave(_PAGES)
            return
        if not self._access.knows(scope["headers"]):
            self._strangers.take_turn()
        if scope["method"] not in ("GET", "HEAD"):
            body = await read_body(receive, scope["headers"], _STRANGERS_BODY)
            receive = again(body, receive)
        self._enter(self._gate.enter_stranger)
        try:
            await self._app(scope, receive, sender)
        finally:
            self._gate.leave_stranger()

    def _enter(
        self, enter: Callable[..., None], *client: str, shown: bool = True
    ) -> None:
        try:
            enter(*client)
        except ProblemError as problem:
            self._metrics.shed.labels(problem.code).inc()
            raise
        if shown:
            self._metrics.in_flight.set(self._gate.inside)

    def _leave(self, client: str) -> None:
        self._gate.leave(client)
        self._metrics.in_flight.set(self._gate.inside)

    def _note(
        self, scope: Scope, status: int, request_id: str, outcome: dict[str, Any]
    ) -> None:
        line = self._counted(scope, status, request_id, outcome)
        if line is not None and log.isEnabledFor(logging.INFO):
            log.handle(RequestRecord([line]))

    def _counted(
        self, scope: Scope, status: int, request_id: str, outcome: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Count and trace a request that was answered; return what the log says."""
        route: str | None = scope.get("reticent.route")
        if route is None:
            # The route's pattern, not the path: a path may hold anything.
            route = getattr(scope.get("route"), "path", "other")
        self._metrics.count(route, status, outcome["code"])
        method = scope["method"] if scope["method"] in _METHODS else "?"
        if self._traces is not None:
            self._traces.add(scope, method, route, status, request_id, outcome)
        line = {
            "request_id": request_id,
            "method": method,
            "route": route,
            "status": status,
            **outcome,
        }
        known = "reticent.known" in scope or self._strangers.noted(line)
        return line if known else None


def _route_path(scope: Scope) -> str:
    """Return the path that the router compares: without the prefix of a proxy.

    Who needs a key must not depend on where the application is mounted.
    """
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if path == prefix or path.startswith(f"{prefix}/"):
        return path[len(prefix) :]
    return path


async def _awaited(
    rest: Coroutine[Any, Any, DirectAnswer],
    then: Callable[[DirectAnswer | Exception], None],
) -> None:
    """Hand on what has to be waited for."""
    try:
        answer: DirectAnswer | Exception = await rest
    except Exception as error:  # noqa: BLE001 - the outer edge of a request
        answer = error
    then(answer)


def _begin(scope: Scope, strangers: Strangers) -> tuple[str, dict[str, Any]]:
    """Give a request its id, and a place for what the log says about it."""
    request_id = random_name()[:16]
    outcome: dict[str, Any] = {"code": ""}
    scope["reticent.request_id"] = request_id
    scope["reticent.outcome"] = outcome
    scope["reticent.strangers"] = strangers
    scope["reticent.arrived"] = time.time_ns()
    return request_id, outcome


def _name_caller(scope: Scope, record: KeyRecord) -> None:
    scope["reticent.caller"] = record
    scope["reticent.outcome"]["client"] = record.client
    _welcome(scope)


def _welcome(scope: Scope) -> None:
    """Note that the caller is known; tell the connection, where it is ours."""
    scope["reticent.known"] = True
    exchange = scope.get("reticent.exchange")
    if exchange is not None:
        exchange.welcome()
