"""``reticent certificate``: what is promised, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.errors import InvalidParameterError
from reticent.guarantees import Certificate, recheck, repeat
from reticent.home import Home
from reticent.storage import load_model

certificate_app = typer.Typer(
    help="Show, compose and check certificates.", no_args_is_help=True
)


@certificate_app.command("show")
def show(
    what: Annotated[str, typer.Argument(help="A model's name, or a certificate file.")],
    answers: Annotated[
        int, typer.Option(help="Show what this many answers promise together.")
    ] = 1,
    delta: Annotated[
        float, typer.Option(help="Delta for many answers together.")
    ] = 0.0,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Print the derivation as a tree, each step with its rule and source.

    Example: reticent certificate show income --answers 200 --delta 1e-6
    """
    found = _find(what, home)
    if answers != 1:
        found = repeat(found, answers, delta=delta)
    Output(as_json).result(found.as_dict(), [str(found)])


@certificate_app.command("check")
def check(
    what: Annotated[str, typer.Argument(help="A model's name, or a certificate file.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Derive a certificate again from its mechanisms up, and compare."""
    found = _find(what, home)
    recheck(found)
    Output(as_json).result(
        {"certificate": found.id, "follows": True},
        [f"it follows: {found.headline()}"],
    )


def _find(what: str, home: Path) -> Certificate[Any]:
    path = Path(what)
    if path.is_file():
        return Certificate.from_json(path.read_bytes())
    place = Home(home)
    folder = place.models / what
    if not folder.is_dir():
        raise InvalidParameterError(
            f"{what!r} is neither a certificate file nor a model in --home "
            f"{str(home)!r}."
        )
    return load_model(folder, signing_key=place.signing_key()).certificate
