"""Routes that answer rows: what ``/v1`` and ``/v2`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from reticent.home import KeyRecord, ServedModel, request_key
from reticent.prediction import PaidAnswers
from reticent.schemas import Table
from reticent.service.requests.problems import ProblemError
from reticent.service.service import Service

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


class DirectRoute(APIRoute):
    """A documented route whose endpoint reads the request itself: the hot path."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the endpoint."""
        return self.endpoint


def add_direct_route(
    router: APIRouter, path: str, endpoint: Any, **settings: Any
) -> None:
    """Add a direct route for POST."""
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        route_class_override=DirectRoute,
        response_model=None,
        **settings,
    )


async def answer_request(
    service: Service,
    request: Request,
    record: KeyRecord,
    model: ServedModel,
    table: Table,
) -> PaidAnswers:
    """Answer the rows of a request, and leave their counts for the log."""
    key = request_key(record.client, request.headers.get("idempotency-key"))
    answered = await service.answering.answer(model, record.client, table, key)
    request.scope["reticent.outcome"].update(
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
