"""``reticent serve``: private predictions over HTTP."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Annotated

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.errors import ReticentError
from reticent.home import Home, Role


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=1, max=65535, envvar="RETICENT_PORT", help="Port to listen on."
        ),
    ] = 8000,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Serve every model of a home, with a dashboard, until stopped.

    The first time an admin key is made and shown once; make others with
    'reticent keys create'.

    Example: reticent serve --port 8000
    """
    run_service = service_runner()
    place = Home.existing(home)
    settings = place.settings()
    _check_port(host, port)
    output = Output(as_json)
    risk = settings.second_place_risk()
    if risk is not None:
        output.note(f"warning: {risk} The setting is 'checkpoints' in {place.config}.")
    with settings.open_keyring() as keyring:
        admins = [r for r in keyring.records() if r.role is Role.ADMIN]
    key = None if admins else place.new_key("admin", Role.ADMIN)[0]
    address = f"http://{host}:{port}"
    lines = [f"serving {', '.join(sorted(settings.models))} at {address}"]
    if key is not None:
        lines.append(f"admin key, shown this once: {key}")
    output.result({"address": address, "admin_key": key}, lines)
    run_service(place.config, host=host, port=port, workers=workers)


def service_runner() -> Callable[..., None]:
    """Return what serves, or say what to install."""
    try:
        from reticent.service import serve as run_service
    except ImportError as missing:
        raise ReticentError(
            f"serving needs {missing.name}: pip install 'reticent[serve]'."
        ) from None
    return run_service


def _check_port(host: str, port: int) -> None:
    """Refuse a busy port before anything is loaded."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ReticentError(
                f"--port {port} on {host} cannot be used ({error.strerror}); stop what "
                "listens there or choose another port."
            ) from None
