"""``reticent ledger``: who has spent what, and whether the book is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.home import Home

ledger_app = typer.Typer(
    help="Show what was spent, verify the chain, or write it off.",
    no_args_is_help=True,
)


@ledger_app.command("show")
def show(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Show every account: what is spent, and of how much."""
    with Home.existing(home).settings().open_ledger() as ledger:
        balances = ledger.balances()
    lines = [str(balance) for balance in balances] or ["nothing has been spent yet."]
    data = {"accounts": [balance.as_dict() for balance in balances]}
    Output(as_json).result(data, lines)


@ledger_app.command("verify")
def verify(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Recompute every hash and every total of the ledger, and compare."""
    with Home.existing(home).settings().open_ledger() as ledger:
        found = ledger.verify()
    Output(as_json).result(
        {"entries": found.entries, "head": found.head, "whole": True},
        [f"the ledger is whole: {found.entries} entries, head {found.head[:16]}."],
    )


@ledger_app.command("write-off")
def write_off(
    reason: Annotated[str, typer.Option(help="Why; kept in the ledger for good.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Count every budget as spent, because what was spent is no longer known.

    For a ledger that is refused because it was restored from a backup or lost its
    checkpoint. Stop the service first. Raising a budget afterwards is a decision of its
    own, as a weaker promise: 'reticent fit --change-budget'.

    Example: reticent ledger write-off --reason "restored Monday's backup"
    """
    found = Home.existing(home).settings().write_off(reason)
    Output(as_json).result(
        {"entries": found.entries, "epoch": found.epoch, "head": found.head},
        ["every budget counts as spent now; the ledger starts again."],
    )
