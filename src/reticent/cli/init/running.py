"""The end of ``reticent init``: what a fit and a measurement get, and running them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent._numbers import shown_down
from reticent.cli.fit import fit
from reticent.cli.init.asking import Asker
from reticent.cli.output import Output
from reticent.errors import InvalidParameterError
from reticent.guarantees import Budget, gaussian_epsilon, gaussian_ratio
from reticent.ledger import Cap
from reticent.planning import Option

# The part of a budget that a measurement gets, and of the units that it is made on.
_KEPT = 0.1
# The noise of a measurement at its confidence must be below half of the units.
_NOISE = math.log(20.0)
_MARGIN = 1e-6


@dataclass(frozen=True)
class Parts:
    """What a release and a measurement cost, so that one budget pays for both."""

    release: float
    measurement: float


def parts_of(budget: Budget) -> Parts:
    """Divide a budget between a release and the measurement of it.

    Whatever adds up is divided: losses as zCDP where there is a delta, else epsilons.
    """
    cap = Cap.within(budget)
    if not cap.rho:
        release = _down((1 - _KEPT) * budget.epsilon)
        return Parts(release, _down((budget.epsilon - release) * (1 - _MARGIN)))
    rho, delta = cap.filter.rho * (1 - _MARGIN), budget.delta
    noise = math.sqrt(2 * (1 - _KEPT) * rho)
    release = _down(gaussian_epsilon(noise, delta) * (1 - _MARGIN))
    left = rho - gaussian_ratio(release, delta) ** 2 / 2
    return Parts(release, _down(math.sqrt(2 * left) * (1 - _MARGIN)))


def _down(value: float) -> float:
    return float(shown_down(value))


def parts_if_wanted(
    ask: Asker, option: Option, budget: Budget, units: int, wanted: bool | None
) -> Parts | None:
    """Ask whether a part of a budget is kept for measuring; None if not.

    Only the answers of a release cost nothing, so only a release is measured here.

    Parameters
    ----------
    ask : Asker
        Who asks.
    option : Option
        The method that was chosen.
    budget : Budget
        What all of it may cost.
    units : int
        The number of units; a tenth of them is held out.
    wanted : bool or None
        What an option said; None asks, and in a pipe keeps nothing.
    """
    command = shlex.split(str(option.command))
    parts = parts_of(budget)
    if "--release" not in command:
        if wanted:
            raise InvalidParameterError(
                "--measure is for a model that is released, and another method is "
                "proposed. Leave it out, and see 'reticent evaluate'."
            )
        return None
    held = max(2, round(_KEPT * units))
    if not _NOISE / parts.measurement < held / 2:
        if wanted:
            raise InvalidParameterError(
                f"--measure: {held} held-out units and ε = {parts.measurement:g} are "
                "too little to measure anything. Leave it out."
            )
        return None
    if wanted is None:
        wanted = ask.confirmed(
            "Keep a part of it to measure how good the model is?", default=True
        )
    return parts if wanted else None


def run_option(
    option: Option,
    data: Path,
    schema: Path,
    budget: Budget,
    parts: Parts | None,
    output: Output,
    given: Mapping[str, Any],
) -> None:
    """Run the command that the planner names, and say it.

    Parameters
    ----------
    option : Option
        The method.
    data, schema : Path
        The rows, and what is publicly known about them.
    budget : Budget
        What all of it may cost.
    parts : Parts or None
        What a release and its measurement get; None measures nothing.
    output : Output
        Where sentences go.
    given : mapping of str to object
        Further options of ``reticent fit``; None leaves one out.
    """
    words = shlex.split(str(option.command))[5:]
    if parts is not None:
        words[words.index("--epsilon") + 1] = f"{parts.release:g}"
        words += ["--measure", f"{parts.measurement:g}"]
    named = {name: value for name, value in given.items() if value is not None}
    for name, value in named.items():
        words += [f"--{name}", str(value)]
    start = ["reticent", "fit", str(data), "--schema", str(schema)]
    output.note(f"running: {shlex.join([*start, *words])}")
    told = _why_less(words, budget, parts)
    if told is not None:
        output.note(told)
    fit(data, schema=schema, as_json=output.as_json, **{**_settings(words), **named})


def _why_less(words: list[str], budget: Budget, parts: Parts | None) -> str | None:
    """Say why a release gets less than the budget."""
    epsilon = words[words.index("--epsilon") + 1]
    if "--release" not in words or float(epsilon) >= budget.epsilon:
        return None
    reasons = []
    if budget.delta:
        reasons.append("losses are added up as zCDP, by which noise counts for more")
    if parts is not None:
        reasons.append(f"ε = {parts.measurement:g} is kept for the measurement")
    if not reasons:
        return None
    return (
        f"The model gets ε = {epsilon} of ε = {budget.epsilon:g}: "
        f"{', and '.join(reasons)}."
    )


def _settings(words: list[str]) -> dict[str, Any]:
    """Return options of ``reticent fit`` as arguments of its function."""
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0).removeprefix("--")
        if name in ("release", "lasting"):
            found[name] = True
        elif name == "shards":
            found[name] = int(rest.pop(0))
        elif name in ("epsilon", "budget", "delta", "measure"):
            found[name] = float(rest.pop(0))
        else:
            found[name] = rest.pop(0)
    return found
