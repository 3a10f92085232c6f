"""P3: released coefficients move as certified, and get the noise for it."""

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils import estimator_checks

from reticent.errors import ReticentError, RuleError
from reticent.estimators import (
    LinearFacts,
    bounded_rows,
    erm_sensitivity,
    minimise_risk,
    regression_loss,
    unit_weights,
)
from reticent.estimators.linear.losses import classification_loss
from reticent.guarantees import (
    PUBLIC_LABELS,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    ZeroOut,
    recheck,
)
from reticent.learners import (
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
)
from reticent.learners.linear.noise_rules import coefficient_sensitivity
from reticent.learners.linear.output_noise import OutputPlan
from tests.stats import ALPHA, assert_follows, law_p_value

LOSSES = {
    "logistic": classification_loss("logistic", 1.0),
    "hinge": classification_loss("hinge", 0.5),
    "huber": regression_loss("huber", 0.25, 1.0),
    "squared": regression_loss("squared", 1.0, 20.0),
}


def planned(model, loss, n, d):
    _, l1_bound, feature_bound = bounded_rows(np.zeros((1, d)), 1.0, None, True)
    return OutputPlan.of(model, loss, public_facts(n, d + 1, l1_bound, feature_bound))


def public_facts(n, dimension, l1_bound, feature_bound):
    return LinearFacts(
        n_units=n,
        dimension=dimension,
        l1_bound=l1_bound,
        feature_bound=feature_bound,
        labels_from_data=False,
        seeded=False,
    )


def minimiser(plan, X, y, left_out=()):
    rows, _, _ = bounded_rows(X, 1.0, None, True)
    weights, _ = unit_weights(None, len(rows))
    weights[list(left_out)] = 0.0  # the other units still weigh 1/n
    return minimise_risk(plan.problem, rows, y, weights, plan.tolerance)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_coefficients_move_by_at_most_their_sensitivity(name, delta):
    rng = np.random.default_rng(len(name))
    n, d = 8, 3
    model = OutputPerturbationClassifier(1.0, delta=delta, regularization=0.5)
    plan = planned(model, LOSSES[name], n, d)
    limit = plan.noise.certificate.premises[0].guarantee
    worst = 0.0
    for _ in range(120):
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, size=(n, 1))
        y = rng.integers(0, 2, n).astype(float)
        other, z = X.copy(), y.copy()
        other[0], z[0] = rng.choice([-1, 1]) * 5 * X[0], 1 - y[0]
        moved = minimiser(plan, X, y) - minimiser(plan, other, z)
        worst = max(worst, np.linalg.norm(moved))
        assert np.linalg.norm(moved) <= limit.l2
        assert np.abs(moved).sum() <= limit.l1
    assert worst > 0


def test_the_bound_is_nearly_attained_so_that_half_of_it_fails():
    n, d = 50, 1
    model = OutputPerturbationClassifier(1.0, regularization=5.0)
    plan = planned(model, classification_loss("hinge", 0.01), n, d)
    X = np.zeros((n, d))
    X[0] = 1.0
    y = np.zeros(n)
    moved = minimiser(plan, X, y) - minimiser(plan, X, 1 - y * 0 - (np.arange(n) > 0))
    limit = dict(plan.noise.certificate.premises[0].premises[0].details)
    assert limit["dimension"] == d + 1
    assert np.linalg.norm(moved) > 0.9 * plan.noise.certificate.premises[0].guarantee.l2


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_leaving_a_unit_out_moves_coefficients_by_at_most_its_sensitivity(name, delta):
    rng = np.random.default_rng(len(name))
    n, d = 8, 3
    model = OutputPerturbationClassifier(
        1.0, delta=delta, regularization=0.5, relation="zero-out"
    )
    plan = planned(model, LOSSES[name], n, d)
    assert plan.noise.certificate.relation == ZeroOut(n)
    limit = plan.noise.certificate.premises[0].guarantee
    worst = 0.0
    for _ in range(60):
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, size=(n, 1))
        y = rng.integers(0, 2, n).astype(float)
        moved = minimiser(plan, X, y) - minimiser(plan, X, y, left_out=[0])
        worst = max(worst, np.linalg.norm(moved))
        assert np.linalg.norm(moved) <= limit.l2
        assert np.abs(moved).sum() <= limit.l1
    assert worst > 0


