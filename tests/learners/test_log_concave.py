"""L2, L5: the net's law is exactly private; the sampler says when it has not mixed."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from reticent.errors import InvalidParameterError, ReticentError
from reticent.estimators.linear.losses import classification_loss
from reticent.estimators.linear.solvers import BallProblem
from reticent.guarantees import ApproxDP, BoundedRange, ReplaceOne, Scope, recheck
from reticent.learners import (
    FourierFeatures,
    LogConcaveClassifier,
    LogConcaveRegressor,
    NoisyGradientClassifier,
)
from reticent.learners.linear.log_concave_laws import (
    SAMPLER_TV,
    BallTarget,
    net_law,
    net_of_ball,
    sample_ball,
)
from reticent.mechanisms import noise_source

RADIUS = 2.0
RANGE = math.log1p(math.exp(RADIUS)) - math.log1p(math.exp(-RADIUS))


def target(x, y, epsilon, *, span=RANGE):
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    loss = classification_loss("logistic", 1.0)
    return BallTarget(
        problem=BallProblem(loss, 1.0, RADIUS, 0.1),
        rows=x,
        targets=y,
        weights=np.full(len(y), 1 / len(y)),
        n_units=len(y),
        epsilon=epsilon,
        low=math.log1p(math.exp(-RADIUS)),
        span=span,
    )


def worst_range(epsilon, *, span=RANGE, n=3):
    """Largest spread of log-ratios over all datasets on a small domain."""
    domain = [([x], y) for x in (-1.0, 0.25, 1.0) for y in (0, 1)]
    net = net_of_ball(1, RADIUS, 41)
    logs = {}
    for data in product(range(len(domain)), repeat=n):
        x, y = zip(*(domain[i] for i in data), strict=True)
        law = net_law(target(x, y, epsilon, span=span), net, None)
        logs[data] = law.log_probabilities[0]
    worst = 0.0
    for data, here in logs.items():
        for other in range(len(domain)):
            gap = here - logs[(other, *data[1:])]
            worst = max(worst, float(gap.max() - gap.min()))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_law_on_a_net_has_bounded_range_on_every_dataset(epsilon):
    worst = worst_range(epsilon)
    assert 0.9 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_half_the_range_of_the_loss_would_be_caught():
    # Losses beyond the declared range are clipped, so the promise holds even then;
    # an epsilon twice as large does not.
    assert worst_range(1.0, span=RANGE / 2) <= 1.0 * (1 + 1e-9)
    assert worst_range(2.0) > 1.0


def test_the_net_is_public_and_fills_the_ball():
    for dimension in (1, 2, 3):
        net = net_of_ball(dimension, 3.0, 1000)
        assert 500 < len(net) < 2000
        assert (np.linalg.norm(net, axis=1) <= 3.0 * (1 + 1e-12)).all()
        assert (net == 0).all(axis=1).any()


def test_averages_over_units_weigh_one_unit_as_one():
    net = net_of_ball(1, RADIUS, 11)
    rows, labels = [[1.0], [1.0], [-1.0]], [1, 1, 0]
    twice = net_law(target(rows, labels, 1.0), net, None)
    units = np.array([0, 0, 1])
    grouped = target(rows, labels, 1.0)
    grouped = BallTarget(**{**grouped.__dict__, "n_units": 2})
    once = net_law(target([[1.0], [-1.0]], [1, 0], 1.0), net, None)
    together = net_law(grouped, net, units)
    assert together.log_probabilities == pytest.approx(once.log_probabilities, abs=1e-5)
    assert twice.log_probabilities != pytest.approx(once.log_probabilities, abs=1e-2)


def test_a_net_gives_a_proved_certificate():
    X, y = make_classification(
        3000, 2, n_redundant=0, n_clusters_per_class=1, random_state=1
    )
    model = LogConcaveClassifier(3.0, norm_bound=3.0, classes=[0, 1]).fit(X, y)
    assert model.certificate_.guarantee == BoundedRange(3.0)
    assert model.certificate_.relation == ReplaceOne(3000)
    assert model.certificate_.scope is Scope.MODEL
    assert model.certificate_.proved
    recheck(model.certificate_)
    assert model.score(X, y) > 0.6


def test_a_sampler_is_conditional_always_and_learns():
    X, y = make_classification(
        600, 4, n_informative=3, n_redundant=0, class_sep=2.0, random_state=0
    )
    seen = []
    model = LogConcaveClassifier(
        4.0, norm_bound=4.0, steps=10_000, tv_error=1e-6, classes=[0, 1]
    ).fit(X, y, report=seen.append)
    certificate = model.certificate_
    assert isinstance(certificate.guarantee, ApproxDP)
    assert certificate.guarantee.epsilon == 4.0
    assert certificate.guarantee.delta == pytest.approx((1 + math.exp(4)) * 1e-6)
    assert certificate.assumptions == {SAMPLER_TV}
    assert not certificate.proved
    recheck(certificate)
    (diagnostics,) = seen
    assert diagnostics.converged
    assert diagnostics.r_hat < 1.05
    assert model.score(X, y) > 0.6


def test_too_few_steps_show_in_the_diagnostics():
    X, y = make_classification(500, 6, n_informative=4, random_state=0)
    model = LogConcaveClassifier(1.0, norm_bound=4.0, steps=12, classes=[0, 1])
    seen = []
    with pytest.warns(ConvergenceWarning, match="steps"):
        model.fit(X, y, report=seen.append)
    assert not seen[0].converged
    assert not model.certificate_.proved


@pytest.mark.parametrize("model", [LogConcaveClassifier(), LogConcaveRegressor()])
def test_the_released_model_holds_nothing_but_public_facts_and_its_draw(model):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.4, 0.4, (200, 5)), rng.integers(0, 2, 200)
    model.set_params(steps=12)
    with pytest.warns(ConvergenceWarning, match="steps"):
        model.fit(X, y)
    kept = set(vars(pickle.loads(pickle.dumps(model)))) - set(model.get_params())
    public = {"n_features_in_", "n_units_", "certificate_", "classes_", "bounds_"}
    assert kept <= public | {"coef_", "intercept_"}


def test_the_sampler_agrees_with_the_exact_law():
    """In one dimension the density can be summed; the chains must follow it."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(40, 1))
    y = (x[:, 0] + rng.normal(0, 0.5, 40) > 0).astype(float)
    law = target(x, y, 3.0)
    grid = np.linspace(-RADIUS, RADIUS, 4001)[:, None]
    weight = np.exp(law.log_density(grid) - law.log_density(grid).max())
    exact = float((weight @ grid)[0] / weight.sum())
    spread = math.sqrt(float(weight @ (grid[:, 0] - exact) ** 2 / weight.sum()))
    drawn = [
        sample_ball(law, chains=4, steps=60, source=noise_source(seed))[0][0]
        for seed in range(120)
    ]
    # Six standard errors.
    assert np.mean(drawn) == pytest.approx(exact, abs=6 * spread / math.sqrt(120))
    assert np.std(drawn) == pytest.approx(spread, rel=0.5)


