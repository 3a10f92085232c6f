"""Which cells a base estimator takes, by what its classes declare: public facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils import get_tags

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError

# Steps that leave missing values where they are: what follows must take them too.
_KEEPS_MISSING = (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)


# Classes, and modules of scikit-learn, all of whose models turn every cell into a
# number and refuse cells for which that fails. Classes of other makers may do anything.
_NUMBERS_ONLY = (
    *_KEEPS_MISSING,
    Normalizer,
    PolynomialFeatures,
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
_NUMBERS_ONLY_MODULES = (
    "sklearn.discriminant_analysis",
    "sklearn.linear_model",
    "sklearn.naive_bayes",
    "sklearn.tree",
)


def takes_missing(estimator: Any) -> bool:
    """Whether an estimator says that it takes missing values, or cannot say.

    scikit-learn's pipelines do not pass on what their steps say, so steps are asked one
    by one, up to the first that may fill missing values in.
    """
    try:
        for step in _steps(estimator):
            if isinstance(step, (ColumnTransformer, FeatureUnion)):
                return True  # each of its parts sees other columns
            tags = get_tags(step)
            if not (tags.input_tags.allow_nan or tags.no_validation):
                return False
            if type(step) not in _KEEPS_MISSING:
                return True
    except (AttributeError, TypeError, ValueError):
        pass  # it has no tags, or no steps
    return True


def takes_numbers_only(estimator: Any) -> bool:
    """Whether the first step of an estimator refuses all that is not a number.

    It is False where nobody can say.
    """
    try:
        first = type(next(_steps(estimator), None))
    except (AttributeError, TypeError, ValueError):
        return False
    module = ".".join(first.__module__.split(".")[:2])
    return first in _NUMBERS_ONLY or module in _NUMBERS_ONLY_MODULES


def check_numbers(rows: MatrixLike, *, missing: bool) -> None:
    """Refuse queries in canonical form that hold anything but numbers.

    Parameters
    ----------
    rows : ndarray, sparse matrix or data frame
        The queries.
    missing : bool
        Whether numbers may be missing.

    Raises
    ------
    InvalidDataError
        With the column, never with a cell.
    """
    for name, cells in _columns(rows):
        try:
            numbers = cells.astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise InvalidDataError(
                f"column {name!r} of the queries must hold numbers: the models take "
                "nothing else. Nothing was charged."
            ) from None
        allowed = np.isfinite(numbers) | (np.isnan(numbers) & missing)
        if not allowed.all():
            raise InvalidDataError(
                f"column {name!r} of the queries holds a missing or an infinite value, "
                "which the models do not take. Nothing was charged."
            )


def _columns(rows: MatrixLike) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield names and cells of the columns; sparse ones hold checked numbers."""
    if hasattr(rows, "columns"):
        for name in rows.columns:
            yield name, np.asarray(rows[name].to_numpy())
        return
    dense = isinstance(rows, np.ndarray)
    if dense and (rows.dtype == object or not np.isfinite(rows).all()):
        yield from enumerate(rows.T)


def _steps(estimator: Any) -> Iterator[Any]:
    """Yield the steps of a pipeline, and of pipelines in it; or the estimator."""
    if not isinstance(estimator, Pipeline):
        yield estimator
        return
    for _, step in estimator.steps:
        if step is not None and not isinstance(step, str):  # "passthrough"
            yield from _steps(step)
