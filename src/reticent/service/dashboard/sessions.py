"""Logins of the dashboard: a signed cookie, and a token for its forms."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from reticent.mechanisms import SystemSource
from reticent.service.requests.problems import ProblemError

COOKIE = "reticent_session"
_bits = SystemSource()


@dataclass(frozen=True, slots=True)
class Session:
    """A login: whose key it was, until when, and the token of its forms.

    `seal` is that of the key's record when its secret part was shown. A record with
    another seal was revoked or edited since, and opens nothing.
    """

    key_id: str
    seal: str
    until: int
    csrf: str


class Sessions:
    """Signs and checks cookies.

    Parameters
    ----------
    secret : bytes
        Signs them.
    minutes : int
        How long a login lasts.
    secure : bool
        Whether browsers send the cookie over HTTPS only.
    clock : callable
        Seconds since 1970.

    Guarantee
    ---------
    A cookie names the public part of a key and cannot be made without the secret; it
    opens nothing once the key is revoked, its record edited or the time over. Scripts
    cannot read it and other sites cannot send it. A form is taken only with the token
    of its login.
    """

    def __init__(
        self,
        secret: bytes,
        *,
        minutes: int,
        secure: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self._seconds = 60 * minutes
        self._secure = secure
        self._clock = clock

    def open(self, key_id: str, seal: str, response: Response) -> None:
        """Log in the key whose record has this seal."""
        until = int(self._clock()) + self._seconds
        facts = json.dumps([key_id, seal, until, _bits.bytes(16).hex()]).encode()
        value = base64.urlsafe_b64encode(facts).decode() + "." + self._mac("c", facts)
        response.set_cookie(
            COOKIE,
            value,
            max_age=self._seconds,
            httponly=True,
            secure=self._secure,
            samesite="strict",
            path="/",
        )

    def close(self, response: Response) -> None:
        """Log out."""
        response.delete_cookie(
            COOKIE, httponly=True, secure=self._secure, samesite="strict", path="/"
        )

    def read(self, request: Request) -> Session | None:
        """Return the login of a request, if its cookie is ours and still valid."""
        encoded, dot, mac = request.cookies.get(COOKIE, "").partition(".")
        try:
            facts = base64.urlsafe_b64decode(encoded.encode("ascii"))
            genuine = dot and hmac.compare_digest(self._mac("c", facts), mac)
        except (binascii.Error, ValueError, TypeError):
            return None
        if not genuine:
            return None
        # One of an earlier version has no seal; its holder logs in again.
        key_id, *seal, until, _ = json.loads(facts)
        if not (seal and self._clock() < until):
            return None
        return Session(key_id, seal[0], until, self._mac("f", facts))

    def check_form(self, request: Request, session: Session, token: str) -> None:
        """Refuse a form that was not sent by a page of this login."""
        check_origin(request)
        if not hmac.compare_digest(session.csrf.encode(), token.encode()):
            raise _strange()

    def _mac(self, use: str, facts: bytes) -> str:
        message = use.encode() + b"\n" + facts
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


def check_origin(request: Request) -> None:
    """Refuse what a page of another site sends."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if site not in {"same-origin", "none"} or (
        origin is not None and urlsplit(origin).netloc != host
    ):
        raise _strange()


def _strange() -> ProblemError:
    return ProblemError(
        403,
        "cross_site",
        "this form was not sent by a page of this login. Load the page again.",
    )
