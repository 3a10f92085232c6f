"""How much one client, and all of them, may ask of a worker at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from reticent.service.requests.problems import ProblemError

_MOST_BUCKETS = 100_000
# Requests per second of all who have shown neither a key nor a login, and lines that
# the log has for them: nobody without a key can keep a worker busy or fill a disk.
_STRANGERS_PER_SECOND = 100
_LINES_PER_SECOND = 20


class RateLimit:
    """Token buckets: `rate` requests per second each, `burst` at once.

    Parameters
    ----------
    rate : float
        Tokens that a bucket gains in a second; 0 sets no limit.
    burst : int
        Tokens that a bucket holds.
    clock : callable
        Returns seconds; it never goes back.
    """

    def __init__(
        self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Take a token, or refuse with 429 and say when the next one comes."""
        refusal = self.refusal(name, take=True)
        if refusal is not None:
            raise refusal

    def refusal(self, name: str, *, take: bool = False) -> ProblemError | None:
        """Return why there is no token, None if there is one; perhaps take it."""
        if not self._rate:
            return None
        now = self._clock()
        tokens, since = self._buckets.get(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        if tokens < 1.0:
            self._buckets[name] = (tokens, now)
            wait = max(1, -int(-(1.0 - tokens) // self._rate))
            return ProblemError(
                429,
                "rate_limited",
                f"more than {self._rate:g} requests per second; nothing was charged.",
                details={"rate": self._rate, "burst": int(self._burst)},
                headers={"retry-after": str(wait)},
            )
        if take:
            if len(self._buckets) >= _MOST_BUCKETS:
                self._forget(now)
            self._buckets[name] = (tokens - 1.0, now)
        return None

    def _forget(self, now: float) -> None:
        """Drop the buckets that are full again: nobody can tell the difference."""
        full = [
            name
            for name, (tokens, since) in self._buckets.items()
            if tokens + (now - since) * self._rate >= self._burst
        ]
        for name in full:
            del self._buckets[name]


class Strangers:
    """Callers who have shown neither a key nor a login: requests, and lines in the log.

    Parameters
    ----------
    clock : callable
        Returns seconds; it never goes back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        rate, lines = _STRANGERS_PER_SECOND, _LINES_PER_SECOND
        self._requests = RateLimit(rate, 2 * rate, clock=clock)
        self._lines = RateLimit(lines, 5 * lines, clock=clock)
        self._unlogged = 0

    def refusal(self) -> ProblemError | None:
        """Return why a request for a page is refused at once, else None."""
        return self._requests.refusal("")

    def take_turn(self) -> None:
        """Count a request for a page, or refuse it with 429."""
        self._requests.take("")

    def noted(self, line: dict[str, Any]) -> bool:
        """Return whether the log has room for a line; it says how many had none."""
        if self._lines.refusal("", take=True) is not None:
            self._unlogged += 1
            return False
        if self._unlogged:
            line["unlogged"], self._unlogged = self._unlogged, 0
        return True


class Gate:
    """Admits a limited number of requests at a time; refuses others before any charge.

    Callers with a key have slots of their own: however many others come, they take
    none of them. One client may have three quarters of the slots; the rest is there for
    others.

    Parameters
    ----------
    most : int
        The largest number of requests at a time of callers who have shown a key.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_each = most - most // 4
        self._most_strangers = max(4, most // 8)
        self._clients: dict[str, int] = {}
        self.inside = 0
        self.strangers = 0
        self.closing = False

    @property
    def full(self) -> bool:
        """Whether the next caller with a key would be refused."""
        return self.inside >= self._most

    def room(self, client: str) -> int:
        """Return how many requests of a client with a key would be admitted now."""
        if self.closing:
            return 0
        own = self._clients.get(client, 0)
        return max(0, min(self._most - self.inside, self._most_each - own))

    def enter(self, client: str, requests: int = 1) -> None:
        """Admit requests of a client with a key, or refuse them with 503."""
        own = self._clients.get(client, 0) + requests
        inside = self.inside + requests
        if self.closing or inside > self._most or own > self._most_each:
            raise self._busy()
        self._clients[client] = own
        self.inside = inside

    def leave(self, client: str) -> None:
        """Count a request that has been answered."""
        self.inside -= 1
        own = self._clients[client] - 1
        if own:
            self._clients[client] = own
        else:
            del self._clients[client]  # so that only those inside are remembered

    def enter_stranger(self) -> None:
        """Admit a request without a key, or refuse it with 503."""
        if self.closing or self.strangers >= self._most_strangers:
            raise self._busy()
        self.strangers += 1

    def leave_stranger(self) -> None:
        """Count a request without a key that has been answered."""
        self.strangers -= 1

    def _busy(self) -> ProblemError:
        return ProblemError(
            503,
            "shutting_down" if self.closing else "overloaded",
            "this worker is "
            + ("stopping" if self.closing else "busy")
            + "; nothing was charged. Retry in a moment.",
            headers={"retry-after": "1"},
        )
