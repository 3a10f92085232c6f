"""Linear models of any plan: what the shared fit checks, keeps and restores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from reticent.errors import InvalidDataError, InvalidParameterError, SolverError
from reticent.estimators import (
    CONSTANT,
    LONGEST_ROW,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    bounded_rows,
    with_constant,
)
from reticent.estimators.linear.targets import TargetRange
from reticent.guarantees import PureDP, ReplaceOne, Scope, claim

X = np.array([[3.0, 4.0], [-0.3, 0.4], [0.0, 0.1], [30.0, -40.0]])
PROMISE = claim(PureDP(1.0), ReplaceOne(4), Scope.MODEL, statement="for this test")


class _Planned:
    """A plan that has found its coefficients before it sees any data."""

    norm_bound, classes = 5.0, None

    def __init__(
        self, found=(2.0, -1.0, 0.5), *, fit_intercept=True, bounds=(10.0, 30.0)
    ):
        self.found = found
        self.fit_intercept = fit_intercept
        self.bounds = bounds

    def _private_coefficients(self, examples):
        self.seen = examples
        if self.found is None:
            raise SolverError("no coefficients.")
        return np.array(self.found), PROMISE


class PlannedClassifier(_Planned, ReleasedLinearClassifier):
    """Labels."""


class PlannedRegressor(_Planned, ReleasedLinearRegressor):
    """Numbers."""


def test_a_plan_sees_places_of_labels_and_its_model_speaks_of_labels():
    model = PlannedClassifier().fit(X, ["no", "yes", "yes", "no"])
    assert model.seen.targets.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert model.seen.labels_from_data
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.certificate_, model.n_units_) == (PROMISE, 4)
    # Scores of rows as they are given are those of rows in the ball.
    ball = with_constant(X / 5.0) @ [2.0, -1.0, 0.5]
    np.testing.assert_allclose(model.decision_function(X), ball)
    assert model.predict(X).tolist() == np.where(ball > 0, "yes", "no").tolist()


def test_a_plan_sees_targets_in_the_unit_interval_and_predicts_in_their_units():
    model = PlannedRegressor().fit(X, [10.0, 20.0, 1e9, -1e9])
    assert model.seen.targets.tolist() == [-1.0, 0.0, 1.0, -1.0]
    assert not model.seen.labels_from_data
    ball = with_constant(X / 5.0) @ [2.0, -1.0, 0.5]
    np.testing.assert_allclose(model.predict(X), np.clip(20 + 10 * ball, 10, 30))
    flat = PlannedRegressor((2.0, -1.0), fit_intercept=False).fit(X, np.zeros(4))
    assert flat.intercept_ == 20.0


@pytest.mark.parametrize("kind", [PlannedClassifier, PlannedRegressor])
def test_a_fit_that_fails_leaves_no_model(kind):
    model = kind(found=None)
    with pytest.raises(SolverError):
        model.fit(X, [0, 1, 1, 0])
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.set_params(found=(1.0, 1.0, 1.0)).fit(X, [0, 1, 1, 0]).n_units_ == 4


def test_data_that_no_plan_may_see_are_refused():
    with pytest.raises(InvalidParameterError, match="binary"):
        PlannedClassifier().fit(X, [0, 1, 2, 0])
    with pytest.raises(InvalidDataError, match="two classes"):
        PlannedClassifier().fit(X, [0, 0, 0, 0])
    for kind in (PlannedClassifier, PlannedRegressor):
        with pytest.raises(ValueError, match="inconsistent"):
            kind().fit(X, [0, 1, 1])
        with pytest.raises(ValueError, match="NaN"):
            kind().fit(np.full((4, 2), np.nan), [0, 1, 1, 0])
    for bounds in ((1.0, 1.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(InvalidParameterError, match="bounds"):
            PlannedRegressor(bounds=bounds).fit(X, [0, 1, 1, 0])


def test_the_map_of_targets_is_its_own_inverse_and_far_bounds_lose_nothing():
    for low, high in [(0.0, 1.0), (-4.0, 5.0), (1e9, 1e9 + 400), (-1e308, 1e308)]:
        scale = TargetRange(low, high)
        assert scale.centred(np.array([low, high])).tolist() == [-1.0, 1.0]
        values = np.linspace(low / 2, high / 2, 7) + (low / 2 + high / 2) / 2
        again = scale.restored(scale.centred(values))
        np.testing.assert_allclose(again, np.clip(values, low, high), rtol=1e-12)
    # A map of other bounds would not do.
    other = TargetRange(0.0, 2.0).restored(TargetRange(0.0, 1.0).centred(np.ones(1)))
    assert other != 1.0


def test_rows_with_their_constant_are_no_longer_than_stated():
    rows, sums, largest = bounded_rows(1e6 * X, 1.0, None, True)
    assert (rows[:, -1] == CONSTANT).all()
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() <= largest < LONGEST_ROW
    assert norms.max() > 0.999 * largest
    assert np.abs(rows).sum(axis=1).max() <= sums
