"""The pages of the dashboard, and the forms on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

import reticent
from reticent.errors import LedgerError, ReticentError
from reticent.home import BudgetSettings, KeyRecord, Role, ServedModel, request_key
from reticent.mechanisms import SystemSource
from reticent.service.dashboard import views
from reticent.service.dashboard.forms import fields_of, read_form, row_of
from reticent.service.dashboard.sessions import Session, Sessions, check_origin
from reticent.service.requests.access import require_admin
from reticent.service.requests.problems import ProblemError, plain, problem_of
from reticent.service.service import Service
from reticent.service.v1.admin import make_key, revoke, set_cap
from reticent.service.v1.documents import NewKey

_HERE = Path(__file__).parent
_bits = SystemSource()
_BUDGETS = TypeAdapter(BudgetSettings)
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
            secure=settings.secure_cookies,
        )
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

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
        """Return the login of a request and its key, if both still hold."""
        session = self.sessions.read(request)
        if session is None:
            return None
        record = await asyncio.to_thread(self.service.keyring.current, session.key_id)
        if record is None or record.seal != session.seal:
            return None
        request.scope["reticent.outcome"]["client"] = record.client
        return session, record

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


def page_for(*, admin: bool = False) -> Callable[[Page], Any]:
    """Make a page that needs a login; its errors are pages too."""

    def wrap(page: Page) -> Any:
        @wraps(page)
        async def handle(board: Dashboard, request: Request) -> Response:
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


@page_for()
async def home(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show budgets, answers over time, and models."""
    facts = await asyncio.to_thread(views.overview, board.service, record)
    return board.page("home.html", record=record, csrf=session.csrf, **facts)


