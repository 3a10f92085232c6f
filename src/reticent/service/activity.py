"""What was charged when, and to whom, read from the ledger's entries."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from reticent.ledger import NO_SPEND, Entry, Ledger, Spend

# Entries taken in one go, so that a long ledger does not hold a page up.
_AT_ONCE = 20_000
#: Seconds of the finest steps in which charges are counted.
HOUR = 3600
_CLIENTS = "client:"

Hours: TypeAlias = dict[int, Spend]


class Activity:
    """Charges hour by hour: to each account, and by client and certificate.

    It reads what is new in the ledger each time it is asked, in order.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._accounts: dict[str, Hours] = defaultdict(dict)
        # What clients asked for, without fits, releases and measurements.
        self._answers: dict[str, Hours] = defaultdict(dict)
        self._asked: dict[tuple[str, str], Hours] = defaultdict(dict)
        self._lock = threading.Lock()
        self.last = 0

    def update(self) -> bool:
        """Read on; return whether the end was reached."""
        with self._lock:
            fresh = self._ledger.entries(after=self.last)
            for taken, entry in enumerate(fresh, 1):
                self._take(entry)
                self.last = entry.sequence
                if taken >= _AT_ONCE:
                    return False
            return True

    def spent(
        self, account: str, starts: Iterable[int], *, by_clients: bool = False
    ) -> list[Spend]:
        """Return what an account was charged in each step, the hours before them first.

        Parameters
        ----------
        account : str
            The account.
        starts : iterable of int
            The hours with which steps begin, and the one with which the last ends.
        by_clients : bool, default=False
            Whether only charges for a client's questions count, and no fit or release.
        """
        table = self._answers if by_clients else self._accounts
        with self._lock:
            return _steps([table.get(account, {})], list(starts))

    def asked(
        self, starts: Iterable[int], *, client: str | None = None
    ) -> dict[tuple[str, str], list[int]]:
        """Return the answers charged in each step, by client and certificate.

        With `client`, all others are left out.
        """
        wanted = list(starts)
        with self._lock:
            found = {
                who: [spend.answers for spend in _steps([hours], wanted)[1:]]
                for who, hours in self._asked.items()
                if client in (None, who[0])
            }
        return {who: counts for who, counts in found.items() if any(counts)}

    def _take(self, entry: Entry) -> None:
        if not entry.is_charge:
            return
        content = entry.content()
        hour = int(content.get("time", 0)) // HOUR
        costs = entry.costs()
        asked = any(account.startswith(_CLIENTS) for account in costs)
        for account, cost in costs.items():
            _add(self._accounts[account], hour, cost)
            if asked:
                _add(self._answers[account], hour, cost)
            scope, _, name = account.partition(":")
            if scope == "client":
                _add(self._asked[name, str(content["certificate"])], hour, cost)


def _add(hours: Hours, hour: int, cost: Spend) -> None:
    hours[hour] = hours.get(hour, NO_SPEND).plus(cost)


def _steps(tables: Iterable[Hours], starts: list[int]) -> list[Spend]:
    """Return the sum before the first start, then those from start to start."""
    sums = [NO_SPEND] * len(starts)
    for hours in tables:
        for hour, cost in hours.items():
            place = bisect_right(starts, hour)
            if place < len(starts):
                sums[place] = sums[place].plus(cost)
    return sums
