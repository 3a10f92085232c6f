"""Routes that answer rows: what ``/v1`` and ``/v2`` share.

They are documented as routes of the framework, and answered before its router: these
requests are nearly all that a busy service does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope

from reticent.home import KeyRecord, ServedModel, request_key
from reticent.prediction import PaidAnswers
from reticent.schemas import PackedRows
from reticent.service.answering import Answering, Rows
from reticent.service.requests.bodies import check_length, read_body, too_large
from reticent.service.requests.problems import ProblemError

NAME_PARAMETER = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The model.",
    "schema": {"type": "string"},
}
KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a retry safe: the same key and rows again get the same "
    "answers and cost nothing more.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 100},
}


class DirectAnswer(NamedTuple):
    """The body of an answer, and its own headers as lines."""

    body: bytes
    headers: bytes = b"content-type: application/json\r\n"


#: Finds a model, given a key, the name and perhaps a version; raises if there is none.
FindModel: TypeAlias = Callable[[KeyRecord, str, str | None], ServedModel]
#: Writes the answer to a request.
Finish: TypeAlias = Callable[[PaidAnswers], DirectAnswer]
#: Reads the body of a request; returns its rows, and what writes the answer to it.
Read: TypeAlias = Callable[[Scope, ServedModel, bytes], tuple[Rows, Finish]]
#: Takes the answer to a request, or the error.
Then: TypeAlias = Callable[[DirectAnswer | Exception], None]


class Quick(Protocol):
    """Reads a few ordinary rows for one model, and writes their answers."""

    def rows(self, body: bytes) -> PackedRows | None:
        """Return the rows of a body, None if they need a closer look."""
        ...

    def body(
        self,
        answers: Sequence[bytes | None],
        paid: int,
        left: int | None,
        sequence: int | None,
        request_id: str,
    ) -> bytes:
        """Return the body of an answer as JSON; see `PaidAnswers`."""
        ...


#: Makes what reads and writes for a model; None where a closer look is always needed.
MakeQuick: TypeAlias = Callable[[ServedModel], Quick | None]


class DirectRoute(NamedTuple):
    """What reads and answers, and what logs and metrics call it."""

    model: FindModel
    read: Read
    pattern: str
    quick: MakeQuick | None = None


class DirectRoutes:
    """Answers rows at paths like ``/v1/models/NAME/predict``.

    Parameters
    ----------
    answering : Answering
        Charges and draws.
    most_bytes : int
        The longest body.
    """

    def __init__(self, answering: Answering, most_bytes: int) -> None:
        self.answering = answering
        self.most_bytes = most_bytes
        self._routes: dict[tuple[str, str, bool], DirectRoute] = {}
        #: Returns the route of a method and path, with the model's name and version;
        #: the same few occur over and over.
        self.find = lru_cache(maxsize=256)(self._find)

    def add(
        self,
        router: APIRouter,
        path: str,
        model: FindModel,
        read: Read,
        quick: MakeQuick | None = None,
        **documentation: Any,
    ) -> None:
        """Add a route for POST, and its documentation to a router.

        Parameters
        ----------
        router : APIRouter
            Under ``/v1`` or ``/v2``.
        path : str
            From the router's prefix on, with ``{name}`` and perhaps ``{version}``.
        model, read, quick : callable
            See `DirectRoute`.
        **documentation
            For OpenAPI.
        """
        pattern = router.prefix + path
        route = DirectRoute(model, read, pattern, quick)

        async def endpoint(request: Request) -> Response:
            # Reached where a proxy's prefix hides the path from `find`.
            name, version = (request.path_params.get(x) for x in ("name", "version"))
            found = await self.answer(
                route, request.scope, request.receive, str(name), version
            )
            lines = found.headers.decode("ascii").split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines if line)
            return Response(found.body, headers=headers)

        router.add_api_route(
            path, endpoint, methods=["POST"], response_model=None, **documentation
        )
        room, verb = pattern.split("/")[1], pattern.rpartition("/")[2]
        self._routes[room, verb, "{version}" in path] = route
        self.find.cache_clear()

    async def answer(
        self,
        route: DirectRoute,
        scope: Scope,
        receive: Receive,
        name: str,
        version: str | None,
    ) -> DirectAnswer:
        """Answer a request of a caller whose key is known."""
        model = route.model(scope["reticent.caller"], name, version)
        body = await read_body(receive, scope["headers"], self.most_bytes)
        rows, finish = route.read(scope, model, body)
        client: str = scope["reticent.caller"].client
        key = request_key(client, header(scope, b"idempotency-key"))
        return await self._rest(scope, model, rows, key, finish)

    def answer_then(
        self,
        route: DirectRoute,
        scope: Scope,
        body: bytes,
        names: tuple[str, str | None],
        then: Then,
    ) -> Coroutine[Any, Any, DirectAnswer] | None:
        """Do the same for a request whose body is there already, without a task.

        Calls `then` with the answer or the error, perhaps before this returns. Where
        it takes a task, returns what has to be awaited instead.
        """
        model = route.model(scope["reticent.caller"], *names)
        check_length(scope["headers"], self.most_bytes)
        if len(body) > self.most_bytes:
            raise too_large(self.most_bytes)
        client: str = scope["reticent.caller"].client
        rows, finish = route.read(scope, model, body)
        key = request_key(client, header(scope, b"idempotency-key"))

        def found(answered: PaidAnswers | Exception) -> None:
            if isinstance(answered, Exception):
                then(answered)
                return
            try:
                answer: DirectAnswer | Exception = _finished(
                    scope, model, answered, finish
                )
            except Exception as error:  # noqa: BLE001 - answered as a failure
                answer = error
            then(answer)

        if self.answering.answer_then(model, client, rows, key, found):
            return None
        return self._rest(scope, model, rows, key, finish)

    async def _rest(
        self, scope: Scope, model: ServedModel, rows: Rows, key: str, finish: Finish
    ) -> DirectAnswer:
        client: str = scope["reticent.caller"].client
        answered = await self.answering.answer(model, client, rows, key)
        return _finished(scope, model, answered, finish)

    def _find(
        self, method: str, path: str
    ) -> tuple[DirectRoute, str, str | None] | None:
        if method != "POST":
            return None
        parts = path.split("/")
        numbered = len(parts) == 7 and parts[4] == "versions"
        if (len(parts) != 5 and not numbered) or parts[2] != "models":
            return None
        route = self._routes.get((parts[1], parts[-1], numbered))
        if route is None:
            return None
        return route, parts[3], parts[5] if numbered else None


def _finished(
    scope: Scope, model: ServedModel, answered: PaidAnswers, finish: Finish
) -> DirectAnswer:
    """Note what was answered for the log; write the answer."""
    outcome = scope["reticent.outcome"]
    outcome["model"] = model.name
    outcome["rows"] = len(answered.answers)
    outcome["paid"] = answered.paid
    outcome["sequence"] = answered.sequence
    return finish(answered)


def header(scope: Scope, wanted: bytes) -> str | None:
    """Return the first header of a name."""
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


def check_count(n_rows: int, most: int) -> None:
    """Refuse a batch that is too large before it is looked at."""
    if n_rows > most:
        raise ProblemError(
            413,
            "too_many_rows",
            f"a request may have at most {most} rows; split the batch.",
            details={"max_rows": most},
        )
