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
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from reticent.home import Role
from reticent.mechanisms import SystemSource
from reticent.service.identity.attempts import Attempt
from reticent.service.identity.people import Person
from reticent.service.requests.problems import ProblemError

COOKIE = "reticent_session"
#: What a browser keeps while it is at an OpenID provider.
ATTEMPT_COOKIE = "reticent_sign_in"
_ATTEMPT_PATH = "/login/oidc"
_ATTEMPT_SECONDS = 600
# In the place of a key's id, which has sixteen digits.
_PERSON = "person"
_bits = SystemSource()


@dataclass(frozen=True, slots=True)
class Session:
    """A login: whose key it was, until when, and the token of its forms.

    `seal` is that of the key's record when its secret part was shown. A record with
    another seal was revoked or edited since, and opens nothing. `person` is who logged
    in with an OpenID provider; there is no key then.
    """

    key_id: str
    seal: str
    until: int
    csrf: str
    person: Person | None = None


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
        self._open(key_id, seal, response)

    def open_person(self, person: Person, response: Response) -> None:
        """Log in a person whom an OpenID provider identified."""
        told = [person.client, person.role.value, person.name]
        self._open(_PERSON, told, response)

    def _open(self, key_id: str, seal: Any, response: Response) -> None:
        until = int(self._clock()) + self._seconds
        facts = [key_id, seal, until, _bits.bytes(16).hex()]
        value = self._packed("c", facts)
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
        facts = self._unpacked("c", request.cookies.get(COOKIE, ""))
        if facts is None:
            return None
        # One of an earlier version has no seal; its holder logs in again.
        key_id, *seal, until, _ = json.loads(facts)
        if not (seal and self._clock() < until):
            return None
        csrf = self._mac("f", facts)
        if key_id == _PERSON:
            client, role, name = seal[0]
            return Session("", "", until, csrf, Person(client, Role(role), name))
        return Session(key_id, seal[0], until, csrf)

    def begin(self, attempt: Attempt, response: Response) -> None:
        """Let a browser keep what it needs to come back from an OpenID provider."""
        until = int(self._clock()) + _ATTEMPT_SECONDS
        facts = [attempt.state, attempt.nonce, attempt.verifier, until]
        response.set_cookie(
            ATTEMPT_COOKIE,
            self._packed("a", facts),
            max_age=_ATTEMPT_SECONDS,
            httponly=True,
            secure=self._secure,
            # It comes with a link of another site: the provider's.
            samesite="lax",
            path=_ATTEMPT_PATH,
        )

    def ended(self, response: Response) -> Response:
        """Let a browser forget its attempt; return the response."""
        response.delete_cookie(
            ATTEMPT_COOKIE,
            httponly=True,
            secure=self._secure,
            samesite="lax",
            path=_ATTEMPT_PATH,
        )
        return response

    def attempt(self, request: Request) -> Attempt | None:
        """Return what a browser began, if its cookie is ours and still valid."""
        facts = self._unpacked("a", request.cookies.get(ATTEMPT_COOKIE, ""))
        if facts is None:
            return None
        state, nonce, verifier, until = json.loads(facts)
        return Attempt(state, nonce, verifier) if self._clock() < until else None

    def check_form(self, request: Request, session: Session, token: str) -> None:
        """Refuse a form that was not sent by a page of this login."""
        check_origin(request)
        if not hmac.compare_digest(session.csrf.encode(), token.encode()):
            raise _strange()

    def _packed(self, use: str, facts: list[Any]) -> str:
        data = json.dumps(facts).encode()
        return base64.urlsafe_b64encode(data).decode() + "." + self._mac(use, data)

    def _unpacked(self, use: str, text: str) -> bytes | None:
        """Return what a cookie holds, if we wrote it for this use."""
        encoded, dot, mac = text.partition(".")
        try:
            facts = base64.urlsafe_b64decode(encoded.encode("ascii"))
            genuine = dot and hmac.compare_digest(self._mac(use, facts), mac)
        except (binascii.Error, ValueError, TypeError):
            return None
        return facts if genuine else None

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
