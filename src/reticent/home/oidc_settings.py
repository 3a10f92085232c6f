"""Settings of an OpenID provider, by which people log in at the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from reticent.errors import InvalidParameterError

#: Where the provider sends people back to.
CALLBACK = "/login/oidc/callback"
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """Where people log in, and what their groups may do here."""

    issuer: str  #: the provider's address, as its tokens name it
    client_id: str  #: what this service is called there
    #: This service's own address with ``/login/oidc/callback``, as people reach it.
    redirect_url: str
    #: A file with the secret that the provider gave; None if it gave none.
    client_secret_file: Path | None = None
    role_claim: str = "roles"  #: the claim that names what somebody is
    admins: tuple[str, ...] = ()  #: its values that make an admin
    analysts: tuple[str, ...] = ()  #: its values that make an analyst
    scopes: str = "openid profile"  #: what the provider is asked for

    def __post_init__(self) -> None:
        for name in ("issuer", "client_id", "redirect_url", "role_claim", "scopes"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value.strip()):
                raise InvalidParameterError(f"{name} must be a text.")
        for name in ("issuer", "redirect_url"):
            _check_address(name, getattr(self, name))
        if urlsplit(self.redirect_url).path != CALLBACK:
            raise InvalidParameterError(f"redirect_url must end in {CALLBACK}.")
        if "openid" not in self.scopes.split():
            raise InvalidParameterError("scopes must contain openid.")
        for name in ("admins", "analysts"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        if not self.admins and not self.analysts:
            raise InvalidParameterError(
                "admins and analysts name nobody; give values of the claim "
                f"{self.role_claim!r}."
            )
        if self.client_secret_file is not None:
            path = Path(self.client_secret_file)
            object.__setattr__(self, "client_secret_file", path)


def _texts(name: str, values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(
        isinstance(value, str) and value for value in values
    ):
        raise InvalidParameterError(f"{name} must be a list of texts.")
    return tuple(values)


def _check_address(name: str, address: str) -> None:
    """Refuse an address that would send tokens unencrypted over a network."""
    found = urlsplit(address)
    secure = found.scheme == "https" and bool(found.hostname)
    local = found.scheme == "http" and found.hostname in _LOOPBACK
    if not (secure or local) or found.query or found.fragment:
        raise InvalidParameterError(
            f"{name} must be an https:// address without a query (http:// only on this "
            "machine)."
        )
