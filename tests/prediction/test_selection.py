"""P5 to P7: exact stability and privacy, fresh draws for every query."""

import math
from itertools import product

import numpy as np
import pytest
from sklearn import config_context
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError, RuleError
from reticent.guarantees import (
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    UniformStability,
    claim,
    flip_stable,
    recheck,
)
from reticent.hypotheses import FiniteClass, Intervals, Stumps, Thresholds
from reticent.mechanisms import exponential_mechanism
from reticent.prediction import RelabelingClassifier, StableSelectionClassifier
from reticent.prediction.selection.relabeling_rules import net_failure, relabeled
from reticent.prediction.selection.stable_selection_rules import (
    SelectionPlan,
    flipped_epsilon,
    private_from_stable,
    stable_selection,
)
from tests.stats import assert_rate

CLASSES = [Thresholds(), Intervals(2)]
DOMAIN = list(product(range(3), (0, 1)))
QUERIES = np.arange(3.0)[:, None]


class Planned(StableSelectionClassifier):
    """Stable selection with parameters given, so that tiny data can be used."""

    plan = SelectionPlan(1, 0.7, 0.0)

    def _plan(self, n, hypotheses):
        return self.plan


def laws(make, n):
    table = {}
    for data in product(DOMAIN, repeat=n):
        X = np.array([[float(x)] for x, _ in data])
        y = np.array([label for _, label in data])
        table[data] = make().fit(X, y).response(QUERIES).probabilities
    return table


def pairs(table):
    for data, law in table.items():
        for position, unit in product(range(len(data)), DOMAIN):
            yield law, table[(*data[:position], unit, *data[position + 1 :])]


@pytest.mark.parametrize("hypotheses", CLASSES, ids=["thresholds", "intervals"])
@pytest.mark.parametrize(("n", "subset"), [(3, 1), (3, 2)])
def test_stability_holds_for_every_neighbour(hypotheses, n, subset):
    class Model(Planned):
        plan = SelectionPlan(subset, 0.7, 0.0)

    table = laws(lambda: Model(hypotheses, stability=0.5, classes=[0, 1]), n)
    moved = max(np.abs(law - other).max() for law, other in pairs(table))
    promised = stable_selection(
        n=n, subset=subset, exponent=0.7, labels_from_data=False, seeded=False
    ).guarantee.gamma
    assert moved <= promised
    # Not vacuous: the subset's share alone is nearly reached.
    assert moved >= 0.3 * promised


@pytest.mark.parametrize("hypotheses", CLASSES, ids=["thresholds", "intervals"])
@pytest.mark.parametrize("flip", [0.05, 0.2])
def test_privacy_holds_for_every_neighbour(hypotheses, flip):
    class Model(Planned):
        plan = SelectionPlan(1, 0.7, flip)

    model = Model(hypotheses, epsilon=1.0, classes=[0, 1])
    table = laws(lambda: Model(hypotheses, epsilon=1.0, classes=[0, 1]), 3)
    worst = max(np.abs(np.log(law / other)).max() for law, other in pairs(table))
    fitted = model.fit(QUERIES, [0, 1, 1])
    assert worst <= fitted.certificate_.guarantee.epsilon
    assert worst >= 0.15 * fitted.certificate_.guarantee.epsilon


def test_the_check_rejects_too_large_an_exponent():
    class Model(Planned):
        plan = SelectionPlan(1, 14.0, 0.0)

    table = laws(lambda: Model(Thresholds(), stability=0.5, classes=[0, 1]), 3)
    moved = max(np.abs(law - other).max() for law, other in pairs(table))
    honest = stable_selection(
        n=3, subset=1, exponent=0.7, labels_from_data=False, seeded=False
    )
    assert moved > honest.guarantee.gamma


def test_the_odds_certificate_is_the_largest_ratio():
    rng = np.random.default_rng(0)
    for _ in range(200):
        q, p = rng.uniform(0, 0.9), rng.uniform(0.001, 0.49)
        exponent = rng.exponential(2.0)
        x = np.linspace(0, 1, 20_001)
        c = np.exp(-exponent)
        g = x / (c + (1 - c) * x)
        ratio = (p + (1 - 2 * p) * ((1 - q) * g + q)) / (p + (1 - 2 * p) * (1 - q) * x)
        grid = np.log(ratio).max()
        exact = flipped_epsilon(q, exponent, p)
        assert grid <= exact <= grid + 1e-3 * (1 + exponent) ** 2


