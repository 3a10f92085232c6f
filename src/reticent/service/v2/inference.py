"""``/v2``: the Open Inference Protocol, so that existing clients work.

Inputs are the columns of a model's schema, one tensor each; the one output is the
label. The charge and the certificate's id come back under ``parameters``. Tensors are
JSON or raw bytes (the binary tensor extension). Errors have the protocol's own form:
text under ``error``, with our code, details and request id beside it.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.types import Scope

import reticent
from reticent.home import KeyRecord, ServedModel
from reticent.prediction import PaidAnswers
from reticent.schemas import packed_rows
from reticent.service.answering import Rows
from reticent.service.requests.access import unknown_model
from reticent.service.requests.direct_routes import (
    KEY_PARAMETER,
    NAME_PARAMETER,
    DirectAnswer,
    DirectRoutes,
    FindModel,
    Finish,
    Read,
    header,
)
from reticent.service.requests.problems import MEDIA_TYPE
from reticent.service.service import Service
from reticent.service.v2.tensors import (
    LENGTH_HEADER,
    InferenceRequest,
    column_type,
    label_type,
    read_request,
    write_response,
)

_ERROR_SCHEMA = {
    "type": "object",
    "required": [
        *("type", "title", "status", "detail"),
        *("error", "code", "details", "request_id"),
    ],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error": {"type": "string"},
        "code": {"type": "string"},
        "details": {"type": "object"},
        "request_id": {"type": "string"},
    },
}
_TENSOR = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"type": "string"},
        "parameters": {"type": "object"},
        "data": {"type": "array", "items": {}},
    },
}
_REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "inputs": {"type": "array", "minItems": 1, "items": _TENSOR},
        "outputs": {
            "type": "array",
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "parameters": {"type": "object"},
                },
            },
        },
        "parameters": {"type": "object"},
    },
    "example": {
        "inputs": [
            {"name": "age", "shape": [1], "datatype": "FP64", "data": [41]},
            {"name": "ward", "shape": [1], "datatype": "BYTES", "data": ["a"]},
        ]
    },
}
_RESPONSE = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs", "parameters"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "outputs": {"type": "array", "items": _TENSOR},
    },
}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": _ERROR_SCHEMA}}
    return {
        status: {"description": "An error.", "content": content} for status in statuses
    }


_KEYED = _errors(401, 404, 429, 503)


def inference_routes(service: Service, direct: DirectRoutes) -> APIRouter:
    """Return the routes of ``/v2``."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])

    @router.get("", responses=_errors(503))
    async def server_metadata() -> dict[str, Any]:
        """Name the server and what it understands."""
        return {
            "name": "reticent",
            "version": reticent.__version__,
            "extensions": ["binary_tensor_data"],
        }

    @router.get("/health/live")
    async def live() -> dict[str, bool]:
        """Say that the process runs."""
        return {"live": True}

    @router.get("/health/ready", responses=_errors(503))
    async def ready() -> dict[str, bool]:
        """Say whether answers can be charged for."""
        await service.probes.check_ready()
        return {"ready": True}

    async def metadata(request: Request, name: str, version: str | None = None) -> Any:
        """Name a model's inputs and outputs."""
        return JSONResponse(_metadata(_model(service, request, name, version)))

    async def model_ready(
        request: Request, name: str, version: str | None = None
    ) -> Any:
        """Say whether a model can be asked."""
        model = _model(service, request, name, version)
        return JSONResponse({"name": model.name, "ready": True})

    def model(record: KeyRecord, name: str, version: str | None) -> ServedModel:
        return _of_version(service.access.model(record, name), version)

    def read(scope: Scope, model: ServedModel, body: bytes) -> tuple[Rows, Finish]:
        return _read(service, scope, model, body)

    for path, numbered in (
        ("/models/{name}", False),
        ("/models/{name}/versions/{version}", True),
    ):
        router.add_api_route(path, metadata, methods=["GET"], responses=_KEYED)
        router.add_api_route(
            f"{path}/ready", model_ready, methods=["GET"], responses=_KEYED
        )
        _add_infer(direct, router, path, (model, read), numbered=numbered)
    return router


