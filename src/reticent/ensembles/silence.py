"""Base estimators work in silence: what they say depends on the records they see."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from types import TracebackType


class _Counted:
    """A state of the process, entered and left any number of times in any order.

    The filters of `warnings` and the standard streams belong to the process. Threads
    that each saved and restored them would restore them in the wrong order, so the
    first to enter changes them and the last to leave changes them back.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._restore.close()


class _Void(io.TextIOBase):
    """A text stream that forgets what is written to it."""

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


def _ignore_warnings(restore: ExitStack) -> None:
    restore.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")


def _close_streams(restore: ExitStack) -> None:
    restore.enter_context(redirect_stdout(_Void()))
    restore.enter_context(redirect_stderr(_Void()))


without_warnings = _Counted(_ignore_warnings)

# Only while models are fitted: a service that answers goes on writing its log.
without_streams = _Counted(_close_streams)
