"""ID tokens: whose they are is believed only after every check of OpenID Connect."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import jwt

from reticent.home import OidcSettings
from reticent.service.requests.problems import ProblemError

# Signatures that need the provider's private key. With a shared secret, or none, a
# token proves nothing.
_KEY_TYPES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
_NEEDED = ["exp", "iat", "iss", "aud", "sub", "nonce"]
#: Seconds that the clocks of provider and service may differ.
LEEWAY = 60


def key_named(token: str, keys: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the one published key that can have signed a token.

    Raises
    ------
    LookupError
        If there is none: the provider may have new keys.
    """
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise refused("its header cannot be read") from None
    algorithm = header.get("alg")
    if algorithm not in _KEY_TYPES:
        raise refused("it is not signed with a private key")
    fitting = [
        key
        for key in keys
        if key.get("kty") == _KEY_TYPES[algorithm]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and header.get("kid") in (None, key.get("kid"))
    ]
    if len(fitting) != 1:
        raise LookupError
    return fitting[0]


def checked_claims(
    token: str, key: Mapping[str, Any], settings: OidcSettings, nonce: str
) -> dict[str, Any]:
    """Return the claims of an ID token, or refuse it.

    Parameters
    ----------
    token : str
        The ID token.
    key : mapping
        The provider's key for it.
    settings : OidcSettings
        Who must have made it, and for whom.
    nonce : str
        That of the attempt.

    Guarantee
    ---------
    The token is signed by a private key whose public one the provider publishes; it was
    made by this issuer, for this client alone or with it as the authorised party, for
    this attempt to log in; it has not expired, and is not from the future.
    """
    algorithm = jwt.get_unverified_header(token)["alg"]
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            jwt.PyJWK.from_dict(dict(key), algorithm).key,
            algorithms=[algorithm],
            audience=settings.client_id,
            issuer=settings.issuer,
            leeway=LEEWAY,
            options={"require": _NEEDED},
        )
    except jwt.PyJWTError as error:
        raise refused(type(error).__name__) from None
    told = claims["nonce"]
    if not (
        isinstance(told, str) and hmac.compare_digest(told.encode(), nonce.encode())
    ):
        raise refused("it was made for another login")
    parties = claims["aud"]
    several = isinstance(parties, list) and len(parties) > 1
    if claims.get("azp", None if several else settings.client_id) != settings.client_id:
        raise refused("it was made for another party")
    if not (isinstance(claims["sub"], str) and claims["sub"]):
        raise refused("it names nobody")
    return claims


def refused(why: str) -> ProblemError:
    """Return the error of a login that must not be believed."""
    return ProblemError(
        403,
        "sign_in_refused",
        f"the provider's answer was not believed: {why}. Log in again.",
    )
