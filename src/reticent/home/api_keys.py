"""API keys: 256 random bits each, of which only a keyed hash is kept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from reticent._text import checked_name
from reticent.errors import InvalidParameterError

_FORM = re.compile(r"rk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class Role(Enum):
    """What a key is for."""

    #: Asks questions.
    ANALYST = "analyst"
    #: Also makes and revokes keys, and sets caps.
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """What is known about a key; nothing in it grants access.

    Attributes
    ----------
    id : str
        Its public part.
    client : str
        Who holds it; all keys of a client spend from one account.
    role : Role
        What it is for.
    models : tuple of str or None
        The models it may ask; None for all.
    digest : str
        Keyed hash of the secret part together with all of the above: a record whose
        role is edited in the database matches no key any more.
    created : int
        When, in seconds since 1970.
    revoked : bool
        Whether it was revoked.
    """

    id: str
    client: str
    role: Role
    models: tuple[str, ...] | None
    digest: str
    created: int
    revoked: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the hash."""
        return {
            "id": self.id,
            "client": self.client,
            "role": self.role.value,
            "models": None if self.models is None else list(self.models),
            "created": self.created,
            "revoked": self.revoked,
        }

    def may_ask(self, model: str) -> bool:
        """Return whether the key is for this model."""
        return self.models is None or model in self.models


class KeyStore(Protocol):
    """Where records of keys are kept."""

    def add(self, record: KeyRecord) -> None:
        """Keep a new record durably."""
        ...

    def find(self, key_id: str) -> KeyRecord | None:
        """Return a record by the key's public part."""
        ...

    def revoke(self, key_id: str) -> bool:
        """Revoke a key for good; return whether there is one."""
        ...

    def all(self) -> list[KeyRecord]:
        """Return all records, oldest first."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


class MemoryKeys:
    """Records of keys that last as long as the process."""

    def __init__(self) -> None:
        self._records: dict[str, KeyRecord] = {}

    def add(self, record: KeyRecord) -> None:
        """Keep a new record."""
        self._records[record.id] = record

    def find(self, key_id: str) -> KeyRecord | None:
        """Return a record by the key's public part."""
        return self._records.get(key_id)

    def revoke(self, key_id: str) -> bool:
        """Revoke a key for good; return whether there is one."""
        known = self._records.get(key_id)
        if known is not None:
            self._records[key_id] = replace(known, revoked=True)
        return known is not None

    def all(self) -> list[KeyRecord]:
        """Return all records, oldest first."""
        return list(self._records.values())

    def close(self) -> None:
        """Do nothing: there are no connections."""


class Keyring:
    """Makes keys and recognises them.

    Parameters
    ----------
    store : KeyStore
        Where records are kept.
    pepper : bytes
        The secret of the keyed hash; without it nobody can test a guess.
    cache_seconds : float
        How long a record is trusted before it is read again.
    clock : callable
        Seconds that only grow.

    Guarantee
    ---------
    A key is 256 bits of the operating system's randomness. Neither the key nor
    anything that grants access is stored. It is recognised by comparing hashes in
    constant time; an unknown, a wrong and a revoked key look the same from outside.
    """

    def __init__(
        self,
        store: KeyStore,
        pepper: bytes,
        *,
        cache_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self._pepper = pepper
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._known: dict[str, tuple[float, KeyRecord, bytes]] = {}

    def create(
        self,
        client: str,
        role: Role = Role.ANALYST,
        *,
        models: tuple[str, ...] | None = None,
    ) -> tuple[str, KeyRecord]:
        """Make a key; its text is returned once and never kept."""
        if models is not None and not models:
            raise InvalidParameterError("models must name at least one model, or none.")
        key_id, secret = secrets.token_hex(8), secrets.token_bytes(32)
        text = base64.urlsafe_b64encode(secret).decode("ascii").rstrip("=")
        record = KeyRecord(
            id=key_id,
            client=checked_name("client", client),
            role=role,
            models=None if models is None else tuple(sorted(set(models))),
            digest="",
            created=int(time.time()),
        )
        record = replace(record, digest=self._digest(record, text))
        self.store.add(record)
        return f"rk_{key_id}_{text}", record

    def cached(self, key: str) -> KeyRecord | None:
        """Recognise a key seen a moment ago, without asking the store."""
        form = _FORM.fullmatch(key)
        if form is None:
            return None
        known = self._known.get(form[1])
        if known is None or known[0] < self._clock():
            return None
        return known[1] if hmac.compare_digest(known[2], self._quick(key)) else None

    def recognise(self, key: str) -> KeyRecord | None:
        """Return the record of a key that is right and not revoked. Reads the store."""
        form = _FORM.fullmatch(key)
        if form is None:
            return None
        record = self.store.find(form[1])
        # The same work is done for keys that do not exist.
        wanted = record if record is not None else _NOBODY
        right = hmac.compare_digest(self._digest(wanted, form[2]), wanted.digest)
        if record is None or record.revoked or not right:
            self._known.pop(form[1], None)
            return None
        until = self._clock() + self._cache_seconds
        self._known[form[1]] = (until, record, self._quick(key))
        return record

    def revoke(self, key_id: str) -> bool:
        """Revoke a key, at once in this process."""
        done = self.store.revoke(key_id)
        self._known.pop(key_id, None)
        return done

    def current(self, key_id: str) -> KeyRecord | None:
        """Return the record of a key that is not revoked, by its public part."""
        record = self.store.find(key_id)
        return None if record is None or record.revoked else record

    def _quick(self, key: str) -> bytes:
        # For the cache alone. Unlike hmac it keeps the interpreter's lock, and so
        # does not make a request wait for the ledger's thread.
        return hashlib.blake2b(key.encode("ascii"), key=self._pepper).digest()

    def _digest(self, record: KeyRecord, secret: str) -> str:
        facts = [record.id, record.client, record.role.value, record.models, secret]
        message = json.dumps(facts, separators=(",", ":")).encode()
        return hmac.new(self._pepper, message, hashlib.sha256).hexdigest()


_NOBODY = KeyRecord(
    id="0" * 16, client="-", role=Role.ANALYST, models=None, digest="-", created=0
)
