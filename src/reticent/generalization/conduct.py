"""What a function that runs on the rows may tell: what it returns, and nothing else.

Whoever asks supplies code that sees every row. What it returns is counted. What it
raises, warns of or leaves in a traceback is not, so none of it may come out. What
code in one process cannot prevent is assumed, on the certificate.
"""

from __future__ import annotations

import inspect
import signal
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from reticent.errors import InternalError, InvalidParameterError, ReticentError
from reticent.guarantees import Assumption
from reticent.mechanisms import stops_audit

P = ParamSpec("P")
T = TypeVar("T")

ROWWISE_QUERIES = Assumption(
    "ROWWISE_QUERIES",
    "each query, metric and model computes its value at a row from that row alone",
)
QUIET_QUERIES = Assumption(
    "QUIET_QUERIES",
    "what runs on the rows only returns its values: it keeps, writes and prints "
    "nothing, ends no process, and its time tells nothing",
)


class Failed:
    """What is known of a computation that failed: nothing else."""


FAILED = Failed()

_inside: ContextVar[bool] = ContextVar("inside", default=False)


def quietly(compute: Callable[[], T]) -> T | Failed:
    """Run something on the rows; return what it returned, or that it failed.

    Whatever it raises counts, `SystemExit` and `KeyboardInterrupt` included, and is
    forgotten here, with its context and its frames. Warnings are dropped.

    Raises
    ------
    KeyboardInterrupt
        If somebody interrupted the process by hand meanwhile; a new one.
    """
    interrupts = _Interrupts()
    inside = _inside.set(True)
    try:
        with (
            interrupts,
            warnings.catch_warnings(record=True),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            return compute()
    except BaseException as error:
        if stops_audit(error):
            raise
    finally:
        _inside.reset(inside)
    # An error that is raised in the block above would keep what was caught there.
    if interrupts.came:
        raise KeyboardInterrupt
    return FAILED


def refuse_inside() -> None:
    """Refuse to let something that runs on the rows ask a guard of its own accord.

    It would choose its questions by looking at the rows, and how much was asked is
    public.
    """
    if _inside.get():
        raise InvalidParameterError(
            "what runs on the rows must not ask another question; ask one after the "
            "other, so that each depends on answers alone."
        )


class _Interrupts:
    """Tells a signal from a `KeyboardInterrupt` that a computation raised itself."""

    def __init__(self) -> None:
        self.came = False
        self._watching = False

    def __enter__(self) -> _Interrupts:
        self._watching = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._watching:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._watching:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt


def sealed(method: Callable[P, T]) -> Callable[P, T]:
    """Let errors out of a method without the frames that they passed through.

    A frame keeps its variables, and an error keeps its frames: exact sums, or a model
    that was not paid for, could be read off a refusal.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        signature.bind(*args, **kwargs)  # a wrong call is the caller's, and says so
        failure: BaseException
        try:
            return method(*args, **kwargs)
        except ReticentError as error:
            failure = error.with_traceback(None)
            failure.__context__ = failure.__cause__ = None
        except (KeyboardInterrupt, SystemExit) as error:
            failure = type(error)(*error.args)  # not of a query: those are failures
        except BaseException as error:
            if stops_audit(error):
                raise
            failure = InternalError(
                f"{type(error).__name__} in {method.__qualname__}; what it said is "
                "withheld, because it may describe a record."
            )
        raise failure

    return call


def plain(values: Any) -> bool:
    """Return whether values are data, not objects that run code when compared."""
    array = np.asarray(values)
    if array.dtype != object:
        return array.dtype.fields is None
    kinds = (str, bytes, bool, int, float, type(None))
    return all(type(each) in kinds for each in array.ravel().tolist())
