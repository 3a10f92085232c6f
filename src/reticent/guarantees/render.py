"""A derivation as text: one line per step, each with its rule and source."""

from __future__ import annotations

from typing import Any

from reticent.guarantees.certificate import Certificate, Detail
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
