"""Requests that wait on one connection while another is answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.service.network.exchanges import Exchange
    from reticent.service.network.limits import Limits


class Pipeline:
    """Requests that wait, in order.

    Parameters
    ----------
    limits : Limits
        How many may wait. Those of a stranger have no more room than the head of one:
        hundreds of strangers may send, and not read.
    """

    __slots__ = ("_limits", "_room", "_waiting")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: deque[Exchange] = deque()
        self._room = limits.head

    def __len__(self) -> int:
        return len(self._waiting)

    def takes(self, size: int, *, stranger: bool) -> bool:
        """Return whether there is room for one more, with a head of this size."""
        fits = size <= self._room or not stranger
        return fits and len(self._waiting) < self._limits.pipelined

    def add(self, exchange: Exchange, size: int) -> None:
        """Let one more wait."""
        self._waiting.append(exchange)
        self._room -= size

    def next(self) -> Exchange:
        """Return the first one, which no longer waits."""
        first = self._waiting.popleft()
        if not self._waiting:
            self._room = self._limits.head
        return first

    def drop(self) -> None:
        """Let go of all: nobody will answer them."""
        while self._waiting:
            self.next().leave()
