"""Suppresses what base estimators say, and how they fail: it depends on the records."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any

from sklearn.frozen import FrozenEstimator

from reticent.mechanisms import stops_audit

# Parameters by which estimators of many libraries are told to report what they do.
_TALK = ("verbose", "verbosity")


def must_pass(error: BaseException) -> bool:
    """Whether an error ends the program, and is not a model's own failure.

    Libraries written in other languages raise errors that are not an `Exception`, such
    as the `PanicException` of polars: these are failures like others.
    """
    ends = (KeyboardInterrupt, SystemExit, GeneratorExit)
    return isinstance(error, ends) or stops_audit(error)


def silence(estimator: Any) -> None:
    """Tell an estimator and its parts to be silent, by their parameters.

    While they are fitted nobody hears them anyway. Later, each model that could be
    trained would report its answers, and so tell how many there are.
    """
    if not hasattr(estimator, "get_params"):
        return
    given = estimator.get_params(deep=True)
    loud = {
        name: type(value)(0) if isinstance(value, int) else 0
        for name, value in given.items()
        if name.split("__")[-1] in _TALK and _is_loud(value)
    }
    if loud:
        estimator.set_params(**loud)
    for part in (estimator, *given.values()):
        if isinstance(part, FrozenEstimator):  # hides the parameters of what it holds
            silence(part.estimator)


def _is_loud(value: Any) -> bool:
    """Whether a level is above silence; some libraries are silent below zero only."""
    return isinstance(value, str) or (isinstance(value, (int, float)) and value > 0)


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
