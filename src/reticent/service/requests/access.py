"""Who is asking, and may they."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from reticent.home import KeyRecord, Keyring, Registry, Role, ServedModel
from reticent.service.requests.limits import RateLimit
from reticent.service.requests.problems import ProblemError, plain

# Keys that are not in the cache are looked up in the database; guessing keys must not
# keep it busy. Keys in use are not affected.
_LOOKUPS_PER_SECOND = 200.0


class Access:
    """Recognises keys, limits their rate, and says what they may do.

    Parameters
    ----------
    keyring : Keyring
        Knows the keys.
    registry : Registry
        Knows the models.
    limit : RateLimit
        Requests a client may send.
    """

    def __init__(self, keyring: Keyring, registry: Registry, limit: RateLimit) -> None:
        self.keyring = keyring
        self._registry = registry
        self._limit = limit
        self._lookups = RateLimit(_LOOKUPS_PER_SECOND, int(_LOOKUPS_PER_SECOND))
        self._looking: dict[str, asyncio.Future[KeyRecord | None]] = {}

    async def caller(self, request: Request) -> KeyRecord:
        """Return whose key the request carries, or refuse it with 401."""
        key = _key_of(request)
        record = self.keyring.cached(key)
        if record is None:
            record = await self.recognised(key)
        request.scope["reticent.outcome"]["client"] = record.client
        self._limit.take(record.client)
        return record

    async def recognised(self, key: str) -> KeyRecord:
        """Return whose key this is, by the store, or refuse it with 401.

        Concurrent requests with the same key share one lookup. Otherwise a busy client
        would cause many lookups each time its record is read again.
        """
        lookup = self._looking.get(key)
        if lookup is None:
            self._lookups.take("")
            lookup = asyncio.ensure_future(
                asyncio.to_thread(self.keyring.recognise, key)
            )
            self._looking[key] = lookup
            lookup.add_done_callback(lambda _: self._looking.pop(key, None))
        # If one request is cancelled, the others still get the answer.
        record = await asyncio.shield(lookup)
        if record is None:
            raise plain(401)
        return record

    async def admin(self, request: Request) -> KeyRecord:
        """Return whose key the request carries, if it is an admin's."""
        record = await self.caller(request)
        require_admin(record)
        return record

    def model(self, record: KeyRecord, name: str) -> ServedModel:
        """Return a model that the key is for; others are not there for it."""
        found = self._registry.models.get(name)
        if found is None or not record.may_ask(name):
            raise unknown_model()
        return found

    def models(self, record: KeyRecord) -> list[ServedModel]:
        """Return the models that the key is for."""
        return [model for model in self._registry if record.may_ask(model.name)]


def require_admin(record: KeyRecord) -> None:
    """Refuse a key that is not an admin's."""
    if record.role is not Role.ADMIN:
        raise plain(403, "this needs an admin's key.")


def unknown_model() -> ProblemError:
    """Return the error for a model that is not there, or not for this key."""
    return ProblemError(404, "unknown_model", "there is no such model for this key.")


def _key_of(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    key = request.headers.get("x-api-key", "")
    if not key:
        raise plain(401)
    return key
