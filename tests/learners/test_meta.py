"""L6, L7, L10: certificates of learners around learners, against exact laws."""

import math
import pickle
from itertools import permutations, product
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import estimator_checks

from reticent.errors import InvalidParameterError, RuleError, TooFewRecordsError
from reticent.guarantees import (
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
    recheck,
    resample_perfect,
    subsample,
)
from reticent.hypotheses import FiniteClass
from reticent.learners import (
    ExponentialMechanismClassifier,
    HighConfidence,
    OutputPerturbationClassifier,
    PerfectlyGeneralizingClassifier,
    Resampled,
    Subsampled,
)
from reticent.learners.meta import high_confidence
from reticent.learners.selection.candidates import FIXED_POINT
from reticent.mechanisms import noise_source, permute_and_flip
from reticent.prediction import ProjectedWalkClassifier
from tests.learners.enumeration import (
    CUTS,
    arrays,
    assert_private,
    largest_delta,
    laws,
    worst_loss,
)
from tests.stats import assert_follows, rejects

EPSILON = 1.2
DOMAIN = list(product((0.0, 1.0), (0, 1)))
POINTS = np.array([[0.0], [1.0]])
LABELS = np.array([[0, 0], [0, 1], [1, 1]])
TABLE = FiniteClass.from_table(POINTS, LABELS)


def base(epsilon=EPSILON, **settings):
    return ExponentialMechanismClassifier(
        TABLE, epsilon, **{"classes": [0, 1], **settings}
    )


KNOWN = WeakKeyDictionary()


def base_law(learner, data):
    """The learners here ignore the order of units, so each multiset is enough."""
    laws_of_learner = KNOWN.setdefault(learner, {})
    key = tuple(sorted(data))
    if key not in laws_of_learner:
        laws_of_learner[key] = learner.response(*arrays(key)).probabilities[0]
    return laws_of_learner[key]


def released_label(model):
    """Which row of the table a released model is."""
    return LABELS.tolist().index(model.predict(POINTS).tolist())


def draws_of(meta, data, times, seed=0):
    X, y = arrays(data)
    meta.set_params(random_state=np.random.RandomState(seed))
    found = [released_label(meta.fit(X, y)) for _ in range(times)]
    return np.bincount(found, minlength=len(LABELS))


class TestSubsampled:
    def law(self, data, size, epsilon=EPSILON):
        orders, learner = list(permutations(data, size)), base(epsilon)
        return sum(base_law(learner, order) for order in orders) / len(orders)

    @pytest.mark.parametrize(("n", "size"), [(3, 1), (3, 2), (4, 2)])
    def test_the_certificate_holds_for_every_neighbour(self, n, size):
        table = laws(lambda data: self.law(data, size), n, DOMAIN)
        X, y = arrays([DOMAIN[0]] * (n - 1) + [DOMAIN[1]])
        model = Subsampled(base(), size).fit(X, y)
        promised = model.certificate_.guarantee.epsilon
        assert promised == pytest.approx(math.log1p(size / n * math.expm1(EPSILON)))
        assert promised < EPSILON
        assert_private(table, promised, domain=DOMAIN)
        assert worst_loss(table, DOMAIN) >= 0.3 * promised
        recheck(model.certificate_)
        assert model.certificate_.relation == ReplaceOne(n)

    def test_twice_the_exponent_is_caught(self):
        table = laws(lambda data: self.law(data, 2, 4 * EPSILON), 3, DOMAIN)
        promised = math.log1p(2 / 3 * math.expm1(EPSILON))
        assert rejects(assert_private, table, promised, domain=DOMAIN)

    def test_draws_follow_the_enumerated_law(self):
        data = [(0.0, 0), (1.0, 1), (1.0, 1), (0.0, 1)]
        counts = draws_of(Subsampled(base(4.0), 2), data, 300)
        assert_follows(counts, self.law(data, 2, 4.0))

    def test_the_default_size_is_the_root(self):
        X = np.linspace(0, 1, 401)[:, None].round()
        model = Subsampled(base()).fit(X, X[:, 0].astype(int))
        assert model.learner_.n_units_ == 20
        assert model.n_units_ == 401


