"""Who waits for a commit, and how each is told what became of its operation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

#: The result of one operation, or the error that is its result.
Result: TypeAlias = Any
#: Takes the result of one operation, on the event loop of the caller.
Then: TypeAlias = Callable[[Result], None]
#: The same for many requests: takes what one is about, and its result.
ThenEach: TypeAlias = Callable[[Any, Result], None]


class Called:
    """Who is called with a result: cheaper than a future and what awaits it."""

    __slots__ = ("loop", "then")

    def __init__(
        self, then: Callable[..., None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.then, self.loop = then, loop

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop on which it is called."""
        return self.loop

    def cancelled(self) -> bool:
        """Return False: it is called in any case."""
        return False

    def finish(self, result: Result) -> None:
        """Hand over a result."""
        self.tell(result)

    def tell(self, *told: Any) -> None:
        """Call, and let nobody else suffer if that fails."""
        try:
            self.then(*told)
        except Exception as error:  # noqa: BLE001 - the others are told as well
            what = {"message": "a caller of the ledger failed", "exception": error}
            self.loop.call_exception_handler(what)


class CalledForEach(Called):
    """Who is called with the results of many requests, one after the other."""

    __slots__ = ("about",)

    def __init__(
        self, then: ThenEach, loop: asyncio.AbstractEventLoop, about: Sequence[Any]
    ) -> None:
        super().__init__(then, loop)
        self.about = about

    def finish(self, result: Result) -> None:
        """Hand over a result for each request, or one error for all."""
        results = result if isinstance(result, list) else [result] * len(self.about)
        for about, each in zip(self.about, results, strict=True):
            self.tell(about, each)


#: A thread's future, a coroutine's, or somebody who is called.
Waiter: TypeAlias = Future[Any] | asyncio.Future[Any] | Called


def wake(outcomes: list[tuple[Waiter, Result]]) -> None:
    """Hand out results; those of one event loop together, on its own thread."""
    on_loops: dict[asyncio.AbstractEventLoop, list[tuple[Waiter, Result]]] = {}
    for waiter, result in outcomes:
        if isinstance(waiter, Future):
            if not waiter.cancelled():
                _finish(waiter, result)
        else:
            on_loops.setdefault(waiter.get_loop(), []).append((waiter, result))
    for loop, some in on_loops.items():
        with contextlib.suppress(RuntimeError):  # closed: nobody is waiting
            loop.call_soon_threadsafe(finish_all, some)


def finish_all(outcomes: list[tuple[Waiter, Result]]) -> None:
    """Hand out results, on the event loop of those who wait for them."""
    for waiter, result in outcomes:
        if isinstance(waiter, Called):
            waiter.finish(result)
        elif not waiter.done():  # it may have been cancelled meanwhile
            _finish(waiter, result)


def _finish(waiter: Future[Any] | asyncio.Future[Any], result: Result) -> None:
    if isinstance(result, Exception):
        waiter.set_exception(result)
    else:
        waiter.set_result(result)
