"""What deploy/ starts, without a container engine: its own commands and settings.

The volumes of `compose.yaml` become folders, the names of its network become ports of
this machine, and its secrets are made here. Nothing else is changed.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reticent.home import Home, Role
from reticent.signing import write_key_file
from tests.service.clinic import MODEL_KEY, store
from tests.service.live_server import free_port, wait_until, workers_under
from tests.test_layout import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
SETTINGS = {
    "RETICENT_DATASETS": json.dumps({"clinic": {"epsilon": 1e5}}),
    "RETICENT_CLIENT_BUDGET": json.dumps({"epsilon": 1e5}),
    "RETICENT_KEY_CACHE_SECONDS": "0.2",
    "RETICENT_RATE": "0",
}


@dataclass
class Stack:
    """The service and its proxy; the address is that of the proxy."""

    folder: Path
    ledger: str
    more: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=lambda: dict(SETTINGS))
    port: int = field(default_factory=free_port)
    tls: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.tls}"

    @property
    def metrics(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def certificate(self) -> str:
        return str(self.folder / "secrets" / "tls.crt")

    def environment(self) -> dict[str, str]:
        """Return what the container would have: image, compose file, service.env."""
        image = re.findall(r"^ENV (.*)$", (DEPLOY / "Containerfile").read_text(), re.M)
        given = dict(pair.split("=", 1) for line in image for pair in line.split())
        given |= COMPOSE["service"]["environment"]
        given = {name: self.placed(text) for name, text in given.items()}
        given["RETICENT_LEDGER"] = self.ledger  # as the compose file asks for
        given["RETICENT_METRICS_PORT"] = str(self.metrics_port)
        given["RETICENT_PORT"] = str(self.port)
        return {**given, **self.given, **self.more}

    def placed(self, text: str) -> str:
        """Put folders in the place of volumes."""
        for volume, name in (("/var/lib/reticent-second", "second"),):
            text = text.replace(volume, str(self.folder / name))
        return text.replace("/var/lib/reticent", str(self.folder / "home"))

    def start(self) -> None:
        """Start the service with the command of the compose file."""
        command = [self.placed(word) for word in COMPOSE["service"]["command"]]
        with (self.folder / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reticent.cli", *command],
                env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment()},
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )

    def kill(self) -> None:
        """End all processes of the service at once."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def workers(self) -> list[int]:
        """Return the processes that answer."""
        assert self.process is not None
        return [each.pid for each in workers_under(self.process.pid)]

    def ready(self) -> bool:
        """Say whether the service answers through its proxy."""
        with contextlib.suppress(httpx.TransportError), self.client() as http:
            return http.get("/v2/health/ready").status_code == 200
        return False

    def client(self) -> httpx.Client:
        """Return a client that checks the certificate."""
        context = ssl.create_default_context(cafile=self.certificate)
        return httpx.Client(base_url=self.url, verify=context, timeout=180)


def make_home(stack: Stack) -> str:
    """Store two models, as somebody would before the first start; make an admin."""
    home_folder = stack.folder / "home"
    home_folder.mkdir(mode=0o700)
    (stack.folder / "second").mkdir(mode=0o700)
    write_key_file(home_folder / "signing.key", MODEL_KEY)
    home = Home.at(
        home_folder, second_place=stack.folder / "second" / "checkpoint.json"
    )
    from reticent.guarantees import Budget

    home.open_dataset("clinic", Budget(1e5))
    for kind in ("triage", "cost"):
        home.register(kind, store(home.models, kind))
    return home.new_key("boss", Role.ADMIN)[0]


def make_certificate(folder: Path) -> None:
    """Write a certificate for localhost, and its key."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@contextlib.contextmanager
def proxy(stack: Stack) -> Iterator[None]:
    """Run nginx with the shipped file."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert program is not None
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    scratch = stack.folder / "proxy"
    scratch.mkdir()
    for shipped, here in {
        " /tmp/": f" {scratch}/",
        "server service:8000": f"server 127.0.0.1:{stack.port}",
        "listen 8443 ssl": f"listen 127.0.0.1:{stack.tls} ssl",
        "/etc/reticent-tls/": f"{stack.folder}/secrets/",
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    config = scratch / "nginx.conf"
    config.write_text(text)
    orders = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    with (stack.folder / "proxy.log").open("ab") as log:
        process = subprocess.Popen(
            [program, "-p", scratch, "-c", config, "-g", orders],
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(60)


@contextlib.contextmanager
def deployed(folder: Path, ledger: str, more: Any) -> Iterator[tuple[Stack, str]]:
    """Start everything; give it, and the key of an admin.

    `more` makes further settings, from the address of the proxy.
    """
    stack = Stack(folder, ledger)
    make_certificate(folder / "secrets")
    stack.more = more(stack.url)
    before = dict(os.environ)
    os.environ.update(stack.environment())
    try:
        admin = make_home(stack)
    finally:
        os.environ.clear()
        os.environ.update(before)
    with proxy(stack):
        stack.start()
        try:
            wait_until(stack.ready)
            yield stack, admin
        finally:
            stack.kill()
