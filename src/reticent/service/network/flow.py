"""Whether bytes are taken from the network on a connection."""

from __future__ import annotations

from typing import Any

# Reasons to take no more, one bit each.
_UNWANTED, _HELD, _STALLED = 1, 2, 4


class Flow:
    """Lets bytes come unless somebody has a reason against it; what comes waits there.

    Attributes
    ----------
    transport : asyncio transport
        Of the connection, once it is made.
    """

    __slots__ = ("_reasons", "transport")

    def __init__(self) -> None:
        self.transport: Any = None
        self._reasons = 0

    @property
    def held(self) -> bool:
        """Whether something that was read already waits for its turn."""
        return bool(self._reasons & _HELD)

    def pause(self) -> None:
        """Take no more until `resume`: nobody wants it yet."""
        self._set(self._reasons | _UNWANTED)

    def resume(self) -> None:
        """Take more, unless there is another reason."""
        self._set(self._reasons & ~_UNWANTED)

    def hold(self) -> None:
        """Take no more until `release`: something waits."""
        self._set(self._reasons | _HELD)

    def release(self) -> None:
        """Take more, unless there is another reason: nothing waits any longer."""
        self._set(self._reasons & ~_HELD)

    def stall(self) -> None:
        """Take no more until `flow_again`: the other side does not read."""
        self._set(self._reasons | _STALLED)

    def flow_again(self) -> None:
        """Take more, unless there is another reason: the other side reads again."""
        self._set(self._reasons & ~_STALLED)

    def _set(self, reasons: int) -> None:
        before, self._reasons = self._reasons, reasons
        if bool(reasons) == bool(before) or self.transport.is_closing():
            return
        if reasons:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()
