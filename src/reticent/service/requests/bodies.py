"""Bodies of requests: bounded, and read as strict JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

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


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("twice")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def strict_json(body: bytes) -> dict[str, Any]:
    """Return a JSON object; no NaN, no key twice, no text in another encoding."""
    try:
        data = _decoder.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProblemError(
            400,
            "invalid_json",
            "the body must be a JSON object in UTF-8, each key once, without NaN or "
            "Infinity.",
        ) from None
    if not isinstance(data, dict):
        raise ProblemError(400, "invalid_json", "the body must be a JSON object.")
    return data
