"""L1: exact privacy, exact draws, plain released models."""

import pickle
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError, RuleError
from reticent.guarantees import (
    BoundedRange,
    PureDP,
    ReplaceOne,
    Scope,
    recheck,
    repeat,
)
from reticent.hypotheses import (
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from reticent.learners import ExponentialMechanismClassifier
from reticent.learners.selection.candidates import FIXED_POINT
from reticent.learners.selection.exponential import selected_hypothesis
from reticent.mechanisms import exponential_mechanism_certificate, noise_source
from tests.learners.enumeration import (
    CUTS,
    DOMAIN,
    arrays,
    assert_private,
    laws,
    widest_range,
    worst_loss,
)
from tests.stats import assert_follows, rejects

EPSILON = 0.9
POINTS = np.array([[0.0], [1.0], [2.0]])
TABLE = FiniteClass.from_table(POINTS, [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1]])


def make(family, **settings):
    return ExponentialMechanismClassifier(
        family, EPSILON, **{"classes": [0, 1], **settings}
    )


FINITE = {
    "table": (TABLE, {}),
    "thresholds": (Thresholds(), {"points": POINTS}),
    "intervals": (Intervals(2), {"points": POINTS}),
    "stumps": (Stumps(), {"points": POINTS}),
}


def listed_law(model):
    return lambda data: model.response(*arrays(data)).probabilities[0]


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
def test_one_replaced_unit_costs_at_most_epsilon(name, selection):
    family, settings = FINITE[name]
    model = make(family, selection=selection, **settings)
    table = laws(listed_law(model), 4)
    assert_private(table, EPSILON)
    assert worst_loss(table) >= 0.5 * EPSILON
    if selection == "exponential":
        # The stronger promise, and it is reached.
        assert 0.95 * EPSILON <= widest_range(table) <= EPSILON * (1 + 1e-9)


def test_twice_the_exponent_is_caught():
    doubled = ExponentialMechanismClassifier(TABLE, 2 * EPSILON, classes=[0, 1])
    table = laws(listed_law(doubled), 3)
    assert rejects(assert_private, table, EPSILON)


def test_candidates_taken_from_the_data_are_caught():
    # One candidate for each labeling of the rows themselves: which hypotheses can
    # come out at all then says who is there.
    everything = Thresholds().project(POINTS).labels.tolist()

    class FromData(ExponentialMechanismClassifier):
        def law(self, data):
            X, y = arrays(data)
            self.points = np.unique(X)
            found = self.response(X, y).probabilities[0]
            labels = self.candidates(1).projection.predict(POINTS).tolist()
            law = np.zeros(len(everything))
            law[[everything.index(row) for row in labels]] = found
            return law

    model = FromData(Thresholds(), EPSILON, classes=[0, 1])
    assert rejects(assert_private, laws(model.law, 3), EPSILON)


def test_the_training_rows_are_refused_as_public_points():
    X, y = np.arange(9.0)[:, None], np.arange(9) > 4
    model = ExponentialMechanismClassifier(Thresholds(), points=X)
    with pytest.raises(InvalidDataError, match="training rows"):
        model.fit(X, y)
    # Equal content is no reason: a refusal that depends on it would tell it.
    model.fit(X.copy(), y)


def unit_law(model):
    def law(data):
        rows = [(x, label, i) for i, unit in enumerate(data) for x, label in unit]
        X, y, units = (np.array(column) for column in zip(*rows, strict=True))
        return model.response(X[:, None], y, units).probabilities[0]

    return law


def test_a_unit_of_several_rows_weighs_one():
    row = list(product((0.0, 1.0), (0, 1)))
    domain = [
        unit for size in (1, 2, 3) for unit in combinations_with_replacement(row, size)
    ]
    model = make(Thresholds(), points=[0.0, 1.0])
    table = laws(unit_law(model), 2, domain)
    assert_private(table, EPSILON, domain=domain)
    assert widest_range(table, domain) >= 0.9 * EPSILON


def test_counting_rows_of_a_unit_one_by_one_is_caught():
    row = list(product((0.0, 1.0), (0, 1)))
    domain = list(combinations_with_replacement(row, 2))
    model = make(Thresholds(), points=[0.0, 1.0])

    def by_row(data):
        return listed_law(model)(tuple(r for unit in data for r in unit))

    assert rejects(assert_private, laws(by_row, 2, domain), EPSILON, domain=domain)