def test_improper_targets_are_refused():
    with (
        config_context(skip_parameter_validation=True),
        pytest.raises(InvalidParameterError, match="improper"),
    ):
        LogConcaveClassifier(radius=math.inf).fit(
            *make_classification(40, random_state=0)
        )


def test_a_net_in_high_dimension_is_refused():
    with pytest.raises(InvalidParameterError, match="sampler"):
        LogConcaveClassifier(method="net").fit(*make_classification(40, random_state=0))


def test_regression_on_a_net():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(12_000, 1))
    model = LogConcaveRegressor(4.0, bounds=(0, 10)).fit(X, 5 + 4 * X[:, 0])
    assert model.score(X, 5 + 4 * X[:, 0]) > 0.7
    recheck(model.certificate_)


def test_fourier_features_are_public_and_make_kernels():
    X, y = make_moons(4000, noise=0.15, random_state=0)
    features = FourierFeatures(40, bandwidth=0.7, random_state=0)
    rows = features.fit_transform(X)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0)
    other = FourierFeatures(40, bandwidth=0.7, random_state=0).fit(X + 100)
    assert (other.frequencies_ == features.frequencies_).all()
    kernel = np.exp(-((X[:50, None] - X[None, :50]) ** 2).sum(axis=2) / (2 * 0.7**2))
    assert np.abs(rows[:50] @ rows[:50].T - kernel).mean() < 0.15
    model = make_pipeline(features, NoisyGradientClassifier(2.0, 1e-5, classes=[0, 1]))
    assert model.fit(X, y).score(X, y) > 0.92


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": 0.0},
        {"radius": NAN},
        {"radius": -1.0},
        {"norm_bound": NAN},
        {"regularization": NAN},
        {"method": "guess"},
        {"tv_error": 0.0, "method": "sampler"},
        {"tv_error": NAN, "method": "sampler"},
        {"steps": 0, "method": "sampler"},
        {"chains": 1, "method": "sampler"},
        {"net_points": 0, "method": "net"},
        {"loss": "nil"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [LogConcaveClassifier, LogConcaveRegressor])
def test_hostile_values_are_refused_also_with_validation_off(kind, bad):
    X, y = [[0.1], [0.2], [0.3], [-0.5]], [0, 1, 1, 0]
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        kind(**bad).fit(X, y)


LOUD = {"epsilon": 500.0, "tv_error": 1e-250, "steps": 300, "norm_bound": 5.0}
LOUD |= {"random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@estimator_checks.parametrize_with_checks(
    [
        LogConcaveClassifier(**LOUD, radius=10.0),
        LogConcaveRegressor(**LOUD, bounds=(-5.0, 5.0)),
        FourierFeatures(10, random_state=0),
    ],
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
