"""What all pages share: templates, logins, and errors that are pages too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import reticent
from reticent.errors import ReticentError
from reticent.glossary import glossary
from reticent.home import KeyRecord, OidcSettings
from reticent.service.dashboard.promises import number, sentence
from reticent.service.dashboard.sessions import Session, Sessions
from reticent.service.requests.access import require_admin
from reticent.service.requests.problems import ProblemError, problem_of
from reticent.service.service import Service

_HERE = Path(__file__).parent
Page = Callable[["Dashboard", Request, Session, KeyRecord], Awaitable[Response]]


class Dashboard:
    """Renders pages and takes forms.

    Parameters
    ----------
    service : Service
        The collaborators of the application.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings
        self.sessions = Sessions(
            settings.derived("sessions"),
            minutes=settings.session_minutes,
            recheck_minutes=OidcSettings.recheck_minutes
            if settings.oidc is None
            else settings.oidc.recheck_minutes,
            secure=settings.secure_cookies,
        )
        #: Asks an OpenID provider about a person again, if it is time.
        self.check_again: Callable[[Request], Awaitable[Response | None]] = _no_provider
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        # Words that pages link to where they are explained.
        self._templates.globals["glossary"] = glossary()
        self._templates.globals["number"] = number
        self._templates.filters["sentence"] = sentence
        self._templates.globals["oidc"] = settings.oidc is not None

    def page(self, name: str, status: int = 200, **facts: Any) -> HTMLResponse:
        """Render a template."""
        template = self._templates.get_template(name)
        shown = {
            "page": name.removesuffix(".html"),
            "record": None,
            "csrf": "",
            "version": reticent.__version__,
            **facts,
        }
        return HTMLResponse(template.render(shown), status)

    async def who(self, request: Request) -> tuple[Session, KeyRecord] | None:
        """Return the login of a request and its key, if both are still valid."""
        session = self.sessions.read(request)
        if session is None:
            return None
        record = await self._record(session)
        if record is None:
            return None
        request.scope["reticent.outcome"]["client"] = record.client
        return session, record

    async def _record(self, session: Session) -> KeyRecord | None:
        if session.person is not None:
            return session.person.record(session.until)
        find = self.service.keyring.current
        record = await asyncio.to_thread(find, session.key_id)
        genuine = record is not None and record.seal == session.seal
        return record if genuine else None

    def trouble(
        self, request: Request, problem: ProblemError, login: Any = None
    ) -> Response:
        """Render an error."""
        request.scope["reticent.outcome"]["code"] = problem.code
        session, record = login if login is not None else (None, None)
        return self.page(
            "trouble.html",
            problem.status,
            problem=problem,
            record=record,
            csrf="" if session is None else session.csrf,
            request_id=request.scope["reticent.request_id"],
        )


async def _no_provider(request: Request) -> None:
    """Do nothing: without an OpenID provider nobody is asked."""


def page_for(*, admin: bool = False) -> Callable[[Page], Any]:
    """Make a page that needs a login; its errors are pages too."""

    def wrap(page: Page) -> Any:
        @wraps(page)
        async def handle(board: Dashboard, request: Request) -> Response:
            if request.method == "GET":  # a form that is sent cannot come back
                asked = await board.check_again(request)
                if asked is not None:
                    return asked
            login = await board.who(request)
            if login is None:
                return RedirectResponse("/login", 303)
            try:
                if admin:
                    require_admin(login[1])
                return await page(board, request, *login)
            except ProblemError as problem:
                return board.trouble(request, problem, login)
            except ReticentError as error:
                return board.trouble(request, problem_of(error), login)
            except ValidationError:
                wrong = "a field of the form has a value that is not possible."
                return board.trouble(
                    request, ProblemError(422, "invalid_body", wrong), login
                )

        return handle

    return wrap
