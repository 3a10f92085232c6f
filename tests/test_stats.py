"""The judges are judged first: what they accept, and what they must reject."""

from __future__ import annotations

from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from scipy import stats

from tests.stats import (
    ALPHA,
    assert_follows,
    assert_rate,
    assert_rate_at_most,
    empirical_counts,
    law_p_value,
    mutant,
    parse_seeds,
    rejects,
    trials_for,
)

SKEWED = np.array([0.6, 0.25, 0.1, 0.04, 0.0099, 0.0001])


def multinomial_probability(counts, law):
    ways = factorial(sum(counts)) // prod(factorial(c) for c in counts)
    return ways * prod(p**c for p, c in zip(law, counts, strict=True))


def test_rate_accepts_its_own_draws(seed):
    hits = np.random.default_rng(seed).binomial(100_000, 0.3)
    assert_rate(hits, 100_000, 0.3)
    assert_rate_at_most(hits, 100_000, 0.3)


def test_rate_rejects_another_rate_in_both_directions():
    assert rejects(assert_rate, 500_000, 1_000_000, 0.49)
    assert rejects(assert_rate, 500_000, 1_000_000, 0.51)


def test_rate_at_most_is_one_sided():
    assert_rate_at_most(0, 1_000, 0.5)
    assert rejects(assert_rate_at_most, 700, 1_000, 0.5)


@pytest.mark.parametrize(("right", "wrong"), [(0.711, 0.858), (0.05, 0.1), (0.0, 0.2)])
def test_trials_for_leaves_the_wrong_rate_no_chance(right, wrong):
    trials = trials_for(right, wrong)
    counts = np.arange(trials + 1)
    passes = [not rejects(assert_rate, int(c), trials, right) for c in counts]
    assert stats.binom.pmf(counts, trials, wrong) @ passes <= ALPHA


def test_trials_for_is_not_wasteful():
    # 1,150 draws tell 0.711 from 0.858: the project's rule of thumb.
    assert 800 <= trials_for(0.711, 0.858) <= 1_300


def test_trials_for_refuses_equal_rates():
    with pytest.raises(ValueError, match="cannot tell"):
        trials_for(0.5, 0.5)


@pytest.mark.parametrize("law", [SKEWED, np.full(1_000, 1e-3), np.array([1.0])])
def test_law_accepts_its_own_draws(law, seed):
    counts = np.random.default_rng(seed).multinomial(1_000_000, law)
    assert_follows(counts, law)


@pytest.mark.parametrize("law", [SKEWED, np.full(5, 0.2), np.array([0.5, 0.5])])
@pytest.mark.parametrize("sign", [1, -1])
def test_law_rejects_a_mutant_of_five_per_cent(law, sign, seed):
    rng = np.random.default_rng(seed)
    right, wrong = (law, mutant(law)) if sign == 1 else (mutant(law), law)
    assert rejects(assert_follows, rng.multinomial(1_000_000, wrong), right)


def test_law_rejects_many_small_shifts(seed):
    # No single cell stands out: each of 1,000 is off by 1.6 of its own deviations.
    law = np.full(1_000, 1e-3)
    wrong = law * (1 + 0.05 * np.tile([1.0, -1.0], 500))
    counts = np.random.default_rng(seed).multinomial(1_000_000, wrong)
    assert rejects(assert_follows, counts, law)


def test_law_rejects_one_large_shift_among_many_cells(seed):
    law = np.full(10_000, 1e-4)
    wrong = law.copy()
    wrong[[17, 18]] *= [3.0, 0.0]
    wrong /= wrong.sum()
    counts = np.random.default_rng(seed).multinomial(1_000_000, wrong)
    assert rejects(assert_follows, counts, law)


def test_law_rejects_an_impossible_outcome():
    assert rejects(assert_follows, [999_999, 1], [1.0, 0.0])
    assert_follows([1_000_000, 0], [1.0, 0.0])


def test_law_rejects_a_rare_outcome_that_is_common():
    assert rejects(assert_follows, [980, 20], [1 - 1e-6, 1e-6])


@pytest.mark.parametrize(
    "law", [(0.5, 0.3, 0.2), (0.9, 0.05, 0.05), (0.98, 0.01, 0.01)]
)
@pytest.mark.parametrize("trials", [5, 30])
def test_p_value_is_exact_at_every_level(law, trials):
    # Enumerate all outcomes: P[p-value <= level] must be at most the level.
    every = [c for c in product(range(trials + 1), repeat=len(law)) if sum(c) == trials]
    p_values = np.array([law_p_value(c, law) for c in every])
    weights = np.array([multinomial_probability(c, law) for c in every])
    for level in [1e-6, 1e-4, 1e-2, 0.05, 0.2, 0.5]:
        assert weights[p_values <= level].sum() <= level * (1 + 1e-9)


def test_enumeration_catches_the_chi_square_limit():
    # The control: with rare cells the classical p-value is far from what it says.
    law, trials = (0.98, 0.01, 0.01), 30
    every = [c for c in product(range(trials + 1), repeat=3) if sum(c) == trials]
    p_values = np.array(
        [stats.chisquare(c, trials * np.array(law)).pvalue for c in every]
    )
    weights = np.array([multinomial_probability(c, law) for c in every])
    assert weights[p_values <= 1e-6].sum() > 1e-4


@pytest.mark.parametrize(
    ("counts", "law"),
    [
        ([1, 2, 3], [0.5, 0.5]),
        ([1.5, 2.5], [0.5, 0.5]),
        ([-1, 2], [0.5, 0.5]),
        ([0, 0], [0.5, 0.5]),
        ([1, 1], [0.5, 0.4]),
        ([1, 1], [float("nan"), 0.5]),
        ([1, 1], [1.5, -0.5]),
    ],
)
def test_law_refuses_nonsense_instead_of_rejecting_it(counts, law):
    with pytest.raises(ValueError, match=r"counts|draws|probabilities"):
        rejects(assert_follows, counts, law)


def test_mutant_is_a_law():
    law = mutant(SKEWED)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law[0] == pytest.approx(0.95 * SKEWED[0])
    assert (law[1:] > SKEWED[1:]).all()


def test_mutant_refuses_a_certain_outcome():
    with pytest.raises(ValueError, match="one possible outcome"):
        mutant([1.0, 0.0])


def test_rejects_lets_other_errors_through():
    def broken():
        raise KeyError("not an assertion")

    with pytest.raises(KeyError):
        rejects(broken)


def test_empirical_counts_counts_every_draw():
    assert empirical_counts(["b", "a", "b"], ["a", "b", "c"]).tolist() == [1, 2, 0]
    with pytest.raises(ValueError, match="none of the outcomes"):
        empirical_counts([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0", [0]), ("0-3", [0, 1, 2, 3]), ("3,7,10-12", [3, 7, 10, 11, 12])],
)
def test_seeds_are_read_as_written(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "5-3", "a"])
def test_seeds_refuse_an_empty_list(text):
    with pytest.raises(ValueError, match=r"seed|int"):
        parse_seeds(text)
