"""What was meant by a command that there is not; nothing that destroys is suggested."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

# Typer keeps its parser's exceptions to itself; a bad parameter is one of them.
UsageError: Any = typer.BadParameter.__mro__[1]

# What people type for something that is called otherwise here.
_MEANT = {
    "ask": "predict",
    "budget": "accounts",
    "lasting": "fit --lasting",
    "release": "fit --release",
    "start": "serve",
    "train": "fit",
}
# Nobody should do this by correcting a typo.
_DESTRUCTIVE = {"adopt", "erase", "remove", "restore", "revoke", "write-off"}


# What leads to something that a command misses.
_LEADS_TO = {
    "schema": "'reticent init FILE' asks what it needs to know, writes one and trains.",
}


def hinted(error: Any) -> Any:
    """Say where something comes from that a command line misses."""
    param = getattr(error, "param", None)
    missing = type(error).__name__ == "MissingParameter"
    if missing and param is not None and not error.message:
        error.message = _LEADS_TO.get(param.name, "")
    return error


class Commands(TyperGroup):
    """Commands by name; it says of an unknown name which one was probably meant."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.suggest_commands = False  # ours are chosen with care

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of some words."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            found = self._meant(args[0], top=ctx.parent is None) if args else []
            if found:
                told = " or ".join(f"'{ctx.command_path} {name}'" for name in found)
                error.message = f"{error.message.rstrip('.')}. Did you mean {told}?"
            raise

    def _meant(self, word: str, *, top: bool) -> list[str]:
        known = _MEANT.get(word) if top else None
        if known is not None:
            return [known]
        return get_close_matches(word, [*set(self.commands) - _DESTRUCTIVE])
