"""A derivation as text: one line per step, each with its rule and source."""

from __future__ import annotations

from typing import Any

from reticent._html import box, folded, listing, paragraph
from reticent.errors import RuleError
from reticent.guarantees.certificate import Certificate, Detail
from reticent.guarantees.guess import in_plain_words
from reticent.guarantees.rule import rules


def explain(certificate: Certificate[Any]) -> str:
    """Say what is promised and why, as a tree from the conclusion to its causes."""
    return as_text(certificate)


def as_text(certificate: Certificate[Any]) -> str:
    """Render the headline, the derivation and the assumptions."""
    lines = [certificate.headline()]
    _branch(certificate, "", "", lines)
    if certificate.assumptions:
        lines.append("assuming that")
        lines += [f"  - {assumption}" for assumption in sorted(certificate.assumptions)]
    return "\n".join(_one_line(line) for line in lines)


def as_html(certificate: Certificate[Any]) -> str:
    """Render a certificate for notebooks: the promise, in plain words, and why."""
    try:
        words = paragraph(in_plain_words(certificate))
    except RuleError:  # it is about something other than privacy
        words = ""
    assumed = [str(assumption) for assumption in sorted(certificate.assumptions)]
    return box(
        paragraph(certificate.headline(), strong=True),
        words,
        paragraph("It assumes that") if assumed else "",
        listing(assumed),
        folded("Why", _steps(certificate)),
    )


def _steps(node: Certificate[Any]) -> str:
    title = f"{node.guarantee} for {node.released()}  [{_reason(node)}]"
    return folded(_one_line(title), *(_steps(premise) for premise in node.premises))


def _one_line(line: str) -> str:
    """Prevent text from a file from adding lines or moving the cursor."""
    return "".join(mark if mark.isprintable() else "?" for mark in line)


def _branch(node: Certificate[Any], lead: str, below: str, lines: list[str]) -> None:
    lines.append(f"{lead}{node.guarantee} for {node.released()}  [{_reason(node)}]")
    for position, premise in enumerate(node.premises):
        last = position == len(node.premises) - 1
        _branch(
            premise,
            below + ("└─ " if last else "├─ "),
            below + ("   " if last else "│  "),
            lines,
        )


def _reason(node: Certificate[Any]) -> str:
    known = rules.get(node.rule)
    words = [node.rule if known is None else f"{node.rule} {known.name}"]
    parameters = [
        f"{name}={_shown(value)}"
        for name, value in node.details
        if value is not None and node.rule != "assumed"
    ]
    if parameters:
        words.append(", ".join(parameters))
    if known is not None:
        words.append(known.source)
    return "; ".join(words)


def _shown(value: Detail) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        head = ", ".join(_shown(item) for item in value[:6])
        return f"({head}{', ...' if len(value) > 6 else ''})"
    return str(value)
