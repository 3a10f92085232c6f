"""Scores of estimators as averages over units, for any metric."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

from reticent._sklearn import safe_indexing
from reticent.errors import InvalidParameterError
from reticent.generalization.caller_code import FAILED, Failed, run_withholding_errors

# The value of a metric on a unit where it is undefined, such as an area under the curve
# of one class. It is fixed, because an error would reveal something about the unit.
_UNDEFINED = 0.5


class UnitScorer:
    """Scores an estimator unit by unit.

    Parameters
    ----------
    scoring : str or callable
        "accuracy", another of scikit-learn's scorer names, or a scorer
        ``(estimator, X, y) -> float``. Accuracy is computed for all rows at once; other
        scorers are called once per unit.
    """

    def __init__(self, scoring: Any) -> None:
        if not (isinstance(scoring, str) or callable(scoring)):
            raise InvalidParameterError(
                f"scoring={scoring!r} must be the name of a scorer or a callable "
                "(estimator, X, y) -> float."
            )
        self._scorer: Any = None
        if scoring != "accuracy":
            self._scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring

    def values(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        positions: NDArray[np.int64],
        *,
        forgive: bool = False,
    ) -> NDArray[Any]:
        """Return one value per row; their average over a unit is the unit's score.

        `positions` are the units of the rows. With `forgive` every error of a scorer
        counts as an undefined metric, so that nothing but the score gets out; for rows
        that are not public.
        """
        if self._scorer is None:
            return np.asarray(estimator.predict(X) == np.asarray(y), dtype=np.float64)
        order = np.argsort(positions, kind="stable")
        starts = np.flatnonzero(np.diff(positions[order])) + 1
        values = np.empty(len(positions))
        for rows in np.split(order, starts):
            unit = safe_indexing(X, rows), safe_indexing(y, rows)
            values[rows] = self._one(estimator, *unit, forgive)
        return values

    def _one(self, estimator: Any, X: Any, y: Any, forgive: bool) -> float:
        found: float | Failed
        if forgive:
            found = run_withholding_errors(lambda: float(self._scorer(estimator, X, y)))
        else:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = float(self._scorer(estimator, X, y))
            except (ValueError, ArithmeticError):
                found = FAILED
        defined = not isinstance(found, Failed) and np.isfinite(found)
        return float(found) if defined else _UNDEFINED  # type: ignore[arg-type]
