"""L9: both certificates of the perfect learner, by enumeration of samples."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from sklearn import config_context
from sklearn.utils import estimator_checks

from reticent.errors import RuleError
from reticent.guarantees import (
    BoundedRange,
    PerfectGeneralization,
    ReplaceOne,
    Sample,
    Scope,
    pure_to_perfect,
    recheck,
)
from reticent.hypotheses import FiniteClass, Thresholds
from reticent.learners import (
    ExponentialMechanismClassifier,
    PerfectlyGeneralizingClassifier,
    perfect_sample_size,
)
from reticent.learners.selection.perfect_generalization import (
    perfect_selection,
    selection_epsilon,
)
from reticent.mechanisms import exponential_mechanism_certificate
from tests.learners.enumeration import (
    CUTS,
    DOMAIN,
    arrays,
    assert_private,
    laws,
    worst_loss,
)
from tests.stats import assert_rate_at_most, rejects

POINTS = np.array([[0.0], [1.0], [2.0]])
BETA = 0.1


def make(epsilon=0.6, **settings):
    return PerfectlyGeneralizingClassifier(
        Thresholds(), epsilon, BETA, points=POINTS, classes=[0, 1], **settings
    )


def log_orders(counts):
    return math.lgamma(sum(counts) + 1) - sum(math.lgamma(c + 1) for c in counts)


def failing_mass(model, distribution, n, epsilon):
    """Probability of the samples whose law is not within epsilon of the simulator's.

    The simulator is the paper's: the same weights, with true instead of empirical
    errors.
    """
    candidates = model.candidates(1)
    losses = np.array(
        [candidates.mistakes(*arrays([element]), None) for element in DOMAIN]
    )
    rate = selection_epsilon(n, candidates.count, model.epsilon, model.beta) / 2
    simulator = -rate * n * (distribution @ losses)
    simulator -= np.logaddexp.reduce(simulator)
    mass = 0.0
    for data in laws(lambda data: data, n):
        law = model.response(*arrays(data)).log_probabilities[0]
        if np.abs(law - simulator).max() > epsilon:
            counts = [data.count(element) for element in DOMAIN]
            chance = np.prod(distribution ** np.array(counts))
            mass += chance * math.exp(log_orders(counts))
    return mass


DISTRIBUTIONS = [
    np.full(6, 1 / 6),
    np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.5]),
    np.array([0.05, 0.45, 0.0, 0.0, 0.45, 0.05]),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=["even", "two", "noisy"])
def test_most_samples_are_close_to_the_simulator(distribution):
    assert failing_mass(make(), distribution, 6, 0.6) <= BETA


def test_an_exponent_too_large_is_caught():
    greedy = make(6.0)
    masses = [failing_mass(greedy, d, 6, 0.6) for d in DISTRIBUTIONS]
    assert max(masses) > BETA


def test_the_privacy_certificate_holds_for_every_neighbour():
    model = make()
    table = laws(lambda data: model.response(*arrays(data)).probabilities[0], 4)
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 1), (2.0, 1)])
    promised = model.fit(X, y).privacy_certificate_.guarantee.epsilon
    assert_private(table, promised)
    assert worst_loss(table) >= 0.5 * promised
    assert rejects(assert_private, table, promised / 2)


def test_both_certificates_are_derived():
    X = np.linspace(0, 2, 500)[:, None]
    model = make().fit(X, X[:, 0] > 1)
    perfect, private = model.certificate_, model.privacy_certificate_
    assert isinstance(perfect.guarantee, PerfectGeneralization)
    assert perfect.guarantee.epsilon == pytest.approx(0.6)
    assert perfect.guarantee.epsilon <= 0.6
    assert (perfect.relation, perfect.scope) == (Sample(500), Scope.MODEL)
    assert isinstance(private.guarantee, BoundedRange)
    assert private.relation == ReplaceOne(500)
    formula = 2 * 0.6 / math.sqrt(500 * 2 * math.log(2 * 4 / BETA))
    assert private.guarantee.epsilon == pytest.approx(formula)
    recheck(perfect)
    recheck(private)
    # The general conversion from privacy is weaker than the learner's own argument.
    general = pure_to_perfect(private, outputs=model.n_candidates_, beta=BETA)
    assert general.guarantee.epsilon > perfect.guarantee.epsilon
    again = pickle.loads(pickle.dumps(model))
    assert again.certificate_ == perfect


def test_the_rule_needs_the_learners_own_premise():
    other = exponential_mechanism_certificate(n=9, epsilon=1.0, scope="model")
    with pytest.raises(RuleError, match="L1"):
        perfect_selection(other, beta=0.1)


def test_the_sample_size_of_theorem_30_suffices():
    # S3 Thm 30, quick: four labelings, measured excess against error and failure.
    family = Thresholds()
    size = perfect_sample_size(4, error=0.3, failure=0.2, epsilon=1.0, beta=0.2)
    wide = math.log(2 * 4 / 0.2)
    assert size == math.ceil(6 * wide**3 / 0.09)
    rng = np.random.default_rng(0)
    truth = np.array([0.9, 0.1, 0.75])  # Pr[y = 1] at each point, equally likely
    risks = np.array(
        [
            np.where(h, 1 - truth, truth).mean()
            for h in family.project(POINTS).labels.astype(bool)
        ]
    )
    missed = 0
    for _ in range(60):
        x = rng.integers(0, 3, size)
        y = (rng.random(size) < truth[x]).astype(int)
        model = PerfectlyGeneralizingClassifier(
            family, 1.0, 0.2, points=POINTS, classes=[0, 1]
        ).fit(x[:, None].astype(float), y)
        says = model.predict(POINTS).astype(bool)
        risk = np.where(says, 1 - truth, truth).mean()
        missed += risk > risks.min() + 0.3
    assert_rate_at_most(missed, 60, 0.2)


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": 0.3, "failure": 0.2},
        {"failure": 0.7},
        {"epsilon": 2.0},
        {"error": float("nan")},
        {"candidates": 0},
    ],
)
def test_theorem_30_names_its_conditions(settings):
    facts = {"error": 0.1, "failure": 0.1, "epsilon": 0.5, "beta": 0.05}
    candidates = settings.pop("candidates", 5)
    with pytest.raises(ValueError, match="needs"):
        perfect_sample_size(candidates, **{**facts, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"beta": float("nan")}, "beta"),
        ({"hypotheses": Thresholds()}, "infinitely many"),
        ({"hypotheses": None}, "hypotheses"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 1)])
    family = FiniteClass.from_table(POINTS, [[0, 0, 1], [1, 0, 1]])
    model = PerfectlyGeneralizingClassifier(**{"hypotheses": family, **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X, y)


def test_thresholds_on_a_grid_stay_learnable_only_with_more_data():
    # |H| enters through its logarithm (Cor. 31): on finer grids it takes more data.
    sizes = [
        perfect_sample_size(2**bits, error=0.1, failure=0.1, epsilon=1.0, beta=0.1)
        for bits in (8, 16, 32, 64)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 100 * sizes[0]
    X = np.linspace(0, 1, 40)[:, None]
    model = PerfectlyGeneralizingClassifier(Thresholds(), bounds=(0, 1))
    assert model.fit(X, X[:, 0] > 0.5).n_candidates_ == 2**32 + 1


def test_it_is_the_exponential_mechanism_at_its_own_epsilon():
    X, y = arrays(list(product((0.0, 1.0, 2.0), (0, 1)))[1:])
    model = make()
    epsilon = model.fit(X, y).privacy_certificate_.guarantee.epsilon
    same = ExponentialMechanismClassifier(
        Thresholds(), epsilon, points=POINTS, classes=[0, 1]
    )
    np.testing.assert_array_equal(
        model.response(X, y).log_probabilities, same.response(X, y).log_probabilities
    )


@estimator_checks.parametrize_with_checks(
    [PerfectlyGeneralizingClassifier(CUTS, 200.0, random_state=0)],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
