"""A real server in this process or in processes of its own, on a real port."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvicorn
from fastapi import FastAPI

from reticent.home import Settings
from reticent.service import open_service
from reticent.service.network import Connection
from reticent.service.v1.admin import make_key
from reticent.service.v1.documents import NewKey

_FIRST_EPHEMERAL = 32_768  # Linux gives clients ports from here on
_PATIENCE = 180.0  # on a busy machine; a quick one waits for seconds


def own_ports() -> range:
    """Return the ports of this test process: no two of one run share a port."""
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return range(10_000 + place, _FIRST_EPHEMERAL, count)


def free_port() -> int:
    """Return a port that nothing uses, and that no client is given by chance.

    A client that tries to reach a server which is down, from the very port it tries
    to reach, reaches itself, and the port is taken when the server comes back.
    """
    while True:
        port = random.SystemRandom().choice(own_ports())
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def written(settings: Settings, folder: Path) -> Path:
    """Write settings to a file that servers can read."""
    path = folder / "settings.json"
    path.touch(0o600)
    defaults = {each.name: each.default for each in fields(settings)}
    data = {k: v for k, v in asdict(settings).items() if v != defaults[k]}
    path.write_text(json.dumps(data, default=str))
    return path


def api_key(settings: Settings, client: str = "ward-7", **facts: Any) -> str:
    """Make a key in the database."""
    service = open_service(settings)
    key = make_key(service, NewKey(client=client, **facts), "the tests")[0]
    service.close()
    return key


@contextlib.contextmanager
def in_thread(app: FastAPI) -> Iterator[str]:
    """Serve an application from a thread; give its address."""
    port = free_port()
    config = uvicorn.Config(
        app, port=port, log_config=None, access_log=False, http=Connection
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url)
        yield url
    finally:
        server.should_exit = True
        thread.join()


def ask(method: str, url: str, **settings: Any) -> httpx.Response:
    """Send a request on a connection of its own, so that any worker may take it."""
    # Reading certificates for every client would cost more than the request does.
    with httpx.Client(verify=False, timeout=_PATIENCE) as http:
        return http.request(method, url, **settings)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen")
        time.sleep(0.02)


def wait_until_ready(url: str, process: subprocess.Popen[Any] | None = None) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if ask("GET", f"{url}/v2/health/ready").status_code == 200:
                return
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the server ended with code {process.returncode}")
        time.sleep(0.02)
    raise AssertionError("the server did not become ready")


def workers_under(supervisor: int) -> list[psutil.Process]:
    """Return the processes that serve: descendants that listen for connections."""
    found = []
    with contextlib.suppress(psutil.Error):  # the supervisor may have ended just now
        for child in psutil.Process(supervisor).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                sockets = child.net_connections(kind="tcp")
                if any(each.status == psutil.CONN_LISTEN for each in sockets):
                    found.append(child)
    return found


class ServerProcess:
    """``serve()`` in a process of its own, configured by a file."""

    def __init__(self, config: Path, port: int, log: Path) -> None:
        self._config = config
        self._log = log
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True) -> None:
        code = "from reticent.service import serve; serve()"
        environment = {
            **os.environ,
            "RETICENT_CONFIG": str(self._config),
            "OMP_NUM_THREADS": "1",
        }
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if ready:
            wait_until_ready(self.url, self.process)

    def kill(self) -> None:
        """End every process of the server at once, as a power cut would."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(_PATIENCE)
        finally:
            self.kill()
