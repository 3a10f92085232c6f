"""One error body for every route, and what each error of reticent becomes.

It is problem details (RFC 9457): ``{"type", "title", "status", "detail"}``, and beside
them ``{"error": {"code", "message", "details"}, "request_id"}``. Messages never repeat
what a client sent, and never depend on a record.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from reticent.errors import (
    AccountNotOpenError,
    AnswerLostError,
    BudgetExhaustedError,
    ConsensusExhaustedError,
    IdempotencyKeyError,
    IdempotencyKeyReusedError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    ReticentError,
    RuleError,
)
from reticent.service.telemetry import places_of

log = logging.getLogger("reticent.service")

#: What errors are sent as.
MEDIA_TYPE = "application/problem+json"
_PHRASES = {
    400: ("bad_request", "the request cannot be read."),
    401: (
        "unauthenticated",
        "a valid API key is needed, as Authorization: Bearer KEY or X-API-Key: KEY.",
    ),
    403: ("forbidden", "this key may not do that."),
    404: ("not_found", "there is nothing here; /openapi.json lists the routes."),
    405: ("method_not_allowed", "this route takes another method."),
    413: ("too_large", "the request is too large."),
    415: (
        "unsupported_media_type",
        "this content type or encoding is not accepted; send it uncompressed.",
    ),
    500: ("internal", "something went wrong; find it in the log by the request id."),
}
# The first that fits is taken. Messages of these errors are for clients.
_CODES: tuple[tuple[type[ReticentError], int, str], ...] = (
    (AnswerLostError, 409, "spent_without_result"),
    (ConsensusExhaustedError, 403, "consensus_exhausted"),
    (BudgetExhaustedError, 403, "budget_exhausted"),
    (IdempotencyKeyReusedError, 409, "idempotency_key_reused"),
    (IdempotencyKeyError, 422, "invalid_idempotency_key"),
    (InvalidDataError, 422, "invalid_rows"),
    (InvalidParameterError, 422, "invalid_parameter"),
    (RuleError, 422, "invalid_parameter"),
)


class ProblemError(Exception):
    """An error that goes to the client as it is.

    Parameters
    ----------
    status : int
        HTTP status.
    code : str
        For programs; stable.
    message : str
        For people.
    details : mapping, default={}
        Numbers and names that programs may need.
    headers : mapping, default={}
        Headers of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.headers = dict(headers or {})


def plain(status: int, message: str | None = None) -> ProblemError:
    """Return the usual error of a status."""
    code, phrase = _PHRASES[status]
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return ProblemError(status, code, message or phrase, headers=headers)


def wrong_method(allowed: str) -> ProblemError:
    """Return the error of a request with another method than a path takes."""
    problem = plain(405, f"this route takes {allowed}; send the request with that.")
    problem.headers["allow"] = allowed
    return problem


def problem_of(error: ReticentError) -> ProblemError:
    """Return what an error of reticent is called over HTTP."""
    if isinstance(error, LedgerError):
        # Its message is about files and hosts: for the log, not for clients.
        return ProblemError(
            503,
            "ledger_unavailable",
            "the ledger cannot take charges now; nothing was answered. Retry with the "
            "same idempotency key.",
            headers={"retry-after": "1"},
        )
    if isinstance(error, AccountNotOpenError):
        return ProblemError(
            403,
            "no_budget",
            "this client has no account to charge; an admin can open one by setting "
            "its cap.",
        )
    for kind, status, code in _CODES:
        if isinstance(error, kind):
            return ProblemError(status, code, str(error))
    return plain(500)


def body_of(
    problem: ProblemError, request_id: str, *, inference: bool = False
) -> bytes:
    """Return the body of an error; inference clients look for text under ``error``."""
    given = problem.status, problem.code, problem.message
    beginning = (
        _beginning(*given, problem.details, inference=inference)
        if problem.details
        else _same_beginning(*given, inference=inference)
    )
    return f'{beginning}"request_id": "{request_id}"}}'.encode()


def _beginning(
    status: int,
    code: str,
    message: str,
    details: Mapping[str, Any],
    *,
    inference: bool,
) -> str:
    """Return the body of an error up to the id of its request, which is plain text."""
    facts = {"code": code, "details": details}
    told: dict[str, Any] = {"error": {**facts, "message": message}}
    if inference:
        told = {"error": message, **facts}
    text = json.dumps(
        {
            "type": f"/docs#{code}",
            "title": code.replace("_", " ").capitalize(),
            "status": status,
            "detail": message,
            **told,
        }
    )
    return f"{text[:-1]}, "


# Strangers get the same few errors over and over.
@lru_cache(maxsize=64)
def _same_beginning(status: int, code: str, message: str, *, inference: bool) -> str:
    return _beginning(status, code, message, {}, inference=inference)


def parts_of(
    problem: ProblemError, scope: Mapping[str, Any]
) -> tuple[int, bytes, bytes]:
    """Return status, headers as lines, and body of the response of an error."""
    request_id = scope.get("reticent.request_id", "")
    scope.get("reticent.outcome", {})["code"] = problem.code
    body = body_of(problem, request_id, inference=_speaks_inference(scope))
    lines = "".join(f"{name}: {text}\r\n" for name, text in problem.headers.items())
    head = f"{lines}content-type: {MEDIA_TYPE}\r\n".encode("latin-1")
    return problem.status, head, body