def test_units_are_averaged_in_fixed_point():
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    y = np.array([1, 0, 1, 0])
    model = make(TABLE.on(1), classes=[0, 1])
    law = model.response(X, y, units=["a", "a", "a", "b"]).log_probabilities[0]
    losses = []
    for labels in ([0, 0], [0, 0], [0, 1], [1, 0]):
        wrong = [labels[int(x)] != label for (x,), label in zip(X, y, strict=True)]
        losses.append(sum(wrong[:3]) * (FIXED_POINT // 3) / FIXED_POINT + wrong[3])
    expected = -EPSILON / 2 * np.array(losses)
    expected -= np.logaddexp.reduce(expected)
    np.testing.assert_allclose(law, expected, rtol=1e-9)


GRIDS = [
    (Thresholds("up"), 5),
    (Thresholds("down"), 4),
    (Thresholds("either"), 6),
    (Intervals(0), 3),
    (Intervals(2, "0"), 5),
    (Intervals(3, "1"), 5),
    (Intervals(3), 6),
    (Intervals(6), 4),
]


def grid_and_list(family, size):
    grid = make(family, bounds=(0.0, 2.0), resolution=size)
    listed = make(family, points=np.linspace(0, 2, size)[:, None])
    return grid, listed


@pytest.mark.parametrize(("family", "size"), GRIDS, ids=str)
def test_counting_candidates_on_a_grid_equals_listing_them(family, size):
    grid, listed = grid_and_list(family, size)
    rng = np.random.default_rng(0)
    for _ in range(6):
        X = rng.integers(-1, 12, (7, 1)) / 4.0
        y = rng.integers(0, 2, 7)
        law, expected = grid.response(X, y), listed.response(X, y)
        assert law.n_candidates == expected.n_labels == grid.candidates(1).count
        found = [law.log_probability(h) for h in listed.candidates(1).projection]
        np.testing.assert_allclose(found, expected.log_probabilities[0], rtol=1e-12)


@pytest.mark.parametrize("direction", ["up", "down", "either"])
def test_floats_find_what_the_exact_search_finds(direction):
    rng = np.random.default_rng(1)
    looked = 0
    for n in (1, 5, 40):
        X, y = rng.random((n, 1)), rng.integers(0, 2, n)
        model = make(Thresholds(direction), bounds=(0, 1), resolution=1000)
        law = model.response(X, y)
        for head in [0, 2**64 - 1, *rng.integers(0, 2**63, 60).tolist()]:
            quick = law._draw_by_floats(head)
            if quick is not None:
                looked += 1
                # Whatever bits follow, they lead to the same place.
                for tail in (0, 2**192 - 1):
                    assert law._follow_exactly(head << 192 | tail, 256) == quick
    assert looked > 150


def test_floats_admit_their_doubts():
    # Four candidates of equal weight, and U at the border after the first, exactly.
    model = make(Thresholds(), bounds=(0, 1), resolution=3)
    law = model.response([[5.0], [5.0]], [0, 1])
    assert law._draw_by_floats(2**62) is None
    assert law._follow_exactly(2**254, 256) is None
    assert law._follow_exactly(2**254 + 2**200, 256) == (0, {0: 1})
    assert law._follow_exactly(2**254 - 2**200, 256) == (0, {})


@pytest.mark.parametrize(("head", "first"), [(8, 16), (64, 256)])
@pytest.mark.parametrize("family", [Intervals(3), Thresholds("either")], ids=str)
def test_draws_on_a_grid_follow_the_law(family, head, first, monkeypatch):
    # With 8 bits at first, most draws need a second look: they must follow, too.
    grid, listed = grid_and_list(family, 5)
    X, y = np.array([[0.4], [0.9], [0.9], [1.2]]), np.array([0, 1, 1, 0])
    law = grid.response(X, y)
    candidates = list(listed.candidates(1).projection)
    probabilities = np.exp([law.log_probability(h) for h in candidates])
    monkeypatch.setattr("reticent.learners.selection.grid_classes._FLOAT_BITS", head)
    monkeypatch.setattr("reticent.learners.selection.grid_classes._FIRST_BITS", first)
    source = noise_source(head)
    drawn = [law.draw(source) for _ in range(2000)]
    counts = np.array([sum(h == other for h in drawn) for other in candidates])
    assert_follows(counts, probabilities)
    assert rejects(assert_follows, counts, np.full(len(counts), 1 / len(counts)))


def test_a_huge_grid_is_sampled_by_its_gaps():
    # 2^40 cuts between 0 and 1; the mass between data values is counted, not listed.
    X = np.array([[0.25], [0.5], [0.75]])
    y = np.array([0, 1, 0])
    model = make(Thresholds(), bounds=(0.0, 1.0), resolution=2**40)
    source = noise_source(0)
    law = model.response(X, y)
    cuts = np.array(
        [h.cut if h.above else 2.0 for h in (law.draw(source) for _ in range(4000))]
    )
    mistakes = np.array([2, 1, 2, 1])  # by gap, from the left; the constant 0: one
    weights = np.exp(-EPSILON / 2 * mistakes) / 4
    counts = np.histogram(cuts, [0, 0.25, 0.5, 0.75, 1.0])[0]
    assert_follows(counts, weights / weights.sum())


def test_weights_too_small_for_a_float_are_no_problem():
    X = np.linspace(0, 1, 2001)[:, None]
    y = (X[:, 0] > 0.3).astype(int)
    model = ExponentialMechanismClassifier(
        Intervals(2), 50.0, bounds=(-1, 2), classes=[0, 1]
    ).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.99
    law = model.response(X, y)
    worst = model.hypotheses.predict(model.hypothesis_, X)
    assert -60_000 < law.log_probability(type(model.hypothesis_)(1, ())) < -1000
    assert len(worst) == len(X)


def test_listed_draws_follow_the_response():
    X, y = arrays([(0.0, 0), (1.0, 1), (1.0, 1), (2.0, 1)])
    model = make(TABLE, random_state=np.random.RandomState(0))
    law = model.response(X, y).probabilities[0]
    drawn = [model.fit(X, y).hypothesis_.index for _ in range(600)]
    assert_follows(np.bincount(drawn, minlength=4), law)


def test_a_penalty_moves_the_law_and_costs_nothing():
    penalty = [0.3, 0.0, 0.1, 0.0]
    model = make(TABLE, penalty=penalty)
    table = laws(listed_law(model), 3)
    assert_private(table, EPSILON)
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 1)])
    free = make(TABLE).response(X, y).log_probabilities[0]
    moved = model.response(X, y).log_probabilities[0]
    expected = free - EPSILON * 3 / 2 * np.array(penalty)
    np.testing.assert_allclose(
        moved, expected - np.logaddexp.reduce(expected), atol=1e-5
    )
    same = make(TABLE, penalty=lambda member: penalty[member.index])
    np.testing.assert_array_equal(same.response(X, y).log_probabilities[0], moved)


