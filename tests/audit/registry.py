"""The registry: how each public estimator is verified exactly, and replayed.

A new public estimator joins by one `register(...)` in this file or a neighbouring
`registered_*.py`; `test_registry.py` fails for one that is missing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.audit import Verification

ROOMS = ("prediction", "learners", "generalization")

# What is computed without a doubt about a sampler:
# law       the law of every answer, from `response`, on every pair of neighbours
# release   the law of the released thing, by going through all draws of the real code
# noise     how far the inputs of noise move on every pair, and what its law makes of it
# density   the exact density of the release along a line
# function  the release is a function of something stated, on every dataset
KINDS = ("law", "release", "noise", "density", "function")


@dataclass(frozen=True)
class Replayed:
    """How to replay an estimator on random neighbours.

    Attributes
    ----------
    run : callable
        ``run((X, y))`` fits, asks and returns what is released.
    pairs : callable
        ``pairs(count, seed)`` yields random neighbours.
    exempt_at_most : float
        Share of values that may follow a subset with the unit.
    moves : dict
        See `reticent.audit.replay`.
    """

    run: Callable[[Any], Any]
    pairs: Callable[[int, int], Iterator[tuple[Any, ...]]]
    exempt_at_most: float = 0.0
    moves: dict[str, float] | None = None


@dataclass(frozen=True)
class Registered:
    """One estimator in one setting.

    Attributes
    ----------
    name : str
        The case's name; starts with that of the estimator.
    estimator : type
        The public class.
    kind : str
        Which exact statement; one of `KINDS`.
    verify : callable
        Returns a `Verification`.
    tight : float
        The verified loss must reach this share of the promise, so that the check is
        not vacuous.
    replay : Replayed or str
        How to replay it, or why there is nothing to replay.
    """

    name: str
    estimator: type
    kind: str
    verify: Callable[[], Verification]
    tight: float
    replay: Replayed | str


REGISTRY: dict[str, Registered] = {}


def register(
    estimator: type,
    setting: str,
    kind: str,
    verify: Callable[[], Verification],
    *,
    tight: float,
    replay: Replayed | str,
) -> None:
    """Add a case; its name must be new and its kind known."""
    name = f"{estimator.__name__}-{setting}"
    if name in REGISTRY or kind not in KINDS:
        raise ValueError(f"{name}: taken, or kind={kind!r} is none of {KINDS}")
    REGISTRY[name] = Registered(name, estimator, kind, verify, tight, replay)


def public_estimators(rooms: Any = ROOMS) -> dict[str, type]:
    """Return every public class that learns from data or answers about them."""
    found: dict[str, type] = {}
    for room in rooms:
        module = (
            room
            if inspect.ismodule(room)
            else importlib.import_module(f"reticent.{room}")
        )
        for name in module.__all__:
            value = getattr(module, name)
            described = getattr(value, "_is_protocol", False)  # it answers nothing
            if (
                inspect.isclass(value)
                and not described
                and (hasattr(value, "fit") or hasattr(value, "predict"))
            ):
                found[name] = value
    # A base that cannot be fitted answers nothing by itself.
    return {
        name: value
        for name, value in found.items()
        if hasattr(value, "fit")
        or not any(value in other.__mro__[1:] for other in found.values())
    }


def unregistered(rooms: Any = ROOMS) -> list[str]:
    """Return the public estimators that no case covers."""
    covered = {case.estimator for case in REGISTRY.values()}
    return sorted(
        name for name, value in public_estimators(rooms).items() if value not in covered
    )


def random_pairs(
    make: Callable[[np.random.Generator], tuple[Any, Any]],
) -> Callable[[int, int], Iterator[tuple[Any, ...]]]:
    """Return pairs that replace one random row of random data by one of other data.

    Now and then the row is an extreme one.
    """

    def pairs(count: int, seed: int) -> Iterator[tuple[Any, ...]]:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            X, y = make(rng)
            others = make(rng)
            unit, donor = rng.integers(len(y), size=2)
            near, labels = X.copy(), y.copy()
            near[unit], labels[unit] = others[0][donor], others[1][donor]
            if rng.random() < 0.3:
                near[unit] = -8 * X[unit]
            yield (X, y), (near, labels), int(unit)

    return pairs


def without_unit(
    pairs: Callable[[int, int], Iterator[tuple[Any, ...]]],
) -> Callable[[int, int], Iterator[tuple[Any, ...]]]:
    """Leave the unit's position out: nothing is exempt then."""
    return lambda count, seed: (pair[:2] for pair in pairs(count, seed))
