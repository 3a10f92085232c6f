"""Logging in with an OpenID provider: to the provider, and back."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from reticent.errors import ReticentError
from reticent.home import CALLBACK, Role, open_client
from reticent.service.dashboard.board import Dashboard
from reticent.service.dashboard.sessions import Begun, Session
from reticent.service.identity.attempts import Attempt
from reticent.service.identity.people import Person
from reticent.service.requests.problems import ProblemError, problem_of

if TYPE_CHECKING:
    from reticent.service.identity.provider import OpenIdProvider

# Threads of their own: strangers who wait for a provider must not hold up others.
_THREADS = 4
# Browsers keep cookies of 4 KiB; a longer query of a page is forgotten.
_LONGEST_QUERY = 512


class SignIn:
    """Sends people to an OpenID provider, and lets them in when they come back.

    Parameters
    ----------
    board : Dashboard
        Renders pages and keeps logins.
    provider : OpenIdProvider
        Says who they are.
    """

    def __init__(self, board: Dashboard, provider: OpenIdProvider) -> None:
        self._board = board
        self._provider = provider
        self._threads = ThreadPoolExecutor(_THREADS, "sign-in")

    async def begin(self, request: Request) -> Response:
        """Send a browser to the provider."""
        try:
            return await self._sent(Begun(Attempt.fresh()))
        except ProblemError as problem:
            return _refused(self._board, request, problem)

    async def check_again(self, request: Request) -> Response | None:
        """Ask the provider about a person again, if it is time.

        Their browser goes there and comes back to the page that it wants, without a
        question if the provider still knows it. While the provider does not answer,
        what it said last is believed until its time is over.
        """
        sessions = self._board.sessions
        before = sessions.due(request)
        if before is None:
            return None
        back = quote(request.scope["path"])
        if request.url.query and len(request.url.query) < _LONGEST_QUERY:
            back += f"?{request.url.query}"
        try:
            return await self._sent(Begun(Attempt.fresh(), back, before))
        except ProblemError as problem:
            if sessions.read(request) is not None:
                return None
            return _refused(self._board, request, problem)

    async def finish(self, request: Request) -> Response:
        """Let in who comes back with an answer that is believed."""
        board, provider = self._board, self._provider
        begun = board.sessions.begun(request)
        attempt, back, before = None, "/", None
        if begun is not None:
            attempt, back, before = begun.attempt, begun.back, begun.before
        answer = dict(request.query_params)
        try:
            person = await self._apart(provider.finish, attempt, answer)
            if before is None or before.person != person:
                before = None
                await self._apart(_let_in, board, person, provider.settings.issuer)
        except ProblemError as problem:
            return self._turned_away(request, problem, before)
        except ReticentError as error:
            return self._turned_away(request, problem_of(error), before)
        request.scope["reticent.outcome"]["client"] = person.client
        # A page, not a redirect: the provider's site began this navigation, and until a
        # page of ours begins one, browsers hold the new cookie back.
        response = board.page("signed_in.html", person=person, back=back)
        board.sessions.open_person(person, response, before)
        return board.sessions.ended(response)

    async def _sent(self, begun: Begun) -> Response:
        address = await self._apart(self._provider.begin, begun.attempt)
        response = RedirectResponse(address, 303)
        self._board.sessions.begin(begun, response)
        return response

    def _turned_away(
        self, request: Request, problem: ProblemError, before: Session | None
    ) -> Response:
        """Refuse; who has lost their role is logged out at once."""
        response = _refused(self._board, request, problem)
        if before is not None and problem.status == 403:
            self._board.sessions.close(response)
        return self._board.sessions.ended(response)

    async def _apart(self, work: Any, *about: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(work, *about))


def sign_in_routes(board: Dashboard) -> list[BaseRoute]:
    """Return the two routes, and let pages ask again; nothing if no provider is set."""
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
    people = SignIn(board, OpenIdProvider(settings.oidc))
    board.check_again = people.check_again
    return [Route("/login/oidc", people.begin), Route(CALLBACK, people.finish)]


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
