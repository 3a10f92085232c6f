"""What the pages show, as plain data for the templates."""

from __future__ import annotations

import json
import time
from typing import Any

from reticent.guarantees import Certificate, rules
from reticent.home import KeyRecord, Role, ServedModel, client_account
from reticent.ledger import RECORDS, AccountScope, Balance, Method
from reticent.prediction import PaidAnswers
from reticent.service.service import Service
from reticent.service.v1.routes import answers_left, visible_accounts

HOURS = 48
#: Accounts on the first page; the others are on the page of accounts.
MOST_BARS = 24
_SCOPES = {
    AccountScope.DATASET: "Dataset",
    AccountScope.MODEL: "Model",
    AccountScope.CLIENT: "Client",
}
_KINDS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "answers": "answers"}


def bar(balance: Balance) -> dict[str, Any]:
    """Return an account as a bar: how much of its scarcest kind of loss is spent."""
    shown = balance.as_dict()
    share, kind = balance.share
    percent = min(100.0, 100.0 * share)
    promise = shown["promise"]
    return {
        "account": shown["account"],
        "scope": _SCOPES[balance.account.scope],
        "name": balance.account.name,
        "percent": round(percent, 1),
        "level": "full" if percent >= 90 else "high" if percent >= 66 else "fine",
        "kind": _KINDS[kind],
        "spent": number(shown["spent"][kind]),
        "cap": number(shown["cap"][kind]),
        "answers": shown["answers"],
        "note": _note(balance, promise),
    }


def _note(balance: Balance, promise: dict[str, float]) -> str:
    """Say what a cap promises, where its bar does not say so already."""
    if balance.cap.method is Method.BASIC and not promise["delta"]:
        return ""
    how = {
        Method.BASIC: "losses add up",
        Method.ZCDP: "counted by zCDP",
        Method.EITHER: "losses add up, or zCDP, whichever lasts longer",
        Method.COUNT: "counted answers",
    }[balance.cap.method]
    delta = f", δ = {number(promise['delta'])}" if promise["delta"] else ""
    return f"promise ε = {number(promise['epsilon'])}{delta}, {how}"


def number(value: float | None) -> str:
    """Return a number as text."""
    return "unlimited" if value is None else f"{value:.4g}"


def text_of(answer: bytes) -> str:
    """Return an answer in JSON as text; a string without its quotes."""
    value = json.loads(answer)
    return value if isinstance(value, str) else answer.decode()


def overview(service: Service, record: KeyRecord) -> dict[str, Any]:
    """Return what the first page shows."""
    balances = visible_accounts(service, record)
    by_name = {str(balance.account): balance for balance in balances}
    client = str(client_account(record.client))
    service.activity.update()
    if record.role is Role.ADMIN:
        shown = [
            n for n, b in by_name.items() if b.account.scope is AccountScope.DATASET
        ]
        title = "all clients"
    else:
        shown, title = [client], "your client"
    now = int(time.time())
    counts = [service.activity.answers(name, now=now, hours=HOURS) for name in shown]
    totals = [sum(hour) for hour in zip(*counts, strict=True)] or [0] * HOURS
    order = list(AccountScope)
    ranked = sorted(
        balances, key=lambda b: (order.index(b.account.scope), str(b.account))
    )
    return {
        "bars": [bar(balance) for balance in ranked[:MOST_BARS]],
        "more_bars": max(0, len(ranked) - MOST_BARS),
        "chart": chart(totals, now),
        "chart_title": title,
        "models": [
            {
                **model.describe(),
                "left": answers_left(model, client, by_name),
                "loss_text": loss_text(model),
            }
            for model in service.access.models(record)
        ],
    }


