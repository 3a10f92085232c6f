"""Runs the caller's code on the rows so that nothing but its return value gets out.

The caller supplies code that sees every row. Its return value is accounted for. Errors,
warnings and tracebacks are not, so they are withheld. What code in the same process
cannot prevent is stated as an assumption on the certificate.
"""

from __future__ import annotations

import inspect
import signal
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from reticent.errors import InternalError, InvalidParameterError, ReticentError
from reticent.guarantees import Assumption
from reticent.mechanisms import stops_audit

P = ParamSpec("P")
T = TypeVar("T")

QUIET_QUERIES = Assumption(
    "QUIET_QUERIES",
    "what runs on the rows only returns its values: it keeps, writes and prints "
    "nothing, ends no process, and its time tells nothing",
)


class Failed:
    """The result of a computation that failed; it holds no details."""


FAILED = Failed()

_inside: ContextVar[bool] = ContextVar("inside", default=False)


def run_withholding_errors(compute: Callable[[], T]) -> T | Failed:
    """Run something on the rows; return its result, or `FAILED` if it raised.

    Every exception counts as a failure, `SystemExit` and `KeyboardInterrupt` included,
    and is dropped with its context and its frames. Warnings are dropped.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupted the process meanwhile; a new exception.
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
    # Raised outside the block above, so that it does not carry the caught exception.
    if interrupts.came:
        raise KeyboardInterrupt
    return FAILED


def refuse_nested_question() -> None:
    """Refuse a question that code running on the rows asks by itself.

    It would choose its questions by looking at the rows, and the number of questions is
    public.
    """
    if _inside.get():
        raise InvalidParameterError(
            "code that runs on the rows must not ask another question; ask them one "
            "after the other, so that each depends on answers alone."
        )


class _Interrupts:
    """Tells a user's interrupt from a `KeyboardInterrupt` that a computation raised."""

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

    def __exit__(self, *failure: object) -> None:
        if self._watching:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt


def without_frames(method: Callable[P, T]) -> Callable[P, T]:
    """Remove the frames from errors that a method raises.

    A frame keeps its variables, and an error keeps its frames: exact sums, or a model
    that was not paid for, could be read from the error of a refusal.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        signature.bind(*args, **kwargs)  # a wrong call raises the usual TypeError
        failure: BaseException
        try:
            return method(*args, **kwargs)
        except ReticentError as error:
            failure = error.with_traceback(None)
            failure.__context__ = failure.__cause__ = None
        except (KeyboardInterrupt, SystemExit) as error:
            failure = type(error)(*error.args)  # not raised by a query: see above
        except BaseException as error:
            if stops_audit(error):
                raise
            failure = InternalError(
                f"{type(error).__name__} in {method.__qualname__}; its message is "
                "withheld, because it may describe a record."
            )
        raise failure

    return call


def is_plain_data(values: Any) -> bool:
    """Return whether values are data, not objects that run code when compared."""
    array = np.asarray(values)
    if array.dtype != object:
        return array.dtype.fields is None
    kinds = (str, bytes, bool, int, float, type(None))
    return all(type(each) in kinds for each in array.ravel().tolist())
