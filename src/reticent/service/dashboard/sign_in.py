"""Logging in with an OpenID provider: to the provider, and back."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from reticent.errors import ReticentError
from reticent.home import CALLBACK, Role, open_client
from reticent.service.dashboard.board import Dashboard
from reticent.service.identity.attempts import Attempt
from reticent.service.identity.people import Person
from reticent.service.requests.problems import ProblemError, problem_of

# Threads of their own: strangers who wait for a provider must not hold up others.
_THREADS = 4


def sign_in_routes(board: Dashboard) -> list[BaseRoute]:
    """Return the two routes; none if no provider is set."""
    settings = board.service.settings
    if settings.oidc is None:
        return []
    try:
        from reticent.service.identity.provider import OpenIdProvider
    except ImportError as missing:
        raise ReticentError(
            f"logging in with an OpenID provider needs {missing.name}: pip install "
            "'reticent[oidc]'."
        ) from None
    provider = OpenIdProvider(settings.oidc)
    threads = ThreadPoolExecutor(_THREADS, "sign-in")

    async def apart(work: Any, *about: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, partial(work, *about))

    async def begin(request: Request) -> Response:
        attempt = Attempt.fresh()
        try:
            address = await apart(provider.begin, attempt)
        except ProblemError as problem:
            return _refused(board, request, problem)
        response = RedirectResponse(address, 303)
        board.sessions.begin(attempt, response)
        return response

    async def finish(request: Request) -> Response:
        attempt = board.sessions.attempt(request)
        answer = dict(request.query_params)
        try:
            person = await apart(provider.finish, attempt, answer)
            await apart(_let_in, board, person, provider.settings.issuer)
        except ProblemError as problem:
            return board.sessions.ended(_refused(board, request, problem))
        except ReticentError as error:
            told = _refused(board, request, problem_of(error))
            return board.sessions.ended(told)
        request.scope["reticent.outcome"]["client"] = person.client
        # A page, not a redirect: the provider's site began this navigation, and until a
        # page of ours begins one, browsers hold the new cookie back.
        response = board.page("signed_in.html", person=person)
        board.sessions.open_person(person, response)
        return board.sessions.ended(response)

    return [Route("/login/oidc", begin), Route(CALLBACK, finish)]


def _let_in(board: Dashboard, person: Person, issuer: str) -> None:
    """Open an account for a person; write down which admin came."""
    ledger = board.service.ledger
    if person.role is Role.ADMIN:
        facts = {"client": person.client, "name": person.name, "issuer": issuer}
        ledger.record("admin logged in", person.client, facts)
    open_client(ledger, board.service.settings.client_budget, person.client)


def _refused(board: Dashboard, request: Request, problem: ProblemError) -> Response:
    request.scope["reticent.outcome"]["code"] = problem.code
    return board.page("login.html", problem.status, problem=problem)
