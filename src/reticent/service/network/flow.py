"""Whether bytes are taken from the network on a connection."""

from __future__ import annotations

from typing import Any


class Flow:
    """Lets bytes come unless somebody has a reason against it; what comes waits there.

    Attributes
    ----------
    transport : asyncio transport
        Of the connection, once it is made.
    held : bool
        Whether something that was read already waits for its turn.
    """

    __slots__ = ("_paused", "held", "transport")

    def __init__(self) -> None:
        self.transport: Any = None
        self._paused = self.held = False

    def pause(self) -> None:
        """Take no more until `resume`: nobody wants it yet."""
        self._set(paused=True, held=self.held)

    def resume(self) -> None:
        """Take more, unless something waits."""
        self._set(paused=False, held=self.held)

    def hold(self) -> None:
        """Take no more until `release`: something waits."""
        self._set(paused=self._paused, held=True)

    def release(self) -> None:
        """Take more, unless it is paused: nothing waits any longer."""
        self._set(paused=self._paused, held=False)

    def _set(self, *, paused: bool, held: bool) -> None:
        stopped, stop = self._paused or self.held, paused or held
        self._paused, self.held = paused, held
        if stop == stopped or self.transport.is_closing():
            return
        if stop:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()
