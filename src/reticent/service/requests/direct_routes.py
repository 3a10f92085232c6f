"""Routes that answer rows: what ``/v1`` and ``/v2`` share.

They are documented as routes of the framework, and answered before its router: these
requests are nearly all that a busy service does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope

from reticent.home import KeyRecord, ServedModel, request_key
from reticent.prediction import PaidAnswers
from reticent.schemas import Table
from reticent.service.answering import Answering
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


Answer: TypeAlias = Callable[[Scope, Receive, str, str | None], Awaitable[DirectAnswer]]


class DirectRoute(NamedTuple):
    """What answers, and what logs and metrics call it."""

    answer: Answer
    pattern: str


class DirectRoutes:
    """Finds direct routes by their path: ``/v1/models/NAME/predict`` and its like."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str, bool], DirectRoute] = {}

    def add(
        self,
        router: APIRouter,
        path: str,
        answer: Answer,
        **documentation: Any,
    ) -> None:
        """Add a route for POST, and its documentation to a router.

        Parameters
        ----------
        router : APIRouter
            Under ``/v1`` or ``/v2``.
        path : str
            From the router's prefix on, with ``{name}`` and perhaps ``{version}``.
        answer : callable
            Answers, given the scope, what receives the body, the name and the version.
        **documentation
            For OpenAPI.
        """

        async def endpoint(request: Request) -> Response:
            # Reached where a proxy's prefix hides the path from `find`.
            name, version = (request.path_params.get(x) for x in ("name", "version"))
            found = await answer(request.scope, request.receive, str(name), version)
            lines = found.headers.decode("ascii").split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines if line)
            return Response(found.body, headers=headers)

        router.add_api_route(
            path, endpoint, methods=["POST"], response_model=None, **documentation
        )
        pattern = router.prefix + path
        room, verb = pattern.split("/")[1], pattern.rpartition("/")[2]
        self._routes[room, verb, "{version}" in path] = DirectRoute(answer, pattern)

    def find(
        self, method: str, path: str
    ) -> tuple[DirectRoute, str, str | None] | None:
        """Return the route of a request with the model's name and version."""
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


def header(scope: Scope, wanted: bytes) -> str | None:
    """Return the first header of a name."""
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


async def answer_request(
    answering: Answering,
    scope: Scope,
    record: KeyRecord,
    model: ServedModel,
    table: Table,
) -> PaidAnswers:
    """Answer the rows of a request, and leave their counts for the log."""
    key = request_key(record.client, header(scope, b"idempotency-key"))
    answered = await answering.answer(model, record.client, table, key)
    scope["reticent.outcome"].update(
        model=model.name,
        rows=len(answered.answers),
        paid=answered.paid,
        sequence=answered.sequence,
    )
    return answered


def check_count(n_rows: int, most: int) -> None:
    """Refuse a batch that is too large before it is looked at."""
    if n_rows > most:
        raise ProblemError(
            413,
            "too_many_rows",
            f"a request may have at most {most} rows; split the batch.",
            details={"max_rows": most},
        )
