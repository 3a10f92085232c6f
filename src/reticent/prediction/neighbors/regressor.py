"""Any number of private numbers, from the units near a question (P10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from reticent._sklearn import MatrixLike, fit_context
from reticent.estimators import (
    CodedColumns,
    PartitionModel,
    TargetRange,
    UnitIds,
    UnitRows,
    check_bounds,
    checked_targets,
)
from reticent.prediction.neighbors.base import FLOATS, LocalPredictor
from reticent.prediction.neighbors.votes import ONE, Numbers, Votes


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateNeighborsRegressor(RegressorMixin, LocalPredictor):
    r"""Regressor whose answers, however many, are private together.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        What the fit and all answers cost together.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        answers outside are clipped.
    columns, relation, questions, prior, local, client_share, constant_time
        As for `PrivateNeighborsClassifier`.
    random_state : int, RandomState instance or None, default=None
        As for `PrivateNeighborsClassifier`.

    Attributes
    ----------
    certificate_ : Certificate
        What the fit and all answers promise together.
    n_units_ : int
        Number of privacy units.
    local_ : bool
        Whether units near a question vote; if not, the released model answers.
    local_reason_ : str
        Why, from public facts and released numbers. Not known of a stored model.
    expectation_ : ReleaseExpectation or None
        What the released model can be worth, from public facts alone. `fit` warns with
        a `NearChanceWarning`, before it draws noise, if that is near chance.

    Guarantee
    ---------
    As for `PrivateNeighborsClassifier`. Units say how far the released model is off at
    their place, clipped to a quarter of the range, and how near they are.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
    >>> model = PrivateNeighborsRegressor(2.0, bounds=(-1, 1), questions=500)
    >>> print(model.fit(X, X[:, 0] * X[:, 1]).certificate_.headline())
    (2, 1e-06)-DP for all answers, replace one unit of 3000; proved
    """

    _logistic = False

    bounds: tuple[float, float] = (0.0, 1.0)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalPredictor._parameter_constraints,
        "bounds": ["array-like"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Release what shapes later answers, and keep the rows inside.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers and codes of levels; NaN is a missing value. Floats may lie in a
            file that is mapped into memory: only their codes, two bytes each, are
            kept.
        y : array-like of shape (n_rows,)
            Numbers.
        units : array-like of shape (n_rows,), default=None
            The id of the unit that each row belongs to. None makes each row a unit.
        """
        low, high = check_bounds(self.bounds)
        X = validate_data(
            self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=True
        )
        y = checked_targets(y)
        scaled = TargetRange(low, high).centred(y)
        self._fit_law(
            CodedColumns.of(self.columns, X.shape[1]),
            X,
            scaled[None],
            units,
            classes=None,
            labels_from_data=False,
        )
        self.bounds_ = (low, high)
        return self

    def _votes(self, rows: UnitRows, model: PartitionModel | None) -> Votes:
        low, high = check_bounds(self.bounds)
        expected = np.zeros(len(rows.codes), dtype=np.int64)
        if model is not None:
            expected = np.rint(model.mean(rows.codes)[0] * ONE).astype(np.int64)
        return Numbers(rows.targets[0].copy(), expected, low, high)

    def _usual_vote(self, classes: NDArray[Any] | None) -> dict[str, Any]:
        return {"vote": 0.25, "acute": False}
