"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.home import DEFAULT_HOME

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.")
]
HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        envvar="RETICENT_HOME",
        help="Directory with models, keys and ledger.",
    ),
]
HOME = Path(DEFAULT_HOME)
