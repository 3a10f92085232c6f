"""Promises as people read them: epsilon and delta first, everywhere the same way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from reticent._numbers import up
from reticent._text import protected_one
from reticent.guarantees import (
    ApproxDP,
    Budget,
    Certificate,
    Guarantee,
    PureDP,
    ReplaceOne,
    best_guess,
    guess_in_words,
    stated,
)
from reticent.home import ServedModel, dataset_account
from reticent.ledger import (
    DELTA_UNITS,
    EPSILON_UNITS,
    AccountId,
    AccountScope,
    Balance,
    units_to_float,
)
from reticent.prediction import promised_by


def number(value: float | None) -> str:
    """Return a number as text."""
    if value is None:
        return "unlimited"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e")


def sentence(text: str) -> str:
    """Return a text that begins with a capital, unless a name of ours stands there.

    What follows stays as it is: "API" is not "api".
    """
    first = text.partition(" ")[0].rstrip(".,:;")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def about(model: ServedModel) -> str:
    """Say whom the promise of a model protects."""
    return protected_one(model.stored.schema.unit)


def about_account(account: AccountId, models: Iterable[ServedModel]) -> str:
    """Say whom the cap of an account protects, by the models that are charged to it.

    A client may ask every model.
    """
    return protected_one(
        *(each.stored.schema.unit for each in models if _charged_to(account, each))
    )


def _charged_to(account: AccountId, model: ServedModel) -> bool:
    if account.scope is AccountScope.CLIENT:
        return True
    dataset = dataset_account(model.stored.dataset.name)
    period = account.scope is dataset.scope and account.name.startswith(
        f"{dataset.name}.period-"
    )
    return account == dataset or period or account in model.accounts


def promise_of_account(balance: Balance, *, who: str) -> dict[str, Any]:
    """Return what an account may spend, and in words what it promises."""
    cap = balance.cap
    epsilon = units_to_float(cap.epsilon or 0, EPSILON_UNITS)
    delta = units_to_float(cap.delta or 0, DELTA_UNITS)
    promise: Any = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    numbers = str(stated(promise))
    if not cap.allows(balance.spent):  # it was lowered, and does not hold
        promise = promised_by(balance)
    return {"numbers": numbers, **_in_words(promise, who, cap.relation)}


def _in_words(
    promise: Guarantee | Budget | Certificate[Any],
    who: str,
    relation: str = ReplaceOne.name,
) -> dict[str, Any]:
    times = math.ceil(up(100 * best_guess(promise)))
    short = f"a guess is right at most {times} times in 100"
    if times >= 100:
        short = "this limit alone protects hardly anything"
    sentence = guess_in_words(promise, about=who, relation=relation)
    return {"sentence": sentence, "short": short, "weak": times >= 100}


def promise_of(
    certificate: Certificate[Any], *, delta: float = 0.0, who: str
) -> dict[str, Any]:
    """Return what a certificate promises: numbers, for what, and in plain words."""
    found = stated(certificate, delta=delta)
    if found is None:
        return {
            "numbers": str(certificate.guarantee),
            "sentence": "",
            "short": "",
            "released": certificate.released(),
        }
    return {
        "numbers": str(found),
        **_in_words(certificate, who),  # by its own kind, which may say more
        "released": certificate.released(),
    }


def price_text(model: ServedModel) -> str:
    """Say what is charged, as text."""
    loss = model.loss
    if loss["per"] == "nothing":
        return "free and unlimited: the release is paid"
    if loss["per"] == "total":
        return "free and unlimited: one total is paid"
    per = "per answer" if loss["per"] == "answer" else "for a whole session"
    if model.stated is None:
        return f"ρ = {number(loss['rho'])} {per}"
    return f"{model.stated} {per}"
