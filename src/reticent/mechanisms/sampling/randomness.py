"""Where random bits come from: the operating system, or a seed for experiments."""

from __future__ import annotations

import io
import os
import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Ints
from reticent._numbers import whole
from reticent.errors import InvalidParameterError
from reticent.mechanisms.sampling.listening import audible

# One system call costs about a microsecond, whatever its size: 32 KiB per call make
# this negligible for small requests; larger requests go to the system directly.
_BUFFER_BYTES = 1 << 15
_DIRECT_BYTES = 1 << 13

# Keys of a permutation that are compared at a time.
_PIECE = 1 << 20


class RandomSource(ABC):
    """Random bits, and the uniform draws that need nothing but bits.

    Attributes
    ----------
    seeded : bool
        Whether the bits follow from a seed. A certificate of noise from a seeded
        source assumes that the seed is secret and used once.
    """

    seeded: bool

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "bytes" in vars(cls):
            cls.bytes = audible("bytes")(cls.bytes)  # type: ignore[method-assign]

    @abstractmethod
    def bytes(self, count: int) -> bytes:
        """Return `count` independent uniform bytes, never handed out before."""

    @audible("name")
    def name(self, count: int) -> str:
        """Return `count` random bytes in hexadecimal, as a unique name.

        Nothing that is released may depend on a name: audits check that.
        """
        return self.bytes(count).hex()

    @audible("words")
    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent uniform 64-bit words."""
        return np.frombuffer(self.bytes(8 * count), dtype=np.uint64)

    @audible("below")
    def below(self, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return for each bound an exactly uniform integer in [0, bound).

        A word above the largest multiple of its bound is drawn again; the others
        fall into equally large classes modulo the bound.
        """
        if bounds.size and not bounds.min() > 0:
            raise InvalidParameterError("uniform integers need bounds of at least 1.")
        # 2^64 mod bound is (-bound) mod bound in 64-bit arithmetic: that number of
        # last words form an incomplete class.
        last_valid = np.uint64(2**64 - 1) - (-bounds) % bounds
        words = self.words(bounds.size).reshape(bounds.shape)
        drawn = words % bounds
        pending = np.flatnonzero(words > last_valid)
        while pending.size:
            words = self.words(pending.size)
            drawn.flat[pending] = words % bounds.flat[pending]
            pending = pending[words > last_valid.flat[pending]]
        return drawn

    @audible("permutation")
    def permutation(self, n: int) -> Ints:
        """Return an exactly uniform order of ``0, ..., n - 1``.

        Positions are sorted by random words. Whatever the law of the words, if they
        are exchangeable and all different then every order is equally likely; and
        "all different" does not depend on the order. So a tie (probability below
        n^2 / 2^65) redraws them all, and what remains is exactly uniform.
        """
        n = whole("permutation", "n", n, least=0)
        while True:
            keys = self.words(n)
            order = np.argsort(keys)
            if not _has_ties(keys, order):
                return order.astype(np.int64, copy=False)

    @audible("subset")
    def subset(self, n: int, m: int) -> Ints:
        """Return `m` of ``0, ..., n - 1``, an exactly uniform subset in random order.

        The order is part of the promise: a learner that depends on the order of its
        units is amplified by subsampling only if they arrive in fresh random order.
        """
        n = whole("subset", "n", n, least=0)
        m = whole("subset", "m", m, least=0)
        if not m <= n:
            raise InvalidParameterError(f"a subset of m={m} needs n >= m; got n={n}.")
        if 8 * m >= n:
            return self.permutation(n)[:m]
        # The first m different values of a uniform sequence: renaming the values
        # leaves the sequence's law alone, so every ordered list is equally likely.
        chosen = np.empty(0, dtype=np.int64)
        while len(chosen) < m:
            more = self.below(np.full(m + 16, n, dtype=np.uint64)).astype(np.int64)
            sequence = np.concatenate([chosen, more])
            first = np.sort(np.unique(sequence, return_index=True)[1])
            chosen = sequence[first]
        return chosen[:m]


def _has_ties(keys: NDArray[np.uint64], order: NDArray[np.intp]) -> bool:
    """Whether two keys are equal; piece by piece, for orders of many millions."""
    for start in range(0, len(order), _PIECE):
        ranked = keys[order[start : start + _PIECE + 1]]
        if (ranked[1:] == ranked[:-1]).any():
            return True
    return False


class SystemSource(RandomSource):
    """Bits of the operating system's generator, buffered.

    A buffer belongs to one thread of one process. It is emptied in a forked child,
    and neither copied nor pickled: a copy of a source is a fresh source.

    Guarantee
    ---------
    No byte is handed out twice, whatever forks, threads, signal handlers, copies and
    pickles happen. Needs an operating system whose generator is itself sound.
    """

    seeded = False

    def bytes(self, count: int) -> bytes:
        """Return `count` fresh bytes."""
        if count > _DIRECT_BYTES:
            return os.urandom(count)
        buffer = _buffers.current()
        # One call takes the bytes and moves on: nothing, not even a signal handler
        # that draws or forks, can come between.
        taken = buffer.read(count)
        if len(taken) < count:
            _buffers.refill()
            taken = os.urandom(count)
        return taken

    def __reduce__(self) -> tuple[Any, ...]:
        return (SystemSource, ())

    def __repr__(self) -> str:
        return "SystemSource()"


class _ThreadBuffers(threading.local):
    """The unread bytes of this thread, and the process they were drawn in."""

    def __init__(self) -> None:
        self.owner = 0
        self.unread = io.BytesIO()

    def current(self) -> io.BytesIO:
        # A process made by foreign code may not run Python's fork hooks, so its
        # number is compared on every use.
        if self.owner != os.getpid():
            self.refill()
        return self.unread

    def refill(self) -> None:
        self.owner = os.getpid()
        self.unread = io.BytesIO(os.urandom(_BUFFER_BYTES))

    def drain(self) -> None:
        # In place: a read under way in the forking thread then comes back short.
        self.unread.seek(0, io.SEEK_END)
        self.owner = 0


_buffers = _ThreadBuffers()
os.register_at_fork(after_in_child=_buffers.drain)


class SeededSource(RandomSource):
    """Bits that follow from a seed: for experiments that must repeat, never in service.

    Parameters
    ----------
    seed : int, numpy.random.RandomState or numpy.random.Generator
        A whole number starts a Philox generator; a generator is used as it is, so
        that its state moves on.
    """

    seeded = True

    def __init__(self, seed: Any) -> None:
        if isinstance(seed, (np.random.RandomState, np.random.Generator)):
            self._generator: np.random.RandomState | np.random.Generator = seed
        else:
            number = whole("SeededSource", "seed", seed, least=0)
            self._generator = np.random.Generator(np.random.Philox(number))

    def bytes(self, count: int) -> bytes:
        """Return the next `count` bytes of the seeded stream."""
        return self._generator.bytes(count)

    def __repr__(self) -> str:
        return "SeededSource(...)"


def noise_source(random_state: Any = None) -> RandomSource:
    """Return the source of bits that a `random_state` parameter asks for.

    Parameters
    ----------
    random_state : None, int, RandomState, Generator or RandomSource, default=None
        None is the operating system. Anything else, except a `SystemSource`, is seeded
        and makes certificates conditional.

    Raises
    ------
    InvalidParameterError
        If `random_state` is something else.

    Examples
    --------
    >>> noise_source().seeded
    False
    >>> noise_source(7).seeded
    True
    """
    if random_state is None:
        return SystemSource()
    if isinstance(random_state, RandomSource):
        return random_state
    return SeededSource(random_state)
