"""``/v1``: predictions, models, budgets, certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from reticent.errors import InvalidParameterError, RuleError
from reticent.ledger import Balance
from reticent.service.answering import Answered, idempotency_key
from reticent.service.keys import KeyRecord, Role
from reticent.service.parts import Parts
from reticent.service.registry import ServedModel, client_account
from reticent.service.requests.bodies import json_object, read_body
from reticent.service.requests.problems import ProblemError, plain
from reticent.service.v1 import documents as doc

#: Errors that any route with a key may answer with.
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": doc.Problem, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "The key is missing, unknown or revoked.",
        403: "The key may not do that, or a budget does not cover it.",
        404: "There is nothing here for this key.",
        413: "The body is too large.",
        422: "The body does not have the form that is needed.",
        429: "Too many requests; nothing was charged.",
        503: "Overloaded, stopping, or without its ledger; nothing was answered.",
    }.items()
}
CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {
        "model": doc.Problem,
        "description": "The idempotency key was used for something else, or was "
        "charged for an answer that was lost.",
    },
    415: {"model": doc.Problem, "description": "The content encoding is not taken."},
}
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


def direct(router: APIRouter, path: str, endpoint: Any, **settings: Any) -> None:
    """Add a direct route for POST."""
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        route_class_override=DirectRoute,
        response_model=None,
        **settings,
    )


def v1_routes(parts: Parts) -> APIRouter:
    """Return the routes of ``/v1`` for analysts."""
    router = APIRouter(prefix="/v1", tags=["predictions"])
    settings = parts.settings

    async def predict(request: Request) -> Response:
        record = await parts.access.caller(request)
        model = parts.access.model(record, request.path_params["name"])
        body = json_object(await read_body(request, settings.max_body_bytes))
        table = model.stored.schema.rows(_rows(body, settings.max_rows))
        key = idempotency_key(record, request.headers.get("idempotency-key"))
        answered = await parts.desk.answer(model, record, table, key)
        note_answer(request, model, answered)
        content = _prediction(model, answered, request.scope["reticent.request_id"])
        return Response(content, media_type="application/json")

    _add_predict(router, predict)

    @router.get("/models", response_model=doc.ModelList, responses=ERRORS)
    async def models(request: Request) -> Any:
        """List the models that the key is for."""
        record = await parts.access.caller(request)
        return {"models": [model.describe() for model in parts.access.models(record)]}

    @router.get("/models/{name}", response_model=doc.ModelDocument, responses=ERRORS)
    async def one_model(request: Request, name: str) -> Any:
        """Describe one model."""
        record = await parts.access.caller(request)
        return parts.access.model(record, name).describe()

    @router.get("/budget", response_model=doc.BudgetDocument, responses=ERRORS)
    async def budget(request: Request) -> Any:
        """Say what the caller has spent and may spend; admins see every account."""
        record = await parts.access.caller(request)
        return await asyncio.to_thread(budget_of, parts, record)

    @router.get(
        "/certificates/{id}", response_model=doc.CertificateDocument, responses=ERRORS
    )
    async def certificate(request: Request, id: str) -> Any:  # noqa: A002 (its public name)
        """Show a certificate and how it was derived."""
        record = await parts.access.caller(request)
        return certificate_of(parts, record, id)

    return router


def _add_predict(router: APIRouter, predict: Any) -> None:
    """Add the route that answers, with its documentation."""
    direct(
        router,
        "/models/{name}/predict",
        predict,
        summary="Private answers for rows",
        description="Every row costs one answer, charged durably before it is "
        "computed. A row asked before may be answered from memory.",
        responses={200: {"model": doc.Prediction}, **ERRORS, **CONFLICT},
        openapi_extra={
            "parameters": [NAME_PARAMETER, KEY_PARAMETER],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/PredictBody"}
                    }
                },
            },
        },
    )


def note_answer(request: Request, model: ServedModel, answered: Answered) -> None:
    """Leave counts for the log."""
    request.scope["reticent.outcome"].update(
        model=model.name,
        rows=len(answered.answers),
        paid=answered.paid,
        sequence=answered.sequence,
    )


def visible_accounts(parts: Parts, record: KeyRecord) -> list[Balance]:
    """Return the accounts that a key may see: its client's and its datasets'."""
    balances = parts.ledger.balances()
    if record.role is Role.ADMIN:
        return balances
    mine = {str(client_account(record.client))}
    for model in parts.access.models(record):
        mine |= {str(account) for account in model.accounts}
    return [balance for balance in balances if str(balance.account) in mine]


def budget_of(parts: Parts, record: KeyRecord) -> dict[str, Any]:
    """Return what a key has spent and may spend."""
    visible = visible_accounts(parts, record)
    by_name = {str(balance.account): balance for balance in visible}
    client = str(client_account(record.client))
    models = [
        {
            "model": model.name,
            "certificate": model.certificate.id,
            "loss": model.loss,
            "answers_left": answers_left(model, client, by_name),
        }
        for model in parts.access.models(record)
    ]
    return {
        "client": record.client,
        "accounts": [balance.as_dict() for balance in visible],
        "models": models,
    }


def answers_left(
    model: ServedModel, client: str, balances: dict[str, Balance]
) -> int | None:
    """Return how many answers every account could still pay for, None if free."""
    if model.charge is None:
        return None
    charge = model.charge if model.consensus is None else model.consensus.charge
    names = [client, *(str(account) for account in model.accounts)]
    if any(name not in balances for name in names):
        return 0
    try:
        return min(balances[name].answers_left(charge) for name in names)
    except (InvalidParameterError, RuleError):
        return 0  # an account that cannot count this charge pays for none


def certificate_of(parts: Parts, record: KeyRecord, wanted: str) -> dict[str, Any]:
    """Return a certificate on which a model of the key rests."""
    found = parts.registry.certificates().get(wanted)
    if found is None or not any(record.may_ask(name) for name in found[1]):
        raise plain(404)
    certificate = found[0]
    return {
        "id": certificate.id,
        "headline": certificate.headline(),
        "proved": certificate.proved,
        "text": str(certificate),
        "certificate": certificate.as_dict(),
    }


def _rows(body: dict[str, Any], most: int) -> list[dict[str, Any]]:
    if set(body) != {"rows"}:
        raise ProblemError(
            422, "invalid_body", 'the body must be {"rows": [{...}, ...]}.'
        )
    rows = body["rows"]
    check_count(len(rows) if isinstance(rows, list) else 0, most)
    checked: list[dict[str, Any]] = rows
    return checked


def check_count(n_rows: int, most: int) -> None:
    """Refuse a batch that is too large before it is looked at."""
    if n_rows > most:
        raise ProblemError(
            413,
            "too_many_rows",
            f"a request may have at most {most} rows; split the batch.",
            details={"max_rows": most},
        )


def _prediction(model: ServedModel, answered: Answered, request_id: str) -> bytes:
    """Write the body by hand: every part of it is JSON already."""
    left = b"null" if answered.left is None else b"%d" % answered.left
    place = b"null" if answered.sequence is None else b"%d" % answered.sequence
    return (
        b'{"model":"%b","answers":[%b],"certificate":"%b","charge":{"answers":%d,'
        b'"each":%b},"answers_left":%b,"sequence":%b,"request_id":"%b"}'
        % (
            model.name.encode(),
            b",".join(answered.answers),
            model.certificate.id.encode(),
            answered.paid,
            model.loss_json,
            left,
            place,
            request_id.encode(),
        )
    )
