"""Where audits listen: what reaches a mechanism, and what is drawn.

Nothing listens unless an audit asks for it, and then only in its own thread. The
values are as secret as the data. Every path from a `RandomSource` to a random value is
heard: an audit that enumerates draws would otherwise mistake a random value for a
constant.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from reticent._arrays import Ints

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Reached:
    """Values that reached a mechanism, and how far one unit may move them."""

    mechanism: str  #: which one
    values: Ints  #: shape (n_answers, width); whole numbers, one row per answer
    #: How far one unit may move a row: any entry of it, its l1 and its l2 norm, in the
    #: unit of the values. Infinite where the mechanism does not care.
    largest: float = np.inf
    l1: float = np.inf
    l2: float = np.inf
    #: What else decides the law (an epsilon, a scale): it must not move at all.
    settings: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class PendingDraw:
    """One draw that is about to happen."""

    #: What is drawn: a "label" of a response, a "candidate" of a law that lists its
    #: outcomes, "noise", a "bernoulli" or "categorical" variable, a "flip" or "replace"
    #: of labels, a "permutation", a "subset", whole numbers "below" bounds, raw "words"
    #: or "bytes", or a "name" that no release may depend on.
    kind: str
    #: What the sampler was called with, in the order of its parameters.
    arguments: tuple[Any, ...]


class Listener:
    """What an audit overrides: `reached` to see values, `drawn` to see or set draws.

    Attributes
    ----------
    strict : bool
        Whether a draw that the listener cannot set, in another thread or context, must
        be reported to `missed` while it listens.
    """

    strict = False

    def reached(self, reached: Reached) -> None:
        """Hear of values that reached a mechanism."""

    def drawn(self, draw: PendingDraw, sample: Callable[[], Any]) -> Any:
        """Return the outcome of a draw; ``sample()`` draws it."""
        return sample()

    def descends(self, draw: PendingDraw) -> bool:
        """Whether to hear the draws within this draw instead of the draw itself."""
        return False

    def missed(self, kind: str) -> None:
        """Hear that something was drawn where this listener does not listen."""


_listening: ContextVar[Listener | None] = ContextVar("listening", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[Listener]:
    """Let a listener hear, in this thread, what happens in the block.

    A listener may replace what is drawn, and hears what no one should: for audits of
    code that runs on made-up data, never in service.
    """
    token = _listening.set(listener)
    if listener.strict:
        _strict.append(listener)
    try:
        yield listener
    finally:
        if listener.strict:
            _strict.remove(listener)
        _listening.reset(token)


def stops_audit(error: BaseException) -> bool:
    """Return whether a listener uses this error to end a program; let it pass then.

    Audits use errors that are not an `Exception`, because programs must not catch them.
    What a program itself raises in order to end is not among them.
    """
    own = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, BaseExceptionGroup)
    return _listening.get() is not None and not issubclass(type(error), own)


def reach(
    mechanism: str,
    values: Ints,
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


class _Within(threading.local):
    """How many heard draws are under way in this thread."""

    draws = 0


_within = _Within()
# Listeners that must not miss a draw, whichever thread they listen in.
_strict: list[Listener] = []


def inside_audible_draw() -> bool:
    """Whether a draw that a listener heard is under way in this thread."""
    return _within.draws > 0


def audible(kind: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let listeners hear, and set, what a sampler returns.

    Draws within a draw are not heard by themselves, unless the listener descends.
    """

    def decorate(sampler: Callable[P, T]) -> Callable[P, T]:
        @wraps(sampler)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            listener = _listening.get()
            if listener is None:
                if _strict and not _within.draws:
                    for other in tuple(_strict):
                        other.missed(kind)
                return sampler(*args, **kwargs)
            # In the sampler's own order, however they were named.
            given = signature(sampler).bind(*args, **kwargs).arguments
            draw = PendingDraw(kind, tuple(given.values()))
            if listener.descends(draw):
                return sampler(*args, **kwargs)
            token = _listening.set(None)
            _within.draws += 1
            try:
                outcome: T = listener.drawn(draw, lambda: sampler(*args, **kwargs))
                return outcome
            finally:
                _within.draws -= 1
                _listening.reset(token)

        return wrapper

    return decorate
