"""Random generators of the whole process, set for each shard's model.

A base estimator may draw from the generators of `numpy.random` or `random`:
scikit-learn does so wherever a ``random_state`` stays None. What one model draws would
decide what the next ones find there, and one that fails early draws less.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

# Their estimators draw from their parameters random_state alone. The seeds of other
# libraries, and of classes of the caller's own, are not known.
_SEEDED_LIBRARIES = ("sklearn", "lightgbm")

_PLAIN = (str, bytes, bool, int, float, complex, type, np.generic, np.dtype, np.ufunc)

# The generators belong to the process, so models that may use them take turns.
_turn = threading.RLock()

_known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def own_generators(model: Any, seed: int) -> AbstractContextManager[None]:
    """Let a model find the process's generators as a seed makes them.

    They are put back afterwards. Models that draw from their own parameters alone are
    left to run side by side.

    Guarantee
    ---------
    What `model` draws within the context is a function of the model and of the seed, if
    it draws from `numpy.random`, `random` and its own parameters only, and if no other
    part of the program draws from these generators at the same time.
    """
    return _set_apart(seed) if may_draw(model) else nullcontext()


def may_draw(model: Any) -> bool:
    """Whether a model may draw from generators of the process, by its parameters.

    True unless it is known that it does not. The answer is remembered.
    """
    try:
        found = _known.get(model)
        if found is None:
            found = _known[model] = not _is_seeded(model)
    except Exception:  # noqa: BLE001 (it cannot be remembered, or asked)
        return True
    return found


@contextmanager
def _set_apart(seed: int) -> Iterator[None]:
    with _turn:
        generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
        state = np.random.get_state(legacy=False)  # noqa: NPY002 (it is put back)
        other = random.getstate()
        try:
            fresh = np.random.MT19937(seed)
            np.random.set_bit_generator(fresh)  # type: ignore[attr-defined]
            random.seed(seed)
            yield
        finally:
            np.random.set_bit_generator(generator)  # type: ignore[attr-defined]
            np.random.set_state(state)  # noqa: NPY002
            random.setstate(other)


def _is_seeded(value: Any) -> bool:
    """Whether an estimator, or what is among its parameters, needs no generator."""
    if value is None or isinstance(value, (*_PLAIN, np.random.RandomState)):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype != object or all(map(_is_seeded, value.ravel().tolist()))
    if isinstance(value, dict):
        return all(map(_is_seeded, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_seeded, value))
    # Whatever has no parameters of its own is unknown: splitters that shuffle, and
    # functions.
    if not hasattr(value, "get_params"):
        return False
    library = type(value).__module__.partition(".")[0]
    return library in _SEEDED_LIBRARIES and all(
        _is_seeded(part) and (name != "random_state" or _is_seed(part))
        for name, part in value.get_params(deep=False).items()
    )


def _is_seed(value: Any) -> bool:
    """Whether a random_state is one: some versions have a word instead of None."""
    return isinstance(value, (int, np.integer, np.random.RandomState))
