"""An OpenID provider, as this service talks to it."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx

from reticent._files import check_own_file
from reticent.errors import InvalidParameterError
from reticent.home import OidcSettings
from reticent.service.identity.attempts import Attempt
from reticent.service.identity.people import Person, person_of
from reticent.service.identity.tokens import checked_claims, key_named, refused
from reticent.service.requests.problems import ProblemError

_WELL_KNOWN = "/.well-known/openid-configuration"
_SECONDS = 10.0
_FRESH = 3600.0
# Keys are read again for a token with an unknown key, but not for every such token.
_BETWEEN = 10.0


class OpenIdProvider:
    """Sends people to a provider, and believes its answer after every check.

    Parameters
    ----------
    settings : OidcSettings
        Which provider, and who may do what.
    clock : callable
        Returns seconds; it never goes back.

    Guarantee
    ---------
    A person is returned only for the browser that began the attempt (state), for a code
    that was exchanged with the verifier of that attempt (PKCE), and for an ID token
    that passes `checked_claims`.
    """

    def __init__(
        self, settings: OidcSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._secret = _secret(settings)
        self._known: tuple[float, dict[str, Any]] | None = None
        self._failed: float | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    def begin(self, attempt: Attempt) -> str:
        """Return the address that a browser is sent to. Asks the provider where."""
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_url,
            "scope": self.settings.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        address = str(self._configuration()["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    def finish(self, attempt: Attempt | None, answer: Mapping[str, str]) -> Person:
        """Return who logged in, by what the provider sent back through the browser.

        Parameters
        ----------
        attempt : Attempt or None
            What this browser began; None if nothing.
        answer : mapping of str to str
            The query of the address that it came back to.
        """
        state = answer.get("state", "")
        if attempt is None or not hmac.compare_digest(
            state.encode(), attempt.state.encode()
        ):
            raise refused("this browser did not ask for it, or too long ago")
        if answer.get("iss", self.settings.issuer) != self.settings.issuer:
            raise refused("another provider sent it")
        if "error" in answer or not answer.get("code"):
            raise refused("the login was not completed there")
        token = self._exchanged(answer["code"], attempt.verifier)
        claims = checked_claims(token, self._key(token), self.settings, attempt.nonce)
        return person_of(claims, self.settings)

    def _exchanged(self, code: str, verifier: str) -> str:
        """Exchange a code for an ID token, directly with the provider."""
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect_url,
            "code_verifier": verifier,
        }
        login = None
        if self._secret is None:
            sent["client_id"] = self.settings.client_id
        else:
            login = httpx.BasicAuth(
                _escaped(self.settings.client_id), _escaped(self._secret)
            )
        address = self._configuration()["token_endpoint"]
        found = _asked("POST", address, data=sent, auth=login, refusal=True)
        token = found.get("id_token")
        if not isinstance(token, str):
            raise refused("there is no ID token in it")
        return token

    def _configuration(self) -> dict[str, Any]:
        now = self._clock()
        if self._known is not None and now - self._known[0] <= _FRESH:
            return self._known[1]
        if self._failed is not None and now - self._failed <= _BETWEEN:
            raise _away()
        try:
            found = self._described()
        except ProblemError:
            self._failed = self._clock()
            raise
        self._known = (now, found)
        return found

    def _described(self) -> dict[str, Any]:
        """Ask the provider for its addresses."""
        found = _asked("GET", self.settings.issuer.rstrip("/") + _WELL_KNOWN)
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        if found.get("issuer") != self.settings.issuer or not all(
            isinstance(found.get(name), str) for name in needed
        ):
            raise _away()
        return found

    def _key(self, token: str) -> Mapping[str, Any]:
        try:
            return key_named(token, self._published(_FRESH))
        except LookupError:
            pass
        try:
            return key_named(token, self._published(_BETWEEN))
        except LookupError:
            raise refused("its key is not one of the provider's") from None

    def _published(self, age: float) -> list[dict[str, Any]]:
        """Return the provider's keys, read at most `age` seconds ago."""
        now = self._clock()
        if self._keys is None or now - self._keys[0] > age:
            found = _asked("GET", self._configuration()["jwks_uri"]).get("keys")
            keys = found if isinstance(found, list) else []
            self._keys = (now, [key for key in keys if isinstance(key, dict)])
        return self._keys[1]


def _asked(
    method: str, address: str, *, refusal: bool = False, **settings: Any
) -> dict[str, Any]:
    """Return the JSON object that the provider answers with."""
    try:
        answer = httpx.request(
            method, address, timeout=_SECONDS, follow_redirects=False, **settings
        )
        if refusal and answer.status_code in (400, 401):
            raise refused("the provider does not know this login")
        answer.raise_for_status()
        found = answer.json()
    except (httpx.HTTPError, ValueError):
        raise _away() from None
    if not isinstance(found, dict):
        raise _away()
    return found


def _away() -> ProblemError:
    return ProblemError(
        502,
        "provider_unavailable",
        "the OpenID provider does not answer as it should. Try again later, or log in "
        "with a key.",
    )


def _escaped(text: str) -> str:
    """Return a part of a client's login as RFC 6749, section 2.3.1, wants it."""
    return urlencode({"": text})[1:]


def _secret(settings: OidcSettings) -> str | None:
    file = settings.client_secret_file
    if file is None:
        return None
    check_own_file(file, "client_secret_file", secret=True, error=InvalidParameterError)
    if not file.is_file():
        raise InvalidParameterError(f"client_secret_file {str(file)!r} is not there.")
    return file.read_text(encoding="utf-8").strip()