def test_the_odds_certificate_beats_flipping_any_stable_label():
    premise = stable_selection(
        n=1000, subset=20, exponent=0.3, labels_from_data=False, seeded=False
    )
    sharp = private_from_stable(premise, p=0.05).guarantee.epsilon
    assert sharp < 0.7 * flip_stable(premise, p=0.05).guarantee.epsilon


def test_the_odds_certificate_needs_its_own_premise():
    other = claim(
        UniformStability(0.1), ReplaceOne(10), Scope.ANSWER, statement="elsewhere"
    )
    with pytest.raises(RuleError, match="P5"):
        private_from_stable(other, p=0.1)


def test_reusing_one_hypothesis_for_two_queries_breaks_composition():
    # Trap 2, exactly. Two hypotheses that differ at a special point and at both
    # queries; only a subset with the special point can tell them apart, so one drawn
    # hypothesis says in both answers whether somebody is there.
    family = FiniteClass(
        [lambda X: np.zeros(len(X), int), lambda X: (X[:, 0] > 0).astype(int)]
    ).on(1)
    n, exponent, flip = 8, 1e-3, 0.1
    queries = np.array([[2.0], [3.0]])

    def joint(X, y):
        law = np.zeros((2, 2))
        for unit in range(n):
            candidates = family.project(X[[unit]])
            mistakes = np.asarray(candidates.mistakes(X, y))
            chances = exponential_mechanism(-mistakes, exponent, bound=n)
            answers = candidates.predict(queries)
            for chance, pair in zip(chances.probabilities[0], answers, strict=True):
                noise = [np.where(np.arange(2) == a, 1 - flip, flip) for a in pair]
                law += chance * np.outer(*noise) / n
        return law

    X, y = np.zeros((n, 1)), np.zeros(n, int)
    without = joint(X, y)
    X[0], y[0] = 1.0, 1
    present = joint(X, y)
    one = flipped_epsilon(1 / n, exponent, flip)
    reused = np.log(present / without).max()
    fresh = np.log(present.sum(axis=1) / without.sum(axis=1)).max()
    assert fresh <= one
    assert reused > 1.25 * 2 * one


def test_every_query_draws_a_fresh_hypothesis():
    X = np.linspace(0, 1, 60)[:, None]
    y = (X[:, 0] > 0.5).astype(int)
    model = StableSelectionClassifier(Thresholds(), stability=0.4, classes=[0, 1])
    model.fit(X, y)
    drawn = model.predict(np.repeat([[0.52]], 400, axis=0))
    assert 0 < drawn.sum() < 400


def test_predict_follows_the_exact_law():
    X = np.arange(8.0)[:, None]
    y = (X[:, 0] > 3).astype(int)
    model = StableSelectionClassifier(
        Thresholds(), epsilon=3.0, flip=0.1, classes=[0, 1]
    )
    model.fit(X, y)
    law = model.response([[4.0]]).probabilities[0, 1]
    drawn = model.predict(np.repeat([[4.0]], 4000, axis=0))
    assert_rate(drawn.sum(), 4000, law)


@pytest.mark.parametrize(
    "family", [Thresholds(), Intervals(2), Stumps()], ids=["line", "interval", "stump"]
)
def test_it_learns(family):
    rng = np.random.default_rng(1)
    X = rng.random((3000, 2 if isinstance(family, Stumps) else 1))
    y = (X[:, -1] > 0.4).astype(int)
    for model in (
        StableSelectionClassifier(family, stability=0.1, classes=[0, 1]),
        StableSelectionClassifier(family, epsilon=1.0, flip=0.05, classes=[0, 1]),
    ):
        assert (model.fit(X, y).predict(X[:300]) == y[:300]).mean() > 0.8
        recheck(model.certificate_)


