"""Where audits listen: what reaches a mechanism, and what is drawn.

Nothing listens unless an audit asks for it, and then only in its own thread. The
values are as secret as the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Reached:
    """Values that reached a mechanism, and how far one unit may move them.

    Attributes
    ----------
    mechanism : str
        Which one.
    values : ndarray of shape (n_answers, width)
        Whole numbers, one row an answer.
    largest, l1, l2 : float
        How far one unit may move a row: any entry of it, its l1 and its l2 norm, in
        the unit of the values. Infinite where the mechanism does not care.
    settings : tuple
        What else decides the law (an epsilon, a scale): it must not move at all.
    """

    mechanism: str
    values: NDArray[np.int64]
    largest: float = np.inf
    l1: float = np.inf
    l2: float = np.inf
    settings: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Draw:
    """One draw that is about to happen.

    Attributes
    ----------
    kind : {"label", "noise", "flip", "permutation", "subset", "below", "words"}
        What is drawn.
    arguments : tuple
        What the sampler was called with.
    """

    kind: str
    arguments: tuple[Any, ...]


class Listener:
    """What an audit overrides: `reached` to see values, `drawn` to see or set draws."""

    def reached(self, reached: Reached) -> None:
        """Hear of values that reached a mechanism."""

    def drawn(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        """Return the outcome of a draw; ``sample()`` draws it."""
        return sample()


_listening: ContextVar[Listener | None] = ContextVar("listening", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[Listener]:
    """Let a listener hear, in this thread, what happens in the block.

    A listener may replace what is drawn, and hears what no one should: for audits of
    code that runs on made-up data, never in service.
    """
    token = _listening.set(listener)
    try:
        yield listener
    finally:
        _listening.reset(token)


def stops_audit(error: BaseException) -> bool:
    """Return whether a listener ends a program with this, so that it must pass.

    Audits use errors that are no `Exception`, because programs must not catch them.
    What a program raises itself in order to end is not among them.
    """
    own = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, BaseExceptionGroup)
    return _listening.get() is not None and not issubclass(type(error), own)


def reach(
    mechanism: str,
    values: NDArray[np.int64],
    *,
    largest: float = np.inf,
    l1: float = np.inf,
    l2: float = np.inf,
    settings: tuple[Any, ...] = (),
) -> None:
    """Tell the listener, if there is one, that values reached a mechanism."""
    listener = _listening.get()
    if listener is not None:
        copy = np.array(values)
        listener.reached(Reached(mechanism, copy, largest, l1, l2, settings))


def heard(kind: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let listeners hear, and set, what a sampler returns.

    Draws within a draw are not heard by themselves.
    """

    def decorate(sampler: Callable[P, T]) -> Callable[P, T]:
        @wraps(sampler)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            listener = _listening.get()
            if listener is None:
                return sampler(*args, **kwargs)
            token = _listening.set(None)
            try:
                draw = Draw(kind, (*args, *kwargs.values()))
                outcome: T = listener.drawn(draw, lambda: sampler(*args, **kwargs))
                return outcome
            finally:
                _listening.reset(token)

        return wrapper

    return decorate
