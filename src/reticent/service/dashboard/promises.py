"""Promises as people read them: epsilon and delta first, everywhere the same way."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import up
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Certificate,
    GaussianDP,
    Guarantee,
    PureDP,
    best_guess,
    gaussian_to_approx,
    in_plain_words,
    zcdp_to_approx,
)
from reticent.home import ServedModel

# The delta at which a promise without one is shown, if no budget names another.
_USUAL_DELTA = 1e-6


def number(value: float | None) -> str:
    """Return a number as text."""
    return "unlimited" if value is None else _short(f"{value:.4g}")


def loss_number(value: float) -> str:
    """Return a loss with three digits, rounded up."""
    if not 0 < value < math.inf:
        return number(value)
    digits = 2 - math.floor(math.log10(value))
    # What is exact with three digits stays what it is.
    near = round(value, digits)
    if near < value * (1 - 1e-12):
        near += 10.0**-digits
    return _short(f"{near:.3g}")


def _short(text: str) -> str:
    return text.replace("e-0", "e-").replace("e+0", "e")


def pair(epsilon: float, delta: float = 0.0) -> str:
    """Write epsilon and delta, in the same way everywhere."""
    if not delta:
        return f"ε = {loss_number(epsilon)}"
    return f"ε = {loss_number(epsilon)}, δ = {loss_number(delta)}"


def in_epsilon_delta(
    certificate: Certificate[Any], delta: float
) -> tuple[float, float] | None:
    """Return a promise as epsilon and delta; None if it is of another kind.

    Parameters
    ----------
    certificate : Certificate
        What is promised.
    delta : float
        The delta to use where the promise leaves a choice.
    """
    found, chosen = certificate.guarantee, delta or _USUAL_DELTA
    if isinstance(found, ZCDP):
        found = zcdp_to_approx(certificate, delta=chosen).guarantee
    elif isinstance(found, GaussianDP):
        found = gaussian_to_approx(certificate, delta=chosen).guarantee
    if isinstance(found, PureDP | BoundedRange | ApproxDP):
        return found.epsilon, getattr(found, "delta", 0.0)
    return None


def about(model: ServedModel) -> str:
    """Say whom the promise of a model protects."""
    return "one row" if model.stored.schema.unit is None else "one person"


def promise_of_pair(
    epsilon: float, delta: float, who: str = "one person"
) -> dict[str, str]:
    """Return epsilon and delta as numbers and as a sentence."""
    promise = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    return {"numbers": pair(epsilon, delta), **_in_words(promise, who)}


def _in_words(promise: Guarantee | Certificate[Any], who: str) -> dict[str, str]:
    times = math.ceil(up(100 * best_guess(promise)))
    short = f"a guess is right at most {times} times in 100"
    if times >= 100:
        short = "this limit alone protects hardly anything"
    return {"sentence": in_plain_words(promise, about=who), "short": short}


def promise_of(
    certificate: Certificate[Any], *, delta: float = 0.0, who: str = "one person"
) -> dict[str, str]:
    """Return what a certificate promises: numbers, for what, and in plain words."""
    found = in_epsilon_delta(certificate, delta)
    if found is None:
        return {
            "numbers": str(certificate.guarantee),
            "sentence": "",
            "short": "",
            "released": certificate.released(),
        }
    return {
        "numbers": pair(*found),
        **_in_words(certificate, who),  # by its own kind, which may say more
        "released": certificate.released(),
    }


def price_text(model: ServedModel, delta: float) -> str:
    """Say what is charged, as text."""
    loss = model.loss
    if loss["per"] == "nothing":
        return "free and unlimited: the release is paid"
    if loss["per"] == "total":
        return "free and unlimited: one total is paid"
    per = "per answer" if loss["per"] == "answer" else "for a whole session"
    epsilon, own = loss["epsilon"], loss["delta"] or 0.0
    if epsilon is None:
        found = in_epsilon_delta(model.certificate, delta)
        if found is None:
            return f"ρ = {number(loss['rho'])} {per}"
        epsilon, own = found
    return f"{pair(epsilon, own)} {per}"