def line_of_hinges(relation):
    """One unit at 1, the others at 0, and a hinge so sharp that its slope is full."""
    model = OutputPerturbationClassifier(
        1.0, regularization=5.0, fit_intercept=False, relation=relation
    )
    facts = public_facts(50, 1, 1.0, 1.0)
    plan = OutputPlan.of(model, classification_loss("hinge", 0.01), facts)
    rows, y = np.zeros((50, 1)), np.zeros(50)
    rows[0] = 1.0
    whole, replaced = np.full(50, 1 / 50), y.copy()
    replaced[0] = 1.0
    rest = whole.copy()
    rest[0] = 0.0
    data = {"here": (y, whole), "replaced": (replaced, whole), "left out": (y, rest)}
    found = {
        name: minimise_risk(plan.problem, rows, targets, weights, plan.tolerance)
        for name, (targets, weights) in data.items()
    }
    return plan, found


def exact_loss(plan, one, other):
    """The largest log-ratio between the laws of what is released, on the whole grid."""
    around = plan.noise.grid * np.rint(np.linspace(-9, 9, 2001) / plan.noise.grid)
    logs = [plan.noise.response(c).log_probability(around) for c in (one, other)]
    return np.abs(logs[0] - logs[1]).max()


def test_the_exact_loss_of_leaving_a_unit_out_is_nearly_what_is_certified():
    plan, found = line_of_hinges("zero-out")
    epsilon = plan.noise.certificate.guarantee.epsilon
    loss = exact_loss(plan, found["here"], found["left out"])
    assert 0.99 * epsilon < loss <= epsilon
    # The control: replacing a unit loses nearly twice as much, so that this noise
    # would not do for it; and the noise for replacing does.
    assert exact_loss(plan, found["here"], found["replaced"]) > 1.9 * epsilon
    plan, found = line_of_hinges("replace-one")
    loss = exact_loss(plan, found["here"], found["replaced"])
    assert 0.99 * epsilon < loss <= plan.noise.certificate.guarantee.epsilon


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    "kind", [OutputPerturbationClassifier, OutputPerturbationRegressor]
)
def test_leaving_a_unit_out_needs_half_the_noise(kind, delta):
    X, y = make_classification(300, random_state=0)
    fitted = {
        relation: kind(0.8, delta=delta, regularization=0.1, relation=relation).fit(
            X, y
        )
        for relation in ("replace-one", "zero-out")
    }
    certificate = fitted["zero-out"].certificate_
    recheck(certificate)
    assert certificate.relation == ZeroOut(300)
    assert certificate.scope is Scope.MODEL
    assert 0.8 * (1 - 1e-12) <= certificate.guarantee.epsilon <= 0.8
    scales = {relation: model.noise_scale_ for relation, model in fitted.items()}
    # The solver's tolerance, a thousandth of the move, counts in full for both.
    assert scales["zero-out"] == pytest.approx(scales["replace-one"] / 2, rel=2e-3)
    with pytest.raises(ValueError, match="relation"):
        kind(relation="add-remove").fit(X, y)


def test_certificates_from_before_there_was_a_relation_say_the_same():
    made = erm_sensitivity(
        n=9, lipschitz=1, feature_bound=1, radius=9, regularization=1, tolerance=0
    )
    assert "relation" not in dict(made.details)
    assert made.relation == ReplaceOne(9)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_certificates(delta):
    X, y = make_classification(300, random_state=0)
    model = OutputPerturbationClassifier(0.8, delta=delta, classes=[0, 1]).fit(X, y)
    certificate = model.certificate_
    assert isinstance(certificate.guarantee, ApproxDP if delta else PureDP)
    assert 0.8 * (1 - 1e-12) <= certificate.guarantee.epsilon <= 0.8
    assert certificate.relation == ReplaceOne(300)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    recheck(certificate)
    read = OutputPerturbationClassifier(0.8, delta=delta).fit(X, y).certificate_
    assert read.assumptions == {PUBLIC_LABELS}


