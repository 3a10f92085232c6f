"""``/v1``: predictions, models, budgets, certificates."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.types import Scope

from reticent.errors import BudgetExhaustedError, InvalidParameterError, RuleError
from reticent.guarantees import Certificate, stated
from reticent.home import (
    KeyRecord,
    PeriodTotal,
    Role,
    ServedModel,
    client_account,
    total_over_periods,
)
from reticent.ledger import RECORDS, Balance
from reticent.prediction import PaidAnswers
from reticent.schemas import packed_rows
from reticent.service.answering import Rows
from reticent.service.requests.bodies import json_object
from reticent.service.requests.direct_routes import (
    KEY_PARAMETER,
    NAME_PARAMETER,
    DirectAnswer,
    DirectRoutes,
    FindModel,
    Finish,
    MakeQuick,
    Quick,
    Read,
    check_count,
)
from reticent.service.requests.problems import MEDIA_TYPE, ProblemError, plain
from reticent.service.service import Service
from reticent.service.v1 import documents as doc
from reticent.service.v1.quick_predictions import quick_predictions


def problem(text: str) -> dict[str, Any]:
    """Describe an error of a route."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}


#: Errors that any route with a key may answer with.
ERRORS: dict[int | str, dict[str, Any]] = {
    status: problem(text)
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
    409: problem(
        "The idempotency key was used for something else, or was charged for an answer "
        "that was lost."
    ),
    415: problem("The content encoding is not accepted."),
}


def v1_routes(service: Service, direct: DirectRoutes) -> APIRouter:
    """Return the routes of ``/v1`` for analysts."""
    router = APIRouter(prefix="/v1", tags=["predictions"])
    settings, access = service.settings, service.access

    def model(record: KeyRecord, name: str, version: str | None) -> ServedModel:
        return access.model(record, name)

    def read(scope: Scope, model: ServedModel, body: bytes) -> tuple[Rows, Finish]:
        asked = json_object(body)
        given = _rows(asked, settings.max_rows)
        rows = packed_rows(model.stored.schema, given, clip=clipped(asked))
        level = _level(asked, model)
        request_id = scope["reticent.request_id"]
        return rows, lambda answered: DirectAnswer(
            _prediction(model, answered, request_id, level)
        )

    def quick(model: ServedModel) -> Quick | None:
        return quick_predictions(model, settings.max_rows)

    _add_predict(direct, router, model, read, quick)

    @router.get("/models", response_model=doc.ModelList, responses=ERRORS)
    async def models(request: Request) -> Any:
        """List the models that the key is for."""
        record = access.caller(request)
        found = service.access.models(record)
        return await asyncio.to_thread(
            lambda: {"models": [described(service, model) for model in found]}
        )

    @router.get("/models/{name}", response_model=doc.ModelDocument, responses=ERRORS)
    async def one_model(request: Request, name: str) -> Any:
        """Describe one model."""
        record = access.caller(request)
        found = service.access.model(record, name)
        return await asyncio.to_thread(described, service, found)

    @router.get("/budget", response_model=doc.BudgetDocument, responses=ERRORS)
    async def budget(request: Request) -> Any:
        """Say what the caller has spent and may spend; admins see every account."""
        record = access.caller(request)
        return await asyncio.to_thread(budget_of, service, record)

    @router.get(
        "/certificates/{id}", response_model=doc.CertificateDocument, responses=ERRORS
    )
    async def certificate(request: Request, id: str) -> Any:  # noqa: A002 (its public name)
        """Show a certificate and how it was derived."""
        record = access.caller(request)
        return await asyncio.to_thread(certificate_of, service, record, id)

    return router


