"""What an estimator carries into all of its clones.

A clone of an estimator has its parameters and nothing that was learned. But
scikit-learn copies what is not an estimator with all that it holds, and some estimators
clone into themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import BuiltinMethodType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

_PLAIN = (type(None), str, bytes, bool, int, float, complex, type, np.generic)
_MANY = (list, tuple, set, frozenset)

# Attributes of estimators that are neither parameters nor learned.
_SETTINGS = {"_metadata_request", "_sklearn_output_config"}


def keeps_what_it_learned(estimator: Any) -> bool:
    """Whether a clone of `estimator`, or of a part, is not a blank one.

    Such parts carry what they learned into every shard; if they learned it from the
    sensitive rows, one of those touches all shards. Parts that cannot say what they
    learned count as if they had.
    """
    return _Search().cloned(estimator)


class _Search:
    """Looks for learned state among parameters, once at each object and way."""

    def __init__(self) -> None:
        # Objects are held, so that no other gets the same id.
        self._seen: dict[tuple[str, int], Any] = {}

    def cloned(self, value: Any) -> bool:
        """Whether something is learned in what `clone` makes of a value."""
        if isinstance(value, _PLAIN) or self._is_known(value, "cloned"):
            return False
        plain = BaseEstimator.__sklearn_clone__
        if getattr(type(value), "__sklearn_clone__", plain) is not plain:
            return True
        if type(value) in _MANY:
            return any(map(self.cloned, value))
        if hasattr(value, "get_params"):
            return any(map(self.cloned, value.get_params(deep=False).values()))
        return self._copied(value)

    def _is_known(self, value: Any, way: str) -> bool:
        if (way, id(value)) in self._seen:
            return True
        self._seen[way, id(value)] = value
        return False

    def copied(self, value: Any) -> bool:
        """Whether something is learned in a value that is copied as it is."""
        if isinstance(value, _PLAIN) or self._is_known(value, "copied"):
            return False
        return self._copied(value)

    def _copied(self, value: Any) -> bool:
        if isinstance(value, (ModuleType, np.ufunc)):
            return False
        if callable(getattr(value, "fit", None)):
            return self._has_learned(value)
        if isinstance(value, MethodType):
            owner = value.__self__
            return not inspect.isclass(owner) and (
                self.copied(owner) or not _is_blank(owner)
            )
        return any(map(self.copied, _held(value)))

    def _has_learned(self, estimator: Any) -> bool:
        if not hasattr(estimator, "get_params") or not _is_blank(estimator):
            return True
        return any(map(self.copied, estimator.get_params(deep=False).values()))


def _is_blank(owner: Any) -> bool:
    """Whether an object holds nothing but parameters."""
    names = set(getattr(owner, "__dict__", ()))
    if hasattr(owner, "get_params"):
        names -= {*owner.get_params(deep=False), *_SETTINGS}
        fitted: Callable[[], bool] | None
        fitted = getattr(owner, "__sklearn_is_fitted__", None)
        return not names or (fitted is not None and not fitted())
    return not names


def _held(value: Any) -> list[Any]:
    """Return what an object holds if it is not an estimator."""
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, _MANY):
        return [*value]
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype == object else []
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, BuiltinMethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        rest = (value.__kwdefaults__ or {}).values()
        return [*(value.__closure__ or ()), *(value.__defaults__ or ()), *rest]
    if isinstance(value, CellType):
        return [] if value == CellType() else [value.cell_contents]
    return [*getattr(value, "__dict__", {}).values()]
