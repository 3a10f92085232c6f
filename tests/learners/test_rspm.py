"""RSPMClassifier: the minimiser itself, under noise on an identification set (M5)."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError
from reticent.guarantees import PureDP, ReplaceOne, Scope, recheck
from reticent.hypotheses import Conjunctions, FiniteClass, Stumps, Thresholds
from reticent.learners import RSPMClassifier, identification_set
from tests.learners.enumeration import CUTS
from tests.learners.separator_laws import Noise, TinyClass, worst_violation

CUBE = np.array(list(product((0, 1), repeat=3)))
MONOTONE = Conjunctions(negations=False, method="enumerate")


def make(family=MONOTONE, epsilon=1.0, **settings):
    return RSPMClassifier(family, epsilon, **{"classes": [0, 1], **settings})


def test_labels_of_the_set_name_the_released_hypothesis():
    X = np.tile(CUBE, (200, 1))
    y = X[:, 0] * X[:, 2]
    model = make(domain=CUBE).fit(X, y)
    assert model.hypothesis_ == MONOTONE.minimise(X, y).hypothesis
    assert len(model.points_) == 3
    assert model.certificate_.proved
    assert isinstance(model.certificate_.guarantee, PureDP)
    assert model.certificate_.relation == ReplaceOne(1600)
    assert model.certificate_.scope is Scope.MODEL
    recheck(model.certificate_)
    assert (model.predict(CUBE) == CUBE[:, 0] * CUBE[:, 2]).all()


def test_given_points_are_used_as_they_are():
    X = np.tile(CUBE, (5, 1))
    points = identification_set(MONOTONE, CUBE)
    model = make(points=points, random_state=3).fit(X, X[:, 1])
    same = make(domain=CUBE, random_state=3).fit(X, X[:, 1])
    assert model.hypothesis_ == same.hypothesis_
    np.testing.assert_array_equal(model.points_, same.points_)


def test_a_table_needs_no_points():
    table = FiniteClass.from_table(np.arange(4.0), np.tril(np.ones((4, 4), dtype=int)))
    X = np.repeat(np.arange(4.0), 100)[:, None]
    model = make(table, 5.0).fit(X, (X[:, 0] <= 2).astype(int))
    assert model.hypothesis_.index == 2


def test_it_is_exactly_private_with_private_rows_on_and_off_the_set():
    # Monotone conjunctions of three features: labels on the set, and private values
    # everywhere on the cube.
    points = identification_set(MONOTONE, CUBE)
    listed = MONOTONE.on(3).project(CUBE)
    table = np.column_stack(
        [listed.predict(points), listed.predict(CUBE[[0, 1, 6, 7]])]
    )
    tiny = TinyClass(table.astype(int), 3)
    assert len(tiny.labelings) == 8  # the set is shattered, so noise can be lumped
    noise = Noise(3, Fraction(3, 4), 4, lumped=True)
    assert worst_violation(tiny, noise, 3, 1, 9) <= 1
    assert worst_violation(tiny, noise, 3, 1, 6) > 1
    model = make(domain=CUBE, epsilon=1.0).fit(CUBE.copy(), CUBE[:, 0])
    assert model.certificate_.parameter("taught") == 3
    assert model.noise_scale_ == pytest.approx(6, rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": -0.1}, "delta"),
        ({"hypotheses": LogisticRegression()}, "hypotheses"),
        ({"hypotheses": Thresholds(), "domain": None}, "domain"),
        ({"points": CUBE}, "one of points and domain"),
        ({"domain": CUBE[:, :2]}, "features"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    model = RSPMClassifier(**{"hypotheses": Stumps(), "domain": CUBE, **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(np.tile(CUBE, (2, 1)), np.tile(CUBE[:, 0], 2))


def test_the_data_are_no_identification_set():
    X = np.tile(CUBE, (2, 1)).astype(float)
    with pytest.raises(InvalidDataError, match="training rows"):
        make(points=X).fit(X, X[:, 0].astype(int))
    with pytest.raises(InvalidDataError, match="training rows"):
        make(domain=X).fit(X, X[:, 0].astype(int))


class WithPoints(RSPMClassifier):
    """scikit-learn's checks have rows of many widths: three points of the right one."""

    def fit(self, X, y, units=None):
        shape = np.asarray(X).shape
        width = shape[1] if len(shape) == 2 else 1
        points = np.outer([-1.0, 0.0, 1.0], np.ones(max(width, 1)))
        given, self.points = self.points, points
        try:
            return super().fit(X, y, units)
        finally:
            self.points = given


@estimator_checks.parametrize_with_checks(
    [WithPoints(CUTS, 20.0, random_state=0)],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
