"""S1's and S2's error bounds, at the sizes they ask for, against measured error.

Quick versions of `benchmarks/studies/ask_theory.py`, with its problems and bounds.
"""

import math

import numpy as np
import pytest

from benchmarks.studies import ask_problems as problems
from benchmarks.studies import ask_theory
from benchmarks.studies import theorem_sizes as sizes
from reticent.hypotheses import Halfspaces, Intervals, Thresholds
from reticent.planning import bounds
from tests.stats import rejects

FAILURE = 0.05
THRESHOLD = problems.threshold(cells=5_000)
INTERVALS = problems.four_intervals(cells=5_000)


def at_most(measured, bound):
    assert bound < 0.5, "a bound that says nothing"
    assert np.max(measured) <= bound


def test_the_vote_learns_what_its_theorem_says():
    error = 0.3
    for problem in (problems.threshold(0.0, cells=5_000), INTERVALS):
        shards, n = sizes.vote_sizes(problem.hypotheses, error, FAILURE, 1.0)
        at_most(problem.excess(problems.vote(problem, n, 1.0, 0, shards)), error)
    # Far below the size that is asked for, the bound fails.
    few = [problems.vote(INTERVALS, 2 * shards, 1.0, seed, shards) for seed in range(5)]
    assert rejects(at_most, [INTERVALS.excess(ones) for ones in few], error)


def test_the_average_learns_what_its_corollary_says():
    error = 0.4
    shards, n = sizes.average_sizes(THRESHOLD.hypotheses, error, FAILURE, 1.0)
    at_most(THRESHOLD.excess(problems.average(THRESHOLD, n, 1.0, 0, shards)), error)


@pytest.mark.parametrize("problem", [THRESHOLD, INTERVALS], ids=["one", "eight"])
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_the_walk_learns_what_its_theorem_says(problem, epsilon):
    error = 0.05
    n = bounds.walk_size(problem.ends, error, epsilon)

    def mean_error(rows):
        runs = [
            problem.excess(problems.walk(problem, rows, epsilon, seed, error))
            for seed in range(10)
        ]
        return float(np.mean(runs)) + problem.noise

    bound = math.exp(epsilon) * (problem.noise + error)
    at_most(mean_error(n), bound)
    assert rejects(at_most, mean_error(n // 60), bound)


def test_the_walk_s_error_on_every_sample_is_bounded():
    row = ask_theory.check_walk_on_the_sample(20)
    assert row["holds"]


@pytest.mark.parametrize(
    "settings", [{"stability": 0.2}, {"epsilon": 1.0, "flip": 0.05}], ids=str
)
def test_stable_selection_learns_what_its_lemma_says(settings):
    n = 50_000
    ones, model = problems.select(THRESHOLD, n, 0, 20, **settings)
    bound = bounds.selection_bound(
        THRESHOLD.hypotheses, n, model.plan_, FAILURE, population=True
    )
    at_most(THRESHOLD.excess(ones), bound)
    # Guessing does not do.
    assert rejects(at_most, THRESHOLD.excess(np.full_like(ones, 0.5)), bound)


def test_stable_linear_models_lose_what_their_corollaries_say():
    rows = ask_theory.check_linear(1)
    assert [row["theorem"].split(",")[0] for row in rows] == ["P3 erm", "P3 psgd"]
    assert all(row["holds"] for row in rows)


def hard_errors(predictor, n, seeds):
    cases = [ask_theory.hard_problem(n, seed) for seed in range(seeds)]
    return [case.excess(predictor(case, n, seed)) for seed, case in enumerate(cases)]


def at_least(errors, bound):
    spread = np.std(errors) / math.sqrt(len(errors))
    assert np.mean(errors) + 6 * spread >= bound


def test_nobody_beats_the_lower_bound_but_who_is_not_stable():
    n = 120
    bound = bounds.lower_bound(8, n, ask_theory.EPSILON)
    for name in ("P1 vote of 21", "P4 walk", "P5 stable selection"):
        at_least(hard_errors(ask_theory.PREDICTORS[name], n, 60), bound)

    def plain(problem, n, seed):
        X, y = problem.sample(n, seed)
        return problem.learner.fit(X, y).predict(problem.points).astype(float)

    # The plain learner answers with the label it saw, however rare the point.
    assert rejects(at_least, hard_errors(plain, n, 500), bound)


def test_sizes_are_the_smallest_that_do():
    family = Thresholds("up")
    m = sizes.consistent_size(family, 0.1, 0.05)
    chance = [2 * family.growth(2 * k) * 2 ** (-0.05 * k) for k in (m - 1, m)]
    assert chance[1] <= 0.05 < chance[0]
    assert (
        bounds.uniform_gap(family, sizes.uniform_size(family, 0.1, 0.05), 0.05) <= 0.1
    )
    m = sizes.net_size(Halfspaces().on(2), 0.2, 0.2)
    assert bounds.net_error(Halfspaces().on(2), m) == pytest.approx(0.2, rel=0.01)
    assert bounds.walk_size(3, bounds.walk_error(3, 5000, 0.5), 0.5) <= 5000


def test_the_lower_bound_is_that_of_the_theorem():
    assert bounds.lower_bound(8, 1000, 1.0) == pytest.approx(
        7 / (8 * math.tanh(0.5) * 1000)
    )
    # Intervals with eight ends shatter eight points, so the bound is about them.
    assert Intervals(8, start="0").vc_dimension == 8


@pytest.mark.long
def test_relabeling_learns_what_its_theorem_says():
    (row,) = ask_theory.check_relabeling(2)
    assert row["holds"]


@pytest.mark.long
def test_every_bound_holds_at_full_size():
    rows = [
        *ask_theory.check_votes(10),
        *ask_theory.check_averages(5),
        *ask_theory.check_walks(50),
        *ask_theory.check_selection(5, quick=False),
    ]
    assert all(row["holds"] for row in rows)