class OrderSensitive(ClassifierMixin, BaseEstimator):
    """Says 1 with a probability that depends on who comes first and who second."""

    smallest, epsilon = 0.08, 1.0

    def __init__(self, classes=None, random_state=None):
        self.classes = classes
        self.random_state = random_state

    @classmethod
    def chance(cls, values):
        first, second = values
        steps = int(first == 1) + int(second == 2)
        return cls.smallest * math.exp(cls.epsilon * steps)

    def fit(self, X, y):
        rate = self.chance(np.asarray(X)[:, 0])
        uniform = np.random.default_rng(self.random_state).random()
        self.says_ = int(uniform < rate)
        self.classes_ = np.array([0, 1])
        self.certificate_ = claim(
            PureDP(self.epsilon),
            ReplaceOne(len(X)),
            Scope.MODEL,
            statement="enumerated in the test",
        )
        return self

    def predict(self, X):
        return np.full(len(X), self.says_)


class TestOrder:
    """Trap 5: without fresh order, amplification is false."""

    letters = (0, 1, 2, 3)

    def fresh(self, data):
        rates = [OrderSensitive.chance(pair) for pair in permutations(data, 2)]
        return np.array([1 - np.mean(rates), np.mean(rates)])

    def stale(self, data):
        pairs = [(data[0], data[1]), (data[0], data[2]), (data[1], data[2])]
        rate = np.mean([OrderSensitive.chance(pair) for pair in pairs])
        return np.array([1 - rate, rate])

    def losses(self, law):
        table = {data: law(data) for data in product(self.letters, repeat=3)}
        return max(
            np.abs(
                np.log(table[data] / table[(*data[:place], unit, *data[place + 1 :])])
            ).max()
            for data in table
            for place, unit in product(range(3), self.letters)
        )

    def promised(self):
        premise = claim(
            PureDP(1.0), ReplaceOne(2), Scope.MODEL, statement="enumerated in the test"
        )
        return subsample(premise, n=3, order="shuffled").guarantee.epsilon

    def test_the_base_is_private(self):
        table = {
            pair: np.array(
                [1 - OrderSensitive.chance(pair), OrderSensitive.chance(pair)]
            )
            for pair in product(self.letters, repeat=2)
        }
        worst = max(
            np.abs(np.log(table[a] / table[b])).max()
            for a, b in product(table, repeat=2)
            if sum(x != y for x, y in zip(a, b, strict=True)) == 1
        )
        assert worst <= 1 + 1e-12

    def test_fresh_order_keeps_the_promise_and_table_order_breaks_it(self):
        assert self.losses(self.fresh) <= self.promised()
        assert self.losses(self.stale) > 1.05 * self.promised()

    def test_the_subsample_arrives_in_fresh_order(self):
        seen = []

        class Witness(OrderSensitive):
            def fit(self, X, y):
                seen.append(tuple(X[:, 0]))
                return super().fit(X, y)

        X = np.array([[1], [2], [3]])
        model = Subsampled(Witness(), 2, random_state=np.random.RandomState(0))
        for _ in range(400):
            model.fit(X, [0, 1, 1])
        orders = list(permutations((1, 2, 3), 2))
        counts = np.array([seen.count(order) for order in orders])
        assert_follows(counts, np.full(6, 1 / 6))
        stale = [1 / 3 if a < b else 0.0 for a, b in orders]
        assert rejects(assert_follows, counts, stale)


