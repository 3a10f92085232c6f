"""L8: families of distributions, a delta and more labels, against obvious programs."""

from __future__ import annotations

import math
from itertools import chain, combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from reticent.errors import InvalidParameterError
from reticent.learners import best_epsilon, optimal_learner, optimal_predictor
from reticent.learners.selection.optimal_approximate import ApproximatePrivacy

BIT = np.array([[0, 1], [1, 0]])  # one bit to learn, two constant answers
FAIR = [[0.5, 0.5]]


def events(size):
    every = range(size)
    return chain.from_iterable(combinations(every, k) for k in range(1, size))


def obvious(losses, n, epsilon, *, delta=0.0, family=None, population=False):
    """Solve over sequences, with one constraint per pair of neighbours and event."""
    losses = np.asarray(losses, dtype=float)
    n_points, n_outputs = losses.shape
    data = list(product(range(n_points), repeat=n))
    place = {row: i for i, row in enumerate(data)}
    width = len(data) * n_outputs + 1
    upper, limits = [], []
    for row in data:
        for at, value in product(range(n), range(n_points)):
            other = (*row[:at], value, *row[at + 1 :])
            for event in events(n_outputs) if other != row else ():
                line = np.zeros(width)
                for h in event:
                    line[place[row] * n_outputs + h] += 1
                    line[place[other] * n_outputs + h] -= math.exp(epsilon)
                upper.append(line)
                limits.append(delta)
    empirical = np.array([losses[list(row)].mean(axis=0) for row in data])
    if family is None:
        weights, names = np.eye(len(data)), [None] * len(data)
    else:
        weights = np.array(
            [[np.prod(np.array(d)[list(r)]) for r in data] for d in family]
        )
        names = family
    for chances, distribution in zip(weights, names, strict=True):
        risks, best = empirical, float(chances @ empirical.min(axis=1))
        if population:
            true = np.array(distribution) @ losses
            risks, best = np.tile(true, (len(data), 1)), float(true.min())
        upper.append(np.append((chances[:, None] * risks).ravel(), -1.0))
        limits.append(best)
    one = np.kron(np.eye(len(data)), np.ones(n_outputs))
    found = linprog(
        np.append(np.zeros(width - 1), 1.0),
        A_ub=np.array(upper),
        b_ub=limits,
        A_eq=np.hstack([one, np.zeros((len(data), 1))]),
        b_eq=np.ones(len(data)),
        bounds=[(0, 1)] * (width - 1) + [(None, None)],
    )
    assert found.status == 0
    return found.fun


# ------------------------------------------------------------------ equation seven


def test_equation_seven_subtracts_the_expected_empirical_minimum():
    """A fair coin, one unit: the empirical minimum is 0, so the excess is 1/(1+e)."""
    found = optimal_learner(BIT, 1, 1.0, family=FAIR)
    assert found.value == pytest.approx(1 / (1 + math.e), abs=1e-6)
    # Subtracting the best population risk, a half, would say -0.231.
    assert found.value - 0.5 == pytest.approx(-0.2311, abs=1e-4)
    assert optimal_learner(BIT, 1, 1.0, family=FAIR, risk="population").value == (
        pytest.approx(0.0, abs=1e-6)
    )


