"""Formulas as MathML: browsers draw it themselves, no script from elsewhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def render(latex: str, *, display: str, where: nodes.Node) -> str:
    """Return MathML; a formula that does not parse is a warning, so it fails -W."""
    try:
        return str(convert(latex, display=display))
    except Exception as error:  # noqa: BLE001 - the converter has no common error type
        logger.warning("formula %r: %r", latex, error, location=where)
        return f"<code>{nodes.unescape(latex)}</code>"


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(render(node.astext(), display="inline", where=node))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    body = render(node.astext(), display="block", where=node)
    translator.body.append(f'<div class="math">{body}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_inline, None),
        block_renderers=(visit_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
