"""Every class: labelings, mistakes and minima against brute force."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses import Intervals, Rectangles, Stumps, Thresholds, sauer_shelah
from tests.hypotheses import brute_force
from tests.hypotheses.cases import CASES, Case
from tests.stats import rejects

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def signed_weights(rng, n_points):
    """Whole numbers or quarters, of either sign, with zeros and many ties."""
    weights = rng.integers(-3, 4, size=n_points)
    return weights if rng.random() < 0.5 else weights / 4


def check(case, seed, trials=None):
    """Draw instances and compare everything an oracle says with brute force."""
    rng = np.random.default_rng(seed)
    for _ in range(case.trials if trials is None else trials):
        X, Z = case.points(rng), case.points(rng)
        expected = case.labelings(X)
        y, weights = rng.integers(0, 2, size=len(X)), signed_weights(rng, len(X))
        brute_force.assert_minimum(
            case.family, X, y, weights, expected, first=case.first
        )
        brute_force.assert_projection(case.family, X, expected)
        brute_force.assert_set_only(case.family, X, rng)
        y, weights = rng.integers(0, 2, size=len(Z)), signed_weights(rng, len(Z))
        brute_force.assert_mistakes(case.family, X, Z, y, weights)


@every_case
def test_oracle_agrees_with_brute_force(case, seed):
    check(case, seed)


@every_case
def test_unit_weights_are_the_default(case, seed):
    rng = np.random.default_rng(seed)
    X = case.points(rng)
    y = rng.integers(0, 2, size=len(X))
    ones = np.ones(len(X), dtype=int)
    assert case.family.minimise(X, y) == case.family.minimise(X, y, ones)


@every_case
def test_minimum_does_not_depend_on_the_order_of_rows(case, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        X = case.points(rng)
        y, weights = rng.integers(0, 2, len(X)), rng.normal(size=len(X))
        order = rng.permutation(len(X))
        there = case.family.minimise(X, y, weights)
        assert case.family.minimise(X[order], y[order], weights[order]) == there


@every_case
def test_negative_weight_is_a_flipped_label(case, seed):
    rng = np.random.default_rng(seed)
    X = case.points(rng)
    y, weights = rng.integers(0, 2, len(X)), rng.integers(-3, 4, len(X))
    flipped = np.where(weights < 0, 1 - y, y)
    one = case.family.minimise(X, y, weights)
    other = case.family.minimise(X, flipped, np.abs(weights))
    assert one.hypothesis == other.hypothesis
    assert one.value == other.value + weights[weights < 0].sum()


@every_case
def test_consistent_realises_each_labeling_and_refuses_others(case, seed):
    rng = np.random.default_rng(seed)
    X = np.asarray(brute_force.distinct_points(case.points(rng)))
    X = X[:, 0] if case.points(rng).ndim == 1 else X
    possible = case.labelings(X)
    for labels in brute_force.all_labelings(len(X)):
        if labels in possible:
            found = case.family.consistent(X, labels)
            assert tuple(case.family.predict(found, X)) == labels
        else:
            with pytest.raises(InvalidDataError, match="no hypothesis"):
                case.family.consistent(X, labels)


@every_case
def test_growth_bounds_the_exact_count(case, seed):
    rng = np.random.default_rng(seed)
    family, d = case.family, case.family.vc_dimension
    for _ in range(20):
        X = case.points(rng)
        m = len(brute_force.distinct_points(X))
        exact = family.growth(points=X)
        assert exact == len(case.labelings(X))
        assert exact <= family.growth(m) <= sauer_shelah(m, d)


@every_case
def test_growth_needs_one_question(case):
    with pytest.raises(InvalidParameterError, match="either"):
        case.family.growth()
    with pytest.raises(InvalidParameterError, match="either"):
        case.family.growth(3, points=[[0.0]])
    with pytest.raises(InvalidParameterError, match="m=-1"):
        case.family.growth(-1)
    assert case.family.growth(0) == 1


@every_case
def test_weights_too_fine_for_exact_sums_are_reported(case, seed):
    rng = np.random.default_rng(seed)
    X = case.points(rng)
    y = rng.integers(0, 2, len(X))
    weights = rng.normal(size=len(X)) * np.pi
    weights[0] = 2.0**40  # its last bits and the others' do not fit together
    found = case.family.minimise(X, y, weights)
    assert not found.exact or len(X) == 1
    predicted = case.family.predict(found.hypothesis, X)
    value = brute_force.weighted_mistakes(predicted, y, weights)
    # Each weight moved by at most 2**-51 of the total.
    allowed = len(X) * 2.0**-51 * np.abs(weights).sum()
    assert abs(Fraction(found.value) - value) <= allowed


# Property tests: hypothesis looks for instances that random draws miss.

LINES = st.lists(st.integers(-3, 3), min_size=1, max_size=9)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_line_is_minimised_exactly(data):
    X = data.draw(LINES)
    y = data.draw(st.lists(st.integers(0, 1), min_size=len(X), max_size=len(X)))
    weights = data.draw(st.lists(st.integers(-5, 5), min_size=len(X), max_size=len(X)))
    k = data.draw(st.integers(0, 5))
    start = data.draw(st.sampled_from(["either", "0", "1"]))
    expected = brute_force.interval_labelings(X, k, start)
    brute_force.assert_minimum(Intervals(k, start), X, y, weights, expected)
    expected = brute_force.threshold_labelings(X, "either")
    brute_force.assert_minimum(Thresholds("either"), X, y, weights, expected)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_point_set_in_the_plane_is_minimised_exactly(data):
    point = st.tuples(st.integers(-2, 2), st.integers(-2, 2))
    X = data.draw(st.lists(point, min_size=1, max_size=7))
    y = data.draw(st.lists(st.integers(0, 1), min_size=len(X), max_size=len(X)))
    weights = data.draw(st.lists(st.integers(-5, 5), min_size=len(X), max_size=len(X)))
    for family, labelings in (
        (Stumps(), brute_force.stump_labelings(X)),
        (Rectangles(), brute_force.rectangle_labelings(X)),
    ):
        brute_force.assert_minimum(family, X, y, weights, labelings)
        brute_force.assert_projection(family, X, labelings)


# Negative controls: oracles with one mistake each, which the same checks must catch.


@dataclass(frozen=True, slots=True)
class IgnoresSigns(Thresholds):
    def minimise(self, X, y, weights=None):
        return Thresholds.minimise(self, X, y, np.abs(weights))


@dataclass(frozen=True, slots=True)
class CutsThroughTies(Thresholds):
    """Cuts between equal values, as a scan over sorted rows without blocks would."""

    def minimise(self, X, y, weights=None):
        X = np.asarray(X, dtype=float)
        return Thresholds.minimise(self, X + 1e-9 * np.arange(len(X)), y, weights)


@dataclass(frozen=True, slots=True)
class ForgetsTheConstant(Thresholds):
    def project(self, X):
        found = Thresholds.project(self, X)
        found.hypotheses = found.hypotheses[1:]
        return found


@dataclass(frozen=True, slots=True)
class ListsTwice(Stumps):
    def project(self, X):
        found = Stumps.project(self, X)
        found.hypotheses = np.append(found.hypotheses, found.hypotheses[-1:])
        return found


@dataclass(frozen=True, slots=True)
class LooksAtTheFirstRow(Thresholds):
    """Cuts its constants at the first row instead of the smallest."""

    def project(self, X):
        found = Thresholds.project(self, X)
        found.hypotheses["cut"][:1] = np.asarray(X)[0]
        return found


@dataclass(frozen=True, slots=True)
class LastOfTheBest(Thresholds):
    """Breaks ties the other way."""

    def minimise(self, X, y, weights=None):
        projection = self.project(X)
        values = projection.mistakes(X, y, weights)
        best = int(np.flatnonzero(values == values.min())[-1])
        found = Thresholds.minimise(self, X, y, weights)
        return replace(found, hypothesis=projection[best])


@dataclass(frozen=True, slots=True)
class OneEndTooMany(Intervals):
    def minimise(self, X, y, weights=None):
        return Intervals(self.k + 1, self.start).minimise(X, y, weights)


@dataclass(frozen=True, slots=True)
class OpenRectangles(Rectangles):
    def minimise(self, X, y, weights=None):
        found = Rectangles.minimise(self, X, y, weights)
        box = replace(found.hypothesis, left=found.hypothesis.left + 0.25)
        return replace(found, hypothesis=box)


BY_NAME = {case.name: case for case in CASES}


def broken(name, family) -> Case:
    return replace(BY_NAME[name], family=family, trials=500)


CONTROLS = [
    broken("thresholds-up", IgnoresSigns("up")),
    broken("thresholds-up", CutsThroughTies("up")),
    broken("thresholds-up", ForgetsTheConstant("up")),
    broken("thresholds-up", LooksAtTheFirstRow("up")),
    broken("thresholds-either", LastOfTheBest("either")),
    broken("stumps-2", ListsTwice(2)),
    broken("intervals-1-either", OneEndTooMany(1)),
    broken("rectangles", OpenRectangles()),
    # A right oracle for another class: stumps are not halfspaces, nor the reverse.
    broken("halfspaces-2-halves", Stumps(2)),
    broken("stumps-2", BY_NAME["halfspaces-2-halves"].family),
]


@pytest.mark.parametrize(
    "control", CONTROLS, ids=lambda case: type(case.family).__name__
)
def test_checks_catch_a_broken_oracle(control, seed):
    assert rejects(check, control, seed)


def test_separability_by_circuits_is_separability_by_linear_program(seed):
    rng = np.random.default_rng(seed)
    for d in (1, 2, 3):
        for _ in range(6):
            X = rng.integers(0, 4, size=(6, d))
            points = brute_force.distinct_points(X)
            expected = {
                labels
                for labels in brute_force.all_labelings(len(points))
                if brute_force.is_separable(points, labels)
            }
            assert brute_force.halfspace_labelings(X) == expected
