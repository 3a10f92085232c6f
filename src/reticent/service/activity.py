"""How many answers were charged when, read from the ledger's own entries."""

from __future__ import annotations

import threading
from collections import Counter

from reticent.ledger import Entry, Ledger

# Entries taken in one go, so that a long ledger does not hold a page up.
_AT_ONCE = 20_000
_HOUR = 3600


class Activity:
    """Answers charged to each account, hour by hour.

    It reads what is new in the ledger each time it is asked, in order.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read = 0
        self._counts: dict[str, Counter[int]] = {}
        self._lock = threading.Lock()

    def update(self) -> bool:
        """Read on; return whether the end was reached."""
        with self._lock:
            fresh = self._ledger.entries(after=self._read)
            for taken, entry in enumerate(fresh, 1):
                self._take(entry)
                self._read = entry.sequence
                if taken >= _AT_ONCE:
                    return False
            return True

    def answers(self, account: str, *, now: int, hours: int) -> list[int]:
        """Return the answers charged in each of the last hours, the latest last."""
        last = now // _HOUR
        with self._lock:
            counts = self._counts.get(account, Counter())
            return [counts[place] for place in range(last - hours + 1, last + 1)]

    def _take(self, entry: Entry) -> None:
        if entry.kind != "charge":
            return
        place = int(entry.content().get("time", 0)) // _HOUR
        for account, cost in entry.costs().items():
            self._counts.setdefault(account, Counter())[place] += cost.answers
