"""Who is asking, and what they may do."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request

from reticent.home import KeyRecord, Keyring, Registry, Role, ServedModel
from reticent.service.requests.limits import RateLimit
from reticent.service.requests.problems import ProblemError, plain

# Keys that are not in the cache are looked up in the database; guessing keys must not
# keep it busy. Keys in use have look-ups and threads of their own.
_LOOKUPS_PER_SECOND = 100.0
_MOST_REMEMBERED = 10_000
_IN_USE_SECONDS = 3600.0
_REFUSED_SECONDS = 1.0
_LONGEST_KEY = 256


class _Recent:
    """Keys seen lately, each until its time is over; the oldest are dropped first."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def add(self, mark: bytes) -> None:
        self._until[mark] = self._clock() + self._seconds
        self._until.move_to_end(mark)
        if len(self._until) > _MOST_REMEMBERED:
            self._until.popitem(last=False)

    def discard(self, mark: bytes) -> None:
        self._until.pop(mark, None)

    def __contains__(self, mark: bytes) -> bool:
        return self._until.get(mark, 0.0) > self._clock()


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
    clock : callable
        Returns seconds; it never goes back.
    """

    def __init__(
        self,
        keyring: Keyring,
        registry: Registry,
        limit: RateLimit,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.keyring = keyring
        self._registry = registry
        self._limit = limit
        self._lookups = RateLimit(
            _LOOKUPS_PER_SECOND, int(_LOOKUPS_PER_SECOND), clock=clock
        )
        self._looking: dict[str, asyncio.Future[KeyRecord | None]] = {}
        self._hidden = os.urandom(32)
        self._in_use = _Recent(_IN_USE_SECONDS, clock)
        self._refused = _Recent(_REFUSED_SECONDS, clock)
        self._threads = {
            known: ThreadPoolExecutor(2, "keys-in-use" if known else "other-keys")
            for known in (True, False)
        }

    def close(self) -> None:
        """End the threads that look keys up."""
        for pool in self._threads.values():
            pool.shutdown()

    async def identified(self, headers: Iterable[tuple[bytes, bytes]]) -> KeyRecord:
        """Return whose key a request carries, or refuse it with 401 or 429."""
        record = self.seen(headers)
        return record or await self.recognised(_key_of(headers))

    def knows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request carries a key that was recognised a moment ago."""
        key = _key_in(headers)
        return key is not None and self.keyring.cached(key) is not None

    def seen(self, headers: Iterable[tuple[bytes, bytes]]) -> KeyRecord | None:
        """Return whose key a request carries, if it was recognised a moment ago.

        A record that is soon too old is read again meanwhile, so that a busy client
        does not wait for that. Raises 401 if there is no key.
        """
        key = _key_of(headers)
        record = self.keyring.cached(key)
        if (
            record is not None
            and key not in self._looking
            and self.keyring.is_aging(record)
        ):
            with contextlib.suppress(ProblemError, RuntimeError):  # or stopping
                self._look_up(key)
        return record

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> ProblemError | None:
        """Return why a request is refused without looking its key up, else None."""
        # Nothing is raised here: an error that is caught keeps all frames of its
        # callers, for the garbage collector to find, and strangers come by hundreds.
        key = _key_in(headers)
        if key is None or len(key) > _LONGEST_KEY or not key.isascii():
            return plain(401)
        if self.keyring.cached(key) is not None or key in self._looking:
            return None
        mark = self._mark(key)
        if mark in self._refused:
            return plain(401)
        return None if mark in self._in_use else self._lookups.refusal("")

    def take_turn(self, record: KeyRecord) -> None:
        """Count a request, or refuse it with 429."""
        self._limit.take(record.client)

    def caller(self, request: Request) -> KeyRecord:
        """Return whose key a request carries; the gate has recognised it."""
        record: KeyRecord | None = request.scope.get("reticent.caller")
        if record is None:
            raise plain(401)
        return record

    async def recognised(self, key: str) -> KeyRecord:
        """Return whose key this is, by the store, or refuse it with 401.

        Concurrent requests with the same key share one lookup. Otherwise a busy client
        would cause many lookups each time its record is read again.
        """
        if len(key) > _LONGEST_KEY or not key.isascii():
            raise plain(401)
        lookup = self._looking.get(key)
        if lookup is not None:
            # If one request is cancelled, the others still get the answer.
            record = await asyncio.shield(lookup)
            if record is None or self.keyring.cached(key) is not None:
                return _valid(record)
            # It took longer than a record may be trusted.
            lookup = self._looking.get(key)
        return _valid(await asyncio.shield(lookup or self._look_up(key)))

    def _look_up(self, key: str) -> asyncio.Future[KeyRecord | None]:
        mark = self._mark(key)
        if mark in self._refused:
            raise plain(401)
        known = mark in self._in_use
        if not known:
            self._lookups.take("")
        loop = asyncio.get_running_loop()
        lookup = loop.run_in_executor(self._threads[known], self.keyring.recognise, key)
        self._looking[key] = lookup

        def done(found: asyncio.Future[KeyRecord | None]) -> None:
            self._looking.pop(key, None)
            if found.cancelled() or found.exception() is not None:
                return
            if found.result() is None:
                self._in_use.discard(mark)
                self._refused.add(mark)
            else:
                self._in_use.add(mark)

        lookup.add_done_callback(done)
        return lookup

    def mark(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return what the key of a request is told apart by; raise 401 if it has none.

        Equal keys have equal marks, and nobody can compute a key from its mark.
        """
        key = _key_of(headers)
        if not key.isascii():
            raise plain(401)
        return self._mark(key)

    def _mark(self, key: str) -> bytes:
        """Return what a key is remembered by, so that none stays in memory."""
        return hashlib.blake2b(key.encode("ascii"), key=self._hidden).digest()

    def model(self, record: KeyRecord, name: str) -> ServedModel:
        """Return a model that the key is for; for this key, others do not exist."""
        found = self._registry.models.get(name)
        if found is None or not record.may_ask(name):
            raise unknown_model()
        return found

    def models(self, record: KeyRecord) -> list[ServedModel]:
        """Return the models that the key is for."""
        return [model for model in self._registry if record.may_ask(model.name)]


def _valid(record: KeyRecord | None) -> KeyRecord:
    if record is None:
        raise plain(401)
    return record


def require_admin(record: KeyRecord) -> None:
    """Refuse a key that is not an admin's."""
    if record.role is not Role.ADMIN:
        raise plain(403, "this needs an admin's key.")


def unknown_model() -> ProblemError:
    """Return the error for a model that is not there, or not for this key."""
    return ProblemError(
        404,
        "unknown_model",
        "this key has no such model, or not in this version; GET /v1/models lists "
        "its models.",
    )


def _key_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the key of a request, or refuse it with 401."""
    key = _key_in(headers)
    if key is None:
        raise plain(401)
    return key


def _key_in(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the key of a request: a bearer's, else that of its own header."""
    bearer = own = None
    for name, value in headers:
        if name == b"authorization" and bearer is None:
            scheme, _, key = value.partition(b" ")
            bearer = key.strip() if scheme.lower() == b"bearer" else None
        elif name == b"x-api-key" and own is None:
            own = value
    found = own if bearer is None else bearer
    return found.decode("latin-1") if found else None
