"""L3: scores of subsets move as certified; subset and model add up."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.utils import estimator_checks

from reticent.errors import InvalidParameterError, ReticentError, RuleError
from reticent.guarantees import PureDP, ReplaceOne, Scope, recheck
from reticent.hypotheses import HuberLoss, LinearBall
from reticent.learners import BestSubsetRegressor
from reticent.learners.linear.best_subset import score_sensitivity, selected_support
from reticent.mechanisms import permute_and_flip_certificate


def sparse_data(n=4000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    return X, 3 * X[:, 1] - 2 * X[:, 4] + rng.normal(0, 0.2, n)


def test_it_finds_the_features_and_fits_them():
    X, y = sparse_data()
    model = BestSubsetRegressor(4.0, bounds=(-6, 6), n_selected=2, norm_bound=2.5).fit(
        X, y
    )
    assert model.support_.tolist() == [1, 4]
    assert (np.flatnonzero(model.coef_) == [1, 4]).all()
    # Noise may spoil a model; this one is always the same.
    assert model.set_params(random_state=0).fit(X, y).score(X, y) > 0.9


def test_epsilons_of_the_two_steps_add_up():
    X, y = sparse_data(300)
    certificate = BestSubsetRegressor(2.0, bounds=(-6, 6)).fit(X, y).certificate_
    assert isinstance(certificate.guarantee, PureDP)
    assert 2.0 * (1 - 1e-9) <= certificate.guarantee.epsilon <= 2.0
    assert certificate.relation == ReplaceOne(300)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    recheck(certificate)


def test_the_least_risk_of_a_subset_moves_by_at_most_one_loss():
    rng = np.random.default_rng(0)
    n, steps, gap, radius = 6, 2**20, 1e-4, 2.0
    loss, ball = HuberLoss(0.25), LinearBall(2.0)
    span = float(loss.value(np.array([radius * 1.12 + 1]), np.zeros(1))[0])

    def score(X, y):
        found = ball.minimise(X, y, loss=loss, gap=gap * span)
        return -int(np.floor(found.value / span * n * steps))

    limit, worst = score_sensitivity(n, steps, gap), 0
    for _ in range(150):
        X = rng.normal(size=(n, 2))
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
        y = rng.choice([-1.0, 1.0], n)
        other, z = X.copy(), y.copy()
        other[0], z[0] = -X[0], y[0]
        moved = abs(score(X, y) - score(other, z))
        worst = max(worst, moved)
        assert moved <= limit
    assert worst > 0


def test_a_selection_told_of_a_smaller_sensitivity_is_refused():
    needed = score_sensitivity(50, 1000, 1e-5)
    assert needed > 1001
    for told, fits in ((needed, True), (1000, False)):
        premise = permute_and_flip_certificate(
            n=50, epsilon=1.0, scope="model", sensitivity=told
        )
        if fits:
            selected_support(premise, supports=3, steps=1000, gap=1e-5)
        else:
            with pytest.raises(RuleError):
                selected_support(premise, supports=3, steps=1000, gap=1e-5)


def test_too_many_subsets_are_refused():
    with pytest.raises(InvalidParameterError, match="subsets"):
        BestSubsetRegressor(n_selected=5).fit(np.zeros((5, 40)), np.zeros(5))


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"share": NAN},
        {"share": 1.0},
        {"share": 0.0},
        {"n_selected": 0},
        {"width": NAN},
        {"norm_bound": 0.0},
        {"radius": NAN},
    ],
    ids=str,
)
def test_hostile_values_are_refused_also_with_validation_off(bad):
    X, y = sparse_data(30)
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        BestSubsetRegressor(**bad).fit(X, y)


@estimator_checks.parametrize_with_checks(
    [
        BestSubsetRegressor(
            1e4,
            bounds=(-10.0, 10.0),
            n_selected=3,
            norm_bound=20.0,
            radius=10.0,
            random_state=0,
        )
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
