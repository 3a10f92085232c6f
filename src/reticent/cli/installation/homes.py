"""``reticent home``: where everything is, and which of several copies is used."""

from __future__ import annotations

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output, aligned
from reticent.home import Home

home_app = typer.Typer(
    help="Show a home, or choose which of its copies is used.", no_args_is_help=True
)


@home_app.command("show")
def show(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Show where models, ledger and checkpoints are, and whether it may spend."""
    place = Home.existing(home)
    settings = place.settings()
    with settings.open_ledger():
        pass  # refuses a copy
    found = {
        "home": str(place.path.resolve()),
        "models": sorted(settings.models),
        "datasets": sorted(settings.datasets),
        "ledger": settings.ledger.partition("://")[0],
        "checkpoints": str(settings.checkpoints),
        "risk": settings.second_place_risk(),
    }
    rows = [
        ("home", str(found["home"])),
        ("models", ", ".join(settings.models) or "none"),
        ("datasets", ", ".join(settings.datasets) or "none"),
        ("checkpoints", str(settings.checkpoints)),
    ]
    output = Output(as_json)
    output.result(found, [*aligned(rows), "It may spend."])
    if found["risk"]:
        output.note(f"warning: {found['risk']}")


@home_app.command("adopt")
def adopt(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Use this home from now on, and retire all copies of it.

    A copy refuses to spend, because one budget would be spent twice. Run this for the
    one folder that you continue to use.

    Example: reticent home adopt --home .reticent
    """
    place = Home.existing(home)
    noticed = place.adopt()
    lines = [
        f"{place.path.resolve()} stays in use; its copies on this machine are refused "
        "from now on."
        if noticed
        else f"{place.path.resolve()} stays in use. Its copies share no place for "
        "checkpoints with it, so they cannot notice: delete them."
    ]
    Output(as_json).result(
        {"home": str(place.path.resolve()), "noticed": noticed}, lines
    )
