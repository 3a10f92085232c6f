"""A dossier as Markdown and as one page of HTML, for screens and for paper."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from reticent.dossier.dossier import Dossier
from reticent.dossier.fields import Field, Section

_OPEN = "Open."
_SENSITIVE = (
    "Some findings below were computed from records without privacy. No record is "
    "shown, but keep this dossier as carefully as the records themselves. "
    "'reticent dossier --public' leaves them out."
)


def as_markdown(dossier: Dossier) -> str:
    """Return a dossier as Markdown."""
    lines = [f"# Dossier of {dossier.name}", "", _subtitle(dossier)]
    if dossier.from_records:
        lines += ["", f"**{_SENSITIVE}**"]
    for section in dossier.sections:
        lines += ["", f"## {section.title}", "", section.about]
        for field in section.fields:
            lines += ["", f"### {field.question}", "", *_plain(field)]
    lines += ["", "## Derivation", "", "```text", dossier.derivation, "```", ""]
    return "\n".join(lines)


def as_card(dossier: Dossier, *, number: bool) -> str:
    """Return the model card alone, with the head that model hubs read.

    Parameters
    ----------
    dossier : Dossier
        The dossier.
    number : bool
        Whether the model answers with numbers.
    """
    task = "tabular-regression" if number else "tabular-classification"
    lines = [
        "---",
        "library_name: reticent",
        f"pipeline_tag: {task}",
        "tags:",
        "- differential-privacy",
        "- tabular",
        "---",
        "",
        f"# {dossier.name}",
    ]
    for field in dossier.sections[-1].fields:
        lines += ["", f"## {field.question}", "", *_plain(field)]
    return "\n".join([*lines, ""])


def _subtitle(dossier: Dossier) -> str:
    open_fields = len(dossier.open_fields())
    return (
        f"Model {dossier.model_id}, certificate {dossier.certificate_id}, written on "
        f"{dossier.written}. {open_fields} of {len(dossier.fields())} fields are open."
    )


def _plain(field: Field) -> list[str]:
    source = f"*From: {field.source}.*"
    if field.open:
        return [f"**{_OPEN}** *To be given by: {field.source}.*"]
    if isinstance(field.answer, list):
        return [*(f"- {line}" for line in field.answer), "", source]
    return [_text(field.answer), "", source]


def _text(answer: Any) -> str:
    if isinstance(answer, dict):
        return ", ".join(f"{name} {value:g}" for name, value in answer.items())
    return str(answer)


def as_html(dossier: Dossier) -> str:
    """Return a dossier as one self-contained page."""
    template = Template(
        files("reticent.dossier").joinpath("page.html").read_text("utf-8")
    )
    links = "".join(
        f'<li><a href="#{section.id}">{escape(section.title)}</a></li>'
        for section in dossier.sections
    )
    note = f'<p class="note">{escape(_SENSITIVE)}</p>' if dossier.from_records else ""
    return template.substitute(
        name=escape(dossier.name),
        subtitle=escape(_subtitle(dossier)),
        links=links,
        note=note,
        sections="\n".join(_section(section) for section in dossier.sections),
        derivation=escape(dossier.derivation),
    )


def _section(section: Section) -> str:
    rows = "\n".join(_row(section, field) for field in section.fields)
    return (
        f'<section id="{section.id}"><h2>{escape(section.title)}</h2>'
        f"<p>{escape(section.about)}</p><dl>{rows}</dl></section>"
    )


def _row(section: Section, field: Field) -> str:
    if field.open:
        shown = f'<span class="open">{_OPEN}</span>'
    elif isinstance(field.answer, list):
        items = "".join(f"<li>{escape(str(line))}</li>" for line in field.answer)
        shown = f"<ul>{items}</ul>"
    else:
        shown = escape(_text(field.answer))
    place = "To be given by" if field.open else "From"
    return (
        f'<div id="{section.id}.{field.id}"><dt>{escape(field.question)}</dt>'
        f"<dd>{shown}<small>{place}: {escape(field.source)}</small></dd></div>"
    )
