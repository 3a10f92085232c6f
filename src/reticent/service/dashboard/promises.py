"""Promises as people read them: epsilon and delta first, everywhere the same way."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import up
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
from reticent.home import ServedModel
from reticent.ledger import DELTA_UNITS, EPSILON_UNITS, Balance, units_to_float
from reticent.prediction import promised_by


def number(value: float | None) -> str:
    """Return a number as text."""
    if value is None:
        return "unlimited"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e")


def about(model: ServedModel) -> str:
    """Say whom the promise of a model protects."""
    return "one row" if model.stored.schema.unit is None else "one person"


def promise_of_account(balance: Balance, who: str = "one person") -> dict[str, str]:
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
) -> dict[str, str]:
    times = math.ceil(up(100 * best_guess(promise)))
    short = f"a guess is right at most {times} times in 100"
    if times >= 100:
        short = "this limit alone protects hardly anything"
    sentence = guess_in_words(promise, about=who, relation=relation)
    return {"sentence": sentence, "short": short}


def promise_of(
    certificate: Certificate[Any], *, delta: float = 0.0, who: str = "one person"
) -> dict[str, str]:
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
