"""Sentences that several sections of a dossier need, each made of the facts."""

from __future__ import annotations

from typing import Any

from reticent.dossier.facts import ModelFacts
from reticent.guarantees import ReplaceOne, ZeroOut, rules
from reticent.ledger import Method
from reticent.schemas import Categorical, NumericTarget

_METHODS = {
    Method.BASIC: "epsilons and deltas are added up",
    Method.ZCDP: "losses are added up in zero-concentrated differential privacy",
    Method.EITHER: "epsilons, or losses in zero-concentrated differential privacy, are "
    "added up, whichever lasts longer; the rule was fixed before the first charge",
    Method.COUNT: "answers of equal cost are counted",
}


def kind_of_model(facts: ModelFacts) -> str:
    """Say what sort of thing people get."""
    if facts.released:
        return "a model that was released once; its answers cost nothing more"
    if facts.lasting:
        return "unlimited private answers, all covered by one total"
    return "private answers, each charged to a budget before it is drawn"


def answered_with(facts: ModelFacts) -> str:
    """Say what an answer is."""
    label = facts.stored.schema.label
    if label is None:
        return "answers"
    if isinstance(label, NumericTarget):
        return f"numbers for {label.name!r} between {label.low:g} and {label.high:g}"
    classes = ", ".join(map(repr, facts.stored.classes or ()))
    return f"one of the labels {classes} for {label.name!r}"


def columns_in_words(facts: ModelFacts) -> list[str]:
    """Return one line per declared column."""
    found = []
    for name, column in facts.stored.schema.columns.items():
        if isinstance(column, Categorical):
            text = f"{name}: one of {len(column.levels)} declared levels"
        else:
            text = f"{name}: a number between {column.low:g} and {column.high:g}"
        if getattr(column, "missing", False):
            text += ", may be missing"
        found.append(text)
    return found


def neighbours(facts: ModelFacts) -> str:
    """Say which datasets are neighbours."""
    relation = facts.certificate.relation
    column = facts.stored.schema.unit
    who = facts.unit if column is None else f"all rows with {facts.unit}"
    are = "is" if column is None else "are"
    if isinstance(relation, ReplaceOne):
        change = f"{who} {are} replaced by any other content"
    elif isinstance(relation, ZeroOut):
        change = f"{who} {are} blanked in one of them"
    else:
        change = f"{who} {are} added or removed"
    number = getattr(relation, "n", None)
    known = "" if number is None else f" The number of units, {number:,}, is public."
    return f"Two datasets are neighbours if {change}.{known}"


def rules_used(facts: ModelFacts) -> list[str]:
    """Return every rule of the derivation, from the promise down to the noise."""
    seen: dict[str, str] = {}
    for node in facts.certificate.walk():
        known = rules.get(node.rule)
        name = node.rule if known is None else f"{known.id} {known.name}"
        numbers = ", ".join(f"{key}={_short(value)}" for key, value in node.details)
        text = f"{name} ({numbers})" if numbers else name
        if known is not None and known.source:
            text += f"; source: {known.source}"
        seen.setdefault(text, text)
    return list(seen)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def assumptions(facts: ModelFacts) -> list[str]:
    """Return what the promise assumes and the code cannot check."""
    return [str(each) for each in sorted(facts.certificate.assumptions)]


def how_charges_add_up(facts: ModelFacts) -> str:
    """Say how the ledger counts."""
    return _METHODS[facts.balance.cap.method]


def spent(facts: ModelFacts) -> str:
    """Say how much of the budget was used; this depends on questions, not records."""
    share = min(facts.balance.share[0], 1.0)
    return f"{100 * share:.3g} % of the budget was spent when this was written."


def protections(facts: ModelFacts) -> list[str]:
    """Return measures that protect the stored model and the records behind it."""
    settings = facts.settings
    encrypted = settings.encryption_key_file or settings.encryption_key
    database = settings.ledger.split(":", 1)[0]
    found = [
        "Model folders are signed; a changed file is refused when it is loaded.",
        "Stored models are encrypted (AES-256-GCM)."
        if encrypted
        else "Stored models are not encrypted by reticent; they are in folders that "
        "only their owner can read.",
        f"Charges are durable in {database} before an answer is drawn; every entry is "
        "chained to the one before it by a hash.",
        "Signed checkpoints in a second place show a ledger that was put back from a "
        "backup."
        if str(settings.checkpoints) != "none"
        else "There are no checkpoints: a ledger that is put back from a backup is not "
        "noticed.",
        "API keys are stored as keyed hashes; roles, scopes and expiry are sealed.",
    ]
    if settings.host not in ("127.0.0.1", "::1", "localhost"):
        found.append(f"The service listens on {settings.host}.")
    else:
        found.append("The service listens on this machine alone.")
    return found
