"""The only import of scikit-learn's private names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isclass
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.base import _fit_context as sklearn_fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
)

from reticent.errors import InvalidParameterError as OurInvalidParameterError

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "MatrixLike",
    "Options",
    "StrOptions",
    "UnweightedEstimator",
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


class UnweightedEstimator(BaseEstimator):
    """An estimator in which every unit counts once.

    Weights that it does not take are refused with a word of what to do instead.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse weights of labels where there are none."""
        if "class_weight" in kwargs and "class_weight" not in cls._get_param_names():
            raise OurInvalidParameterError(
                f"{cls.__name__} has no class_weight. {_instead(cls)}"
            )
        return super().__new__(cls)


# What fitted models promise, where that is not part of a law.
_PROMISES = (
    "certificate_",
    "privacy_certificate_",
    "zcdp_certificate_",
    "gaussian_certificate_",
)


def _forget_promises(model: Any, before: dict[str, Any]) -> None:
    """Forget certificates if a fit failed halfway: a part of the model is another."""
    now = vars(model)
    if any(now[name] is not before.get(name) for name in now):
        for name in _PROMISES:
            now.pop(name, None)


def fit_context(
    *, prefer_skip_nested_validation: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Check parameters before a fit, as scikit-learn does, and refuse weights."""
    outer = sklearn_fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        checked = outer(method)

        @wraps(method)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            for name in ("sample_weight", "class_weight"):
                if name in kwargs:
                    raise OurInvalidParameterError(
                        f"{type(self).__name__}.fit takes no {name}: a weight would "
                        "let one unit count more than the certificate says. Leave it "
                        f"out. {_instead(type(self))}"
                    )
            before = dict(vars(self))
            try:
                return checked(self, *args, **kwargs)
            except BaseException:  # also Ctrl-C
                _forget_promises(self, before)
                raise

        return fit

    return decorate


def _instead(cls: Any) -> str:
    """Say what there is instead of weights."""
    if issubclass(cls, RegressorMixin):
        return "Every unit counts once."
    names = cls._get_param_names() if issubclass(cls, BaseEstimator) else []
    if "class_weight" in names:
        return "For labels that should count differently, set its own class_weight."
    if {"estimator", "teacher"} & set(names):
        return (
            "For labels that should count differently, set class_weight of the model "
            "inside, which sees the rows of its own shard only."
        )
    return (
        "For labels that should count differently, use PrivateTabularClassifier, which "
        "has a class_weight."
    )


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
