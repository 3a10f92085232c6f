"""Perturbed minimisation with public points: chances, moves, noise (M1, M2)."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError, ReticentError, RuleError
from reticent.guarantees import (
    EXACT_ORACLE,
    PUBLIC_LABELS,
    ApproxDP,
    ReplaceOne,
    Scope,
    recheck,
)
from reticent.hypotheses import Halfspaces, Stumps, Thresholds
from reticent.learners import PerturbedERMClassifier
from reticent.learners.public.perturbed_erm import nearest_labels
from reticent.learners.public.rules import (
    complexity_at_most,
    mean_at_most,
    near_tie_at_most,
    perturbed_minimisers,
    perturbed_move,
    squared_move_at_most,
)
from reticent.learners.public.separator_oracles import oracle_for
from tests.stats import assert_rate_at_most, rejects

CLASSES = {
    "all labelings of 3": np.array(list(product([-1.0, 1.0], repeat=3))),
    "thresholds on 5": np.array([[-1.0] * k + [1.0] * (5 - k) for k in range(6)]),
    "two of 8, one apart": np.array([[1.0] * 8, [1.0] * 7 + [-1.0]]),
}


def distances(labels, first, second):
    return ((labels[first] - labels[second]) ** 2).mean(axis=1)


def coupled_minimisers(labels, slack, rng, trials):
    """Minimisers under the same costs of two functions that differ by `slack` at most.

    The functions push apart the hypotheses that would tie most often, in units of the
    process; they are as different as neighbours can be.
    """
    process = rng.normal(size=(trials, labels.shape[1])) @ labels.T
    process /= np.sqrt(labels.shape[1])
    start = rng.uniform(-0.5, 0.5, len(labels))
    signs = rng.choice([-1.0, 1.0], len(labels))
    first = (process + start).argmin(axis=1)
    second = (process + start + slack * signs).argmin(axis=1)
    return first, second


@pytest.mark.parametrize("slack", [0.01, 0.1, 0.6])
@pytest.mark.parametrize("name", sorted(CLASSES))
def test_far_moves_are_as_rare_as_promised(name, slack):
    labels, rng, trials = CLASSES[name], np.random.default_rng(0), 20_000
    m = labels.shape[1]
    complexity = complexity_at_most(m, len(labels))
    for _ in range(6):
        found = distances(labels, *coupled_minimisers(labels, slack, rng, trials))
        for k in range(1, m + 1):
            bound = near_tie_at_most(
                np.sqrt(4 * k / m), slack=slack, complexity=complexity
            )
            hits = int((found >= 4 * k / m - 1e-9).sum())
            if bound < 1:
                assert_rate_at_most(hits, trials, bound)
        mean = squared_move_at_most(m=m, slack=slack, complexity=complexity)
        assert found.mean() <= mean + 4 * 6 / np.sqrt(trials)


def test_one_point_exactly():
    # F(+) - F(-) = difference + 2 xi; the sign turns on an interval of length slack.
    for slack in (0.001, 0.01, 0.1):
        chance = 2 * stats.norm.cdf(slack / 2) - 1
        bound = near_tie_at_most(2.0, slack=slack, complexity=complexity_at_most(1, 2))
        assert chance <= bound

        def within(share, chance=chance, bound=bound):
            assert chance <= share * bound

        assert rejects(within, 0.45)


def test_the_complexity_bounds_the_mean_largest():
    rng = np.random.default_rng(1)
    for labels in CLASSES.values():
        process = rng.normal(size=(40_000, labels.shape[1])) @ labels.T
        largest = (process / np.sqrt(labels.shape[1])).max(axis=1).mean()
        assert largest <= complexity_at_most(labels.shape[1], len(labels)) + 0.05
    assert complexity_at_most(1, 2) == pytest.approx(math.sqrt(2 / math.pi))


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
@pytest.mark.parametrize("count", [1, 20, 3000])
def test_means_of_coins_stay_below_their_bound(count, delta):
    for chance in (1e-4, 0.05, 0.4):
        bound = mean_at_most(chance, count=count, delta=delta)
        tail = stats.binom.sf(math.floor(bound * count), count, chance)
        assert tail <= delta
        if bound < 1 and bound * count > 5:
            closer = chance + 0.6 * (bound - chance)
            assert stats.binom.sf(math.floor(closer * count), count, chance) > delta
    assert mean_at_most(0.0, count=3, delta=0.1) == 1.0


def reference_move(n, m, eta, repeats, complexity, grid, delta):
    """The same number in high precision, by other means."""
    slack = mpmath.mpf(1) / (mpmath.mpf(n) * eta)

    def chance(square, slack):
        width = 4 * slack / square
        return min(mpmath.mpf(1), width * complexity + width**2 / 4)

    mean = sum(chance(mpmath.mpf(4 * k) / m, slack) for k in range(1, m + 1)) * 4 / m
    fine = chance(mpmath.mpf(4) / m, mpmath.sqrt(m) * mpmath.mpf(grid) / 2)
    mean = min(mpmath.mpf(4), mean + 8 * fine + m * mpmath.mpf(grid) ** 2) / 4
    level = mpmath.log(1 / mpmath.mpf(delta)) / repeats

    def excess(p):
        return p * mpmath.log(p / mean) + (1 - p) * mpmath.log((1 - p) / (1 - mean))

    low, high = mean, 1 - mpmath.mpf(10) ** -40
    if mean >= 1 or excess(high) <= level:
        return mpmath.mpf(2)
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= level else (middle, high)
    return 2 * mpmath.sqrt(high)


def test_the_move_agrees_with_high_precision_and_rounds_up():
    rng = np.random.default_rng(2)
    with mpmath.workdps(60):
        for _ in range(40):
            facts = {
                "n": int(rng.integers(10, 10**6)),
                "m": int(rng.integers(1, 60)),
                "eta": float(np.exp(rng.uniform(-5, 1))),
                "repeats": int(rng.integers(1, 5000)),
                "complexity": float(rng.uniform(0.5, 4)),
                "grid": 2.0 ** int(rng.integers(-45, -20)),
                "delta": float(np.exp(rng.uniform(-25, -2))),
            }
            exact = reference_move(**facts)
            assert exact <= perturbed_move(**facts) * (1 + 1e-15)
            assert perturbed_move(**facts) <= exact * (1 + mpmath.mpf(10) ** -9)


FACTS = {
    "n": 1000,
    "m": 1,
    "eta": 0.2,
    "repeats": 1,
    "labelings": 2,
    "weight_grid": 2.0**-40,
    "epsilon": 1.0,
    "delta": 0.1,
    "delta_stability": 0.05,
    "oracle": "FiniteClass",
}


def hockey_stick(chances, scale, epsilon):
    """The exact delta between two mixtures of Gaussians around -1 and 1."""
    places = np.linspace(-1 - 12 * scale, 1 + 12 * scale, 20_001)
    first, second = (
        chance * stats.norm.pdf(places, 1, scale)
        + (1 - chance) * stats.norm.pdf(places, -1, scale)
        for chance in chances
    )
    return integrate.trapezoid(np.maximum(first - np.exp(epsilon) * second, 0), places)


def test_one_point_and_one_minimiser_are_private_exactly():
    # A label is released as f + noise, with f by the exact law of the minimiser.
    n, eta, epsilon, delta = FACTS["n"], FACTS["eta"], 1.0, 0.1
    scale = 2.0 / 0.61  # accepted below
    perturbed_minimisers(**FACTS, scale=scale, grid=2.0**-20)
    with pytest.raises(RuleError):
        perturbed_minimisers(**FACTS, scale=scale / 3, grid=2.0**-20)
    for mistakes in (0, n // 2, n):
        levels = [(2 * k - n) / n for k in (mistakes, max(0, mistakes - 1))]
        chances = [float(stats.norm.cdf(level / (2 * eta))) for level in levels]
        for pair in (chances, chances[::-1]):
            assert hockey_stick(pair, scale, epsilon) <= delta
    # A control: labels that turn around for one unit need the noise.
    assert hockey_stick((1.0, 0.0), scale / 3, epsilon) > delta


def make(**settings):
    facts = {"repeats": 10, "classes": [0, 1], **settings}
    return PerturbedERMClassifier(Thresholds("either"), 1.0, delta=1e-6, **facts)


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return X, (X[:, 0] > 0.2).astype(int), rng.normal(size=(9, 1))


def test_certificates():
    X, y, public = rows()
    model = make().fit(X, y, public=public)
    certificate = model.certificate_
    assert certificate.guarantee == ApproxDP(1.0, 1e-6)
    assert certificate.relation == ReplaceOne(200)
    assert certificate.scope is Scope.MODEL
    assert [step.rule for step in certificate.walk()] == ["M1", "M2"]
    assert certificate.proved
    recheck(certificate)
    details = dict(certificate.premises[0].details)
    with pytest.raises(RuleError):
        perturbed_minimisers(**{**details, "scale": 0.999 * details["scale"]})
    assert make(classes=None).fit(X, y, public=public).certificate_.assumptions == {
        PUBLIC_LABELS
    }
    grouped = make().fit(X, y, np.arange(200) // 2, public=public)
    assert grouped.certificate_.relation == ReplaceOne(100)


@pytest.mark.parametrize(
    "oracle", [LogisticRegression(), Halfspaces()], ids=["heuristic", "program"]
)
def test_oracles_without_a_proof_are_assumed(oracle):
    X, y, public = rows(40)
    model = PerturbedERMClassifier(oracle, repeats=2, classes=[0, 1])
    assert model.fit(X, y, public=public[:5]).certificate_.assumptions == {EXACT_ORACLE}
    assert set(model.predict(X)) <= {0, 1}
    recheck(model.certificate_)


def test_the_model_is_a_function_of_the_noisy_labels_alone():
    X, y, public = rows()
    model = make().fit(X, y, public=public)
    oracle = oracle_for(Thresholds("either"), 1)
    won = nearest_labels(oracle, public, model.public_values_)
    assert model.hypothesis_ == oracle.release(public, won)
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned == {
        "hypothesis_",
        "public_values_",
        "certificate_",
        "noise_scale_",
        "eta_",
        "classes_",
        "n_units_",
        "n_features_in_",
    }


@pytest.mark.parametrize("family", [Stumps(), Thresholds("either")], ids=repr)
def test_the_nearest_labels_are_found(family):
    rng = np.random.default_rng(3)
    width = 2 if isinstance(family, Stumps) else 1
    points, values = rng.normal(size=(7, width)), rng.normal(size=7)
    oracle = oracle_for(family, width)
    found = 2 * nearest_labels(oracle, points, values) - 1
    listed = 2.0 * family.on(width).project(points).predict(points) - 1
    assert found @ values == pytest.approx((listed @ values).max())


def test_it_learns_when_there_is_much_to_learn_from():
    X, y, public = rows(4000)
    model = PerturbedERMClassifier(
        Thresholds(), 1e3, delta=1e-2, repeats=60, classes=[0, 1]
    )
    assert model.fit(X, y, public=public).score(X, y) > 0.75


def test_it_averages_what_the_costs_leave_open():
    # Without private rows in the balance every labeling is about as likely.
    model = PerturbedERMClassifier(
        Thresholds("either"),
        1e6,
        delta=0.5,
        repeats=400,
        eta=3.0,
        classes=[0, 1],
    )
    X = np.zeros((20, 1))
    model.fit(X, np.arange(20) % 2, public=np.ones((1, 1)))
    assert abs(float(model.public_values_[0])) < 0.5


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": 0.0},
        {"delta": NAN},
        {"delta": 0.0},
        {"delta": 1.0},
        {"repeats": 0},
        {"repeats": NAN},
        {"eta": NAN},
        {"eta": 0.0},
        {"eta": 1e-30},
        {"hypotheses": 3},
        {"classes": ["a", "b", "c"]},
    ],
    ids=str,
)
def test_hostile_values_are_refused_also_with_validation_off(bad):
    X, y, public = rows(30)
    model = PerturbedERMClassifier(**{"hypotheses": Thresholds(), **bad})
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        model.fit(X, y, public=public)


def test_public_rows_must_be_given_and_public():
    X, y, _ = rows(30)
    with pytest.raises(InvalidDataError, match="public"):
        make().fit(X, y)
    with pytest.raises(InvalidDataError, match="training rows"):
        make().fit(X, y, public=X)
    with pytest.raises(InvalidDataError, match="features"):
        make().fit(X, y, public=np.ones((3, 2)))


class WithPublicRows(PerturbedERMClassifier):
    """scikit-learn's checks know no public rows: three of the right width."""

    def fit(self, X, y, units=None):
        shape = np.asarray(X).shape
        width = shape[1] if len(shape) == 2 else 1
        public = np.outer([-1.0, 0.0, 1.0], np.ones(max(width, 1)))
        return super().fit(X, y, units, public=public)


@estimator_checks.parametrize_with_checks(
    [WithPublicRows(Stumps(), 20.0, repeats=2, random_state=0)],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
