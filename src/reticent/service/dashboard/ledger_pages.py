"""The ledger's entries as a page and as files."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from reticent.guarantees import ZCDP, Stated, stated
from reticent.home import KeyRecord, Role, ServedModel, client_account
from reticent.ledger import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    RECORDS,
    RHO_UNITS,
    Entry,
    Spend,
    newest_first,
    units_to_float,
)
from reticent.service.dashboard.board import Dashboard, page_for
from reticent.service.dashboard.sessions import Session
from reticent.service.requests.problems import plain
from reticent.service.service import Service

#: Entries on one page, and how many are looked through for them.
ON_A_PAGE = 50
_LOOKED_THROUGH = 5_000
_COLUMNS = (
    *("sequence", "time", "kind", "account", "model", "answers"),
    *("epsilon", "delta", "rho", "cost", "hash"),
)


@page_for()
async def ledger_page(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Show the latest entries, or those before one; analysts see their own."""
    before = request.query_params.get("before", "")
    until = int(before) if before.isascii() and before.isdigit() else None
    facts = await asyncio.to_thread(_entries_view, board.service, record, until)
    return board.page("ledger.html", record=record, csrf=session.csrf, **facts)


def _entries_view(
    service: Service, record: KeyRecord, until: int | None
) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    earlier = 0
    for looked, entry in enumerate(newest_first(service.ledger, before=until), 1):
        shown += reversed(_lines(service, record, entry))
        if len(shown) >= ON_A_PAGE or looked >= _LOOKED_THROUGH:
            earlier = entry.sequence
            break
    return {
        "entries": shown,
        "earlier": earlier if earlier > 1 else None,
        "last": service.ledger.length(),
        "mine": record.role is not Role.ADMIN,
    }


@page_for()
async def export_ledger(
    board: Dashboard, request: Request, session: Session, record: KeyRecord
) -> Response:
    """Send all entries as CSV or as lines of JSON; analysts get their own."""
    form = request.path_params["form"]
    if form not in {"csv", "jsonl"}:
        raise plain(404)
    lines = _csv(board.service, record)
    kind = "text/csv"
    if form == "jsonl":
        lines, kind = _json_lines(board.service, record), "application/jsonl"
    name = f"attachment; filename=ledger.{form}"
    return StreamingResponse(
        lines, media_type=kind, headers={"content-disposition": name}
    )


def _csv(service: Service, record: KeyRecord) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for entry in service.ledger.entries():
        for line in _lines(service, record, entry):
            writer.writerow([line[name] for name in _COLUMNS])
        if out.tell() > 8192:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    yield out.getvalue()


def _json_lines(service: Service, record: KeyRecord) -> Iterator[str]:
    for entry in service.ledger.entries():
        for line in _lines(service, record, entry):
            yield json.dumps({name: line[name] for name in _COLUMNS}) + "\n"


def _lines(service: Service, record: KeyRecord, entry: Entry) -> list[dict[str, Any]]:
    """Return what a key may read of an entry: a line for each account it may see."""
    content = entry.content()
    mine = str(client_account(record.client))
    admin = record.role is Role.ADMIN
    model = _model(service, entry)
    facts = {
        "sequence": entry.sequence,
        "time": _time(content.get("time")),
        "kind": entry.kind,
        "hash": entry.hash,
        "model": "" if model is None else model.name,
    }
    empty = dict.fromkeys(("answers", "epsilon", "delta", "rho", "cost"), "")
    if not entry.is_charge:
        if entry.kind == "act":
            facts["kind"] = content["act"]
        told = str(content.get("account", content.get("by", "")))
        wanted = entry.kind in {"account", "act", "cap", "write-off"}
        return [{**facts, **empty, "account": told}] if admin and wanted else []
    if content["relation"] == RECORDS:
        # A question to a model whose answers last: its total is paid.
        return [{**facts, **empty, "kind": "question", "account": ""}] if admin else []
    return [
        {**facts, "account": account, **_cost(cost, model)}
        for account, cost in entry.costs().items()
        if admin or account == mine
    ]


def _cost(cost: Spend, model: ServedModel | None) -> dict[str, Any]:
    """Return what an account was charged, and the same as one text."""
    known = {
        "epsilon": (cost.epsilon, EPSILON_UNITS),
        "delta": (cost.delta, DELTA_UNITS),
        "rho": (cost.rho, RHO_UNITS),
    }
    found = {
        kind: None if count == MAX_UNITS else units_to_float(count, units)
        for kind, (count, units) in known.items()
    }
    epsilon, delta, rho = found["epsilon"], found["delta"] or 0.0, found["rho"]
    if model is not None and model.price is None:  # its release
        text = str(model.stated)
    elif epsilon is not None and (epsilon or not rho):
        text = str(Stated(epsilon, delta))
    else:
        own = 0.0 if model is None else model.delta
        text = "" if rho is None else str(stated(ZCDP(rho), delta=own))
    shown = {kind: "" if value is None else value for kind, value in found.items()}
    return {"answers": cost.answers, **shown, "cost": text}


def _time(moment: Any) -> str:
    if not moment:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(moment)))


def _model(service: Service, entry: Entry) -> ServedModel | None:
    """Return the model that a charge was for; None if none served now, or several."""
    wanted = entry.content().get("certificate")
    about = f"{entry.charges} {entry.request or ''}"
    found = []
    for model in service.registry:
        lasting = model.stored.lasting
        if wanted in {model.certificate.id, model.stored.certificate.id} or (
            lasting is not None and lasting.identity in about
        ):
            found.append(model)
    return found[0] if len(found) == 1 else None
