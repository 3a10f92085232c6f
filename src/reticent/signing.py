"""Signatures, and keys as text that fits an environment variable or a file.

A key reads ``KIND:BASE64``: ``hmac-sha256`` signs and checks, ``ed25519-private``
signs, ``ed25519-public`` checks, ``aes-256-gcm`` encrypts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from reticent.errors import InvalidParameterError, LedgerError, ModelFileError

HMAC, ED25519_PRIVATE, ED25519_PUBLIC, AES = (
    "hmac-sha256",
    "ed25519-private",
    "ed25519-public",
    "aes-256-gcm",
)
_SHORTEST_KEY = 32
_LENGTH = 32
_LONGEST_FILE = 4096


class Signer(Protocol):
    """Makes and checks signatures with the operator's key."""

    algorithm: str

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        ...

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is of this message."""
        ...


class HMACSigner:
    """HMAC-SHA256 under a secret key of at least 32 bytes."""

    algorithm = "hmac-sha256"

    def __init__(self, key: bytes) -> None:
        if not (isinstance(key, bytes) and len(key) >= _SHORTEST_KEY):
            raise InvalidParameterError(
                f"the checkpoint key must be at least {_SHORTEST_KEY} random bytes."
            )
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return hmac.new(self._key, message, hashlib.sha256).digest()

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is of this message."""
        return hmac.compare_digest(self.sign(message), signature)


class Ed25519Signer:
    """Ed25519 under a private key of 32 bytes; others can check with `public_key`."""

    algorithm = "ed25519"

    def __init__(self, private_key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ed25519
        except ImportError:
            raise LedgerError(
                "Ed25519Signer needs cryptography: pip install 'reticent[serve]'."
            ) from None
        try:
            self._key = ed25519.Ed25519PrivateKey.from_private_bytes(private_key)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                "an Ed25519 private key is exactly 32 random bytes."
            ) from None

    @property
    def public_key(self) -> bytes:
        """The 32 bytes that check signatures."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self._key.sign(message)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is of this message."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.public_key().verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Ed25519Verifier:
    """Checks Ed25519 signatures with a public key of 32 bytes; cannot sign."""

    algorithm = Ed25519Signer.algorithm

    def __init__(self, public_key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric import ed25519

        try:
            self._key = ed25519.Ed25519PublicKey.from_public_bytes(public_key)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                "an Ed25519 public key is exactly 32 bytes."
            ) from None

    def sign(self, message: bytes) -> bytes:
        """Refuse: only the holder of the private key can sign."""
        raise InvalidParameterError(
            "an ed25519-public key checks signatures and cannot make them; sign with "
            "the ed25519-private key."
        )

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is of this message."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def new_key(kind: str = HMAC) -> str:
    """Return a fresh random key as text.

    Parameters
    ----------
    kind : {"hmac-sha256", "ed25519-private", "aes-256-gcm"}, default="hmac-sha256"
        What it is for.

    Examples
    --------
    >>> new_key().partition(":")[0]
    'hmac-sha256'
    """
    if kind not in {HMAC, ED25519_PRIVATE, AES}:
        raise InvalidParameterError(
            f"kind={kind!r} must be {HMAC!r}, {ED25519_PRIVATE!r} or {AES!r}."
        )
    return _text(kind, secrets.token_bytes(_LENGTH))


def public_key(private: str) -> str:
    """Return the key that checks what an ``ed25519-private`` key signs."""
    kind, raw = _parts(private)
    if kind != ED25519_PRIVATE:
        raise InvalidParameterError(
            f"a public key belongs to an {ED25519_PRIVATE} key; got kind={kind!r}."
        )
    return _text(ED25519_PUBLIC, Ed25519Signer(raw).public_key)


def signer_of(key: str | bytes | Signer) -> Signer:
    """Return the signer for a key that is given as text, as bytes or as a signer.

    Plain bytes, at least 32 of them, are an HMAC key.
    """
    if isinstance(key, bytes):
        return HMACSigner(key)
    if not isinstance(key, str):
        return key
    kind, raw = _parts(key)
    makers: dict[str, Callable[[bytes], Signer]] = {
        HMAC: HMACSigner,
        ED25519_PRIVATE: Ed25519Signer,
        ED25519_PUBLIC: Ed25519Verifier,
    }
    if kind not in makers:
        raise InvalidParameterError(
            f"a key of kind={kind!r} does not sign; use {', '.join(makers)}."
        )
    return makers[kind](raw)


def secret_bytes(key: str | bytes, kind: str) -> bytes:
    """Return the 32 or more secret bytes of a key of one kind."""
    if isinstance(key, bytes):
        raw = key
    else:
        found, raw = _parts(key)
        if found != kind:
            raise InvalidParameterError(f"a {kind} key is needed; got kind={found!r}.")
    if not (len(raw) == _LENGTH or (kind == HMAC and len(raw) > _LENGTH)):
        raise InvalidParameterError(f"a {kind} key needs {_LENGTH} random bytes.")
    return raw


def read_key_file(path: str | os.PathLike[str]) -> str:
    """Return the key in a file that only its owner can read."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise ModelFileError(
            f"the key file {os.fspath(path)!r} cannot be read: {error.strerror}."
        ) from None
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_mode & 0o077:
            raise ModelFileError(
                f"the key file {os.fspath(path)!r} must be a plain file that only its "
                "owner can read: set its mode to 600."
            )
        if state.st_uid not in {os.geteuid(), 0}:
            raise ModelFileError(
                f"the key file {os.fspath(path)!r} belongs to the user with "
                f"uid={state.st_uid}, who can change it; run chown {os.geteuid()} "
                f"{os.fspath(path)}."
            )
        raw = os.read(handle, _LONGEST_FILE)
    finally:
        os.close(handle)
    text = raw.decode("ascii", "replace").strip()
    _parts(text)
    return text


def write_key_file(path: str | os.PathLike[str], key: str) -> None:
    """Write a key to a new file that only its owner can read."""
    _parts(key)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise ModelFileError(
            f"the key file {os.fspath(path)!r} cannot be made: {error.strerror}."
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(key.encode("ascii") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def key_from(text: str | None, path: str | Path | None, what: str) -> str | None:
    """Return the key given as text or as a file; refuse both at once."""
    if text is not None and path is not None:
        raise InvalidParameterError(f"{what} is given twice, as text and as a file.")
    return read_key_file(path) if path is not None else text


def _text(kind: str, raw: bytes) -> str:
    return f"{kind}:{base64.b64encode(raw).decode('ascii')}"


def _parts(text: str) -> tuple[str, bytes]:
    """Split a key; no part of it is ever quoted in an error."""
    kind, colon, encoded = text.partition(":")
    try:
        raw = base64.b64decode(encoded.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raw = b""
    if not (colon and kind in {HMAC, ED25519_PRIVATE, ED25519_PUBLIC, AES} and raw):
        raise InvalidParameterError(
            f"a key reads KIND:BASE64 with KIND one of {HMAC}, {ED25519_PRIVATE}, "
            f"{ED25519_PUBLIC}, {AES}; make one with new_key(kind)."
        )
    return kind, raw