def reply(problem: ProblemError, scope: Mapping[str, Any]) -> Response:
    """Return the response of an error."""
    status, _, content = parts_of(problem, scope)
    return Response(content, status, problem.headers, MEDIA_TYPE)


def response_to(scope: Mapping[str, Any], error: Exception) -> Response:
    """Return the response that an error becomes."""
    if isinstance(error, ProblemError):
        return reply(error, scope)
    if isinstance(error, ReticentError):
        if isinstance(error, LedgerError):
            _log(scope, "ledger", {"error": str(error)})
        problem = problem_of(error)
        if problem.status != 500:
            return reply(problem, scope)
    return failed(scope, error)


def _speaks_inference(scope: Mapping[str, Any]) -> bool:
    path: str = scope.get("path", "")
    return path == "/v2" or path.startswith("/v2/")


def _reads_pages(request: Request) -> bool:
    """Say whether this is for a browser, outside the API."""
    wants = "text/html" in request.headers.get("accept", "")
    return wants and request.url.path.split("/", 2)[1] not in {"v1", "v2"}


def install(app: FastAPI) -> None:
    """Turn every error of an application into the one body."""

    async def on_error(request: Request, error: Exception) -> Response:
        return response_to(request.scope, error)

    async def on_http(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        status = error.status_code if error.status_code in _PHRASES else 400
        problem = plain(status)
        found = {name.lower(): text for name, text in (error.headers or {}).items()}
        problem.headers.update(found)
        if status == 405:
            problem = wrong_method(_allowed(request, found.get("allow", "")))
        page = getattr(request.app.state, "trouble_page", None)
        if page is not None and status == 404 and _reads_pages(request):
            shown: Response = page(request, problem)
            return shown
        return reply(problem, request.scope)

    async def on_invalid(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        return reply(_invalid(error), request.scope)

    app.add_exception_handler(ProblemError, on_error)
    app.add_exception_handler(ReticentError, on_error)
    app.add_exception_handler(Exception, on_error)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)


def _allowed(request: Request, found: str) -> str:
    """Return the methods of a path; several routes may share it."""
    path = getattr(request.scope.get("route"), "path", None)
    documented = request.app.openapi()["paths"].get(path, {})
    return ", ".join(sorted(method.upper() for method in documented)) or found


# What is wrong with a field, by the framework's name for it. Its own sentences may hold
# what was sent.
_FIELDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this body; leave it out",
    "unexpected_keyword_argument": "is not a field of this body; leave it out",
    "float_type": 'must be a number, written as 1 and not as "1" or true',
    "int_type": 'must be a whole number, written as 1 and not as "1" or true',
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "too_short": "must have at least one entry, or be left out",
    "too_long": "has too many entries",
    "dataclass_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "json_invalid": "is not JSON",
}
_MOST_FIELDS = 20


def _invalid(error: RequestValidationError) -> ProblemError:
    """Name the fields that are wrong and what they need, not what was sent in them."""
    fields = [_field(found) for found in error.errors()[:_MOST_FIELDS]]
    first = fields[0]
    more = f" {len(fields) - 1} more under details." if len(fields) > 1 else ""
    return ProblemError(
        422,
        "invalid_body",
        f"{first['field'].removeprefix('body.')} {first['problem']}.{more}",
        details={"fields": fields},
    )


def _field(found: Any) -> dict[str, str]:
    place = [str(part) for part in found["loc"]]
    kind, context = found["type"], found.get("ctx", {})
    if kind in {"extra_forbidden", "unexpected_keyword_argument"}:
        place[-1] = "(unknown)"  # its name is what a client sent
    problem = _FIELDS.get(kind, "has a value that is not possible")
    if kind == "literal_error":
        problem = f"must be {context.get('expected', 'one of the documented values')}"
    elif kind in {"greater_than_equal", "less_than_equal"}:
        ends = {"ge": "at least", "le": "at most"}
        problem = "must be " + " and ".join(
            f"{word} {context[end]:g}" for end, word in ends.items() if end in context
        )
    elif kind == "value_error" and place[-1] in _NEEDED:
        problem = _NEEDED[place[-1]]
    return {"field": ".".join(place), "problem": problem}


_BUDGET = "must have an epsilon above 0, a delta from 0 to below 1, and no more slack"
# What our own checks of a field ask for.
_NEEDED = {
    "client": "must be 1 to 64 letters, digits or ._-, a letter or digit first",
    "budget": _BUDGET,
    "body": _BUDGET,
}


def failed(scope: Mapping[str, Any], error: Exception) -> Response:
    """Log where an error came from; return the response that says nothing about it.

    The error's message may hold what was sent, so it goes nowhere.
    """
    fields = {
        "error": type(error).__name__,
        "where": places_of(error.__traceback__),
        "request_id": scope.get("reticent.request_id", ""),
    }
    _log(scope, "failure", fields)
    return reply(plain(500), scope)


def _log(scope: Mapping[str, Any], event: str, fields: dict[str, Any]) -> None:
    """Log an error, unless strangers have caused more lines than they may."""
    strangers = scope.get("reticent.strangers")
    if strangers is None or "reticent.known" in scope or strangers.noted(fields):
        log.error(event, extra={"fields": fields})
