"""One attempt to log in: what ties the provider's answer to the browser that asked."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass

_BYTES = 32


@dataclass(frozen=True, slots=True)
class Attempt:
    """Random texts that only one browser and this service know.

    Attributes
    ----------
    state : str
        Comes back in the address: the answer belongs to this browser.
    nonce : str
        Comes back in the ID token: the token was made for this attempt.
    verifier : str
        Goes with the code (PKCE): others who see the code cannot use it.
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def fresh(cls) -> Attempt:
        """Return a new attempt, of 256 bits each."""
        return cls(*(secrets.token_urlsafe(_BYTES) for _ in range(3)))

    @property
    def challenge(self) -> str:
        """What the provider is told beforehand about the verifier (S256)."""
        digest = hashlib.sha256(self.verifier.encode("ascii")).digest()
        return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")
