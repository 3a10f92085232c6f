"""Random names for requests: many are made at once, each is handed out once."""

from __future__ import annotations

import os

_BYTES = 16
_AT_ONCE = 256


class _Ready:
    """Names that were not handed out yet, and the process that made them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.owner = 0

    def take(self) -> str:
        """Return 128 random bits as 32 hexadecimal digits.

        The system is asked for many at a time: a call for each would let other threads
        take the interpreter's lock each time. A name is taken in one step, so no two
        threads get the same one, and a forked process makes new ones.
        """
        if self.owner != os.getpid():
            self.names, self.owner = [], os.getpid()
        try:
            return self.names.pop()
        except IndexError:
            digits = os.urandom(_BYTES * _AT_ONCE).hex()
            width = 2 * _BYTES
            fresh = [digits[k : k + width] for k in range(0, len(digits), width)]
            taken = fresh.pop()
            self.names.extend(fresh)
            return taken


_ready = _Ready()
random_name = _ready.take
