"""Probes: is the process alive, and could it charge for an answer? Anybody may ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from reticent.service.requests.direct_routes import DirectAnswer
from reticent.service.requests.limits import Gate
from reticent.service.requests.problems import ProblemError, wrong_method

LIVE, READY = PROBES = ("/v2/health/live", "/v2/health/ready")
_LIVE, _READY = DirectAnswer(b'{"live":true}'), DirectAnswer(b'{"ready":true}')
# How long the result of a look at the ledger is taken to be true.
_SECONDS = 0.1


class Probes:
    """Answers probes. Strangers may send any number, so most cost no task and no look.

    Parameters
    ----------
    gate : Gate
        Says whether another request would be admitted.
    look : callable
        Returns whether the ledger answers; it may take long, and runs in a thread.
    """

    def __init__(self, gate: Gate, look: Callable[[], bool]) -> None:
        self._gate, self._look = gate, look
        self._answers, self._until = False, 0.0
        self._looking: asyncio.Task[None] | None = None

    def known(self, path: str, method: str) -> DirectAnswer | ProblemError | None:
        """Return what is said to a probe, if it is known without a look."""
        if method != "GET":
            return wrong_method("GET")
        if path == LIVE:
            return _LIVE
        if self._busy:
            return _not_ready()
        if time.monotonic() < self._until:
            return _READY if self._answers else _not_ready()
        return None

    async def check_ready(self) -> None:
        """Refuse with 503 where the next answer could not be charged for.

        All who ask meanwhile wait for one look.
        """
        if not self._busy and time.monotonic() >= self._until:
            task, loop = self._looking, asyncio.get_running_loop()
            if task is None or task.done() or task.get_loop() is not loop:
                task = self._looking = loop.create_task(self._look_again())
            await asyncio.shield(task)
        if self._busy or not self._answers:
            raise _not_ready()

    @property
    def _busy(self) -> bool:
        return self._gate.full or self._gate.closing

    async def _look_again(self) -> None:
        self._answers = await asyncio.to_thread(self._look)
        self._until = time.monotonic() + _SECONDS


def _not_ready() -> ProblemError:
    return ProblemError(
        503,
        "not_ready",
        "this worker is stopping, busy, or without its ledger. Ask another one, or "
        "retry in a moment.",
        headers={"retry-after": "1"},
    )