def _add_infer(
    direct: DirectRoutes,
    router: APIRouter,
    path: str,
    infer: tuple[FindModel, Read],
    *,
    numbered: bool,
) -> None:
    """Add the route that answers, with its documentation."""
    extra = {**NAME_PARAMETER, "name": "version"} if numbered else None
    direct.add(
        router,
        f"{path}/infer",
        *infer,
        summary="Private answers for tensors",
        responses={
            200: {"content": {"application/json": {"schema": _RESPONSE}}},
            **_errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
        },
        openapi_extra={
            "parameters": [
                NAME_PARAMETER,
                *([extra] if extra else []),
                KEY_PARAMETER,
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _REQUEST}},
            },
        },
    )


def _model(
    service: Service, request: Request, name: str, version: str | None
) -> ServedModel:
    record = service.access.caller(request)
    return _of_version(service.access.model(record, name), version)


def _of_version(model: ServedModel, version: str | None) -> ServedModel:
    if version not in (None, model.stored.id):
        raise unknown_model()
    return model


def _metadata(model: ServedModel) -> dict[str, Any]:
    stored = model.stored
    inputs = [
        {"name": name, "datatype": column_type(spec), "shape": [-1]}
        for name, spec in stored.schema.columns.items()
    ]
    output = {
        "name": _label(model),
        "datatype": label_type(stored.classes),
        "shape": [-1],
    }
    outputs = [output]
    if model.lasting is not None:
        outputs.append({"name": "evidence", "datatype": "FP64", "shape": [-1]})
    if model.lasting is not None and model.lasting.abstain_below:
        outputs.append({"name": "abstained", "datatype": "BOOL", "shape": [-1]})
    return {
        "name": model.name,
        "versions": [stored.id],
        "platform": "reticent",
        "inputs": inputs,
        "outputs": outputs,
    }


def _label(model: ServedModel) -> str:
    label = model.stored.schema.label
    return "answer" if label is None else label.name


def _read(
    service: Service, scope: Scope, model: ServedModel, body: bytes
) -> tuple[Rows, Finish]:
    """Return the rows of a request, and what writes the answer to it."""
    schema = model.stored.schema
    length = header(scope, LENGTH_HEADER.encode())
    most = service.settings.max_rows
    wanted = read_request(body, length, schema, _label(model), most)
    rows = packed_rows(schema, wanted.rows, clip=wanted.clip)
    return rows, lambda answered: _written(model, wanted, answered)


def _written(
    model: ServedModel, wanted: InferenceRequest, answered: PaidAnswers
) -> DirectAnswer:
    head = {
        "model_name": model.name,
        "model_version": model.stored.id,
        **({"id": wanted.id} if wanted.id else {}),
        "parameters": _parameters(model, answered),
    }
    content, json_length = write_response(
        head,
        _label(model),
        label_type(model.stored.classes),
        answered.answers,
        binary=wanted.binary_output,
        more=_evidence(model, answered),
    )
    if json_length is None:
        return DirectAnswer(content)
    lines = f"content-type: application/octet-stream\r\n{LENGTH_HEADER}: {json_length}"
    return DirectAnswer(content, f"{lines}\r\n".encode())


def _evidence(model: ServedModel, answered: PaidAnswers) -> list[dict[str, Any]]:
    """Return the further outputs of a model whose answers last.

    Tensors have no null, so abstaining is a separate output in addition to the label.
    """
    if answered.evidence is None or model.lasting is None:
        return []
    shape, least = [len(answered.evidence)], model.lasting.abstain_below
    found = [
        {
            "name": "evidence",
            "shape": shape,
            "datatype": "FP64",
            "data": answered.evidence,
        }
    ]
    if least:
        told = [evidence < least for evidence in answered.evidence]
        found.append(
            {"name": "abstained", "shape": shape, "datatype": "BOOL", "data": told}
        )
    return found


def _parameters(model: ServedModel, answered: PaidAnswers) -> dict[str, Any]:
    """Return what the answers cost; the protocol has no null."""
    facts = {
        "certificate_id": model.certificate.id,
        "charged_answers": answered.paid,
        "charged_per": model.loss["per"],
        "epsilon": model.loss["epsilon"],
        "delta": model.loss["delta"],
        "answers_left": answered.left,
        "sequence": answered.sequence,
    }
    return {name: value for name, value in facts.items() if value is not None}
