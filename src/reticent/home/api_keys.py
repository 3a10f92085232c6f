"""API keys: 256 random bits each, of which only a keyed hash is kept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import math
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from reticent._clock import milliseconds, seconds
from reticent._numbers import whole
from reticent._text import checked_name
from reticent.errors import InvalidParameterError

log = logging.getLogger("reticent.home")
# The beginning of digests that also cover the times of a key.
_DIGEST = "2:"
_FORM = re.compile(r"rk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class Role(Enum):
    """What a key is for."""

    #: Asks questions.
    ANALYST = "analyst"
    #: Also makes and revokes keys, and sets caps.
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """What is known about a key; nothing in it grants access."""

    id: str  #: its public part
    client: str  #: who holds it; all keys of a client spend from one account
    role: Role  #: what it is for
    models: tuple[str, ...] | None  #: the models it may ask; None for all
    #: Keyed hash of the secret part together with all of the above: a record whose role
    #: is edited in the database no longer matches any key.
    digest: str
    #: When it was made and when it expires, in seconds since 1970.
    created: int
    expires: int | None = None
    revoked: bool = False  #: whether it was revoked
    #: Keyed hash of all of the above, for those who do not see the secret part. A
    #: record with another seal is not trusted.
    seal: str = field(default="", compare=False)

    @property
    def who(self) -> str:
        """Who acts with it, as the ledger's chain names them."""
        same = self.id == self.client
        return self.client if same else f"{self.client} ({self.id})"

    def facts(self) -> dict[str, Any]:
        """Return what the ledger's chain says about it."""
        known = self.as_dict()
        return {name: known[name] for name in known if name != "revoked"}

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the hash."""
        return {
            "id": self.id,
            "client": self.client,
            "role": self.role.value,
            "models": None if self.models is None else list(self.models),
            "created": self.created,
            "expires": self.expires,
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

    def replace(self, record: KeyRecord) -> bool:
        """Replace the record with the same id; return whether there was one."""
        ...

    def take_over(self, seal: Callable[[KeyRecord], KeyRecord]) -> None:
        """Seal the records that an older version kept without a seal."""
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

    def replace(self, record: KeyRecord) -> bool:
        """Replace the record with the same id; return whether there was one."""
        known = self._records.get(record.id)
        if known is not None:
            self._records[record.id] = record
        return known is not None

    def take_over(self, seal: Callable[[KeyRecord], KeyRecord]) -> None:
        """Do nothing: no older version kept records in memory."""

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
        Returns seconds; it never goes back.

    Guarantee
    ---------
    A key is 256 bits of the operating system's randomness. Neither the key nor
    anything that grants access is stored. It is recognised by comparing hashes in
    constant time; an unknown, a wrong, a revoked and an expired key look the same from
    outside. Whoever edits a record without the pepper makes the key useless. Somebody
    who can write the database and kept a record from before its revocation can put
    that record back.
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
        self._revocations, self._lock = 0, threading.Lock()
        store.take_over(self._sealed)

    def create(
        self,
        client: str,
        role: Role = Role.ANALYST,
        *,
        models: tuple[str, ...] | None = None,
        days: int | None = None,
        first: Callable[[KeyRecord], object] = lambda record: None,
    ) -> tuple[str, KeyRecord]:
        """Make a key; its text is returned once and never kept.

        Parameters
        ----------
        client, role, models
            See `KeyRecord`.
        days : int or None, default=None
            How long it is valid; None for no limit.
        first : callable
            Called with the record before it is kept, to write the act down.
        """
        if days is not None:
            whole("a key", "days", days)
        if models is not None and not models:
            raise InvalidParameterError("models must name at least one model, or none.")
        key_id, secret = secrets.token_hex(8), secrets.token_bytes(32)
        text = base64.urlsafe_b64encode(secret).decode("ascii").rstrip("=")
        record = KeyRecord(
            id=key_id,
            client=checked_name("client", client),
            role=role,
            models=None if models is None else tuple(sorted(set(models))),
            digest=_DIGEST,
            created=(now := seconds()),
            expires=None if days is None else now + 86_400 * days,
        )
        record = self._sealed(replace(record, digest=self._digest(record, text)))
        first(record)
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

    def is_aging(self, record: KeyRecord) -> bool:
        """Return whether a record in the cache should be read again soon."""
        known = self._known.get(record.id)
        return known is not None and known[0] < self._clock() + self._cache_seconds / 2

    def recognise(self, key: str) -> KeyRecord | None:
        """Return the record of a key that is right and valid. Reads the store."""
        form = _FORM.fullmatch(key)
        if form is None:
            return None
        revocations, begun = self._revocations, self._clock()
        record = self.store.find(form[1])
        # The same work is done for keys that do not exist.
        wanted = record if record is not None else _NOBODY
        right = hmac.compare_digest(self._digest(wanted, form[2]), wanted.digest)
        if record is None or not (right and self._holds(record)):
            self._known.pop(form[1], None)
            return None
        left = math.inf
        if record.expires is not None:
            left = record.expires - milliseconds() / 1000
        # From when it was read: another worker may have revoked it since.
        until = begun + min(self._cache_seconds, left)
        with self._lock:
            if revocations == self._revocations:
                self._known[form[1]] = (until, record, self._quick(key))
                return record
        return self.recognise(key)  # a key was revoked meanwhile, perhaps this one

    def revoke(self, key_id: str) -> bool:
        """Revoke a key, at once in this process; return whether there is one."""
        record = self.store.find(key_id)
        done = record is not None and self.store.replace(
            self._sealed(replace(record, revoked=True))
        )
        with self._lock:
            self._revocations += 1
            self._known.pop(key_id, None)
        return done

    def current(self, key_id: str) -> KeyRecord | None:
        """Return the record of a valid key, by its public part."""
        record = self.store.find(key_id)
        return record if record is not None and self._holds(record) else None

    def records(self) -> list[KeyRecord]:
        """Return all records, oldest first; leave out those that somebody edited."""
        found = self.store.all()
        genuine = [record for record in found if self._is_genuine(record)]
        if len(genuine) < len(found):
            fields = {"records": len(found) - len(genuine)}
            log.warning(
                "API keys were edited in the database", extra={"fields": fields}
            )
        return genuine

    def _holds(self, record: KeyRecord) -> bool:
        """Return whether a record is as we wrote it, not revoked and not expired."""
        over = record.expires is not None and record.expires <= seconds()
        return self._is_genuine(record) and not record.revoked and not over

    def _is_genuine(self, record: KeyRecord) -> bool:
        return hmac.compare_digest(self._sealed(record).seal, record.seal)

    def _sealed(self, record: KeyRecord) -> KeyRecord:
        facts = [*_facts(record), record.created, record.expires, record.revoked]
        return replace(record, seal=self._keyed(["seal", *facts, record.digest]))

    def _quick(self, key: str) -> bytes:
        # For the cache alone. Unlike hmac it keeps the interpreter's lock, and so
        # does not make a request wait for the ledger's thread.
        return hashlib.blake2b(key.encode("ascii"), key=self._pepper).digest()

    def _digest(self, record: KeyRecord, secret: str) -> str:
        if not record.digest.startswith(_DIGEST):  # of a key that an older version made
            return self._keyed([*_facts(record), secret])
        times = [record.created, record.expires]
        return _DIGEST + self._keyed(["digest", *_facts(record), *times, secret])

    def _keyed(self, facts: list[Any]) -> str:
        message = json.dumps(facts, separators=(",", ":")).encode()
        return hmac.new(self._pepper, message, hashlib.sha256).hexdigest()


def known_key(keyring: Keyring, key_id: str) -> KeyRecord:
    """Return the record of a key, or say that there is none."""
    found = keyring.store.find(key_id)
    if found is None:
        raise InvalidParameterError(
            f"there is no key {key_id!r}; 'reticent keys list' shows them."
        )
    return found


def _facts(record: KeyRecord) -> list[Any]:
    return [record.id, record.client, record.role.value, record.models]


_NOBODY = KeyRecord(
    id="0" * 16, client="-", role=Role.ANALYST, models=None, digest=_DIGEST, created=0
)