class TestHighConfidence:
    confidence = 0.5  # two models, so three parts

    def law(self, data, epsilon=EPSILON):
        """One unit a part: go through all deals, models and choices."""
        total = np.zeros(len(LABELS))
        deals, learner = list(permutations(data)), base(epsilon)
        for first, second, (x, label) in deals:
            one, two = base_law(learner, [first]), base_law(learner, [second])
            wrong = (LABELS[:, int(x)] != label).astype(int)
            for a, b in product(range(len(LABELS)), repeat=2):
                choice = permute_and_flip([-wrong[a], -wrong[b]], epsilon, bound=1)
                chances = choice.probabilities[0]
                total[a] += one[a] * two[b] * chances[0]
                total[b] += one[a] * two[b] * chances[1]
        return total / len(deals)

    def test_the_certificate_holds_for_every_neighbour(self):
        table = laws(self.law, 3, DOMAIN)
        X, y = arrays([(0.0, 0), (1.0, 1), (1.0, 0)])
        model = HighConfidence(base(), self.confidence).fit(X, y)
        assert model.certificate_.guarantee == PureDP(EPSILON)
        assert model.certificate_.relation == ReplaceOne(3)
        assert model.certificate_.scope is Scope.MODEL
        assert_private(table, EPSILON, domain=DOMAIN)
        assert worst_loss(table, DOMAIN) >= 0.2 * EPSILON
        recheck(model.certificate_)

    def test_six_times_the_exponent_is_caught(self):
        table = laws(lambda data: self.law(data, 6 * EPSILON), 3, DOMAIN)
        assert rejects(assert_private, table, EPSILON, domain=DOMAIN)

    def test_draws_follow_the_enumerated_law(self):
        data = [(0.0, 0), (1.0, 1), (1.0, 1)]
        counts = draws_of(HighConfidence(base(3.0), self.confidence), data, 300)
        assert_follows(counts, self.law(data, 3.0))

    @pytest.mark.parametrize(
        ("confidence", "models"), [(0.5, 2), (0.9, 4), (0.95, 5), (0.999, 9)]
    )
    def test_the_number_of_models_is_that_of_theorem_18(self, confidence, models):
        X = np.tile(POINTS, (50, 1))
        model = HighConfidence(base(), confidence).fit(X, X[:, 0].astype(int))
        assert model.n_models_ == models == math.ceil(math.log(3 / (1 - confidence)))

    def test_the_choice_costs_its_own_epsilon_if_that_is_larger(self):
        X = np.tile(POINTS, (50, 1))
        y = X[:, 0].astype(int)
        model = HighConfidence(base(), epsilon=3.0, selection="exponential").fit(X, y)
        assert model.certificate_.guarantee == PureDP(3.0)
        recheck(model.certificate_)

    def test_the_model_that_is_kept_carries_the_price_of_the_choice(self):
        """By itself it promises 1-DP to the units of one part; the choice is 3-DP."""
        X, y = np.linspace(0, 1, 60)[:, None], np.arange(60) % 2
        learner = OutputPerturbationClassifier(1.0, classes=[0, 1])
        model = HighConfidence(learner, 0.5, epsilon=3.0).fit(X, y)
        kept = model.learner_
        assert kept.certificate_ is model.certificate_
        assert kept.certificate_.guarantee == PureDP(3.0)
        assert (kept.n_units_, kept.certificate_.relation) == (60, ReplaceOne(60))

    def test_bad_models_are_left_out(self):
        # A learner that fails half of the time; the chosen one hardly ever does.
        class Moody(OrderSensitive):
            @classmethod
            def chance(cls, values):
                return 0.5

        X, y = np.zeros((300, 1)), np.ones(300, dtype=int)
        source = np.random.RandomState(1)
        good = 0
        for _ in range(60):
            model = HighConfidence(
                Moody(classes=[0, 1]), 0.99, epsilon=2.0, random_state=source
            )
            good += int(model.fit(X, y).predict(X[:1])[0])
        assert good >= 55

    def test_regressors_are_compared_by_squared_error_within_bounds(self):
        class Constant(RegressorMixin, BaseEstimator):
            def __init__(self, random_state=None):
                self.random_state = random_state

            def fit(self, X, y):
                coin = np.random.default_rng(self.random_state).random() < 0.5
                self.value_ = 1e300 if coin else 2.0
                self.certificate_ = claim(
                    PureDP(1.0), ReplaceOne(len(X)), Scope.MODEL, statement="constant"
                )
                return self

            def predict(self, X):
                return np.full(len(X), self.value_)

        X, y = np.zeros((400, 1)), np.full(400, 2.5)
        with pytest.raises(InvalidParameterError, match="bounds"):
            HighConfidence(Constant()).fit(X, y)
        source = np.random.RandomState(2)
        found = [
            HighConfidence(
                Constant(), 0.99, bounds=(0, 10), epsilon=2.0, random_state=source
            )
            .fit(X, y)
            .predict(X[:1])[0]
            for _ in range(30)
        ]
        assert sum(value == 2.0 for value in found) >= 27

    def test_a_units_score_does_not_depend_on_the_rows_of_others(self, monkeypatch):
        # Products of matrices round a row by the number of rows; this model does so
        # openly.
        class ByTheBatch(ClassifierMixin, BaseEstimator):
            def __init__(self, classes=None):
                self.classes = classes

            def fit(self, X, y, units=None):
                n = len(X) if units is None else len(np.unique(units))
                self.classes_ = np.array([0, 1])
                self.certificate_ = claim(
                    PureDP(1.0), ReplaceOne(n), Scope.MODEL, statement="constant"
                )
                return self

            def predict(self, X):
                return np.full(len(X), len(X) % 2)

        seen = []

        def spied(scores, *args, **kwargs):
            seen.append(np.array(scores))
            return permute_and_flip(scores, *args, **kwargs)

        monkeypatch.setattr(high_confidence, "permute_and_flip", spied)
        people = np.arange(40)
        for person in [None, *people]:
            units = people if person is None else np.append(people, person)
            model = HighConfidence(ByTheBatch([0, 1]), 0.5, random_state=0)
            model.fit(np.zeros((len(units), 1)), np.zeros(len(units), int), units)
        moved = [np.abs(scores - seen[0]).max() for scores in seen[1:]]
        assert 0 < max(moved) <= FIXED_POINT

    @pytest.mark.parametrize("d", [1, 3, 8, 17, 64])
    def test_a_product_rounds_a_row_by_its_place_and_not_by_other_rows(self, d):
        # Why rows that are units may be predicted together: how many there are, and
        # where each stands, is public.
        rng = np.random.default_rng(d)
        weights = rng.normal(size=d)
        for n in (*range(1, 40), 1000):
            rows, kept = rng.normal(size=(n, d)), rng.integers(n)
            for junk in (0.0, 1e308, np.nan, 5e-324, np.inf):
                others = np.full((n, d), junk)
                others[kept] = rows[kept]
                with np.errstate(all="ignore"):
                    assert (others @ weights)[kept] == (rows @ weights)[kept]


