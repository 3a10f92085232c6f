"""A table of every rule in the registry, written by the registry itself."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# The five papers go by short names in the rules.
PAPERS = {
    "S0": "WangLeiFienberg2016",
    "S1": "DworkFeldman2018",
    "S2": "DaganFeldman2020",
    "S3": "CummingsEtAl2016",
    "S4": "BlockEtAl2024",
}
KEY = re.compile(r"\b(S[0-4]|(?:[A-Z][A-Za-z]+){1,4}(?:19|20)\d\d)\b")


def all_rules() -> list[Any]:
    """Import every room, because each registers its own rules; then sort them."""
    import reticent
    from reticent.guarantees import rules

    for module in pkgutil.iter_modules(reticent.__path__):
        if module.ispkg:
            importlib.import_module(f"reticent.{module.name}")
    return sorted(rules.values(), key=lambda rule: natural(rule.id))


def natural(text: str) -> list[Any]:
    """Sort key by which G2 comes before G10, and plain words last."""
    parts = re.split(r"(\d+)", text)
    mixed = [int(part) if part.isdigit() else part for part in parts]
    return [len(parts) == 1, *mixed]


def cited(source: str) -> str:
    """Turn the keys in a source into citations."""
    return KEY.sub(lambda key: f"{{cite}}`{PAPERS.get(key[1], key[1])}`", source)


class TheoremTable(SphinxDirective):
    """``theorem-table``: id, what it leads from and to, our constant, the paper's."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the registry may change without this page
        lines = [
            row("id", "rule", "certified", "the paper prints", "source"),
            row(*["---"] * 5),
        ]
        for rule in all_rules():
            kinds = f"{names(rule.takes) or 'a mechanism'} → {names(rule.gives)}"
            lines.append(
                row(
                    f"`{rule.id}`",
                    f"{plain(rule.name)} ({kinds})",
                    plain(rule.statement),
                    plain(rule.paper),
                    cited(rule.source),
                )
            )
        container = nodes.container()
        text = StringList(lines, source="the registry of rules")
        self.state.nested_parse(text, self.content_offset, container)
        return container.children


def names(kinds: tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def plain(text: str) -> str:
    """Show a formula as it is written: no character of it is Markdown."""
    return re.sub(r"([\\*`|_$<>\[\]{}~])", r"\\\1", text)


def row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("theorem-table", TheoremTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
