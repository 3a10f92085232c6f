"""The classic failure, reproduced and cured: noise labels and an eager analyst."""

import numpy as np
import pytest

from benchmarks.studies.reuse_overfitting import (
    FULL,
    GUARDED,
    TRUTH,
    Noise,
    Report,
    Sizes,
    guarded_holdout,
    ladder_board,
    naive_board,
    naive_holdout,
    simulate,
)
from tests.stats import assert_rate_at_most, rejects


def missed(reports):
    return sum(not report.within for report in reports)


def check_cure(reports):
    """Assert the failure without a guard, and the stated bounds with one."""
    naive = [report.value for report in reports["naive holdout"]]
    assert np.mean(naive) > TRUTH + 0.08
    assert np.mean([r.value for r in reports["naive leaderboard"]]) > TRUTH + 0.15
    for name in GUARDED:
        assert max(report.bound for report in reports[name]) < 0.25
        assert_rate_at_most(missed(reports[name]), len(reports[name]), 0.05)


def test_guards_keep_reports_within_their_bounds():
    reports = simulate(10, Sizes(2000, 1200))
    check_cure(reports)
    # Control: what the naive analysts report does not pass for the same bound.
    bound = max(r.bound for r in reports["ReusableHoldout"])
    naive = [Report(r.value, min(bound, 0.1)) for r in reports["naive leaderboard"]]
    assert rejects(assert_rate_at_most, missed(naive), len(naive), 0.05)


@pytest.mark.long
def test_guards_keep_95_percent_of_200_repetitions():
    reports = simulate(200, FULL)
    check_cure(reports)
    for name in GUARDED:
        assert missed(reports[name]) <= 10
    # The naive reports miss the very bound that the guarded ones keep.
    bound = max(r.bound for r in reports["ReusableHoldout"])
    naive = [abs(r.value - TRUTH) > bound for r in reports["naive holdout"]]
    assert np.mean(naive) > 0.95


def test_thresholdout_keeps_its_bound_too(seed):
    sizes = Sizes(12_000, 400)
    reports = []
    for repetition in range(5):
        data = Noise(sizes, [seed, repetition])
        reports.append(guarded_holdout(data, repetition, method="laplace", overfits=1))
    assert_rate_at_most(missed(reports), len(reports), 0.05)
    assert max(report.bound for report in reports) < 0.5


def test_a_larger_search_fools_the_naive_analyst_more():
    small, large = (
        np.mean(
            [naive_holdout(Noise(Sizes(500, d), [1, k]), k).value for k in range(5)]
        )
        for d in (200, 4000)
    )
    assert large > small + 0.1
    data = Noise(Sizes(1000, 1500), 3)
    assert naive_board(data, 0).value > ladder_board(data, 0).value + 0.1