def loss_text(model: ServedModel) -> str:
    """Say what is charged, as text."""
    loss = model.loss
    if loss["per"] == "nothing":
        return "free: the model itself is private"
    if loss["per"] == "total":
        return (
            f"ε = {number(loss['epsilon'])}, δ = {number(loss['delta'])} for all "
            "answers together; they are free and unlimited"
        )
    figures = [f"ε = {number(loss['epsilon'])}"] if loss["epsilon"] is not None else []
    figures += [f"δ = {number(loss['delta'])}"] if loss["delta"] else []
    if not figures:
        figures = [f"ρ = {number(loss['rho'])}"]
    per = "an answer" if loss["per"] == "answer" else "for a whole session"
    return f"{', '.join(figures)} {per}"


def evidence_of(answered: PaidAnswers) -> str | None:
    """Return the evidence behind one answer as text; None if it has none."""
    return None if answered.evidence is None else number(answered.evidence[0])


def evidence_view(model: ServedModel) -> dict[str, Any] | None:
    """Return how much evidence answers had, as a chart; None if they have none.

    Only numbers that were released with answers enter.
    """
    if model.lasting is None:
        return None
    points = model.lasting.evidence()
    most = max([1.0, *(point.evidence for point in points)])
    step = 960 / max(1, len(points))
    columns = []
    for place, point in enumerate(points):
        height = 150 * max(0.0, point.evidence) / most
        columns.append(
            {
                "x": round(place * step + 1, 1),
                "y": round(160 - height, 1),
                "width": round(max(step - 2, 1.0), 1),
                "height": round(height, 1),
                "text": f"questions {point.first} to {point.last}: "
                f"{number(point.evidence)}",
            }
        )
    return {
        "columns": columns,
        "asked": points[-1].last if points else 0,
        "first": number(points[0].evidence) if points else "",
        "latest": number(points[-1].evidence) if points else "",
    }


def chart(totals: list[int], now: int) -> dict[str, Any]:
    """Return the columns of a chart 960 wide and 160 high, to be stretched."""
    most = max(1, *totals)
    step = 960 / len(totals)
    last = now // 3600 * 3600
    columns = []
    for place, count in enumerate(totals):
        height = 150 * count / most
        when = last - 3600 * (len(totals) - 1 - place)
        columns.append(
            {
                "x": round(place * step + 2, 1),
                "y": round(160 - height, 1),
                "width": round(step - 4, 1),
                "height": round(height, 1),
                "count": count,
                "hour": time.strftime("%d %b, %H:00 UTC", time.gmtime(when)),
            }
        )
    return {"columns": columns, "most": most, "total": sum(totals)}


def tree(certificate: Certificate[Any]) -> dict[str, Any]:
    """Return a derivation as nested nodes."""
    rule = rules.get(certificate.rule)
    return {
        "id": certificate.id,
        "guarantee": str(certificate.guarantee),
        "released": certificate.released(),
        "relation": str(certificate.relation),
        "rule": certificate.rule,
        "name": "" if rule is None else rule.name,
        "statement": "" if rule is None else rule.statement,
        "source": "" if rule is None else rule.source,
        "details": [
            (name, ", ".join(map(str, value)) if isinstance(value, tuple) else value)
            for name, value in certificate.details
            if value is not None
        ],
        "premises": [tree(premise) for premise in certificate.premises],
    }


def certificate_view(certificate: Certificate[Any]) -> dict[str, Any]:
    """Return what a certificate's page shows."""
    return {
        "id": certificate.id,
        "headline": certificate.headline(),
        "proved": certificate.proved,
        "assumptions": [
            {"code": a.code, "statement": a.statement}
            for a in sorted(certificate.assumptions)
        ],
        "tree": tree(certificate),
        "text": str(certificate),
    }


def keys_view(service: Service) -> dict[str, Any]:
    """Return what the page of keys shows."""
    records = service.keyring.records()
    return {
        "keys": [
            {
                **record.as_dict(),
                "since": time.strftime("%d %b %Y", time.gmtime(record.created)),
            }
            for record in reversed(records)
        ],
        "accounts": [
            bar(balance)
            for balance in service.ledger.balances()
            if balance.cap.relation != RECORDS
        ],
        "model_names": sorted(service.registry.models),
        "default": service.settings.client_budget,
    }
