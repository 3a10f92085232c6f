"""A gallery of the runnable examples, in the order of their folders."""

from __future__ import annotations

import ast
from pathlib import Path

from interfaces import Generated
from sphinx.application import Sphinx

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


FIGURES = {
    "ask_any_pipeline": "ask_budget.png",
    "first_certificate": "individual_accounting.png",
    "reusable_holdout": "reuse_overfitting.png",
    "share_a_model": "plan.png",
    "shards_on_a_cluster": "growth.png",
}


def shown_lines(path: Path) -> list[str]:
    """Show what an example printed, and a figure about its subject."""
    printed = path.with_suffix(".out")
    lines = []
    if printed.exists():
        text = printed.read_text(encoding="utf-8").splitlines()
        lines += ["It prints:", "", "```text", *text, "```", ""]
    if path.stem in FIGURES:
        lines += [f"![What it is about](figures/{FIGURES[path.stem]})", ""]
    return lines


def example_lines(path: Path) -> list[str]:
    """Show one example: its first sentence as a title, its code folded away."""
    source = path.read_text(encoding="utf-8")
    told = (ast.get_docstring(ast.parse(source)) or "").strip()
    title, _, text = told.partition("\n")
    where = path.relative_to(EXAMPLES.parent).as_posix()
    return [
        f"## {title.rstrip('.')}",
        "",
        *text.strip().splitlines(),
        "",
        *shown_lines(path),
        f":::{{dropdown}} {where}",
        f"```{{literalinclude}} /../{where}",
        ":language: python",
        "```",
        ":::",
        "",
    ]


class Gallery(Generated):
    """``gallery``: every script under examples, each of which the tests run."""

    def lines(self) -> list[str]:
        return [
            line
            for path in sorted(EXAMPLES.rglob("*.py"))
            for line in example_lines(path)
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