@page_for()
async def model_page(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show a model, its certificate and a form to try it."""
    model = board.service.access.model(record, request.path_params["name"])
    return await _model_page(board, model, session, record)


async def _model_page(
    board: Dashboard,
    model: ServedModel,
    session: Session,
    record: KeyRecord,
    *,
    status: int = 200,
    filled: dict[str, str] | None = None,
    **outcome: Any,
) -> Response:
    evidence = await asyncio.to_thread(views.evidence_view, model)
    return board.page(
        "model.html",
        status,
        record=record,
        csrf=session.csrf,
        model=model.describe(),
        loss_text=views.loss_text(model),
        evidence=evidence,
        fields=fields_of(model.stored.schema, filled),
        certificate=views.certificate_view(model.certificate),
        # A form sent twice, by a slow hand or a reloaded page, is charged once.
        attempt=_bits.bytes(12).hex(),
        **{"answer": None, "problem": None, **outcome},
    )


@page_for()
async def try_model(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Answer the row in the form; it is charged like any other."""
    model = board.service.access.model(record, request.path_params["name"])
    form = await read_form(request)
    board.sessions.check_form(request, session, form.pop("csrf", ""))
    key = request_key(record.client, f"form-{form.pop('attempt', '')}")
    schema = model.stored.schema
    try:
        table = schema.rows([row_of(schema, form)])
        answered = await board.service.answering.answer(
            model, record.client, table, key
        )
    except LedgerError:
        raise
    except (ProblemError, ReticentError) as error:
        problem = error if isinstance(error, ProblemError) else problem_of(error)
        request.scope["reticent.outcome"]["code"] = problem.code
        return await _model_page(
            board,
            model,
            session,
            record,
            status=problem.status,
            filled=form,
            problem=problem,
        )
    shown = {
        "text": views.text_of(answered.answers[0]),
        "paid": answered.paid,
        "left": answered.left,
        "sequence": answered.sequence,
        "evidence": views.evidence_of(answered),
    }
    return await _model_page(board, model, session, record, filled=form, answer=shown)


@page_for()
async def certificate_page(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show a certificate."""
    found = board.service.registry.certificates().get(request.path_params["id"])
    if found is None or not any(record.may_ask(name) for name in found[1]):
        raise plain(404)
    return board.page(
        "certificate.html",
        record=record,
        csrf=session.csrf,
        certificate=views.certificate_view(found[0]),
    )


@page_for(admin=True)
async def keys_page(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show keys and accounts."""
    return await _keys_page(board, session, record)


async def _keys_page(
    board: Dashboard, session: Session, record: KeyRecord, **outcome: Any
) -> Response:
    facts = await asyncio.to_thread(views.keys_view, board.service)
    shown = {"created": None, "notice": "", **facts, **outcome}
    return board.page("keys.html", record=record, csrf=session.csrf, **shown)


@page_for(admin=True)
async def create_key(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Make a key and show it once."""
    form = await read_form(request)
    board.sessions.check_form(request, session, form.get("csrf", ""))
    chosen = [name for name in board.service.registry.models if form.get(f"m-{name}")]
    body = NewKey(
        client=form.get("client", "").strip(),
        role="admin" if form.get("role") == Role.ADMIN.value else "analyst",
        models=chosen or None,
        budget=_budget(form),
    )
    key, made, _ = await asyncio.to_thread(make_key, board.service, body)
    return await _keys_page(board, session, record, created=(key, made.as_dict()))


@page_for(admin=True)
async def revoke_key(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Revoke a key."""
    form = await read_form(request)
    board.sessions.check_form(request, session, form.get("csrf", ""))
    key_id = request.path_params["id"]
    gone = await asyncio.to_thread(revoke, board.service, key_id)
    notice = f"The key {gone.id} of {gone.client} is revoked."
    return await _keys_page(board, session, record, notice=notice)


@page_for(admin=True)
async def change_cap(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Set the cap of an account."""
    form = await read_form(request)
    board.sessions.check_form(request, session, form.get("csrf", ""))
    budget = _budget(form)
    if budget is None:
        raise ProblemError(422, "invalid_body", "epsilon is needed.")
    account = form.get("account", "")
    balance = await asyncio.to_thread(set_cap, board.service, account, budget)
    notice = f"{balance.account} has a new cap."
    return await _keys_page(board, session, record, notice=notice)


def _budget(form: dict[str, str]) -> BudgetSettings | None:
    """Read the budget of a form; None if its epsilon was left empty."""
    epsilon = form.get("epsilon", "").strip()
    if not epsilon:
        return None
    delta = form.get("delta", "").strip() or "0"
    method = form.get("method", "auto")
    return _BUDGETS.validate_python(
        {"epsilon": epsilon, "delta": delta, "method": method}
    )


def install_dashboard(app: FastAPI, service: Service) -> Callable[[Scope], bool]:
    """Add the dashboard to an application; a browser that is lost gets a page.

    Returns
    -------
    callable
        Says of a request's scope whether it carries a login: a cookie that we signed.
    """
    board = Dashboard(service)
    app.router.routes.extend(_routes(board))
    app.state.trouble_page = board.trouble
    return lambda scope: board.sessions.read(Request(scope)) is not None


def _routes(board: Dashboard) -> list[BaseRoute]:
    """Return the routes of the dashboard."""

    async def login_page(request: Request) -> Response:
        return board.page("login.html", problem=None)

    async def login(request: Request) -> Response:
        try:
            check_origin(request)
            form = await read_form(request)
            key = form.get("key", "").strip()
            record = await board.service.access.recognised(key)
        except ProblemError as problem:
            request.scope["reticent.outcome"]["code"] = problem.code
            return board.page("login.html", problem.status, problem=problem)
        response = RedirectResponse("/", 303)
        board.sessions.open(record.id, record.seal, response)
        request.scope["reticent.outcome"]["client"] = record.client
        return response

    async def logout(request: Request) -> Response:
        login = await board.who(request)
        if login is not None:
            form = await read_form(request)
            board.sessions.check_form(request, login[0], form.get("csrf", ""))
        response = RedirectResponse("/login", 303)
        board.sessions.close(response)
        return response

    def on(page: Any) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            response: Response = await page(board, request)
            return response

        return handle

    return [
        Route("/", on(home)),
        Route("/login", login_page, methods=["GET"]),
        Route("/login", login, methods=["POST"]),
        Route("/logout", logout, methods=["POST"]),
        Route("/models/{name}", on(model_page), methods=["GET"]),
        Route("/models/{name}/try", on(try_model), methods=["POST"]),
        Route("/certificates/{id}", on(certificate_page)),
        Route("/keys", on(keys_page), methods=["GET"]),
        Route("/keys", on(create_key), methods=["POST"]),
        Route("/keys/{id}/revoke", on(revoke_key), methods=["POST"]),
        Route("/accounts", on(change_cap), methods=["POST"]),
        Mount("/static", StaticFiles(directory=_HERE / "static"), name="static"),
    ]
