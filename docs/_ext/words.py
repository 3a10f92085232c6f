"""The glossary that the dashboard and the command line show, as a page."""

from __future__ import annotations

from interfaces import Generated
from sphinx.application import Sphinx

from reticent.glossary import Term, glossary


def term_lines(term: Term) -> list[str]:
    """Show one word: its meaning, other words for it, and related ones."""
    also = f" (also {', '.join(term.also)})" if term.also else ""
    known = glossary()
    see = ", ".join(f"[{known[key].name}](#word-{key})" for key in term.see)
    return [
        f"(word-{term.key})=",
        f"**{term.name}**{also}",
        f": {term.short}{' ' + term.more if term.more else ''}"
        + (f" See {see}." if see else ""),
        "",
    ]


class Words(Generated):
    """``words``: every term of the glossary."""

    def lines(self) -> list[str]:
        return [line for term in glossary().values() for line in term_lines(term)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("words", Words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
