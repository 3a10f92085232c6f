"""Bodies of requests: bounded, and read as strict JSON."""

from __future__ import annotations

from typing import Any

from starlette.requests import ClientDisconnect, Request

from reticent._text import strict_json
from reticent.errors import InvalidParameterError
from reticent.service.requests.problems import ProblemError, plain


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, or refuse one that is longer than `most`."""
    headers = request.headers
    declared = headers.get("content-length")
    if declared is not None and (not declared.isdigit() or int(declared) > most):
        raise too_large(most)
    if headers.get("content-encoding", "identity") != "identity":
        raise plain(415)
    whole = bytearray()
    try:
        async for chunk in request.stream():
            whole += chunk
            if len(whole) > most:
                raise too_large(most)
    except ClientDisconnect:
        raise plain(400) from None
    return bytes(whole)


def too_large(most: int) -> ProblemError:
    """Return the error for a body that is too long."""
    return ProblemError(
        413,
        "too_large",
        f"a body may have at most {most} bytes; split the batch.",
        details={"max_body_bytes": most},
    )


def json_object(body: bytes) -> dict[str, Any]:
    """Return a JSON object; no NaN, no key twice, no text in another encoding."""
    try:
        data = strict_json(body.decode("utf-8"))
    except (UnicodeDecodeError, InvalidParameterError):
        raise ProblemError(
            400,
            "invalid_json",
            "the body must be a JSON object in UTF-8, each key once, without NaN or "
            "Infinity.",
        ) from None
    if not isinstance(data, dict):
        raise ProblemError(400, "invalid_json", "the body must be a JSON object.")
    return data
