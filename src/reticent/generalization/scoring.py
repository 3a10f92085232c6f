"""Scores of estimators as averages over units, whatever the metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

from reticent._sklearn import safe_indexing
from reticent.errors import InvalidParameterError

#: From an estimator, rows and labels to one value a row.
UnitScorer: TypeAlias = Callable[
    [Any, Any, Any, NDArray[np.int64]], NDArray[np.float64]
]

# What a metric counts as on a unit where it is not defined, such as an area under the
# curve of one class. Fixed, because an error would tell about the unit.
_UNDEFINED = 0.5


def unit_scorer(scoring: Any) -> UnitScorer:
    """Return a function that scores an estimator unit by unit.

    Parameters
    ----------
    scoring : str or callable
        "accuracy", another of scikit-learn's scorer names, or a scorer
        ``(estimator, X, y) -> float``. Accuracy is computed for all rows at once; other
        scorers are called once a unit.

    Returns
    -------
    callable
        ``(estimator, X, y, positions)`` to one value a row. All rows of a unit get the
        unit's score, so that its average is that score.
    """
    if scoring == "accuracy":
        return _accuracy
    if not (isinstance(scoring, str) or callable(scoring)):
        raise InvalidParameterError(
            f"scoring={scoring!r} must be the name of a scorer or a callable "
            "(estimator, X, y) -> float."
        )
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring

    def score(
        estimator: Any, X: Any, y: Any, positions: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        order = np.argsort(positions, kind="stable")
        starts = np.flatnonzero(np.diff(positions[order])) + 1
        values = np.empty(len(positions))
        for rows in np.split(order, starts):
            values[rows] = _one(scorer, estimator, X, y, rows)
        return values

    return score


def _accuracy(
    estimator: Any, X: Any, y: Any, positions: NDArray[np.int64]
) -> NDArray[np.float64]:
    return np.asarray(estimator.predict(X) == np.asarray(y), dtype=np.float64)


def _one(scorer: Any, estimator: Any, X: Any, y: Any, rows: NDArray[np.int64]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = scorer(estimator, safe_indexing(X, rows), safe_indexing(y, rows))
        except (ValueError, ArithmeticError):
            return _UNDEFINED
    return float(value) if np.isfinite(value) else _UNDEFINED
