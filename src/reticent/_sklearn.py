"""The only import of scikit-learn's private names."""

from __future__ import annotations

from inspect import isclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
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
    "boosted_categories",
    "boosted_rounds",
    "changes_output",
    "check_parameters",
    "fit_context",
    "imputer_types",
    "safe_indexing",
    "takes_missing",
]

# What validate_data takes: arrays, lists, data frames, sparse matrices.
MatrixLike: TypeAlias = Any


def check_parameters(estimator: Any) -> None:
    """Check the parameters of an estimator, and of those inside it, before any fit.

    Estimators of other libraries, which declare no constraints, pass.
    """
    nested = (
        estimator.get_params(deep=True).values()
        if hasattr(estimator, "get_params")
        else ()
    )
    for part in (estimator, *nested):
        if hasattr(part, "_parameter_constraints") and not isclass(part):
            part._validate_params()


def boosted_rounds(model: Any) -> tuple[Any, list[list[tuple[Any, Any]]]]:
    """Return the baseline of a histogram boosting model, and its trees.

    Trees come round by round, each with its nodes and with the sets of categories
    that its categorical nodes send left.
    """
    rounds = [
        [(tree.nodes, tree.raw_left_cat_bitsets) for tree in turn]
        for turn in model._predictors
    ]
    return model._baseline_prediction.ravel(), rounds


def boosted_categories(model: Any) -> tuple[Any, list[Any]] | None:
    """Return the categorical columns of a histogram boosting model, and their levels.

    None if it has no categorical columns.
    """
    if model._preprocessor is None:
        return None
    encoder = model._preprocessor.named_transformers_["encoder"]
    return model.is_categorical_, list(encoder.categories_)


def takes_missing(tree: Any) -> bool:
    """Whether a decision tree predicts dense rows in which values are missing."""
    return bool(tree._support_missing_values(np.empty((0, 0))))


def imputer_types(step: Any) -> tuple[Any, ...]:
    """Return the types in which a fitted `SimpleImputer` reads rows and fill values.

    None where this version of scikit-learn does not keep them.
    """
    read = getattr(step, "_fit_dtype", None)
    return read, getattr(step, "_fill_dtype", read)


def changes_output(step: Any) -> bool:
    """Whether `set_output` asks a step for data frames."""
    asked = getattr(step, "_sklearn_output_config", {})
    return any(form != "default" for form in asked.values())


def _allow_guarantees() -> None:
    """Let scikit-learn's notebooks show docstrings with a section ``Guarantee``."""
    try:
        from sklearn.externals._numpydoc.docscrape import NumpyDocString
    except ImportError:  # a version that does not read docstrings
        return
    NumpyDocString.sections.setdefault("Guarantee", "")


_allow_guarantees()
