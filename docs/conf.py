"""How the documentation is built: offline, and with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import reticent

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "reticent"
author = "The reticent developers"
release = version = reticent.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "mathml",
    "theorems",
    "interfaces",
    "gallery",
    "notebooks",
    "words",
]
exclude_patterns = ["_build", "notebooks"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

smartquotes = False  # a prime in a formula is not an apostrophe

html_theme = "furo"
html_title = "reticent"
html_math_renderer = "mathml"
# No date, no machine: the same sources give the same pages.
html_last_updated_fmt = None
html_show_copyright = False

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = ["Guarantee"]
napoleon_use_rtype = False
# Types are prose ("array of shape (n, n_labels)"): no link for each word of them.
napoleon_use_param = False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]

bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"

PAGE = """\
{title}
{line}

.. automodule:: reticent.{room}
   :members:
   :imported-members:
"""


def write_api_pages(app: Sphinx) -> None:
    """Write one page a room, and remove those of rooms that are gone."""
    package = Path(reticent.__path__[0])
    rooms = [path.parent.name for path in package.glob("*/__init__.py")]
    target = HERE / "_generated"
    target.mkdir(exist_ok=True)
    pages = {f"{room}.rst": room for room in [*rooms, "errors"]}
    for name, room in pages.items():
        title = f"reticent.{room}"
        text = PAGE.format(title=title, line="=" * len(title), room=room)
        page = target / name
        # Untouched if unchanged, so that a second build has nothing to do.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    for name in set(os.listdir(target)) - set(pages):
        (target / name).unlink()


def skip_routing(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out the methods that scikit-learn adds to route metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_api_pages)
    app.connect("autodoc-skip-member", skip_routing)
