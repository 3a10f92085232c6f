"""Steps that are determined by their parameters, whatever rows they were fitted on.

One encoder may serve all shards only if nothing that it learned can differ between
them. So what a fitted step learned is compared with what its parameters imply; a shard
whose step learned anything else is not fused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)

from reticent._sklearn import changes_output, imputer_types


def is_declared(step: Any) -> bool:
    """Whether what a fitted step does follows from its type and parameters.

    Exact types only: a subclass may behave differently.
    """
    proof = _PROOFS.get(type(step))
    return proof is not None and writes_nothing(step) and proof(step)


def is_identity(step: Any) -> bool:
    """Whether a step passes rows on unchanged."""
    if isinstance(step, str):
        return step == "passthrough"
    return (
        type(step) is FunctionTransformer
        and step.func is None
        and not step.validate
        and not changes_output(step)
    )


def writes_nothing(step: Any) -> bool:
    """Whether a step neither changes its input nor has its output format changed."""
    return getattr(step, "copy", True) is True and not changes_output(step)


def alike(one: Any, other: Any) -> bool:
    """Whether two steps, parameters or lists of them are the same by value."""
    if type(one) is not type(other):
        return False
    if hasattr(one, "get_params") and not isinstance(one, type):
        return alike(one.get_params(deep=False), other.get_params(deep=False))
    if isinstance(one, dict):
        return list(one) == list(other) and alike([*one.values()], [*other.values()])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and alike(one.tolist(), other.tolist())
    return bool(one is other or one == other or (one != one and other != other))


def _has_given_categories(step: Any) -> bool:
    """Whether the categories are those of the parameters, in the type they imply.

    Encoders turn the given lists into the type of the rows they were fitted on.
    """
    if isinstance(step.categories, str):
        return False
    if step.min_frequency is not None or step.max_categories is not None:
        return False
    given = [_implied(categories) for categories in step.categories]
    return alike(given, list(step.categories_))


def _implied(categories: Any) -> NDArray[Any]:
    listed = np.array(categories, dtype=object).tolist()
    numbers = all(isinstance(c, (bool, int, float)) for c in listed)
    return np.array(categories, dtype=np.float64 if numbers else object)


def _fills_with_given(step: SimpleImputer) -> bool:
    """Whether every column is filled with the given value; none is dropped."""
    if step.strategy != "constant" or step.fill_value is None or step.add_indicator:
        return False
    number = isinstance(step.fill_value, (int, float))
    implied = np.dtype(np.float64 if number else object)
    return set(imputer_types(step)) == {implied} and all(
        filling == step.fill_value for filling in step.statistics_.tolist()
    )


def _is_ufunc(step: FunctionTransformer) -> bool:
    """Whether the function is NumPy's own; others may remember their input."""
    return isinstance(step.func, np.ufunc) and not step.kw_args


def _hashes_text(step: HashingVectorizer) -> bool:
    """Whether text is processed by scikit-learn's own rules, from the rows alone."""
    rules = (step.preprocessor, step.tokenizer)
    own = all(rule is None for rule in rules) and isinstance(step.analyzer, str)
    return own and step.input == "content"


def _always(step: Any) -> bool:
    return True


_PROOFS: dict[type, Callable[[Any], bool]] = {
    Binarizer: _always,
    FunctionTransformer: _is_ufunc,
    HashingVectorizer: _hashes_text,
    Normalizer: _always,
    OneHotEncoder: _has_given_categories,
    OrdinalEncoder: _has_given_categories,
    PolynomialFeatures: _always,
    SimpleImputer: _fills_with_given,
}
