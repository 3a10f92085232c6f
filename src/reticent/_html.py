"""Small pieces of HTML for notebooks: everything that is shown is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_BOX = "border-left:3px solid #3b5bdb;padding:.2em .9em;margin:.3em 0;max-width:60em"


def box(*parts: str) -> str:
    """Put pieces into one box."""
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def paragraph(text: str, *, strong: bool = False) -> str:
    """Return a paragraph."""
    inner = f"<strong>{escape(text)}</strong>" if strong else escape(text)
    return f'<p style="margin:.3em 0">{inner}</p>'


def listing(items: Iterable[str]) -> str:
    """Return a list, empty if there is nothing in it."""
    inner = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{inner}</ul>" if inner else ""


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
        for line in lines
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(title: str, *parts: str) -> str:
    """Return a section that opens when its title is clicked."""
    inner = "".join(parts)
    style = 'style="margin-left:1em"'
    return f"<details {style}><summary>{escape(title)}</summary>{inner}</details>"
