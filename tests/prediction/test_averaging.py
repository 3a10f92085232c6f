"""Noisy averages: labels, probabilities and numbers (P2)."""

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks

from reticent.errors import InvalidParameterError
from reticent.guarantees import ZCDP, PureDP, recheck
from reticent.prediction import PrivateAveragingClassifier, PrivateAveragingRegressor
from reticent.prediction.averaging import project_to_simplex
from tests.stats import assert_rate

X, Y = load_diabetes(return_X_y=True)
FLOWERS, KINDS = load_iris(return_X_y=True)


class LastValue(DummyRegressor):
    """Predict the largest training target: one record moves it by the whole range."""

    def fit(self, X, y):
        self.value_ = float(np.max(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


def test_numbers_carry_noise_of_the_range_over_shards():
    model = PrivateAveragingRegressor(Ridge(), 2.0, bounds=(0, 400), n_shards=11).fit(
        X, Y
    )
    law = model.response(X[:5])
    assert law.scale == pytest.approx(400 / (11 * 2.0), rel=1e-6)
    assert isinstance(model.certificate_.guarantee, PureDP)
    assert 1.999 < model.certificate_.guarantee.epsilon <= 2.0
    recheck(model.certificate_)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_worst_neighbour_moves_the_average_by_what_was_certified(delta):
    rows, targets = np.zeros((9, 1)), np.zeros(9)
    model = PrivateAveragingRegressor(
        LastValue(), 1.0, bounds=(0, 1), n_shards=3, delta=delta, random_state=0
    )
    before = model.fit(rows, targets).response(rows[:1]).noisy
    targets[4] = 1.0
    after = model.fit(rows, targets).response(rows[:1]).noisy
    moved = abs(int(after.steps[0]) - int(before.steps[0]))
    sensitivity = next(
        node for node in model.certificate_.walk() if node.rule == "P2-sums"
    )
    assert moved == sensitivity.guarantee.l1
    if delta == 0:
        grid = np.arange(-60, 61) * 2.0**24 / 8
        gap = before.log_probability(grid) - after.log_probability(grid)
        assert 0.99 <= np.abs(gap).max() <= 1 + 1e-12


def test_answers_follow_the_law_and_stay_in_bounds():
    model = PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0, 400), n_shards=11).fit(
        X, Y
    )
    law = model.response(X[:1])
    drawn = model.predict(np.repeat(X[:1], 20_000, axis=0))
    assert drawn.min() >= 0
    assert drawn.max() <= 400
    level = float(law.location[0]) + 10.0
    assert_rate((drawn <= level).sum(), drawn.size, stats.laplace.cdf(10 / law.scale))


def test_gaussian_noise_states_its_zcdp():
    model = PrivateAveragingRegressor(
        Ridge(), 1.0, bounds=(0, 400), n_shards=11, delta=1e-6
    )
    assert isinstance(model.fit(X, Y).certificate_.guarantee, ZCDP)


def test_probabilities_are_a_point_of_the_simplex():
    for data, labels in ((FLOWERS, KINDS), load_breast_cancer(return_X_y=True)):
        model = PrivateAveragingClassifier(
            LogisticRegression(max_iter=5000), 3.0, np.unique(labels), 9
        ).fit(data, labels)
        given = model.predict_proba(data)
        np.testing.assert_allclose(given.sum(axis=1), 1.0)
        assert given.min() >= 0
        assert (np.unique(labels)[given.argmax(axis=1)] == labels).mean() > 0.6
        assert (model.predict(data) == labels).mean() > 0.6
        recheck(model.certificate_)
        recheck(model.probability_certificate_)


def test_the_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 1, (50, 4))
    nearest = project_to_simplex(rows)
    others = rng.dirichlet(np.ones(4), 2000)
    reached = ((rows - nearest) ** 2).sum(axis=1)
    best = ((rows[:, None] - others) ** 2).sum(axis=2).min(axis=1)
    assert (reached <= best + 1e-12).all()


def test_a_base_without_probabilities_has_none():
    model = PrivateAveragingClassifier(LinearSVC(), 1.0, [0, 1, 2], 5)
    assert not hasattr(model, "predict_proba")
    assert model.fit(FLOWERS, KINDS).probability_certificate_ is None
    assert set(model.predict(FLOWERS)) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"bounds": (0.0, float("inf"))}, "bounds"),
        ({"bounds": (float("nan"), 1.0)}, "bounds"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -0.1}, "delta"),
        ({"n_shards": 0}, "n_shards"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    model = PrivateAveragingRegressor(
        **{"estimator": Ridge(), "bounds": (0, 400), **settings}
    )
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X, Y)


def test_targets_beyond_the_bounds_are_clipped():
    model = PrivateAveragingRegressor(
        LastValue(), 50.0, bounds=(0, 1), n_shards=3, random_state=0
    )
    model.fit(np.zeros((9, 1)), np.full(9, 1e9))
    assert model.response([[0.0]]).location[0] == 1.0


def test_errors_come_from_our_tree():
    with pytest.raises(InvalidParameterError, match="bounds"):
        PrivateAveragingRegressor(Ridge(), bounds=(2, 1)).fit(X, Y)


EXPECTED_FAILURES: dict[str, str] = {}


@estimator_checks.parametrize_with_checks(
    [
        PrivateAveragingClassifier(
            LogisticRegression(), 1e6, n_shards=1, random_state=0
        ),
        PrivateAveragingRegressor(
            Ridge(), 1e8, bounds=(-1e3, 1e3), n_shards=1, random_state=0
        ),
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
