"""The only import of scikit-learn's private names."""

from __future__ import annotations

from typing import Any, TypeAlias

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
)

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "MatrixLike",
    "Options",
    "StrOptions",
    "fit_context",
]

# What validate_data takes: arrays, lists, data frames, sparse matrices.
MatrixLike: TypeAlias = Any
