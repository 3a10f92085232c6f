"""Files encrypted at rest: AES-256-GCM, each bound to its place in its model."""

from __future__ import annotations

import secrets

from reticent.errors import ModelFileError
from reticent.signing import AES, secret_bytes

_NONCE = 12
#: How much longer a sealed file is than its content.
OVERHEAD = _NONCE + 16


def seal(content: bytes, key: str | bytes, place: str) -> bytes:
    """Encrypt a file's content for one place."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    # Random nonces are safe for 2^32 files under one key; a model has a dozen.
    nonce = secrets.token_bytes(_NONCE)
    cipher = AESGCM(secret_bytes(key, AES))
    return nonce + cipher.encrypt(nonce, content, place.encode())


def unseal(sealed: bytes, key: str | bytes, place: str) -> bytes:
    """Decrypt a file, if it was sealed for this place with this key."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(secret_bytes(key, AES))
    try:
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place.encode())
    except (InvalidTag, ValueError):
        raise ModelFileError(
            f"{place} does not open with this encryption key; use the key it was "
            "saved with."
        ) from None