class TestResampled:
    def perfect(self, epsilon=0.1, beta=0.02):
        return PerfectlyGeneralizingClassifier(TABLE, epsilon, beta, classes=[0, 1])

    def law(self, data, learner):
        draws = list(product(data, repeat=len(data)))
        return sum(base_law(learner, draw) for draw in draws) / len(draws)

    @pytest.mark.parametrize("n", [2, 3, 4])
    def test_the_certificate_holds_for_every_neighbour(self, n):
        learner = self.perfect()
        table = laws(lambda data: self.law(data, learner), n, DOMAIN)
        X, y = arrays([DOMAIN[0]] * (n - 1) + [DOMAIN[1]])
        model = Resampled(learner).fit(X, y)
        promised = model.certificate_.guarantee
        assert isinstance(promised, ApproxDP)
        assert promised.epsilon == pytest.approx(0.4)
        assert promised.delta == pytest.approx(0.02 / 0.98)
        assert_private(table, promised.epsilon, promised.delta, domain=DOMAIN)
        recheck(model.certificate_)

    def test_what_the_model_promises_by_itself_is_not_kept(self):
        """It is about units drawn once each; a unit may be drawn several times."""
        X, y = arrays([DOMAIN[0]] * 3 + [DOMAIN[1]])
        model = Resampled(self.perfect()).fit(X, y)
        assert model.learner_.certificate_ is model.certificate_
        assert not hasattr(model.learner_, "privacy_certificate_")
        # With a large epsilon the resample really moves by more than that promise.
        loud = self.perfect(10.0)
        own = loud.fit(X, y).privacy_certificate_.guarantee.epsilon
        table = laws(lambda data: self.law(data, loud), 4, DOMAIN)
        assert rejects(assert_private, table, own, domain=DOMAIN)

    def test_an_exponent_too_large_is_caught(self):
        greedy = self.perfect(40.0)
        table = laws(lambda data: self.law(data, greedy), 3, DOMAIN)
        assert largest_delta(table, 0.4, DOMAIN) > 0.02 / 0.98

    def test_draws_follow_the_enumerated_law(self):
        data = [(0.0, 0), (1.0, 1), (1.0, 1), (0.0, 1)]
        # With this epsilon resample_perfect would refuse: the law is what is tested.
        learner = self.perfect(0.6, 0.02)
        X, y = arrays(data)
        meta = Resampled(learner, random_state=np.random.RandomState(3))
        found = [released_label(meta.fit(X, y)) for _ in range(300)]
        counts = np.bincount(found, minlength=len(LABELS))
        assert_follows(counts, self.law(data, learner))

    def test_the_conditions_of_the_rule_are_checked(self):
        X, y = arrays([(0.0, 0), (1.0, 1), (1.0, 1)])
        with pytest.raises(RuleError, match="ln 2"):
            Resampled(self.perfect(0.8)).fit(X, y)
        with pytest.raises(RuleError, match="beta"):
            Resampled(self.perfect(0.1, 0.2)).fit(X, y)
        with pytest.raises(InvalidParameterError, match="perfectly generalizing"):
            Resampled(base()).fit(X, y)

    def test_it_agrees_with_the_rule(self):
        X = np.tile(POINTS, (100, 1))
        learner = self.perfect().fit(X, X[:, 0].astype(int))
        model = Resampled(self.perfect()).fit(X, X[:, 0].astype(int))
        rule = resample_perfect(learner.certificate_)
        assert model.certificate_.guarantee == rule.guarantee


