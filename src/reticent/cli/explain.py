"""``reticent explain``: what a word means, in plain language."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Annotated, Any

import typer

from reticent.cli.options import AsJson
from reticent.cli.output import Output, aligned
from reticent.glossary import explained, glossary
from reticent.guarantees import rules

_WIDTH = 78


def explain(
    word: Annotated[
        list[str] | None,
        typer.Argument(help="A word that you met here; all of them if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a word means, or what a rule on a certificate says.

    Example: reticent explain zcdp

    Example: reticent explain unit of protection

    Example: reticent explain G24
    """
    output = Output(as_json)
    if not word:
        rows = [(term.key, term.name) for term in glossary().values()]
        output.result(
            {"words": dict(rows)},
            [*aligned(rows), "", "Look one up: reticent explain epsilon"],
        )
        return
    rule = _rule(" ".join(word))
    if rule is not None:
        facts = {
            "id": rule.id,
            "name": rule.name,
            "statement": rule.statement,
            "source": rule.source,
        }
        lines = [f"{rule.id}: {rule.name}", *_wrapped(rule.statement)]
        output.result(facts, [*lines, "", *textwrap.wrap(f"Source: {rule.source}")])
        return
    term = explained(" ".join(word))
    lines = [term.name, *_wrapped(term.short)]
    if term.more:
        lines += ["", *_wrapped(term.more)]
    if term.see:
        lines += ["", f"See also: {', '.join(term.see)}."]
    output.result(asdict(term), lines)


def _rule(word: str) -> Any:
    """Return a rule by its id, as certificates print it; None if there is none."""
    if word.lower() in glossary():
        return None
    return {name.lower(): rules[name] for name in rules}.get(word.lower())


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