def test_only_the_bound_for_rows_of_norm_one_is_taken():
    facts = {
        "n": 9,
        "lipschitz": 1.0,
        "radius": 9.0,
        "regularization": 1.0,
        "tolerance": 0.0,
    }
    coefficient_sensitivity(erm_sensitivity(feature_bound=1.0, **facts), dimension=2)
    with pytest.raises(RuleError):
        coefficient_sensitivity(
            erm_sensitivity(feature_bound=0.5, **facts), dimension=2
        )


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_noise_follows_its_law(delta):
    rng = np.random.default_rng(0)
    d, fits = 40, 25  # every coefficient of a fit has noise of its own
    X, y = rng.uniform(-0.1, 0.1, (5, d)), np.array([0, 1, 1, 0, 1])
    model = OutputPerturbationClassifier(
        1.0, delta=delta, classes=[0, 1], fit_intercept=False, regularization=1.0
    )
    rows, l1_bound, norm = bounded_rows(X, 1.0, None, False)
    facts = public_facts(5, d, l1_bound, norm)
    plan = OutputPlan.of(model, LOSSES["logistic"], facts)
    weights, _ = unit_weights(None, 5)
    exact = minimise_risk(plan.problem, rows, y.astype(float), weights, plan.tolerance)
    drawn = np.concatenate([model.fit(X, y).coef_[0] - exact for _ in range(fits)])
    noise = drawn / model.noise_scale_
    law = stats.norm if delta else stats.laplace
    edges = law.ppf(np.linspace(0, 1, 9)[1:-1])

    def counts(values):
        return np.bincount(np.searchsorted(edges, values), minlength=8)

    assert_follows(counts(noise), np.full(8, 1 / 8))
    assert law_p_value(counts(noise / 2), np.full(8, 1 / 8)) < ALPHA
    # The control: one draw for all coefficients of a fit, or one for all fits.
    assert len(np.unique(drawn)) > 0.99 * d * fits


def test_it_learns():
    X, y = make_classification(
        20_000, 5, n_informative=3, n_redundant=0, random_state=1
    )
    plain = LogisticRegression().fit(X, y).score(X, y)
    for delta in (0.0, 1e-6):
        model = OutputPerturbationClassifier(
            2.0, delta=delta, norm_bound=4.0, random_state=0
        )
        assert model.fit(X, y).score(X, y) > plain - 0.03


@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_regression(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3))
    y = 50 + 20 * X[:, 0] - 10 * X[:, 2] + rng.normal(0, 1, 20_000)
    model = OutputPerturbationRegressor(
        4.0, delta=1e-6, bounds=(0, 100), loss=loss, norm_bound=2.0, radius=1.5
    )
    certificate = model.fit(X, y).certificate_
    assert certificate.proved
    recheck(certificate)
    # Noise may spoil a model; this one is always the same.
    seeded = model.set_params(random_state=0).fit(X, y)
    assert seeded.score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.2


def test_units_of_several_rows_weigh_one():
    X, y = make_classification(200, random_state=0)
    model = OutputPerturbationClassifier(classes=[0, 1])
    model.fit(X, y, units=np.arange(200) // 4)
    assert model.certificate_.relation == ReplaceOne(50)


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": -1.0},
        {"delta": NAN},
        {"delta": 1.0},
        {"norm_bound": 0.0},
        {"norm_bound": NAN},
        {"radius": NAN},
        {"radius": 0.0},
        {"regularization": NAN},
        {"regularization": 0.0},
        {"loss": "nil"},
        {"relation": "sample"},
        {"width": NAN, "loss": "hinge"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind", [OutputPerturbationClassifier, OutputPerturbationRegressor]
)
def test_hostile_values_are_refused_also_with_validation_off(kind, bad):
    X, y = make_classification(40, random_state=0)
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        kind(**bad).fit(X, y)


QUIET = {"epsilon": 1e5, "norm_bound": 20.0, "regularization": 1e-4}
QUIET |= {"random_state": 0}


@estimator_checks.parametrize_with_checks(
    [
        OutputPerturbationClassifier(**QUIET, radius=100.0),
        OutputPerturbationRegressor(**QUIET, bounds=(-10.0, 10.0), radius=20.0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