def test_a_penalty_on_a_grid_counts_ends():
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 0)])
    penalty = [0.0, 0.5, 1.0]
    grid, listed = (
        clone(model).set_params(penalty=given)
        for model, given in zip(
            grid_and_list(Intervals(2), 5),
            (penalty, lambda h: penalty[len(h.ends)]),
            strict=True,
        )
    )
    law = grid.response(X, y)
    found = [law.log_probability(h) for h in listed.candidates(1).projection]
    expected = listed.response(X, y).log_probabilities[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_excess_risk_stays_below_the_bound():
    # 2 ln|H| / (eps n), in expectation over the mechanism, on every dataset.
    for n in (2, 4, 6):
        for data in combinations_with_replacement(DOMAIN, n):
            X, y = arrays(data)
            law = make(TABLE).response(X, y).probabilities[0]
            mistakes = make(TABLE).candidates(1).mistakes(X, y, None)
            excess = (law @ mistakes - mistakes.min()) / n
            assert excess <= 2 * np.log(4) / (EPSILON * n)


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        (Thresholds(), {"bounds": (0, 1)}),
        (Intervals(2), {"bounds": (0, 1)}),
        (Rectangles(), {"points": np.random.default_rng(1).random((25, 2))}),
        (Halfspaces(), {"points": np.random.default_rng(1).random((30, 2))}),
        (Stumps(), {"points": np.random.default_rng(1).random((30, 2))}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_learns_with_every_class(family, settings):
    rng = np.random.default_rng(2)
    width = 1 if "bounds" in settings else 2
    X = rng.random((1500, width))
    y = (X[:, 0] > 0.4).astype(int)
    model = ExponentialMechanismClassifier(family, 2.0, classes=[0, 1], **settings)
    assert (model.fit(X, y).predict(X) == y).mean() > 0.8
    recheck(model.certificate_)


def test_the_released_model_is_a_plain_object():
    X = np.linspace(0, 1, 400)[:, None]
    model = make(Thresholds(), bounds=(0, 1)).fit(X, X[:, 0] > 0.5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    assert model.certificate_.scope is Scope.MODEL
    assert model.certificate_.relation == ReplaceOne(400)
    assert model.certificate_.proved
    # Nothing of the data is in it but what was drawn.
    assert all(getattr(v, "size", 0) < 10 for v in vars(model).values())


def test_certificates_name_selection_and_assumptions():
    X, y = arrays([(0.0, 0), (1.0, 1)])
    fitted = make(TABLE).fit(X, y)
    assert fitted.certificate_.guarantee == BoundedRange(EPSILON)
    flipped = make(TABLE, selection="permute-and-flip").fit(X, y)
    assert flipped.certificate_.guarantee == PureDP(EPSILON)
    unsure = make(TABLE, classes=None, random_state=0).fit(X, y)
    codes = {a.code for a in unsure.certificate_.assumptions}
    assert codes == {"PUBLIC_LABELS", "SEEDED_NOISE"}
    for model in (fitted, flipped, unsure):
        recheck(model.certificate_)
    answer = exponential_mechanism_certificate(n=2, epsilon=1.0)
    with pytest.raises(RuleError, match="MODEL"):
        selected_hypothesis(answer, candidates=3, labels_from_data=False)
    assert repeat(fitted.certificate_, 3).guarantee.epsilon == pytest.approx(2.7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"hypotheses": "lines"}, "hypotheses"),
        ({"hypotheses": Thresholds()}, "infinitely many"),
        ({"hypotheses": Thresholds(), "bounds": (1, 0)}, "bounds"),
        ({"hypotheses": Thresholds(), "bounds": (0, float("nan"))}, "bounds"),
        ({"hypotheses": Thresholds(), "bounds": (0, float("inf"))}, "bounds"),
        ({"hypotheses": Thresholds(), "bounds": ("a", "b")}, "bounds"),
        ({"hypotheses": Thresholds(), "bounds": (0, 1), "resolution": 1}, "resolution"),
        ({"hypotheses": Thresholds(), "bounds": (0, 1), "resolution": 2.5}, "resol"),
        (
            {"hypotheses": Thresholds(), "bounds": (0, 1), "resolution": 2**60},
            "resolution",
        ),
        ({"bounds": (0, 1)}, "Thresholds and Intervals"),
        ({"hypotheses": Thresholds(), "bounds": (0, 1), "points": [0.0]}, "one of"),
        (
            {
                "hypotheses": Thresholds(),
                "bounds": (0, 1),
                "selection": "permute-and-flip",
            },
            "listed",
        ),
        ({"selection": "best"}, "selection"),
        ({"penalty": [0.0, 1.0]}, "penalty"),
        ({"penalty": [0.0, 1.0, float("nan"), 0.0]}, "penalty"),
        ({"penalty": [0.0, 1.0, 1e30, 0.0]}, "penalty"),
        ({"penalty": "much"}, "penalty"),
        ({"classes": [0, 1, 2]}, "binary"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 1)])
    model = ExponentialMechanismClassifier(**{"hypotheses": TABLE, **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X, y)


def test_hostile_rows_are_refused():
    model = make(Thresholds(), bounds=(0, 1))
    with pytest.raises(ValueError, match="NaN"):
        model.fit([[np.nan], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="infinity"):
        model.fit([[np.inf], [1.0]], [0, 1])
    with pytest.raises(InvalidDataError, match="classes"):
        model.fit([[0.0], [1.0]], [0, 7])
    with pytest.raises(InvalidDataError, match="one feature"):
        model.fit([[0.0, 1.0], [1.0, 1.0]], [0, 1])
    fitted = model.fit([[1e308], [-1e308], [5e-324]], [0, 1, 1])
    assert len(fitted.predict([[-1e308], [1e308]])) == 2


@estimator_checks.parametrize_with_checks(
    [
        ExponentialMechanismClassifier(CUTS, 20.0, random_state=0),
        ExponentialMechanismClassifier(
            CUTS, 20.0, selection="permute-and-flip", random_state=0
        ),
    ],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
