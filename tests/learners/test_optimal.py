"""L8: the best algorithms by linear programs: values, laws, and what they beat."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from reticent.errors import SolverError
from reticent.hypotheses import Thresholds
from reticent.learners import (
    ExponentialMechanismClassifier,
    best_epsilon,
    optimal_learner,
    optimal_predictor,
    worst_excess,
)
from reticent.learners.selection.optimal_programs import Privacy
from reticent.mechanisms import (
    geometric_vote,
    sigmoid_response,
    soft_vote,
    two_step_response,
)
from reticent.prediction import ProjectedWalkClassifier
from reticent.prediction.walk import clipped_walk


def labels_of(n_points):
    return Thresholds().project(np.arange(n_points)).labels.T.astype(int)


def losses_of(labels):
    """Loss of each hypothesis at element 2x + y."""
    return np.stack([labels, 1 - labels], axis=1).reshape(2 * len(labels), -1)


def rows_of(counts):
    elements = np.repeat(np.arange(len(counts)), counts)
    return (elements // 2)[:, None].astype(float), elements % 2


def released_laws(solution, epsilon, selection):
    points = np.arange(solution.datasets.shape[1] // 2)[:, None]
    model = ExponentialMechanismClassifier(
        Thresholds(), epsilon, points=points, selection=selection, classes=[0, 1]
    )
    return np.array(
        [
            model.response(*rows_of(counts)).probabilities[0]
            for counts in solution.datasets
        ]
    )


def predicted_excess(solution, labels, chance_of_one):
    """Worst excess of a predictor, given its chances of label 1 on each dataset."""
    losses = losses_of(labels)
    n = solution.datasets[0].sum()
    worst = -np.inf
    for counts in solution.datasets:
        ones = chance_of_one(counts)
        wrong = counts[1::2] @ (1 - ones) + counts[0::2] @ ones
        worst = max(worst, (wrong - (counts @ losses).min()) / n)
    return worst


def pairwise_optimum(losses, n, epsilon):
    """The obvious program over ordered datasets and all pairs of neighbours."""
    n_points, n_outputs = losses.shape
    datasets = list(product(range(n_points), repeat=n))
    place = {data: i for i, data in enumerate(datasets)}
    width = len(datasets) * n_outputs + 1
    upper, right = [], []
    for data, unit, position in product(datasets, range(n_points), range(n)):
        other = (*data[:position], unit, *data[position + 1 :])
        if other != data:
            for h in range(n_outputs):
                row = np.zeros(width)
                row[place[data] * n_outputs + h] = 1
                row[place[other] * n_outputs + h] = -np.exp(epsilon)
                upper.append(row)
                right.append(0.0)
    for data in datasets:
        risks = losses[list(data)].mean(axis=0)
        row = np.zeros(width)
        row[place[data] * n_outputs :][:n_outputs] = risks
        row[-1] = -1
        upper.append(row)
        right.append(risks.min())
    equal = np.zeros((len(datasets), width))
    for i in range(len(datasets)):
        equal[i, i * n_outputs : (i + 1) * n_outputs] = 1
    cost = np.zeros(width)
    cost[-1] = 1
    bounds = [(0, 1)] * (width - 1) + [(None, None)]
    solved = linprog(
        cost,
        np.array(upper),
        right,
        equal,
        np.ones(len(datasets)),
        bounds,
        method="highs",
    )
    return solved.fun


@pytest.mark.parametrize(("n_points", "n"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_the_learner_equals_the_obvious_program(n_points, n, epsilon):
    losses = losses_of(labels_of(n_points))
    found = optimal_learner(losses, n, epsilon).value
    assert found == pytest.approx(pairwise_optimum(losses, n, epsilon), abs=1e-7)


def worst_ratio(solution, law):
    index = {row.tobytes(): i for i, row in enumerate(solution.datasets)}
    worst = 0.0
    for i, counts in enumerate(solution.datasets):
        for lost, gained in product(np.flatnonzero(counts), range(len(counts))):
            moved = counts.copy()
            moved[lost] -= 1
            moved[gained] += 1
            other = law[index[moved.tobytes()]]
            worst = max(worst, (law[i] - np.exp(solution.epsilon) * other).max())
    return worst


def test_the_optimal_laws_are_private():
    labels = labels_of(3)
    learner = optimal_learner(losses_of(labels), 4, 0.8)
    assert worst_ratio(learner, learner.law) <= 1e-15
    predictor = optimal_predictor(labels, 4, 0.8)
    assert worst_ratio(predictor, predictor.law) <= 1e-15
    assert worst_ratio(predictor, 1 - predictor.law) <= 1e-15
    # A control: the same laws are not private at a smaller epsilon.
    tighter = replace(learner, epsilon=0.6)
    assert worst_ratio(tighter, learner.law) > 1e-3


def exact_loss(solution, columns):
    """The largest log-ratio of neighbours, of floats taken for what they are."""
    index = {row.tobytes(): i for i, row in enumerate(solution.datasets)}
    worst = Fraction(1)
    for i, counts in enumerate(solution.datasets):
        for lost, gained in product(np.flatnonzero(counts), range(len(counts))):
            moved = counts.copy()
            moved[lost] -= 1
            moved[gained] += 1
            pairs = zip(columns[i], columns[index[moved.tobytes()]], strict=True)
            worst = max(worst, *(here / there for here, there in pairs))
    with mpmath.workdps(60):
        return mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)


def fractions_of(law):
    return [[Fraction(p) for p in row] for row in law.tolist()]


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0, 8.0, 12.0, 16.0, 20.0, 45.0])
def test_the_laws_are_private_without_any_tolerance(epsilon):
    labels = labels_of(2)
    learner = optimal_learner(losses_of(labels), 3, epsilon)
    law = fractions_of(learner.law)
    assert all(sum(row) == 1 for row in law)
    assert exact_loss(learner, law) <= epsilon
    predictor = optimal_predictor(labels, 3, epsilon)
    ones = fractions_of(predictor.law)
    both = [[*row, *(1 - p for p in row)] for row in ones]
    assert exact_loss(predictor, both) <= epsilon
    # Not private by being useless: the repair costs next to nothing.
    for solution in (learner, predictor):
        assert solution.value - 1e-7 <= solution.achieved <= solution.value + 1e-6
    assert learner.achieved == pytest.approx(
        worst_excess(learner.law, losses_of(labels), learner.datasets), abs=1e-12
    )


@pytest.mark.parametrize("epsilon", [8.0, 12.0, 16.0, 20.0])
def test_large_epsilons_keep_their_optimum(epsilon):
    # One bit, two answers: 1/(1 + e^eps).
    best = optimal_learner([[0, 1], [1, 0]], 1, epsilon)
    assert best.achieved == pytest.approx(1 / (1 + np.exp(epsilon)), rel=1e-6)


def test_a_law_too_far_from_private_is_refused():
    privacy = Privacy(np.array([[0, 1]]), 2, 2, 0.01)
    with pytest.raises(SolverError, match="too far"):
        privacy.repaired(np.array([1.0, 0.0, 0.0, 1.0]))
    # Zeros where a neighbour has none are repaired; one unit too little is seen.
    steep = replace(privacy, epsilon=20.0)
    repaired = steep.repaired(np.array([1.0, 0.0, 0.5, 0.5]))
    assert repaired.min() > 0
    units = (repaired * 2.0**53).astype(np.int64)
    assert steep.holds(units)
    units[0] = [2**53, 0]
    assert not steep.holds(units)


def test_check_values_of_learners():
    # THEOREMS L8: thresholds on 3 points, n = 5, epsilon = 1.
    losses = losses_of(labels_of(3))
    best = optimal_learner(losses, 5, 1.0)
    assert best.value == pytest.approx(0.136, abs=5e-4)
    for selection, expected in (("permute-and-flip", 0.173), ("exponential", 0.241)):
        law = released_laws(best, 1.0, selection)
        found = worst_excess(law, losses, best.datasets)
        assert found == pytest.approx(expected, abs=5e-4)
        assert found >= best.value
    assert worst_excess(best.law, losses, best.datasets) == pytest.approx(
        best.value, abs=1e-6
    )


def test_check_values_of_predictors():
    labels = labels_of(3)
    best = optimal_predictor(labels, 5, 1.0)
    assert best.value == pytest.approx(0.133, abs=5e-4)
    # Each walk at its best reach: 1 for two-step, 2 for sigmoid.
    for law, expected in ((two_step_response, 0.315), (sigmoid_response, 0.386)):
        found = min(
            predicted_excess(best, labels, walk(law, reach)) for reach in (1, 2, 3)
        )
        assert found == pytest.approx(expected, abs=5e-4)


def walk(law, reach):
    def chance_of_one(counts):
        positions = clipped_walk(counts[1::2] - counts[0::2], reach)
        return law(positions, 1.0, bound=reach).probabilities[:, 1]

    return chance_of_one


def test_the_walk_here_is_the_classifiers():
    for counts in optimal_predictor(labels_of(3), 2, 1.0).datasets:
        X, y = rows_of(counts)
        model = ProjectedWalkClassifier(1.0, error=0.9, classes=[0, 1]).fit(X, y)
        np.testing.assert_array_equal(
            model.response(np.arange(3.0)[:, None]).probabilities[:, 1],
            walk(two_step_response, model.reach_)(counts),
        )


def test_the_geometric_vote_is_optimal():
    # One point, two constant hypotheses: a vote of five.
    labels = np.array([[0, 1]])
    best = optimal_predictor(labels, 5, 1.0)
    assert best.value == pytest.approx(0.0594, abs=5e-5)
    for vote, expected in ((geometric_vote, 0.0594), (soft_vote, 0.1095)):
        found = predicted_excess(
            best,
            labels,
            lambda counts, vote=vote: vote([counts], 1.0).probabilities[0, 1:],
        )
        assert found == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_nothing_beats_the_optimum_on_four_points(n):
    losses = losses_of(labels_of(4))
    best = optimal_learner(losses, n, 1.0)
    for selection in ("exponential", "permute-and-flip"):
        law = released_laws(best, 1.0, selection)
        assert worst_excess(law, losses, best.datasets) >= best.value - 1e-7


# By the pairwise program before it was rewritten with centres.
@pytest.mark.parametrize(
    ("n", "learner", "predictor"),
    [(3, 0.2263692, 0.2064942), (4, 0.1851478, 0.1792904)],
)
def test_values_on_four_points(n, learner, predictor):
    labels = labels_of(4)
    assert optimal_learner(losses_of(labels), n, 1.0).value == pytest.approx(
        learner, abs=1e-6
    )
    assert optimal_predictor(labels, n, 1.0).value == pytest.approx(predictor, abs=1e-6)


@pytest.mark.long
def test_values_on_four_points_and_six_units():
    labels = labels_of(4)
    assert optimal_learner(losses_of(labels), 6, 1.0).value == pytest.approx(
        0.1313807, abs=1e-6
    )
    assert optimal_predictor(labels, 6, 1.0).value == pytest.approx(0.126059, abs=1e-6)


def test_prediction_is_never_harder_than_release():
    for n_points, n in ((2, 3), (3, 3)):
        labels = labels_of(n_points)
        learner = optimal_learner(losses_of(labels), n, 0.7).value
        assert optimal_predictor(labels, n, 0.7).value <= learner + 1e-7


def test_a_family_of_distributions_is_easier_than_every_dataset():
    losses = losses_of(labels_of(2))
    family = np.array([[0.4, 0.1, 0.1, 0.4], [0.5, 0.0, 0.5, 0.0]])
    narrow = optimal_learner(losses, 3, 1.0, family=family)
    assert narrow.value <= optimal_learner(losses, 3, 1.0).value
    single = optimal_learner(losses, 3, 1.0, family=family[1:])
    # One known distribution: always say its best hypothesis.
    assert single.value == pytest.approx(0.0, abs=1e-7)


class TestEquationSix:
    losses = np.array([[0, 1], [1, 0]])

    def test_the_search_finds_the_minimum(self):
        # One unit, two answers: excess 1/(1+e^eps), so the optimum solves
        # sigma'(eps) = price.
        price = 0.1
        epsilon, value = best_epsilon(self.losses, 1, price=price)
        grid = np.linspace(0.01, 10, 100_000)
        reference = 1 / (1 + np.exp(grid)) + price * grid
        assert value == pytest.approx(reference.min(), abs=1e-6)
        assert epsilon == pytest.approx(grid[reference.argmin()], abs=2e-3)

    def test_a_higher_price_buys_less_epsilon(self):
        found = [
            best_epsilon(self.losses, 3, price=price, most=8.0)[0]
            for price in (0.005, 0.02, 0.08)
        ]
        assert found == sorted(found, reverse=True)

    @pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
    def test_prices_must_be_positive(self, price):
        with pytest.raises(ValueError, match="price"):
            best_epsilon(self.losses, 1, price=price)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_learner([[0, 1], [1, float("nan")]], 2, 1.0), "finite"),
        (lambda: optimal_learner([0, 1], 2, 1.0), "table"),
        (lambda: optimal_learner([[0, 1], [1, 0]], 0, 1.0), "n"),
        (lambda: optimal_learner([[0, 1], [1, 0]], 2, float("nan")), "epsilon"),
        (lambda: optimal_learner(np.eye(20), 12, 1.0), "too many"),
        (lambda: optimal_learner(np.eye(2), 2, 1.0, family=[[0.4, 0.4]]), "distrib"),
        (lambda: optimal_predictor([[0, 2]], 2, 1.0), "0 and 1"),
        (lambda: optimal_predictor([[0, 1]], 2, -1.0), "epsilon"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
