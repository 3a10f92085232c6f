"""The page of a model: what it promises, and forms to ask it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from reticent.errors import LedgerError, ReticentError
from reticent.home import KeyRecord, ServedModel, client_account, request_key
from reticent.mechanisms import SystemSource
from reticent.prediction import PaidAnswers
from reticent.schemas import Table
from reticent.service.dashboard import views
from reticent.service.dashboard.batches import Batch, read_batch, write_batch
from reticent.service.dashboard.board import Dashboard, page_for
from reticent.service.dashboard.forms import columns_of, fields_of, read_form, row_of
from reticent.service.dashboard.sessions import Session
from reticent.service.dashboard.snippets import snippets
from reticent.service.requests.problems import ProblemError, problem_of
from reticent.service.service import Service
from reticent.service.v1.routes import answers_left

_bits = SystemSource()
# Answers of a batch that the page shows; the file has all of them.
_MOST_SHOWN = 20


@page_for()
async def model_page(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show a model, its certificate and forms to try it."""
    model = board.service.access.model(record, request.path_params["name"])
    return await _model_page(board, request, model, session, record)


async def _model_page(
    board: Dashboard,
    request: Request,
    model: ServedModel,
    session: Session,
    record: KeyRecord,
    *,
    status: int = 200,
    filled: dict[str, str] | None = None,
    row: dict[str, Any] | None = None,
    **outcome: Any,
) -> Response:
    facts = await asyncio.to_thread(_facts, board.service, model, record)
    address = str(request.base_url).rstrip("/")
    blank = {"answer": None, "problem": None, "batch": None, "pasted": ""}
    return board.page(
        "model.html",
        status,
        record=record,
        csrf=session.csrf,
        fields=fields_of(model.stored.schema, filled),
        columns=columns_of(model.stored.schema),
        file=model.stored.schema.file,
        snippets=snippets(model, address, row),
        most_rows=board.service.settings.max_rows,
        # A form sent twice, by a slow hand or a reloaded page, is charged once.
        attempt=_bits.bytes(12).hex(),
        **facts,
        **{**blank, **outcome},
    )


def _facts(service: Service, model: ServedModel, record: KeyRecord) -> dict[str, Any]:
    balances = {str(each.account): each for each in service.ledger.balances()}
    view = views.model_view(model)
    return {
        "model": view,
        "left": answers_left(model, str(client_account(record.client)), balances),
        "evidence": views.evidence_view(model),
        "never_wears_out": model.lasting is not None and not model.lasting.local,
        "certificate": views.certificate_view(
            model.certificate,
            delta=model.delta,
            who=view["about"],
        ),
    }


async def _answered(
    board: Dashboard, model: ServedModel, record: KeyRecord, table: Table, attempt: str
) -> PaidAnswers:
    key = request_key(record.client, f"form-{attempt}")
    return await board.service.answering.answer(model, record.client, table, key)


@page_for()
async def try_model(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Answer the row in the form; it is charged like any other."""
    model = board.service.access.model(record, request.path_params["name"])
    form = await read_form(request)
    board.sessions.check_form(request, session, form.pop("csrf", ""))
    attempt = form.pop("attempt", "")
    schema = model.stored.schema
    try:
        row = row_of(schema, form)
        table = schema.rows([row], clip=False)
        answered = await _answered(board, model, record, table, attempt)
    except LedgerError:
        raise
    except (ProblemError, ReticentError) as error:
        problem = _problem(request, error, many=False)
        outcome: dict[str, Any] = {
            "status": problem.status,
            "filled": form,
            "problem": problem,
        }
        return await _model_page(board, request, model, session, record, **outcome)
    shown = {
        "text": views.text_of(answered.answers[0]),
        "paid": answered.paid,
        "left": answered.left,
        "sequence": answered.sequence,
        "evidence": views.evidence_of(model, answered),
    }
    return await _model_page(
        board, request, model, session, record, filled=form, row=row, answer=shown
    )


@page_for()
async def ask_batch(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Answer the rows of a file: as a page, or as the file with the answers in it.

    The file is made from the same attempt as the page, so that it costs nothing more.
    """
    service = board.service
    model = service.access.model(record, request.path_params["name"])
    form = await read_form(request, service.settings.max_body_bytes)
    board.sessions.check_form(request, session, form.get("csrf", ""))
    text, attempt = form.get("csv", ""), form.get("attempt", "")
    try:
        batch = read_batch(model.stored.schema, text, service.settings.max_rows)
        table = model.stored.schema.rows(batch.rows, clip=False)
        answered = await _answered(board, model, record, table, attempt)
    except LedgerError:
        raise
    except (ProblemError, ReticentError) as error:
        problem = _problem(request, error, many=True)
        outcome: dict[str, Any] = {
            "status": problem.status,
            "problem": problem,
            "pasted": text,
        }
        return await _model_page(board, request, model, session, record, **outcome)
    columns = _columns(model, answered)
    if form.get("as") == "file":
        name = f"attachment; filename={model.name}-answers.csv"
        written = write_batch(batch, columns)
        return Response(written, 200, {"content-disposition": name}, "text/csv")
    shown = _batch_view(batch, answered, columns, attempt)
    return await _model_page(
        board, request, model, session, record, batch=shown, pasted=text
    )


def _columns(model: ServedModel, answered: PaidAnswers) -> dict[str, list[str]]:
    label = model.stored.schema.label
    name = "answer" if label is None else f"{label.name} (private answer)"
    columns = {name: [views.text_of(answer) for answer in answered.answers]}
    if answered.evidence is not None and views.has_evidence(model):
        columns["evidence"] = list(map(views.evidence_text, answered.evidence))
    return columns


def _batch_view(
    batch: Batch, answered: PaidAnswers, columns: dict[str, list[str]], attempt: str
) -> dict[str, Any]:
    lines = zip(*columns.values(), strict=True)
    return {
        "n_rows": len(batch.rows),
        "paid": answered.paid,
        "left": answered.left,
        "ignored": batch.ignored,
        "header": list(columns),
        "lines": [line for line, _ in zip(lines, range(_MOST_SHOWN), strict=False)],
        "attempt": attempt,
    }


def _by_people(message: str, *, many: bool) -> str:
    """Return an error with rows counted from 1, as the page's own table does.

    A form of one row does not number it.
    """
    found = re.match(r"rows\[(\d+)\](, )?", message)
    if found is None:
        return message
    where = f"row {int(found[1]) + 1}{found[2] or ''}" if many else ""
    return where + message[found.end() :]


def _problem(request: Request, error: Exception, *, many: bool) -> ProblemError:
    problem = error if isinstance(error, ProblemError) else None
    if problem is None and isinstance(error, ReticentError):
        problem = problem_of(error)
    if problem is None:
        raise error
    problem.message = _by_people(problem.message, many=many)
    request.scope["reticent.outcome"]["code"] = problem.code
    return problem
