"""Bodies of requests: bounded, and read as strict JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.types import Message, Receive

from reticent._text import strict_json
from reticent.errors import InvalidParameterError
from reticent.service.requests.problems import ProblemError, plain

_decode = msgspec.json.Decoder().decode


async def read_body(
    receive: Receive, headers: Iterable[tuple[bytes, bytes]], most: int
) -> bytes:
    """Return the body of a request, or refuse one that is longer than `most`."""
    check_length(headers, most)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        whole: bytes = message.get("body", b"")
        if len(whole) > most:
            raise too_large(most)
        return whole
    parts = bytearray()
    while message["type"] == "http.request":
        parts += message.get("body", b"")
        if len(parts) > most:
            raise too_large(most)
        if not message.get("more_body"):
            return bytes(parts)
        message = await receive()
    raise plain(400)  # the client has gone, and nobody reads this


def check_length(headers: Iterable[tuple[bytes, bytes]], most: int) -> None:
    """Refuse a body whose headers say that it is too long or compressed."""
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18 or int(value) > most:
                raise too_large(most)
        elif name == b"content-encoding" and value != b"identity":
            raise plain(415)


def bounded(receive: Receive, most: int) -> Receive:
    """Return a `receive` that refuses a body when it has become too long."""
    seen = 0

    async def receive_some() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_large(most)
        return message

    return receive_some


def again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again


def too_large(most: int) -> ProblemError:
    """Return the error for a body that is too long."""
    return ProblemError(
        413,
        "too_large",
        f"a body may have at most {most} bytes; split the batch.",
        details={"max_body_bytes": most},
    )


def json_object(body: bytes) -> dict[str, Any]:
    """Return a JSON object; see `json_value`."""
    data = json_value(body)
    if not isinstance(data, dict):
        raise ProblemError(400, "invalid_json", "the body must be a JSON object.")
    return data


def json_value(body: bytes) -> Any:
    """Return the value of JSON; refuse NaN, keys that occur twice, and other encodings.

    A compiled reader does the work. It keeps the last of two equal keys, so its result
    is taken only if it has as many keys as the text has colons. A text with a colon in
    a string, or with objects further down, is read by the slower one.
    """
    data: Any = None
    try:
        data = _decode(body)
        sure = body.count(b":") == _n_keys(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        sure = False  # the other one says what is wrong
    return data if sure else _strict(body)


def _n_keys(data: Any) -> int:
    """Count the keys of an object and of the objects in its lists, not further down."""
    if type(data) is not dict:
        return 0
    count = len(data)
    for value in data.values():
        if type(value) is list:
            for item in value:
                if type(item) is dict:
                    count += len(item)
    return count


def _strict(body: bytes) -> Any:
    try:
        return strict_json(body.decode("utf-8"))
    except (UnicodeDecodeError, InvalidParameterError):
        raise ProblemError(
            400,
            "invalid_json",
            "the body must be a JSON object in UTF-8, each key once, without NaN or "
            "Infinity.",
        ) from None
