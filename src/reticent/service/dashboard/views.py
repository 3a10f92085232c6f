"""What the pages show, as plain data for the templates."""

from __future__ import annotations

import json
import time
from typing import Any

from reticent.guarantees import Certificate, rules
from reticent.home import KeyRecord, Role, ServedModel, client_account
from reticent.ledger import RECORDS, AccountScope, Balance, Method, Spend
from reticent.prediction import PaidAnswers
from reticent.service.activity import HOUR, Activity
from reticent.service.dashboard.charts import HEIGHT, WIDTH, WINDOWS, Window, chart
from reticent.service.dashboard.promises import (
    about,
    about_account,
    number,
    price_text,
    promise_of,
    promise_of_account,
)
from reticent.service.service import Service
from reticent.service.v1.routes import answers_left, visible_accounts

#: Accounts on the first page; the others are on the page of accounts.
MOST_BARS = 24
_SCOPES = {
    AccountScope.DATASET: "Dataset",
    AccountScope.MODEL: "Model",
    AccountScope.CLIENT: "Client",
}
_KINDS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "answers": "answers"}
_COUNTED = {
    Method.BASIC: "losses are added up",
    Method.ZCDP: "losses are added up as zCDP",
    Method.EITHER: "losses are added up as epsilon or as zCDP, whichever lasts longer",
    Method.COUNT: "answers are counted",
}
# A pace is measured over these hours, or since the first charge if that is later.
_PACE_HOURS = 7 * 24
_LEAST_HOURS = 24
# The rest of a budget is nothing if the page shows 100 %.
_ALL = 0.9995
SPLITS = {"none": "nothing", "model": "model", "client": "client"}


def bar(
    balance: Balance, activity: Activity | None = None, *, who: str
) -> dict[str, Any]:
    """Return an account as a bar: what it promises, and how much of that is used."""
    share, kind = balance.share
    percent = min(100.0, 100.0 * share)
    shown = balance.as_dict()
    return {
        "account": shown["account"],
        "scope": _SCOPES[balance.account.scope],
        "name": balance.account.name,
        "percent": round(percent, 1),
        "level": "full" if percent >= 90 else "high" if percent >= 66 else "fine",
        "promise": promise_of_account(balance, who=who),
        "answers": shown["answers"],
        "counted": f"{_COUNTED[balance.cap.method]}: {_KINDS[kind]} "
        f"{number(shown['spent'][kind])} of {number(shown['cap'][kind])}",
        "lasts": "" if activity is None else lasts(balance, activity),
    }


def _bar(service: Service, balance: Balance) -> dict[str, Any]:
    who = about_account(balance.account, service.registry)
    return bar(balance, service.activity, who=who)


def lasts(balance: Balance, activity: Activity, now: int | None = None) -> str:
    """Estimate when an account runs out, at the pace of the last few days.

    Fits and releases are paid once, so they are no pace; nor is less than a day.
    """
    share, kind = balance.share
    if share >= _ALL:
        return "nothing is left"
    end = int(time.time() if now is None else now) // HOUR + 1
    starts = [*range(end - _PACE_HOURS, end + 1)]
    before, *recent = activity.spent(str(balance.account), starts, by_clients=True)
    first = next((place for place, cost in enumerate(recent) if cost.answers), None)
    if first is None:
        return "nothing was spent in 7 days" if before.answers else ""
    hours = _PACE_HOURS if before.answers else _PACE_HOURS - first
    if hours <= _LEAST_HOURS:  # the last one may have just begun
        return ""
    pace = _share(balance, kind, recent) / hours
    if not pace > 0:
        return ""
    left = (1 - share) / pace
    span = f"about {left / 24:.0f} days"
    if left < 48:
        span = "less than two hours" if left < 2 else f"about {left:.0f} hours"
    return f"lasts {span} at the pace of the last few days"


def _share(balance: Balance, kind: str, costs: list[Spend]) -> float:
    """Return what share of a cap some charges took."""
    limit = getattr(balance.cap.limits, kind)
    return sum(getattr(cost, kind) for cost in costs) / limit if limit else 0.0


def text_of(answer: bytes) -> str:
    """Return an answer in JSON as text; a string without its quotes."""
    value = json.loads(answer)
    return value if isinstance(value, str) else answer.decode()


def overview(
    service: Service, record: KeyRecord, wanted: dict[str, str]
) -> dict[str, Any]:
    """Return what the first page shows.

    `wanted` may choose the charts' ``window``, ``split`` and ``account``.
    """
    balances = visible_accounts(service, record)
    by_name = {str(balance.account): balance for balance in balances}
    client = str(client_account(record.client))
    complete = service.activity.update()
    order = list(AccountScope)
    ranked = sorted(
        balances, key=lambda b: (order.index(b.account.scope), str(b.account))
    )
    return {
        "read": None if complete else (service.activity.last, service.ledger.length()),
        "bars": [_bar(service, balance) for balance in ranked[:MOST_BARS]],
        "more_bars": max(0, len(ranked) - MOST_BARS),
        "models": [
            {
                **model_view(model),
                "left": answers_left(model, client, by_name),
            }
            for model in service.access.models(record)
        ],
        **charts_view(service, record, ranked, wanted),
    }


