"""An OpenID provider from PyPI, run as a program of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx


@contextmanager
def real_provider() -> Iterator[str]:
    """Run it; give its address. Clients have to be registered."""
    words = [sys.executable, "-m", "oidc_provider_mock", "--port", "0", "-r", "true"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = None
            for line in process.stdout:
                found = re.search(r"http://[\w.]+:(\d+)", line)
                if found:
                    break
            assert found is not None
            yield f"http://localhost:{found[1]}"
        finally:
            process.kill()


def registered(provider: str, callback: str, folder: Path) -> tuple[str, Path]:
    """Register a client; return its name, and a file with its secret."""
    known = httpx.post(
        f"{provider}/oauth2/clients", json={"redirect_uris": [callback]}
    ).json()
    secret = folder / "client-secret"
    secret.touch(mode=0o600)
    secret.write_text(known["client_secret"])
    return known["client_id"], secret


def log_in_at(address: str, person: str) -> dict[str, str]:
    """Fill the provider's form; return what it sends the browser back with."""
    asked = dict(parse_qsl(urlsplit(address).query))
    answer = httpx.post(address, data={"sub": person})
    assert answer.status_code == 302, answer.text
    back = answer.headers["location"]
    assert back.startswith(asked["redirect_uri"] + "?")
    return dict(parse_qsl(urlsplit(back).query))
