"""A notebook as a part of a page: its text, its code and what it printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

from interfaces import Generated
from sphinx.application import Sphinx

DOCS = Path(__file__).parent.parent


def cell_lines(cell: dict[str, Any]) -> list[str]:
    """Show one cell; headings go one level down."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [*re.sub(r"^#", "##", source, flags=re.M).splitlines(), ""]
    lines = ["```python", *source.splitlines(), "```", ""]
    for output in cell["outputs"]:
        shown = output.get("data", {})
        if "text/html" in shown:
            html = "".join(shown["text/html"]).splitlines()
            lines += ["```{raw} html", *html, "```", ""]
        else:
            text = "".join(output.get("text", shown.get("text/plain", [])))
            lines += ["```text", *text.splitlines(), "```", ""]
    return lines


class Notebook(Generated):
    """``notebook``: the cells of a file under docs."""

    required_arguments: ClassVar[int] = 1

    def lines(self) -> list[str]:
        text = (DOCS / self.arguments[0]).read_text(encoding="utf-8")
        return [line for cell in json.loads(text)["cells"] for line in cell_lines(cell)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("notebook", Notebook)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
