"""Group commit: requests that wait together share one durable commit.

One thread per process owns the writing. While it commits, others queue; it takes all
of them into the next commit, decides each in order, and wakes each when the commit is
durable. A commit then costs its requests together what it would cost one of them.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

from reticent.errors import LedgerError, ReticentError
from reticent.ledger.decisions import Operation

#: The result of one operation, or the error that is its result.
Result: TypeAlias = Any
Commit: TypeAlias = Callable[[Sequence[Operation]], list[Result]]
OnFatal: TypeAlias = Callable[[BaseException], None]

_Waiting: TypeAlias = tuple[Operation, Future[Any]]

_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
# The longest wait for more operations, in seconds; a slow disk must not stretch it.
_PATIENCE = 0.01


def end_process(error: BaseException) -> None:
    """End this process at once: the `on_fatal` of a service.

    After a failed write nobody knows what the disk holds, so nothing may be answered
    any more; not even shutdown code runs. A fresh process reads what is there.
    """
    os.write(
        2, f"reticent: the ledger failed ({type(error).__name__}); exit\n".encode()
    )
    os._exit(_EXIT_CODE)


class GroupCommit:
    """The one writer of a process.

    Parameters
    ----------
    commit : callable
        Takes operations, decides them in order in one durable transaction, returns a
        result or a `ReticentError` for each. A `TimeoutError` means that nothing was
        written and the next commit may succeed; any other error is fatal.
    on_fatal : callable or None
        Called with the error after this writer has stopped for good.
    largest : int
        Most operations in one commit.
    """

    def __init__(
        self, commit: Commit, *, on_fatal: OnFatal | None = None, largest: int = 256
    ) -> None:
        self._commit = commit
        self._on_fatal = on_fatal
        self._largest = largest
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
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
        with self._gate:
            if self._stopped is not None:
                raise LedgerError(self._stopped)
            self._waiting.put((operation, future))
        return future

    @property
    def pending(self) -> int:
        """How many operations wait for the next commit."""
        return self._waiting.qsize()

    def check(self) -> None:
        """Refuse to go on with a ledger that stopped or belongs to another process."""
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
        expected, lasted, going = 1, 0.0, True
        while going:
            batch = self._collect(expected, lasted)
            going = batch[-1] is not None
            taken = [
                item
                for item in batch
                if item is not None and item[1].set_running_or_notify_cancel()
            ]
            begun = time.monotonic()
            if taken and not self._process_batch(taken):
                going = False
            expected, lasted = len(taken), time.monotonic() - begun

    def _collect(self, expected: int, lasted: float) -> list[_Waiting | None]:
        """Wait for an operation, then take what else is there or about to come.

        Those woken by the last commit are likely to ask again at once. Starting with
        the first of them would leave the others to the next commit, so that every
        second commit is nearly empty; instead they get half of what a commit takes.
        """
        batch = [self._waiting.get()]
        patience = time.monotonic() + min(_PATIENCE, lasted / 2)
        while len(batch) < self._largest and batch[-1] is not None:
            left = patience - time.monotonic() if len(batch) < expected else 0.0
            try:
                batch.append(self._waiting.get(left > 0, max(left, 0.0)))
            except queue.Empty:
                break
        return batch

    def _process_batch(self, batch: list[_Waiting]) -> bool:
        """Commit a batch and wake its waiters; return whether to go on."""
        futures = [future for _, future in batch]
        try:
            results = self._commit([operation for operation, _ in batch])
        except TimeoutError as error:
            for future in futures:
                future.set_exception(LedgerError(f"{error} Nothing was charged."))
            return True
        except BaseException as error:  # noqa: BLE001 - the outer edge of a thread
            self._fail(error, futures)
            return False
        for future, result in zip(futures, results, strict=True):
            if isinstance(result, ReticentError):
                future.set_exception(result)
            else:
                future.set_result(result)
        return True

    def _fail(self, error: BaseException, futures: list[Future[Any]]) -> None:
        """Stop for good: first refuse, then tell, then wake whoever waits."""
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
            while not self._waiting.empty():
                item = self._waiting.get()
                if item is not None and item[1].set_running_or_notify_cancel():
                    futures.append(item[1])
            for future in futures:
                future.set_exception(LedgerError(reason))