METAS = [
    lambda learner: Subsampled(learner, 30),
    lambda learner: HighConfidence(learner),
]


@pytest.mark.parametrize("meta", METAS, ids=["subsampled", "confident"])
class TestEveryMeta:
    def test_predictors_that_protect_answers_only_are_refused(self, meta):
        X = np.arange(60.0)[:, None]
        with pytest.raises(InvalidParameterError, match="one answer"):
            meta(ProjectedWalkClassifier(1.0)).fit(X, X[:, 0] > 20)

    def test_learners_without_a_certificate_are_refused(self, meta):
        X = np.arange(80.0)[:, None]
        y = (X[:, 0] * 7919 % 2 > 0).astype(int)
        with pytest.raises(InvalidParameterError, match="certificate"):
            meta(LogisticRegression()).fit(X, y)

    def test_units_stay_together(self, meta):
        rng = np.random.default_rng(0)
        units = rng.permutation(np.repeat(np.arange(80), 3))
        X = rng.integers(0, 2, (240, 1)).astype(float)
        model = meta(base(5.0)).fit(X, X[:, 0].astype(int), units=units)
        assert model.n_units_ == 80
        assert model.certificate_.relation == ReplaceOne(80)
        recheck(model.certificate_)

    def test_labels_read_from_the_data_are_an_assumption(self, meta):
        X = np.tile(POINTS, (50, 1))
        y = np.where(X[:, 0] > 0, "yes", "no")
        model = meta(base(classes=None)).fit(X, y)
        assert {a.code for a in model.certificate_.assumptions} == {"PUBLIC_LABELS"}
        assert set(model.predict(POINTS)) <= {"yes", "no"}
        seeded = meta(base()).set_params(random_state=1).fit(X, y == "yes")
        assert {a.code for a in seeded.certificate_.assumptions} == {"SEEDED_NOISE"}

    def test_the_released_model_can_be_saved(self, meta):
        X = np.tile(POINTS, (50, 1))
        model = meta(base()).fit(X, X[:, 0].astype(int))
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.certificate_ == model.certificate_
        assert 0 <= model.score(X, X[:, 0].astype(int)) <= 1

    def test_metas_nest(self, meta):
        X = np.tile(POINTS, (400, 1))
        y = X[:, 0].astype(int)
        model = meta(Subsampled(HighConfidence(base(), 0.5), 6)).fit(X, y)
        recheck(model.certificate_)
        assert model.certificate_.relation == ReplaceOne(800)
        assert model.certificate_.guarantee.epsilon < EPSILON


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Subsampled(base(), 0), "size"),
        (lambda: Subsampled(base(), 2.5), "size"),
        (lambda: Subsampled(base(), "half"), "size"),
        (lambda: Subsampled(base(), 99), "size"),
        (lambda: Subsampled("learner"), "learner"),
        (lambda: Resampled(None), "learner"),
        (lambda: HighConfidence(base), "learner|bounds|parameters"),
        (lambda: HighConfidence(base(), 1.0), "confidence"),
        (lambda: HighConfidence(base(), float("nan")), "confidence"),
        (lambda: HighConfidence(base(), epsilon=0.0), "epsilon"),
        (lambda: HighConfidence(base(), epsilon=float("nan")), "epsilon"),
        (lambda: HighConfidence(base(), selection="best"), "selection"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(make, message, skip):
    X = np.tile(POINTS, (6, 1))
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        make().fit(X, X[:, 0].astype(int))


def test_too_few_units_are_named():
    X, y = arrays([(0.0, 0), (1.0, 1)])
    with pytest.raises(TooFewRecordsError, match="n_units=2"):
        HighConfidence(base()).fit(X, y)


def test_parts_with_a_seed_do_not_share_their_noise():
    X = np.tile(POINTS, (30, 1))
    drawn = set()
    meta = HighConfidence(base(0.01, random_state=7), 0.999, epsilon=0.01)
    table, _ = meta._table(X, X[:, 0].astype(int), None)
    source = noise_source(0)
    for part in np.arange(60).reshape(6, 10):
        drawn.add(released_label(meta._fitted(table, part, source)))
    assert len(drawn) > 1


CHECKED = ExponentialMechanismClassifier(CUTS, 20.0)


@estimator_checks.parametrize_with_checks(
    [
        Subsampled(CHECKED, random_state=0),
        HighConfidence(CHECKED, 0.5, random_state=0),
        Resampled(PerfectlyGeneralizingClassifier(CUTS, 0.5, 0.01), random_state=0),
    ],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
