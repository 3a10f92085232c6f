"""An OpenID provider for tests that lies as it is told to, and checks PKCE itself."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def published(key: Any, **facts: str) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        kind = jwt.algorithms.ECAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "use": "sig", **facts}


class WaywardProvider:
    """Answers as an honest provider would, but for what `lie` changes."""

    def __init__(self) -> None:
        self.address = ""
        self.keys = [published(KEY, kid="one"), published(CURVE, kid="two")]
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {"kid": "one"}
        self.signing: tuple[Any, str] = (KEY, "RS256")
        self.issuer: str | None = None
        self.challenges: dict[str, dict[str, str]] = {}
        self.logins: list[str | None] = []
        self.reads = 0
        self.described = 0

    def authorize(self, address: str) -> dict[str, str]:
        """Do what a person does there; return the answer for the browser."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.challenges)}"
        self.challenges[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.address}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.challenges.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        told = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or told != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.address,
            "aud": asked["client_id"],
            "sub": "ada",
            "name": "Ada",
            "roles": ["staff", "privacy"],
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 300,
            **self.claims,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        key, algorithm = self.signing
        signed = jwt.encode(kept, key, algorithm, headers=self.header)
        return 200, {"id_token": signed, "token_type": "Bearer", "access_token": "x"}

    def configuration(self) -> dict[str, str]:
        return {
            "issuer": self.issuer or self.address,
            "authorization_endpoint": f"{self.address}/authorize?tenant=a",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
        }


@contextmanager
def wayward_provider() -> Iterator[WaywardProvider]:
    """Run a provider on a port of its own."""
    provider = WaywardProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.reads += self.path == "/keys"
            provider.described += self.path == "/.well-known/openid-configuration"
            found = {
                "/.well-known/openid-configuration": provider.configuration(),
                "/keys": {"keys": provider.keys},
            }.get(self.path)
            self._send(404 if found is None else 200, found or {})

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            form = parse_qs(self.rfile.read(length).decode())
            provider.logins.append(self.headers.get("authorization"))
            self._send(*provider.token({k: v[0] for k, v in form.items()}))

        def _send(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
