"""Group commit: requests that wait together share one durable commit.

One thread per process writes. While it commits, operations queue. The next commit takes
all of them, decides each in order, and wakes each caller when it is durable. All of
these requests share the cost of one commit.

Coroutines that one commit woke usually send their next operations together. These are
collected per event loop, until no commit is under way and the loop has iterated a few
times without a new one, then queued as one batch. This halves the number of commits and
avoids waking the writer, which competes with the loop for the interpreter's lock, for
each operation.

An operation with a draw takes two commits: when its charge is durable the writer draws
the answers of all charges of that commit together and settles them in the next commit,
without waking the callers in between.

If the database goes away in between, the answers are still here: they are settled when
it is back. Only after `PATIENCE` seconds without it are they given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reticent.errors import LedgerError
from reticent.ledger.operations import Operation, draw_answers
from reticent.ledger.sql.waiters import (
    Called,
    CalledForEach,
    Result,
    Then,
    ThenEach,
    Waiter,
    finish_all,
    wake,
)

Commit: TypeAlias = Callable[[Sequence[Operation]], list[Result]]
OnFatal: TypeAlias = Callable[[BaseException], None]

_Loop: TypeAlias = asyncio.AbstractEventLoop

_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
# The longest wait for more operations, in seconds, however slow the disk is.
_LONGEST_WAIT = 0.01
#: Seconds that drawn answers wait for a database that went away.
PATIENCE = 30.0
# Seconds from one attempt to settle them to the next.
_PAUSE = 0.1
# An event loop iterates at most this often between two steps of one request.
_QUIET_ROUNDS = 4
# No more rounds are waited for when none came in this many seconds.
_QUIET_SECONDS = 0.002


def end_process(error: BaseException) -> None:
    """End this process at once: the `on_fatal` of a service.

    After a failed write nobody knows what the disk holds, so nothing more may be
    answered; not even shutdown code runs. A new process reads what is there.
    """
    os.write(
        2, f"reticent: the ledger failed ({type(error).__name__}); exit\n".encode()
    )
    os._exit(_EXIT_CODE)


_Waiting: TypeAlias = tuple[Operation, Waiter]


@dataclass(slots=True)
class _LoopBatch:
    """Operations collected on one event loop."""

    latest: float
    waiting: list[_Waiting] = field(default_factory=list)
    size: int = 0
    counted: int = 0
    quiet: int = 0
    grew: float = 0.0
    parked: bool = False
    waited: bool = False


class GroupCommit:
    """The one writer of a process.

    Parameters
    ----------
    commit : callable
        Takes operations, decides them in order in one durable transaction, returns a
        result or an error for each. A `TimeoutError` means that nothing was
        written and the next commit may succeed; any other error is fatal. Operations
        that settle answers are tried again for `PATIENCE` seconds.
    on_fatal : callable or None
        Called with the error after this writer has stopped permanently.
    largest : int
        The largest number of operations in one commit.
    """

    def __init__(
        self, commit: Commit, *, on_fatal: OnFatal | None = None, largest: int = 256
    ) -> None:
        self._commit = commit
        self._on_fatal = on_fatal
        self._largest = largest
        self._waiting: queue.SimpleQueue[list[_Waiting] | None] = queue.SimpleQueue()
        self._left_over: list[_Waiting] = []
        self._queued = 0
        self._loop_batches: dict[_Loop, _LoopBatch] = {}
        self._committing = False
        self._patient_until: float | None = None
        self._process = os.getpid()
        self._gate = threading.Lock()
        self._stopped: str | None = None
        self._writer = threading.Thread(
            target=self._run, name="reticent-ledger", daemon=True
        )
        self._writer.start()

    def submit(self, operation: Operation) -> Future[Any]:
        """Queue an operation; its future is done when the commit is durable."""
        self.check()
        future: Future[Any] = Future()
        self._put([(operation, future)])
        return future

    def submit_from_loop(self, operation: Operation) -> asyncio.Future[Any]:
        """Queue an operation of a coroutine, together with others on its event loop."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._collect_from_loop(operation, future)
        return future

    def call_from_loop(self, operation: Operation, then: Then) -> None:
        """Queue an operation like `submit_from_loop`; `then` is called on that loop."""
        self._collect_from_loop(operation, Called(then, asyncio.get_running_loop()))

    def call_all_from_loop(self, operation: Operation, then: ThenEach) -> None:
        """Do what `call_from_loop` does, for an operation on many requests.

        `then` is called for each with what it is about and its result.
        """
        loop = asyncio.get_running_loop()
        waiter = CalledForEach(then, loop, operation.about)
        self._collect_from_loop(operation, waiter)

    def _collect_from_loop(
        self, operation: Operation, waiter: asyncio.Future[Any] | Called
    ) -> None:
        self.check()
        loop = waiter.get_loop()
        batch = self._loop_batches.get(loop)
        if batch is None:
            batch = self._loop_batches[loop] = _LoopBatch(
                time.monotonic() + _LONGEST_WAIT
            )
            loop.call_soon(self._hand_over_when_quiet, loop, batch)
        batch.waiting.append((operation, waiter))
        batch.size += operation.size

    def _hand_over_when_quiet(self, loop: _Loop, batch: _LoopBatch) -> None:
        """Queue a batch once no further operation is about to join it."""
        with self._gate:
            batch.parked = self._committing and not batch.waited
        if batch.parked:
            return  # the writer schedules this again after its commit
        count, now = batch.size, time.monotonic()
        if count != batch.counted:
            batch.counted, batch.quiet, batch.grew = count, 0, now
        else:
            # A round is long where the loop is busy with something else.
            batch.quiet += _QUIET_ROUNDS if now > batch.grew + _QUIET_SECONDS else 1
        if batch.quiet < _QUIET_ROUNDS and count < self._largest and now < batch.latest:
            loop.call_soon(self._hand_over_when_quiet, loop, batch)
            return
        del self._loop_batches[loop]
        try:
            self._put(batch.waiting)
        except LedgerError as error:
            finish_all([(waiter, error) for _, waiter in batch.waiting])

    def _resume_waiting_batches(self) -> None:
        """Schedule the batches that waited for a commit to end."""
        with self._gate:
            self._committing = False
            parked = [
                item for item in list(self._loop_batches.items()) if item[1].parked
            ]
            for _, batch in parked:
                batch.parked, batch.waited = False, True
                batch.latest = time.monotonic() + _LONGEST_WAIT
        for loop, batch in parked:
            with contextlib.suppress(RuntimeError):  # closed: nobody is waiting
                loop.call_soon_threadsafe(self._hand_over_when_quiet, loop, batch)

    def _put(self, items: list[_Waiting]) -> None:
        with self._gate:
            if self._stopped is not None:
                raise LedgerError(self._stopped)
            self._queued += _size(items)
            self._waiting.put(items)

    @property
    def pending(self) -> int:
        """How many operations wait for the next commit."""
        batches = list(self._loop_batches.values())
        return self._queued + sum(batch.size for batch in batches)

    def check(self) -> None:
        """Refuse a ledger that has stopped or belongs to another process."""
        if os.getpid() != self._process:
            raise LedgerError(
                "this ledger was opened before the process forked; open one in each "
                "process."
            )
        if self._stopped is not None:
            raise LedgerError(self._stopped)

    def close(self) -> None:
        """Commit what is waiting, then stop."""
        if os.getpid() != self._process:
            return  # the writer lives in the parent
        with self._gate:
            if self._stopped is None:
                self._stopped = "this ledger is closed."
                self._waiting.put(None)
        self._writer.join()

    def _run(self) -> None:
        expected, lasted, closing, held = 0, 0.0, False, False
        while not closing or self._left_over:
            batch, ended = self._collect(expected, lasted)
            closing = closing or ended
            taken = [item for item in batch if _still_wanted(*item)]
            begun = time.monotonic()
            try:
                going = not taken or self._process_batch(taken)
            finally:
                # The next commit settles what was just drawn; batches wait for it too.
                held = bool(self._left_over) and not held
                if not held:
                    self._resume_waiting_batches()
            if not going:
                return
            expected = sum(isinstance(waiter, Future) for _, waiter in taken)
            lasted = time.monotonic() - begun

    def _collect(self, expected: int, lasted: float) -> tuple[list[_Waiting], bool]:
        """Wait for operations, then take the others that are queued or about to be.

        Threads woken by the last commit return one by one. Starting with the first of
        them would leave the others to the next commit, so every second commit would be
        nearly empty; instead the writer waits for them half as long as a commit takes.
        Return also whether these operations are the last.
        """
        batch = self._left_over
        some = [] if batch else self._waiting.get()
        patience = time.monotonic() + min(_LONGEST_WAIT, lasted / 2)
        while some is not None:
            batch = batch + some
            if _size(batch) >= self._largest:
                break
            left = patience - time.monotonic() if len(batch) < expected else 0.0
            try:
                some = self._waiting.get(left > 0, max(left, 0.0))
            except queue.Empty:
                break
        batch, self._left_over = _split(batch, self._largest)
        with self._gate:
            self._queued -= _size(batch)
            self._committing = True
        return batch, some is None

    def _process_batch(self, batch: list[_Waiting]) -> bool:
        """Commit a batch and wake its waiters; return whether to continue."""
        waiters = [waiter for _, waiter in batch]
        operations = [operation for operation, _ in batch]
        try:
            results = self._commit(operations)
        except TimeoutError as error:
            self._put_off(batch, error)
            return True
        except BaseException as error:  # noqa: BLE001 - the outer edge of a thread
            self._fail(error, waiters)
            return False
        self._patient_until = None
        following = list(zip(draw_answers(operations, results), waiters, strict=True))
        wake([(w, step) for step, w in following if not isinstance(step, Operation)])
        drawn = [(step, w) for step, w in following if isinstance(step, Operation)]
        with self._gate:
            self._queued += _size(drawn)
        self._left_over = drawn + self._left_over
        return True

    def _put_off(self, batch: list[_Waiting], error: TimeoutError) -> None:
        """Keep drawn answers for a later attempt; refuse the rest."""
        now = time.monotonic()
        if self._patient_until is None:
            self._patient_until = now + PATIENCE
        patient = now < self._patient_until
        kept = [item for item in batch if item[0].settles and patient]
        refused = [item for item in batch if not (item[0].settles and patient)]
        wake([(w, LedgerError(f"{error} {o.otherwise}")) for o, w in refused])
        if not kept:
            self._patient_until = None
            return
        with self._gate:
            self._queued += _size(kept)
        self._left_over = kept + self._left_over
        time.sleep(_PAUSE)

    def _fail(self, error: BaseException, waiters: list[Waiter]) -> None:
        """Stop permanently: refuse new operations, report, then wake the waiters."""
        # Messages of database drivers quote keys and answers; ours do not.
        what = str(error) if isinstance(error, LedgerError) else type(error).__name__
        reason = (
            f"the ledger failed and answers nothing more: {what} What it was writing "
            "may or may not be charged. Find the cause, then start a new process."
        )
        with self._gate:
            self._stopped = reason
        try:
            if self._on_fatal is not None:
                self._on_fatal(error)
        finally:
            others = self._left_over
            while not self._waiting.empty():
                others = others + (self._waiting.get() or [])
            waiters += [item[1] for item in others if _still_wanted(*item)]
            wake([(waiter, LedgerError(reason)) for waiter in waiters])


def _size(items: Iterable[_Waiting]) -> int:
    """Return how many requests operations are about."""
    return sum([operation.size for operation, _ in items])


def _split(
    items: list[_Waiting], largest: int
) -> tuple[list[_Waiting], list[_Waiting]]:
    """Return the operations of one commit, at least one, and those after them."""
    size = 0
    for place, (operation, _) in enumerate(items):
        size += operation.size
        if place and size > largest:
            return items[:place], items[place:]
    return items, []


def _still_wanted(operation: Operation, waiter: Waiter) -> bool:
    """Return whether to apply an operation; a thread can no longer cancel.

    Answers that are drawn are stored even if the caller has gone: it may ask again.
    """
    if not isinstance(waiter, Future):
        return operation.settles or not waiter.cancelled()
    if waiter.running() or (operation.settles and waiter.cancelled()):
        return True
    return waiter.set_running_or_notify_cancel() or operation.settles