def _add_predict(
    direct: DirectRoutes,
    router: APIRouter,
    model: FindModel,
    read: Read,
    quick: MakeQuick,
) -> None:
    """Add the route that answers, with its documentation."""
    direct.add(
        router,
        "/models/{name}/predict",
        model,
        read,
        quick,
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


def visible_accounts(service: Service, record: KeyRecord) -> list[Balance]:
    """Return the accounts that a key may see: its client's and its datasets'.

    Accounts that only count records, and no loss, are left out.
    """
    balances = [b for b in service.ledger.balances() if b.cap.relation != RECORDS]
    if record.role is Role.ADMIN:
        return balances
    mine = {str(client_account(record.client))}
    for model in service.access.models(record):
        mine |= {str(account) for account in model.accounts}
    return [balance for balance in balances if str(balance.account) in mine]


def budget_of(service: Service, record: KeyRecord) -> dict[str, Any]:
    """Return what a key has spent and may spend."""
    visible = visible_accounts(service, record)
    by_name = {str(balance.account): balance for balance in visible}
    client = str(client_account(record.client))
    models = [
        {
            "model": model.name,
            "certificate": model.certificate.id,
            "loss": model.loss,
            "answers_left": answers_left(model, client, by_name),
        }
        for model in service.access.models(record)
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
    if model.price is None:
        return None
    names = [client, *(str(account) for account in model.accounts)]
    if any(name not in balances for name in names):
        return 0
    try:
        return min(balances[name].answers_left(model.price) for name in names)
    except (InvalidParameterError, RuleError):
        return 0  # an account that cannot count this charge pays for none


def total_of(service: Service, model: ServedModel) -> PeriodTotal | None:
    """Return the total over all periods of a model's dataset, if it has periods."""
    dataset = model.stored.dataset.name
    try:
        return total_over_periods(
            service.settings, service.ledger, dataset, model.certificate
        )
    except BudgetExhaustedError:
        return None  # its cap was lowered so far that it is never answered


def described(service: Service, model: ServedModel) -> dict[str, Any]:
    """Return what clients may know about a model."""
    total = total_of(service, model)
    return {**model.describe(), "total": None if total is None else total.as_dict()}


def find_certificate(
    service: Service, record: KeyRecord, wanted: str
) -> tuple[Certificate[Any], float, PeriodTotal | None] | None:
    """Return a certificate of a model that the key is for.

    With the delta at which it is stated, and with the total over all periods of its
    dataset, if that has periods. A total is found by its own id too.
    """
    registry = service.registry
    found = registry.certificates().get(wanted)
    names = frozenset[str]() if found is None else found[1]
    for model in registry:
        total = None
        if record.may_ask(model.name) and (found is None or model.name in names):
            total = total_of(service, model)
        if total is None:
            continue
        if found is not None:
            return found[0], registry.delta_of(names), total
        if total.certificate.id == wanted:
            return total.certificate, model.delta, total
    if found is None or not any(record.may_ask(name) for name in names):
        return None
    return found[0], registry.delta_of(names), None


def certificate_of(service: Service, record: KeyRecord, wanted: str) -> dict[str, Any]:
    """Return the document of a certificate of a model that the key is for."""
    found = find_certificate(service, record, wanted)
    if found is None:
        raise plain(
            404,
            "there is no such certificate for this key. GET /v1/models names those of "
            "its models.",
        )
    certificate, delta, total = found
    numbers = stated(certificate, delta=delta)
    return {
        "id": certificate.id,
        "headline": certificate.headline(),
        "stated": None if numbers is None else numbers.as_dict(),
        "proved": certificate.proved,
        "text": str(certificate),
        "certificate": certificate.as_dict(),
        "total": None if total is None else total.as_dict(),
    }


def _rows(body: dict[str, Any], most: int) -> list[dict[str, Any]]:
    if not {"rows"} <= set(body) <= {"rows", "abstain_below", "clip"}:
        raise ProblemError(
            422,
            "invalid_body",
            'the body must be {"rows": [{...}, ...]}, with clip or abstain_below '
            "next to it and nothing else.",
        )
    rows = body["rows"]
    check_count(len(rows) if isinstance(rows, list) else 0, most)
    checked: list[dict[str, Any]] = rows
    return checked


def clipped(body: Mapping[str, Any]) -> bool:
    """Say whether numbers outside their range are moved into it, or refused."""
    clip = body.get("clip", False)
    if type(clip) is not bool:
        raise ProblemError(422, "invalid_body", "clip must be true or false.")
    return clip


def _level(body: dict[str, Any], model: ServedModel) -> float:
    """Return the evidence below which a request wants no answer."""
    wanted = body.get("abstain_below")
    if wanted is None:
        return 0.0
    if model.lasting is None:
        raise ProblemError(
            422,
            "invalid_body",
            "abstain_below is for models whose answers come with evidence.",
        )
    if not (type(wanted) in (int, float) and 0 <= wanted < math.inf):
        raise ProblemError(
            422, "invalid_body", "abstain_below must be a number, at least 0."
        )
    return model.lasting.level(float(wanted))


def _evidence(
    model: ServedModel, answered: PaidAnswers, level: float
) -> tuple[list[bytes], bytes]:
    """Return answers, null where there is too little evidence, and it, as JSON."""
    if answered.evidence is None or model.lasting is None:
        return answered.answers, b""
    least = max(level, model.lasting.abstain_below)
    shown = [
        b"null" if least and evidence < least else answer
        for answer, evidence in zip(answered.answers, answered.evidence, strict=True)
    ]
    return shown, b'"evidence":%b,' % json.dumps(answered.evidence).encode()


def _prediction(
    model: ServedModel, answered: PaidAnswers, request_id: str, level: float = 0.0
) -> bytes:
    """Write the body by hand: every part of it is JSON already."""
    answers, evidence = _evidence(model, answered, level)
    left = b"null" if answered.left is None else b"%d" % answered.left
    place = b"null" if answered.sequence is None else b"%d" % answered.sequence
    return (
        b'{"model":"%b","version":"%b","answers":[%b],%b"certificate":"%b","charge":'
        b'{"answers":%d,"each":%b},"answers_left":%b,"sequence":%b,"request_id":"%b"}'
        % (
            model.name.encode(),
            model.stored.id.encode(),
            b",".join(answers),
            evidence,
            model.certificate.id.encode(),
            answered.paid,
            model.loss_json,
            left,
            place,
            request_id.encode(),
        )
    )
