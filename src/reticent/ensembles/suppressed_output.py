"""Suppresses what base estimators say, and how they fail: it depends on the records."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout

from reticent.mechanisms import stops_audit


def must_pass(error: BaseException) -> bool:
    """Whether an error ends the program, and is not a model's own failure.

    Libraries written in other languages raise errors that are not an `Exception`, such
    as the `PanicException` of polars: these are failures like others.
    """
    ends = (KeyboardInterrupt, SystemExit, GeneratorExit)
    return isinstance(error, ends) or stops_audit(error)


class _ProcessWideChange:
    """A change of the whole process, which several threads may enter and leave.

    The filters of `warnings` and the standard streams belong to the process. Threads
    that each saved and restored them would restore them in the wrong order, so the
    first thread to enter changes them and the last to leave restores them.
    """

    def __init__(self, change: Callable[[ExitStack], None]) -> None:
        self._change = change
        self._lock = threading.Lock()
        self._depth = 0
        self._restore = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._change(self._restore)
            self._depth += 1

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._restore.close()


class _DiscardingStream(io.TextIOBase):
    """A text stream that discards what is written to it."""

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


def _ignore_warnings(restore: ExitStack) -> None:
    restore.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")


def _close_streams(restore: ExitStack) -> None:
    restore.enter_context(redirect_stdout(_DiscardingStream()))
    restore.enter_context(redirect_stderr(_DiscardingStream()))


without_warnings = _ProcessWideChange(_ignore_warnings)

# Used only while models are fitted, so that a service that answers can write its log.
without_streams = _ProcessWideChange(_close_streams)
