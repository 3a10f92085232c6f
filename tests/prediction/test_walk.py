"""ProjectedWalkClassifier: exact privacy, the fast walk, and what it learns (P4)."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.guarantees import AddRemove, BoundedRange, PureDP, recheck
from reticent.prediction import ProjectedWalkClassifier
from reticent.prediction.walk import _balances, clipped_walk
from tests.stats import assert_rate

EPSILON = 0.8
DOMAIN = list(product(range(4), (0, 1)))
QUERIES = np.arange(-1, 5)[:, None]


def naive_walk(steps, reach):
    position, trace = 0, []
    for step in steps:
        position = max(-reach, min(reach, position + step))
        trace.append(position)
    return trace


@given(st.lists(st.integers(-9, 9), max_size=200), st.integers(1, 6))
def test_the_fast_walk_equals_the_naive_one(steps, reach):
    np.testing.assert_array_equal(
        clipped_walk(np.array(steps, dtype=np.int64), reach), naive_walk(steps, reach)
    )


def test_the_fast_walk_equals_the_naive_one_when_long():
    steps = np.random.default_rng(0).integers(-1, 2, 10_007)
    np.testing.assert_array_equal(clipped_walk(steps, 5), naive_walk(steps, 5))


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=60))
def test_merged_balances_equal_counting(data):
    values = np.array([value for value, _ in data], dtype=float)
    ones = np.array([label for _, label in data], dtype=bool)
    distinct, steps = _balances(values, ones)
    np.testing.assert_array_equal(distinct, np.unique(values))
    counted = [int((2 * ones[values == value] - 1).sum()) for value in distinct]
    np.testing.assert_array_equal(steps, counted)


def test_long_ties_are_one_step():
    values, ones = np.zeros(1000), np.arange(1000) < 900
    assert _balances(values, ones)[1].tolist() == [800]
    assert clipped_walk(np.array([800]), 500).tolist() == [500]
    # Steps of single units come in bytes, and the reach may exceed a byte.
    single = _balances(np.arange(1000.0), ones)[1]
    assert clipped_walk(single, 850).max() == 850
    assert clipped_walk(single, 1000).max() == 900


def law_of(data, rule, relation="replace-one"):
    X = np.array([[x] for x, _ in data]).reshape(len(data), 1)
    y = np.array([label for _, label in data])
    model = ProjectedWalkClassifier(
        EPSILON, 0, rule=rule, error=0.9, classes=[0, 1], relation=relation
    )
    return model.fit(X, y).response(QUERIES).log_probabilities


def all_laws(rule, n):
    # The order of units does not matter, so multisets are enough; every pair of
    # multisets that differ by one element is compared below.
    from itertools import combinations_with_replacement

    return {
        data: law_of(data, rule) for data in combinations_with_replacement(DOMAIN, n)
    }


def worst_loss(laws):
    worst = 0.0
    for data, law in laws.items():
        for position, unit in product(range(len(data)), DOMAIN):
            other = tuple(sorted((*data[:position], unit, *data[position + 1 :])))
            worst = max(worst, np.abs(law - laws[other]).max())
    return worst


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rule", ["two-step", "sigmoid"])
def test_one_replaced_unit_costs_at_most_epsilon(rule, n):
    worst = worst_loss(all_laws(rule, n))
    assert worst <= EPSILON * (1 + 1e-9)
    if rule == "two-step":
        assert worst >= 0.99 * EPSILON


@pytest.mark.parametrize("rule", ["two-step", "sigmoid"])
def test_one_added_unit_costs_what_add_remove_says(rule):
    model = ProjectedWalkClassifier(
        EPSILON, 0, rule=rule, classes=[0, 1], relation="add-remove"
    ).fit([[0], [1]], [0, 1])
    promised = model.certificate_.guarantee.epsilon
    assert model.certificate_.relation == AddRemove()
    assert promised < EPSILON
    small = {d: law_of(d, rule) for d in all_laws(rule, 3)}
    large = all_laws(rule, 4)
    worst = max(
        np.abs(law - large[tuple(sorted((*data, unit)))]).max()
        for data, law in small.items()
        for unit in DOMAIN
    )
    assert worst <= promised * (1 + 1e-9)


def test_stepping_through_ties_one_by_one_would_break_the_promise():
    # One block of ties: replacing the unit that comes first in the file moves the
    # one-by-one walk, clipped at 1, from +1 to -1 and the order decides the rest.
    def one_by_one(data, reach):
        return naive_walk([2 * label - 1 for label in data], reach)[-1]

    moved = max(
        abs(one_by_one(order, 2) - one_by_one(other, 2))
        for labels in product((0, 1), repeat=6)
        for changed in [(*labels[:-1], 1 - labels[-1])]
        for order in [tuple(sorted(labels))]
        for other in [tuple(sorted(changed, reverse=True))]
    )
    assert moved > 2


def test_thresholds_and_intervals_are_learned():
    rng = np.random.default_rng(1)
    X = rng.normal(0, 1e6, (20_000, 1))
    y = ((X[:, 0] > -3e5) & (X[:, 0] < 8e5)).astype(int)
    model = ProjectedWalkClassifier(1.0, error=0.01, classes=[0, 1]).fit(X, y)
    law = model.response(X).probabilities
    assert law[np.arange(len(y)), y].mean() > 0.98


def test_any_ordered_column_works():
    days = pd.date_range("2020-01-01", periods=400)
    frame = pd.DataFrame({"day": days, "word": [f"{i:04d}" for i in range(400)]})
    y = np.where(np.arange(400) < 250, "before", "after")
    for feature, order in (("day", "dates"), ("word", "text"), (1, "text")):
        model = ProjectedWalkClassifier(
            4.0, feature, order=order, classes=["before", "after"]
        )
        assert (model.fit(frame, y).predict(frame) == y).mean() > 0.9


def test_predict_follows_the_law_with_fresh_noise():
    X, y = np.arange(40)[:, None], np.arange(40) > 30
    model = ProjectedWalkClassifier(0.3, classes=[False, True]).fit(X, y)
    row = np.repeat([[33]], 20_000, axis=0)
    assert_rate(
        model.predict(row).sum(), 20_000, model.response([[33]]).probabilities[0, 1]
    )


def test_certificates_name_response_and_relation():
    X, y = np.arange(20)[:, None], np.arange(20) > 9
    two_step = ProjectedWalkClassifier(1.0, classes=[False, True]).fit(X, y)
    sigmoid = ProjectedWalkClassifier(1.0, 0, rule="sigmoid", classes=[0, 1]).fit(X, y)
    assert two_step.certificate_.guarantee == PureDP(1.0)
    assert sigmoid.certificate_.guarantee == BoundedRange(1.0)
    recheck(two_step.certificate_)
    recheck(sigmoid.certificate_)
    assert two_step.certificate_.proved


def test_the_rule_is_a_parameter_and_response_a_method():
    model = ProjectedWalkClassifier(1.0, rule="sigmoid")
    assert clone(model).get_params()["rule"] == "sigmoid" == model.rule
    X, y = np.arange(20)[:, None], np.arange(20) > 9
    assert model.fit(X, y).response(X).probabilities.shape == (20, 2)
    with pytest.raises(TypeError, match="positional"):
        ProjectedWalkClassifier(1.0, 0, "sigmoid")
    with pytest.raises(TypeError, match="response"):
        ProjectedWalkClassifier(1.0, response="sigmoid")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"error": 0.0}, "error"),
        ({"error": float("nan")}, "error"),
        ({"rule": "loud"}, "rule"),
        ({"relation": "swap"}, "relation"),
        ({"feature": 3}, "feature"),
        ({"feature": "age"}, "feature"),
        ({"classes": [0, 1, 2]}, "binary"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    X, y = np.arange(20)[:, None], (np.arange(20) > 9).astype(int)
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        ProjectedWalkClassifier(**settings).fit(X, y)


def test_repeated_units_and_missing_values_are_refused():
    X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
    with pytest.raises(InvalidDataError, match="one row per unit"):
        ProjectedWalkClassifier(1.0).fit(X, y, units=[1, 1, 2, 3])
    frame = pd.DataFrame({"x": [0.0, np.nan, 1.0, 2.0]})
    with pytest.raises(InvalidDataError, match="NaN"):
        ProjectedWalkClassifier(1.0).fit(frame, y)
    with pytest.raises(InvalidParameterError, match="not a column"):
        ProjectedWalkClassifier(1.0, "y").fit(frame, y)


STRAY = {
    "numbers": (list(range(40)), ["unknown", pd.Timestamp("2020-01-01"), "nan", b"x"]),
    "text": ([f"{i:02d}" for i in range(40)], [7, 2.5, pd.Timestamp("2020-01-01")]),
    "dates": (list(pd.date_range("2020-01-01", periods=40)), ["unknown", 7, 2.5]),
}


@pytest.mark.parametrize("order", STRAY)
@pytest.mark.parametrize("place", [0, 17, 39])
@pytest.mark.parametrize("form", ["list", "frame", "array"])
def test_one_cell_of_another_kind_moves_the_walk_by_one_unit(order, place, form):
    cells, strays = STRAY[order]
    y = (np.arange(40) >= 20).astype(int)

    def positions(cells):
        table = {
            "list": lambda: [[cell] for cell in cells],
            "frame": lambda: pd.DataFrame({"x": cells}),
            "array": lambda: np.array([[cell] for cell in cells], dtype=object),
        }[form]()
        model = ProjectedWalkClassifier(
            1.0, error=0.9, order=order, classes=[0, 1]
        ).fit(table, y)
        asked = pd.DataFrame({"x": STRAY[order][0]})
        return model.law_, model.response(asked if form == "frame" else asked.values)

    plain, answers = positions(cells)
    for stray in strays:
        law, moved = positions([*cells[:place], stray, *cells[place + 1 :]])
        assert law.certificate == plain.certificate
        assert law.certificate.guarantee.epsilon == 1.0
        losses = np.abs(moved.log_probabilities - answers.log_probabilities)
        assert losses.max() <= 1.0 + 1e-9
        # The stray unit takes no step, and all others the step they took before.
        np.testing.assert_array_equal(law.values, np.delete(plain.values, place))


def test_text_order_of_numbers_would_have_lost_much_more():
    # Negative control: what one text cell did to an array of numbers.
    numbers = np.arange(1, 41)
    as_text = np.array([str(number) for number in numbers])
    y = numbers > 20
    _, steps = _balances(numbers, y)
    _, reordered = _balances(as_text, y)
    here, there = clipped_walk(steps, 5), clipped_walk(reordered, 5)
    places = np.searchsorted(np.sort(as_text), as_text)
    assert np.abs(here - there[places]).max() > 2


def test_numbers_are_the_same_however_they_are_written():
    y = np.arange(6) > 2
    forms = [
        np.array([[1], [2], [3], [4], [5], [2**53]]),
        np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [2.0**53]]),
        [["1"], [2], [3.0], [np.float32(4)], [5], [2**53]],
        pd.DataFrame({"x": ["1", "2", "3", "4", "5", str(2**53)]}).to_numpy(),
    ]
    laws = [ProjectedWalkClassifier(1.0).fit(X, y).law_ for X in forms]
    for law in laws:
        assert law.values.dtype == np.float64
        np.testing.assert_array_equal(law.values, laws[0].values)


def test_an_order_that_no_cell_has_is_refused():
    days = pd.DataFrame({"x": pd.date_range("2020-01-01", periods=4)})
    words = pd.DataFrame({"x": list("abcd")})
    y = [0, 1, 0, 1]
    for table, order in ((days, "numbers"), (words, "numbers"), (words, "dates")):
        with pytest.raises(InvalidDataError, match="Declare order"):
            ProjectedWalkClassifier(1.0, order=order).fit(table, y)
    with pytest.raises(InvalidDataError, match="Declare order"):
        ProjectedWalkClassifier(1.0, order="text").fit(np.arange(4)[:, None], y)
    with pytest.raises(ValueError, match="order"):
        ProjectedWalkClassifier(1.0, order="size").fit(words, y)
    model = ProjectedWalkClassifier(1.0).fit([[1], [2], [3], [4]], y)
    with pytest.raises(InvalidDataError, match="declared numbers"):
        model.predict([[1], ["two"]])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("order", STRAY)
def test_missing_cells_are_refused_at_fit(order, missing):
    cells = pd.DataFrame({"x": [*STRAY[order][0][:3], missing]}, dtype=object)
    with pytest.raises(InvalidDataError, match="NaN"):
        ProjectedWalkClassifier(1.0, order=order).fit(cells, [0, 1, 0, 1])


@pytest.mark.parametrize("epsilon", [3e-9, 1e-12, 1e-150])
@pytest.mark.parametrize("rule", ["two-step", "sigmoid"])
def test_the_smallest_epsilons_have_a_law(epsilon, rule):
    X, y = np.arange(40)[:, None], np.arange(40) > 20
    model = ProjectedWalkClassifier(epsilon, 0, rule=rule, classes=[0, 1]).fit(X, y)
    assert model.reach_ == 2**29
    assert model.certificate_.guarantee.epsilon == epsilon
    np.testing.assert_allclose(model.response(X).probabilities, 0.5, atol=1e-6)
    assert model.predict(X).shape == (40,)
    steps = np.array([-(2**62), 2**62, -(2**62)])
    np.testing.assert_array_equal(
        clipped_walk(steps, 2**29), naive_walk(steps.tolist(), 2**29)
    )


EXPECTED_FAILURES: dict[str, str] = {}


@estimator_checks.parametrize_with_checks(
    [ProjectedWalkClassifier(50.0, random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
