"""Keeps a solver's compiled code from printing."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_STANDARD_OUTPUT = 1


class _Silence:
    """Standard output, discarded while at least one solver runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._kept: int | None = None

    def enter(self) -> None:
        with self._lock:
            self._running += 1
            if self._running > 1:
                return
            _flush()
            try:
                self._kept = os.dup(_STANDARD_OUTPUT)
            except OSError:  # there is no standard output to print to
                return
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STANDARD_OUTPUT)
            os.close(nowhere)

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running or self._kept is None:
                return
            _flush(python=False)
            os.dup2(self._kept, _STANDARD_OUTPUT)
            os.close(self._kept)
            self._kept = None


_silence = _Silence()


@contextmanager
def without_solver_output() -> Iterator[None]:
    """Discard what compiled code prints in this block.

    HiGHS prints some messages in spite of all its settings, depending on the numbers it
    is given: a line on the terminal would reveal something about the data. Descriptors
    belong to the whole process, so what other threads write to standard output
    meanwhile is discarded too; standard error, where logs go, is not affected.
    """
    _silence.enter()
    try:
        yield
    finally:
        _silence.leave()


def _flush(*, python: bool = True) -> None:
    """Write what is buffered before standard output changes."""
    if python and sys.stdout is not None:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)
