"""The pages of the dashboard, and the forms on them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from reticent._text import protected_one
from reticent.guarantees import Certificate
from reticent.home import BudgetSettings, KeyRecord, PeriodTotal, Role
from reticent.ledger import AccountScope, Method
from reticent.service.dashboard import views
from reticent.service.dashboard.board import Dashboard, page_for
from reticent.service.dashboard.forms import read_form
from reticent.service.dashboard.ledger_pages import export_ledger, ledger_page
from reticent.service.dashboard.model_pages import ask_batch, model_page, try_model
from reticent.service.dashboard.reference import reference_pages
from reticent.service.dashboard.sessions import Session, check_origin
from reticent.service.dashboard.sign_in import sign_in_routes
from reticent.service.requests.problems import ProblemError, plain
from reticent.service.service import Service
from reticent.service.v1.admin import make_key, revoke, set_cap
from reticent.service.v1.documents import NewKey
from reticent.service.v1.routes import find_certificate

_HERE = Path(__file__).parent
_BUDGETS = TypeAdapter(BudgetSettings)


@page_for()
async def home(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show budgets, answers over time, and models."""
    facts = await asyncio.to_thread(
        views.overview, board.service, record, dict(request.query_params)
    )
    return board.page("home.html", record=record, csrf=session.csrf, **facts)


@page_for()
async def certificate_page(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show a certificate."""
    found, delta, total = await _certificate(board, request, record)
    who = _about_certificate(board.service, found, total)
    return board.page(
        "certificate.html",
        record=record,
        csrf=session.csrf,
        certificate=views.certificate_view(found, delta=delta, who=who),
        total=total,
    )


@page_for()
async def download_certificate(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Send a certificate as a file, which ``reticent certificate`` can check."""
    found, _, _ = await _certificate(board, request, record)
    name = f"attachment; filename=certificate-{found.id}.json"
    content = json.dumps(found.as_dict(), indent=2)
    headers = {"content-disposition": name}
    return Response(content, 200, headers, "application/json")


async def _certificate(
    board: Dashboard, request: Request, record: KeyRecord
) -> tuple[Certificate[Any], float, PeriodTotal | None]:
    """Return a certificate, its delta, and the total over all periods, if any."""
    wanted = request.path_params["id"]
    found = await asyncio.to_thread(find_certificate, board.service, record, wanted)
    if found is None:
        raise plain(404, "there is no such certificate for this key.")
    return found


def _about_certificate(
    service: Service, found: Certificate[Any], total: PeriodTotal | None
) -> str:
    """Say whom a certificate protects, by the models that rest on it."""
    registry = service.registry
    _, names = registry.certificates().get(found.id, (found, frozenset[str]()))
    models = [registry.models[name] for name in names]
    if not models and total is not None:  # it is the total of a dataset
        models = [m for m in registry if m.stored.dataset.name == total.dataset]
    return protected_one(*(model.stored.schema.unit for model in models))


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
    client = form.get("client", "").strip()
    account = f"{AccountScope.CLIENT.value}:{client}"
    body = NewKey(
        client=client,
        role="admin" if form.get("role") == Role.ADMIN.value else "analyst",
        models=chosen or None,
        budget=await asyncio.to_thread(_budget, form, board.service, account),
    )
    key, made, _ = await asyncio.to_thread(make_key, board.service, body, record.who)
    return await _keys_page(board, session, record, created=(key, made.as_dict()))


@page_for(admin=True)
async def revoke_key(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Revoke a key."""
    form = await read_form(request)
    board.sessions.check_form(request, session, form.get("csrf", ""))
    key_id = request.path_params["id"]
    gone = await asyncio.to_thread(revoke, board.service, key_id, record.who)
    notice = f"The key {gone.id} of {gone.client} is revoked."
    return await _keys_page(board, session, record, notice=notice)


@page_for(admin=True)
async def change_cap(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Set the cap of an account."""
    form = await read_form(request)
    board.sessions.check_form(request, session, form.get("csrf", ""))
    account = form.get("account", "")
    budget = await asyncio.to_thread(_budget, form, board.service, account)
    if budget is None:
        raise ProblemError(422, "invalid_body", "epsilon is needed.")
    balance = await asyncio.to_thread(
        set_cap, board.service, account, budget, record.who
    )
    notice = f"{balance.account} has a new cap."
    return await _keys_page(board, session, record, notice=notice)


def _budget(
    form: dict[str, str], service: Service, account: str
) -> BudgetSettings | None:
    """Read the budget of a form; None if its epsilon was left empty.

    A delta that was left empty stays as it is, and is the default for a new account.
    """
    epsilon = form.get("epsilon", "").strip()
    if not epsilon:
        return None
    known = {str(each.account): each.cap for each in service.ledger.balances()}
    cap, default = known.get(account), service.settings.client_budget
    usual = 0.0 if default is None else default.delta
    if cap is not None:
        usual = cap.budget.delta
    delta = form.get("delta", "").strip() or repr(usual)
    # Sums of epsilon and delta cannot go on as any other sums.
    added = cap is not None and cap.method is Method.BASIC and bool(cap.delta)
    method = form.get("method", Method.BASIC.value if added else "auto")
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

    api_page, glossary_page = reference_pages(board)

    def on(page: Any) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            response: Response = await page(board, request)
            return response

        return handle

    return [
        Route("/", on(home)),
        Route("/login", login_page, methods=["GET"]),
        Route("/login", login, methods=["POST"]),
        *sign_in_routes(board),
        Route("/logout", logout, methods=["POST"]),
        Route("/models/{name}", on(model_page), methods=["GET"]),
        Route("/models/{name}/try", on(try_model), methods=["POST"]),
        Route("/models/{name}/batch", on(ask_batch), methods=["POST"]),
        Route("/certificates/{id}", on(certificate_page)),
        Route("/certificates/{id}/download", on(download_certificate)),
        Route("/ledger", on(ledger_page)),
        Route("/ledger.{form}", on(export_ledger)),
        Route("/docs", api_page),
        Route("/glossary", glossary_page),
        Route("/keys", on(keys_page), methods=["GET"]),
        Route("/keys", on(create_key), methods=["POST"]),
        Route("/keys/{id}/revoke", on(revoke_key), methods=["POST"]),
        Route("/accounts", on(change_cap), methods=["POST"]),
        Mount("/static", StaticFiles(directory=_HERE / "static"), name="static"),
    ]