def charts_view(
    service: Service, record: KeyRecord, ranked: list[Balance], wanted: dict[str, str]
) -> dict[str, Any]:
    """Return both charts of the first page, and what was chosen for them."""
    window = WINDOWS.get(wanted.get("window", ""), WINDOWS["2d"])
    admin = record.role is Role.ADMIN
    splits = {k: v for k, v in SPLITS.items() if admin or k != "client"}
    split = wanted["split"] if wanted.get("split") in splits else "none"
    names = [str(balance.account) for balance in ranked]
    account = wanted.get("account", "")
    if account not in names:
        account = names[0] if names else ""
    starts = window.starts(int(time.time()))
    asked = service.activity.asked(starts, client=None if admin else record.client)
    models = _names_of_certificates(service)
    series: dict[str, list[float]] = {}
    for (client, certificate), counts in asked.items():
        name = {"client": client, "model": models.get(certificate, "earlier models")}
        key = name.get(split, "")
        before = series.get(key, [0.0] * len(counts))
        series[key] = [a + b for a, b in zip(before, counts, strict=True)]
    return {
        "answers_chart": chart(series, starts),
        "answers_total": sum(sum(values) for values in series.values()),
        "chart_title": "all clients" if admin else "your client",
        "spend_chart": _spend_chart(service, ranked, account, window, starts),
        "chosen": {"window": window.name, "split": split, "account": account},
        "windows": WINDOWS.values(),
        "window_words": window.words,
        "splits": splits,
        "account_names": names,
    }


def _spend_chart(
    service: Service,
    ranked: list[Balance],
    account: str,
    window: Window,
    starts: list[int],
) -> dict[str, Any] | None:
    """Return how much of a budget was used at the end of each step."""
    found = [balance for balance in ranked if str(balance.account) == account]
    if not found:
        return None
    (balance,) = found
    share, kind = balance.share
    _, *steps = service.activity.spent(account, starts)
    # From now backwards: what was charged before the ledger was read counts, too.
    used, percents = share, []
    for cost in reversed(steps):
        percents.append(100 * min(1.0, max(0.0, used)))
        used -= _share(balance, kind, [cost])
    return chart({"": list(reversed(percents))}, starts, top=100.0, unit=" %")


def _names_of_certificates(service: Service) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for model in service.registry:
        names.setdefault(model.certificate.id, []).append(model.name)
    return {key: " or ".join(sorted(found)) for key, found in names.items()}


def model_view(model: ServedModel) -> dict[str, Any]:
    """Return what pages say about a model."""
    return {
        **model.describe(),
        "free": model.price is None,
        "price": price_text(model),
        "promised": promise_of(model.certificate, delta=model.delta, who=about(model)),
        "about": about(model),
    }


def evidence_of(model: ServedModel, answered: PaidAnswers) -> str | None:
    """Return the evidence behind one answer as text; None if it has none."""
    if answered.evidence is None or not has_evidence(model):
        return None
    return evidence_text(answered.evidence[0])


def has_evidence(model: ServedModel) -> bool:
    """Return whether records near a question vote on answers, and so use themselves up.

    A released model answers otherwise, and what comes with its answers is noise.
    """
    return model.lasting is not None and model.lasting.local


def evidence_text(value: float) -> str:
    """Return evidence as text; noise can make it less than nothing."""
    return number(max(0.0, value))


def evidence_view(model: ServedModel) -> dict[str, Any] | None:
    """Return how much evidence answers had, as a chart; None if nothing is used up.

    Only numbers that were released with answers enter.
    """
    if model.lasting is None or not model.lasting.local:
        return None
    points = model.lasting.evidence()
    most = max([1.0, *(point.evidence for point in points)])
    step = WIDTH / max(1, len(points))
    columns = []
    for place, point in enumerate(points):
        height = HEIGHT * max(0.0, point.evidence) / most
        columns.append(
            {
                "x": round(place * step + 1, 1),
                "y": round(HEIGHT - height, 1),
                "width": round(max(step - 2, 1.0), 1),
                "height": round(height, 1),
                "colour": 0,
                "text": f"questions {point.first} to {point.last}: "
                f"{evidence_text(point.evidence)}",
            }
        )
    asked = points[-1].last if points else 0
    return {
        "columns": columns,
        "width": WIDTH,
        "height": HEIGHT,
        "high": [number(most), number(most / 2), "0"],
        "along": [f"question {points[0].first if points else 1}", f"{asked}"],
        "legend": [],
        "asked": asked,
        "first": evidence_text(points[0].evidence) if points else "",
        "latest": evidence_text(points[-1].evidence) if points else "",
    }


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


def certificate_view(
    certificate: Certificate[Any], *, delta: float = 0.0, who: str
) -> dict[str, Any]:
    """Return what a certificate's page shows."""
    return {
        "id": certificate.id,
        "headline": certificate.headline(),
        "promised": promise_of(certificate, delta=delta, who=who),
        "relation": str(certificate.relation),
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
    service.activity.update()
    return {
        "keys": [
            {
                **record.as_dict(),
                "since": time.strftime("%d %b %Y", time.gmtime(record.created)),
            }
            for record in reversed(records)
        ],
        "accounts": [
            _bar(service, balance)
            for balance in service.ledger.balances()
            if balance.cap.relation != RECORDS
        ],
        "model_names": sorted(service.registry.models),
        "default": service.settings.client_budget,
    }
