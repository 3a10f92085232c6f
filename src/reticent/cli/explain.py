"""``reticent explain``: what a word means, in plain language."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Annotated

import typer

from reticent.cli.options import AsJson
from reticent.cli.output import Output, aligned
from reticent.glossary import explained, glossary

_WIDTH = 78


def explain(
    word: Annotated[
        list[str] | None,
        typer.Argument(help="A word that you met here; all of them if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a word means.

    Example: reticent explain zcdp

    Example: reticent explain unit of protection
    """
    output = Output(as_json)
    if not word:
        rows = [(term.key, term.name) for term in glossary().values()]
        output.result(
            {"words": dict(rows)},
            [*aligned(rows), "", "Look one up: reticent explain epsilon"],
        )
        return
    term = explained(" ".join(word))
    lines = [term.name, *_wrapped(term.short)]
    if term.more:
        lines += ["", *_wrapped(term.more)]
    if term.see:
        lines += ["", f"See also: {', '.join(term.see)}."]
    output.result(asdict(term), lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
