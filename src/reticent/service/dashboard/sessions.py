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
    in with an OpenID provider, and `began` when; there is no key then.
    """

    key_id: str
    seal: str
    until: int
    csrf: str
    person: Person | None = None
    began: int = 0
    token: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a browser keeps while it is at an OpenID provider.

    Attributes
    ----------
    attempt : Attempt
        Ties the provider's answer to this browser.
    back : str
        The page to show afterwards.
    before : Session or None
        The login that is checked again; None for a new one.
    """

    attempt: Attempt
    back: str = "/"
    before: Session | None = None


class Sessions:
    """Signs and checks cookies.

    Parameters
    ----------
    secret : bytes
        Signs them.
    minutes : int
        How long a login lasts.
    recheck_minutes : int
        How long what an OpenID provider said about a person is believed.
    secure : bool
        Whether browsers send the cookie over HTTPS only.
    clock : callable
        Seconds since 1970.

    Guarantee
    ---------
    A cookie names the public part of a key and cannot be made without the secret; it
    opens nothing once the key is revoked, its record edited or the time over. That of a
    person opens nothing `recheck_minutes` after a provider last named their role.
    Scripts cannot read it and other sites cannot send it. A form is taken only with the
    token of its login.
    """

    def __init__(
        self,
        secret: bytes,
        *,
        minutes: int,
        recheck_minutes: int = 5,
        secure: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self._seconds = 60 * minutes
        self._believed = 60 * recheck_minutes
        self._secure = secure
        self._clock = clock

    def open(self, key_id: str, seal: str, response: Response) -> None:
        """Log in the key whose record has this seal."""
        until = int(self._clock()) + self._seconds
        self._open([key_id, seal, until, _bits.bytes(16).hex()], until, response)

    def open_person(
        self, person: Person, response: Response, before: Session | None = None
    ) -> None:
        """Log in a person whom an OpenID provider identified.

        Parameters
        ----------
        person : Person
            Who they are.
        response : Response
            Gets the cookie.
        before : Session or None, default=None
            Their login, if it was checked again: it goes on, and ends when it would.
        """
        now = int(self._clock())
        began, token = (now, _bits.bytes(16).hex())
        if before is not None:
            began, token = before.began, before.token
        end = began + self._seconds
        until = min(now + self._believed, end)
        told = [person.client, person.role.value, person.name, began]
        self._open([_PERSON, told, until, token], end, response)

    def _open(self, facts: list[Any], end: int, response: Response) -> None:
        response.set_cookie(
            COOKIE,
            self._packed("c", facts),
            max_age=max(0, end - int(self._clock())),
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
        session = self._session(request)
        valid = session is not None and self._clock() < session.until
        return session if valid else None

    def due(self, request: Request) -> Session | None:
        """Return the login of a person whom the provider should name again.

        It is due after half the time that the provider is believed for, so that who
        loads a form has the other half to send it.
        """
        session = self._session(request)
        if session is None or session.person is None:
            return None
        now, end = self._clock(), session.began + self._seconds
        old = now >= session.until - self._believed / 2 and session.until < end
        return session if old and now < end else None

    def _session(self, request: Request) -> Session | None:
        facts = self._unpacked("c", request.cookies.get(COOKIE, ""))
        return None if facts is None else self._told(json.loads(facts))

    def _told(self, facts: list[Any]) -> Session | None:
        """Return the login that a genuine cookie describes."""
        # Cookies of earlier versions say less; their holders log in again.
        key_id, *seal, until, token = facts
        if not seal:
            return None
        csrf = self._mac("f", json.dumps([key_id, token]).encode())
        if key_id != _PERSON:
            return Session(key_id, seal[0], until, csrf)
        if len(seal[0]) != 4:
            return None
        client, role, name, began = seal[0]
        person = Person(client, Role(role), name)
        return Session("", "", until, csrf, person, began, token)

    def begin(self, begun: Begun, response: Response) -> None:
        """Let a browser keep what it needs to come back from an OpenID provider."""
        until = int(self._clock()) + _ATTEMPT_SECONDS
        attempt, before = begun.attempt, begun.before
        kept = None
        if before is not None and before.person is not None:
            who = before.person
            told = [who.client, who.role.value, who.name, before.began]
            kept = [_PERSON, told, before.until, before.token]
        facts = [attempt.state, attempt.nonce, attempt.verifier]
        response.set_cookie(
            ATTEMPT_COOKIE,
            self._packed("a", [*facts, begun.back, kept, until]),
            max_age=_ATTEMPT_SECONDS,
            httponly=True,
            secure=self._secure,
            # It comes with a link of another site: the provider's.
            samesite="lax",
            path=_ATTEMPT_PATH,
        )

    def begun(self, request: Request) -> Begun | None:
        """Return what a browser began, if its cookie is ours and still valid."""
        facts = self._unpacked("a", request.cookies.get(ATTEMPT_COOKIE, ""))
        if facts is None:
            return None
        *told, until = json.loads(facts)
        if not (len(told) == 5 and self._clock() < until):
            return None
        state, nonce, verifier, back, kept = told
        before = None if kept is None else self._told(kept)
        return Begun(Attempt(state, nonce, verifier), back, before)

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
