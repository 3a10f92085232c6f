"""Routes whose JSON is taken literally: each key once, numbers as numbers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from reticent.service.requests.bodies import again, json_value, read_body

_MOST_BYTES = 64 * 1024


class StrictRoute(APIRoute):
    """A route that reads its ``body`` once, bounded, without converting anything.

    The framework takes the last of two equal keys, and takes ``"1"`` and ``true`` for
    the number one.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler behind our own reading of the body."""
        handle = super().get_route_handler()
        kind = get_type_hints(self.endpoint).get("body")
        if kind is None:
            return handle
        adapter: TypeAdapter[Any] = TypeAdapter(kind)

        async def handle_strictly(request: Request) -> Response:
            headers = request.scope["headers"]
            body = await read_body(request.receive, headers, _MOST_BYTES)
            try:
                if body:  # the framework says that one is missing
                    json_value(body)
                    adapter.validate_json(body, strict=True)
            except ValidationError as error:
                found = error.errors(include_input=False)
                places = [{**each, "loc": ("body", *each["loc"])} for each in found]
                raise RequestValidationError(places) from None
            # Whatever the client called its body, it was read as JSON.
            kind = (b"content-type", b"application/json")
            rest = [pair for pair in headers if pair[0] != kind[0]]
            scope = {**request.scope, "headers": [*rest, kind]}
            return await handle(Request(scope, again(body, request.receive)))

        return handle_strictly