class TestRelabeling:
    def test_it_learns_and_certifies(self):
        rng = np.random.default_rng(2)
        X = rng.random((2000, 1))
        y = (X[:, 0] > 0.4).astype(int)
        model = RelabelingClassifier(Thresholds(), 1.0, classes=[0, 1]).fit(X, y)
        assert (model.predict(X[:300]) == y[:300]).mean() > 0.6
        assert isinstance(model.certificate_.guarantee, PureDP)
        assert 0.9 < model.certificate_.guarantee.epsilon <= 1.0
        recheck(model.certificate_)

    def test_privacy_holds_for_every_neighbour(self):
        def make():
            return RelabelingClassifier(
                Thresholds(), 4.0, flip=0.2, n_shards=2, classes=[0, 1], random_state=0
            )

        table = laws(make, 3)
        worst = max(np.abs(np.log(law / other)).max() for law, other in pairs(table))
        promised = make().fit(QUERIES, [0, 1, 1]).certificate_.guarantee.epsilon
        assert worst <= promised
        assert worst >= 0.2 * promised

    def test_the_net_improves_delta_where_it_applies(self):
        facts = {"labels_from_data": False, "seeded": False, "eta": 0.02}
        n, subset = 10**6, 30_000
        growth = (2 * subset, n)
        loose = relabeled(n=n, subset=subset, growth=growth, net=False, **facts)
        tight = relabeled(n=n, subset=subset, growth=growth, net=True, **facts)
        assert isinstance(tight.guarantee, ApproxDP)
        assert tight.guarantee.delta < 1e-60 < loose.guarantee.delta
        assert tight.guarantee.epsilon > loose.guarantee.epsilon

    def test_net_failure_covers_simulated_nets(self):
        rng = np.random.default_rng(3)
        n, subset, eta = 60, 40, 0.2
        bound = net_failure(n, subset, eta, (79, n))
        # Thresholds: two labelings differ on a run of points; a net meets every run
        # of more than eta (n - 1) of them.
        missed = 0
        run = int(np.floor(eta * (n - 1))) + 1
        for _ in range(2000):
            kept = np.sort(rng.choice(n - 1, subset - 1, replace=False))
            gaps = np.diff(np.concatenate([[-1], kept, [n - 1]])) - 1
            missed += gaps.max() >= run
        assert missed / 2000 <= bound


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "stability"),
        ({"stability": 0.1, "epsilon": 1.0}, "one of"),
        ({"stability": float("nan")}, "stability"),
        ({"stability": 1.5}, "stability"),
        ({"stability": 1e-9}, "subset"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1.0, "flip": 0.5}, "flip"),
        ({"epsilon": 1.0, "flip": float("nan")}, "flip"),
        ({"epsilon": 1.0, "hypotheses": "lines"}, "hypotheses"),
        ({"epsilon": 1.0, "classes": [0, 1, 2]}, "binary"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    X, y = np.arange(30.0)[:, None], (np.arange(30) > 9).astype(int)
    model = StableSelectionClassifier(**{"hypotheses": Thresholds(), **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X, y)


def test_repeated_units_are_refused():
    X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
    for model in (
        StableSelectionClassifier(Thresholds(), epsilon=1.0),
        RelabelingClassifier(Thresholds(), 1.0),
    ):
        with pytest.raises(InvalidDataError, match="one row per unit"):
            model.fit(X, y, units=[1, 1, 2, 3])


@estimator_checks.parametrize_with_checks(
    [
        StableSelectionClassifier(Stumps(), epsilon=20.0, flip=0.01, random_state=0),
        RelabelingClassifier(Stumps(), 20.0, flip=0.01, random_state=0),
    ],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_an_exponent_beyond_floats_costs_what_flips_allow():
    near = flipped_epsilon(0.1, 700.0, 0.05)
    beyond = flipped_epsilon(0.1, 1000.0, 0.05)
    assert near <= beyond <= math.log(0.95 / 0.05) + 1e-11
    assert flipped_epsilon(0.1, 1000.0, 0.0) == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda family: StableSelectionClassifier(family, epsilon=3.0, classes=[0, 1]),
        lambda family: StableSelectionClassifier(family, stability=0.3, classes=[0, 1]),
        lambda family: RelabelingClassifier(family, epsilon=9.0, classes=[0, 1]),
    ],
)
def test_functions_of_the_caller_are_assumed_to_read_one_row(make):
    X = np.tile([[0.0], [1.0]], (300, 1))
    y = X[:, 0].astype(int)
    table = FiniteClass.from_table([[0.0], [1.0]], [[0, 0], [0, 1]])
    functions = FiniteClass([lambda X: (X[:, 0] > X[:, 0].mean()).astype(int)])
    assert make(table).fit(X, y).certificate_.proved
    certificate = make(functions).fit(X, y).certificate_
    assert {each.code for each in certificate.assumptions} == {"ROWWISE_QUERIES"}
    recheck(certificate)
