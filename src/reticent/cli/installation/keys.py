"""``reticent keys``: who may ask."""

from __future__ import annotations

from typing import Annotated

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output, aligned
from reticent.errors import InvalidParameterError
from reticent.home import Home, Role

keys_app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


@keys_app.command("create")
def create(
    client: Annotated[str, typer.Argument(help="Who will use the key.")],
    admin: Annotated[
        bool, typer.Option("--admin", help="May manage keys and caps.")
    ] = False,
    model: Annotated[
        list[str] | None, typer.Option(help="A model it may ask; all if left out.")
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, help="Days until it expires; never if left out."),
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Make a key; it is shown once and cannot be shown again.

    Example: reticent keys create ward-7
    """
    key, record = Home.existing(home).new_key(
        client,
        Role.ADMIN if admin else Role.ANALYST,
        models=tuple(model) if model else None,
        days=days,
    )
    Output(as_json).result({"key": key, **record.as_dict()}, [key])


@keys_app.command("list")
def show(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """List keys by their public part."""
    with Home.existing(home).settings().open_keyring() as keyring:
        records = keyring.records()
    rows: list[tuple[str, ...]] = [("key", "client", "role", "state")]
    rows += [
        (r.id, r.client, r.role.value, "revoked" if r.revoked else "active")
        for r in records
    ]
    Output(as_json).result({"keys": [r.as_dict() for r in records]}, aligned(rows))


@keys_app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="The public part of a key.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Revoke a key for good."""
    with Home.existing(home).settings().open_keyring() as keyring:
        done = keyring.revoke(key)
    if not done:
        raise InvalidParameterError(
            f"there is no key {key!r}; 'reticent keys list' shows them."
        )
    Output(as_json).result({"revoked": key}, [f"{key} is revoked."])
