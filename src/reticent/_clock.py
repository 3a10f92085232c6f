"""The time of day, with an error that says so if the machine's clock is impossible."""

from __future__ import annotations

import time

from reticent.errors import LedgerError


def milliseconds() -> int:
    """Return milliseconds since 1970.

    Raises
    ------
    LedgerError
        If the clock shows a time that programs cannot read, such as one beyond the year
        2262.
    """
    try:
        return time.time_ns() // 1_000_000
    except (OverflowError, OSError):
        pass
    raise LedgerError(
        "the clock of this machine shows a time that cannot be read, perhaps beyond "
        "the year 2262; set the clock and start again."
    )


def seconds() -> int:
    """Return whole seconds since 1970; raise as `milliseconds` does."""
    return milliseconds() // 1000
