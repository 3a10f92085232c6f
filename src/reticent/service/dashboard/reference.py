"""Pages that need no login: the API in words, and the glossary."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from reticent.glossary import glossary
from reticent.service.dashboard.board import Dashboard

_METHODS = ("get", "post", "put", "delete")


def problems() -> dict[str, str]:
    """Return what each error code means, and what to do."""
    text = files("reticent.service.dashboard").joinpath("problems.toml").read_text()
    return tomllib.loads(text)


def reference_pages(board: Dashboard) -> tuple[Any, Any]:
    """Return the handlers of ``/docs`` and ``/glossary``."""

    async def api_page(request: Request) -> Response:
        document = request.app.openapi()
        login = await board.who(request)
        return board.page(
            "api.html",
            operations=_operations(document),
            problems=problems(),
            address=str(request.base_url).rstrip("/"),
            **_login(login),
        )

    async def glossary_page(request: Request) -> Response:
        login = await board.who(request)
        return board.page("glossary.html", terms=glossary(), **_login(login))

    return api_page, glossary_page


def _login(login: Any) -> dict[str, Any]:
    if login is None:
        return {}
    session, record = login
    return {"record": record, "csrf": session.csrf}


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the routes of an OpenAPI document, group by group."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                found = _operation(document, path, method, operations[method])
                groups.setdefault(found["group"], []).append(found)
    return [{"name": name, "operations": found} for name, found in groups.items()]


def _operation(
    document: dict[str, Any], path: str, method: str, operation: dict[str, Any]
) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {})
    schema = body.get("application/json", {}).get("schema")
    answers = [
        {"status": status, "text": answer.get("description", "")}
        for status, answer in sorted(operation["responses"].items())
    ]
    return {
        "group": operation.get("tags", ["other"])[0],
        "method": method.upper(),
        "path": path,
        "summary": operation.get("description") or operation.get("summary", ""),
        "keyed": "security" in operation,
        "parameters": [
            parameter
            for parameter in operation.get("parameters", [])
            if parameter["in"] != "path"
        ],
        "example": _example(document, schema),
        "answers": answers,
    }


def _example(document: dict[str, Any], schema: dict[str, Any] | None) -> str:
    """Return an example of a body as JSON, empty if there is none."""
    if schema is None:
        return ""
    name = schema.get("$ref", "").rpartition("/")[2]
    whole = document["components"]["schemas"].get(name, schema)
    found = [whole["example"]] if "example" in whole else whole.get("examples", [])
    return json.dumps(found[0], indent=2, ensure_ascii=False) if found else ""
