"""``reticent keys``: who may ask."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from reticent._clock import seconds
from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output, aligned
from reticent.home import Home, KeyRecord, Role

keys_app = typer.Typer(
    help="Make, list, rotate and revoke API keys.", no_args_is_help=True
)


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
    rows: list[tuple[str, ...]] = [
        ("key", "client", "role", "models", "expires", "state")
    ]
    rows += [
        (
            record.id,
            record.client,
            record.role.value,
            "all" if record.models is None else ", ".join(record.models),
            _day(record.expires),
            _state(record),
        )
        for record in records
    ]
    Output(as_json).result({"keys": [r.as_dict() for r in records]}, aligned(rows))


def _day(moment: int | None) -> str:
    if moment is None:
        return "never"
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def _state(record: KeyRecord) -> str:
    if record.revoked:
        return "revoked"
    over = record.expires is not None and record.expires <= seconds()
    return "expired" if over else "active"


@keys_app.command("rotate")
def rotate(
    key: Annotated[str, typer.Argument(help="The public part of a key.")],
    days: Annotated[
        int | None,
        typer.Option(
            min=1, help="Days until the new one expires.", show_default="as the old one"
        ),
    ] = None,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Revoke the old one now.")
    ] = False,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Make a key with the client, role and models of another; it is shown once.

    The old one stays valid until it is revoked, so that its user can switch.

    Example: reticent keys rotate 27c5f804998f97b5 --days 90
    """
    made, record = Home.existing(home).rotate_key(key, days=days, at_once=at_once)
    lines = [made]
    Output(as_json).result({"key": made, "replaces": key, **record.as_dict()}, lines)


@keys_app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="The public part of a key.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Revoke a key for good."""
    Home.existing(home).revoke_key(key)
    Output(as_json).result({"revoked": key}, [f"{key} is revoked."])