@pytest.mark.parametrize("risk", ["empirical", "population"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_families_against_the_obvious_program(risk, n):
    losses = np.array([[0, 1, 0.5], [1, 0, 0.5], [1, 1, 0.2]])
    family = [[0.6, 0.2, 0.2], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]
    ours = optimal_learner(losses, n, 0.8, family=family, risk=risk)
    true = obvious(losses, n, 0.8, family=family, population=risk == "population")
    assert ours.value == pytest.approx(true, abs=1e-6)
    assert ours.achieved == pytest.approx(true, abs=1e-4)


def test_no_excess_is_negative():
    """Every risk is at least the minimum that is subtracted from it."""
    family = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    for risk in ("empirical", "population"):
        for n in (1, 2, 4):
            found = optimal_learner(BIT, n, 0.5, family=family, risk=risk)
            assert found.value >= -1e-7


def test_the_search_over_epsilon_takes_a_family():
    price = 0.1
    epsilon, value = best_epsilon(BIT, 1, price=price, family=FAIR)
    grid = np.linspace(1e-3, 10, 100_000)
    reference = 1 / (1 + np.exp(grid)) + price * grid
    assert value == pytest.approx(reference.min(), abs=1e-6)
    assert epsilon == pytest.approx(grid[reference.argmin()], abs=3e-3)


def test_the_search_goes_below_a_hundredth():
    """At a price above 1/4 an epsilon never pays: the search ends where it starts."""
    epsilon, value = best_epsilon(BIT, 1, price=1.0)
    assert epsilon < 1e-4
    assert value == pytest.approx(0.5, abs=1e-4)
    # Six units: the slope at 0 is larger, and a small epsilon pays.
    epsilon, value = best_epsilon(BIT, 6, price=0.9)
    values = [
        optimal_learner(BIT, 6, float(e)).value + 0.9 * e
        for e in np.geomspace(1e-3, 2, 60)
    ]
    assert value <= min(values) + 1e-4


# ------------------------------------------------------------------------- a delta


@pytest.mark.parametrize("delta", [1e-3, 0.1, 0.4])
def test_one_bit_with_a_delta_has_a_formula(delta):
    """Randomized response with a leak: the answer is wrong with (1-delta)/(1+e^eps)."""
    found = optimal_learner(BIT, 1, 0.7, delta=delta)
    assert found.value == pytest.approx((1 - delta) / (1 + math.exp(0.7)), abs=1e-6)
    assert found.achieved == pytest.approx(found.value, abs=1e-5)
    assert found.delta == delta


@pytest.mark.parametrize(("n", "delta"), [(2, 0.05), (3, 0.2)])
def test_a_delta_against_all_events(n, delta):
    losses = np.array([[0, 1, 0.5], [1, 0, 0.5]])
    found = optimal_learner(losses, n, 0.5, delta=delta)
    assert found.value == pytest.approx(obvious(losses, n, 0.5, delta=delta), abs=1e-6)
    assert found.value < optimal_learner(losses, n, 0.5).value - 1e-3
    # The law itself keeps the promise, event by event.
    for one, row in zip(found.law, found.datasets, strict=True):
        for other, counts in zip(found.law, found.datasets, strict=True):
            if np.abs(row - counts).sum() == 2:
                excess = np.maximum(one - math.exp(0.5) * other, 0).sum()
                assert excess <= delta * (1 + 1e-12)


def test_a_law_that_leaks_more_is_refused():
    leaky = ApproximatePrivacy(np.array([[0, 1]]), 2, 2, 1.0, 0.1)
    unit = 1 << 53
    low = int(unit * (1 - 0.1) / (1 + math.e))
    fine = np.array([[low + 9, unit - low - 9], [unit - low - 9, low + 9]])
    assert leaky.holds(fine)
    assert not leaky.holds(fine + np.array([[-99, 99], [99, -99]]))


# --------------------------------------------------------------------- more labels


@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_point_with_many_labels_has_a_formula(k):
    """One unit, constant hypotheses: randomized response among k labels."""
    found = optimal_predictor([list(range(k))], 1, 1.2, n_labels=k)
    assert found.value == pytest.approx((k - 1) / (math.exp(1.2) + k - 1), abs=1e-6)
    assert found.law.shape == ((k, 1) if k == 2 else (k, 1, k))


def test_labels_against_the_obvious_program():
    """At a single point a predictor is a learner of constants."""
    for delta in (0.0, 0.1):
        losses = 1.0 - np.eye(3)
        found = optimal_predictor([[0, 1, 2]], 2, 0.6, delta=delta, n_labels=3)
        true = obvious(losses, 2, 0.6, delta=delta)
        assert found.value == pytest.approx(true, abs=1e-6)
    # Two labels declared as three: the third is never needed.
    two = optimal_predictor([[0, 1], [0, 1]], 2, 0.6)
    assert optimal_predictor([[0, 1], [0, 1]], 2, 0.6, n_labels=3).value >= two.value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_learner(BIT, 1, 1.0, risk="true"), "risk"),
        (lambda: optimal_learner(BIT, 1, 1.0, risk="population"), "family"),
        (lambda: optimal_learner(BIT, 1, 1.0, delta=1.0), "delta"),
        (lambda: optimal_predictor([[0, 3]], 1, 1.0, n_labels=3), "from 0 to 2"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises((InvalidParameterError, ValueError), match=message):
        call()
