"""Constants of sessions, holdouts, leaderboards and kept examples, computed again."""

import math
from itertools import product

import mpmath
import pytest

from reticent.generalization.compression.rules import (
    kept_error,
    kept_examples,
    kept_to_robust,
    log_choose,
)
from reticent.generalization.compression.side_information import width
from reticent.generalization.holdout.rules import (
    GRID,
    answers_to_truth,
    ladder_transcripts,
    noise_at_most,
    rising_transcripts,
    rounded_holdout,
    rounding_transcripts,
    thresholdout,
)
from reticent.generalization.session.rules import (
    session_error,
    session_to_robust,
    unit_sum,
)
from reticent.guarantees import approx_robust_error

near = pytest.approx


@pytest.mark.parametrize("kept", [0, 4])
@pytest.mark.parametrize("bits", [0.0, 7.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_a_session_s_error_is_that_of_its_formula(kept, bits, epsilon):
    n, failure = 1000, 0.05
    facts = {"n": n, "epsilon": epsilon, "kept": kept, "bits": bits}
    left = n - kept
    guess = kept * math.log(n) + bits * math.log(2) + math.log(1 / failure)
    reach = epsilon * math.sqrt(left / 8) + math.sqrt(guess)
    rest = math.sqrt((math.log(2) + reach**2) / (2 * left))
    expected = kept / n + left / n * rest
    found = session_error(**facts, delta=0.0, failure=failure)
    assert expected <= found <= expected * (1 + 1e-9)
    made = session_to_robust(**facts, beta=0.1, share=0.5).guarantee
    assert (made.epsilon, made.delta) == (near(expected), 0.1)
    # With a delta, G11 at the same chance of failing and guessing right.
    delta = 1e-40
    rest = approx_robust_error(epsilon, delta, left, math.exp(-guess))
    found = session_error(**facts, delta=delta, failure=failure)
    assert found == near(kept / n + left / n * rest)


def test_a_session_s_error_is_one_at_most():
    facts = {"epsilon": 0.01, "bits": 0.0, "failure": 0.05}
    assert session_error(n=10, kept=10, delta=0.0, **facts) == 1.0
    assert session_error(n=10, kept=9, delta=0.0, **facts) == 1.0
    assert session_error(n=10**6, kept=0, delta=0.2, **facts) == 1.0
    # Guesses so rare that their chance is beyond floats.
    rare = {**facts, "bits": 1100.0}
    assert session_error(n=10**6, kept=0, delta=1e-300, **rare) == 1.0
    few = {**facts, "bits": 600.0}
    assert session_error(n=10**6, kept=0, delta=1e-250, **few) < 0.1


def test_a_sum_over_units_moves_by_one():
    moved = unit_sum(n=30).guarantee
    assert (moved.l1, moved.l2) == (1.0, 1.0)


@pytest.mark.parametrize("overfits", [1, 3])
def test_a_holdout_costs_two_moves_a_round(overfits):
    # 1/(2s) for the threshold, 2/(4s) for the query, 1/s for the answer, times 1/n.
    a_round = (1 / 2 + 2 / 4 + 1) / (0.02 * 500)
    made = thresholdout(n=500, scale=0.02, overfits=overfits).guarantee
    assert made.epsilon == near(overfits * a_round)


@pytest.mark.parametrize(("queries", "overfits", "levels"), [(4, 2, 3), (3, 5, 2)])
def test_transcripts_of_rounded_answers_are_counted(queries, overfits, levels):
    answers = ["guess", "failed", *range(levels)]
    count = sum(
        sum(each != "guess" for each in transcript) <= overfits
        for transcript in product(answers, repeat=queries)
    )
    assert rounding_transcripts(queries, overfits, levels + 1) == count
    made = rounded_holdout(n=9, queries=queries, overfits=overfits, levels=levels)
    assert made.guarantee.size == count


@pytest.mark.parametrize(("m", "values", "rises"), [(4, 3, 2), (3, 3, 3), (4, 2, 5)])
def test_transcripts_of_a_leaderboard_are_counted(m, values, rises):
    count = 0
    for shown in product(range(values + 1), repeat=m):
        steps = [b - a for a, b in zip((0, *shown), shown, strict=False)]
        count += min(steps) >= 0 and sum(step > 0 for step in steps) <= rises
    assert rising_transcripts(m, values, rises) == count
    made = ladder_transcripts(n=9, submissions=m, values=values, improvements=rises)
    assert made.guarantee.size == count


def test_noise_stays_below_its_quantiles():
    facts = {"scale": 0.01, "overfits": 4, "queries": 50, "failure": 0.03}
    # Thirds of the failure: 4 draws at 2s, 50 at 4s, 4 two-sided ones at s.
    below = 0.02 * math.log(4 / 0.01) + 0.04 * math.log(50 / 0.01)
    assert noise_at_most(**facts, threshold=0.1) == near(0.1 + below)
    one = {**facts, "queries": 1, "overfits": 10**300}
    answers = 0.01 * math.log(2 * 10**300 / 0.01)
    assert noise_at_most(**one, threshold=-20.0) == near(answers)


def test_answers_are_near_the_truth():
    n, beta = 2000, 0.1
    holdout = thresholdout(n=n, scale=0.01, overfits=2)
    made = answers_to_truth(holdout, beta=beta, threshold=0.05, queries=9)
    loss = 2 * 2 / (0.01 * n)
    # Half of beta for the noise, and half for the data.
    reach = loss * math.sqrt(n / 8) + math.sqrt(math.log(2 / beta))
    robust = math.sqrt((math.log(2) + reach**2) / (2 * n))
    noise = noise_at_most(
        scale=0.01, threshold=0.05, overfits=2, queries=9, failure=beta / 2
    )
    assert made.guarantee.error == near(robust + noise + 2 * GRID)
    assert made.guarantee.failure == beta
    rounded = rounded_holdout(n=n, queries=9, overfits=2, levels=10)
    for threshold, distance in ((0.2, 0.2), (0.0, 0.05)):
        made = answers_to_truth(rounded, beta=beta, threshold=threshold)
        count = rounded.guarantee.size
        robust = math.sqrt(math.log(2 * count / beta) / (2 * n))
        assert made.guarantee.error == near(robust + distance + 2 * GRID)
    assert answers_to_truth(rounded, beta=beta, threshold=3.0).guarantee.error == 1.0


@pytest.mark.parametrize(("n", "k"), [(5, 0), (5, 5), (9, 4), (9, 7), (300, 100)])
def test_subsets_are_counted_and_rounded_up(n, k):
    with mpmath.workdps(40):
        truth = mpmath.log(math.comb(n, k))
        assert truth <= log_choose(n, k) <= truth + 1e-10


@pytest.mark.parametrize("sizes", [1, 6])
def test_kept_examples_bound_what_is_computed_from_them(sizes):
    n, k, bits, beta = 400, 3, 5, 0.1
    spread = math.log(math.comb(n, k) * 2**bits * 2 * sizes / beta)
    rest = math.sqrt(spread / (2 * (n - k)))
    expected = k / n + (n - k) / n * rest
    found = kept_error(kept=k, side_bits=bits, sizes=sizes, n=n, beta=beta)
    assert expected <= found <= expected * (1 + 1e-9)
    kept = kept_examples(scheme="own", kept=k, n=n, rows=n, side_bits=bits, sizes=sizes)
    made = kept_to_robust(kept, beta=beta).guarantee
    assert (made.epsilon, made.delta) == (near(expected), beta)
    assert kept_error(kept=4, side_bits=99, sizes=1, n=5, beta=beta) == 1.0
    assert kept_error(kept=5, side_bits=0, sizes=1, n=5, beta=beta) == 1.0


def test_rows_of_kept_units_are_side_information():
    facts = {"scheme": "own", "kept": 3, "n": 20}
    bits = math.ceil(math.log2(math.comb(60, 3) / math.comb(20, 3)))
    made = kept_examples(**facts, rows=60, side_bits=2, reports=9).guarantee
    assert (made.kept, made.side_bits, made.size_from_data) == (3, 2 + 4 + bits, 0)
    assert kept_examples(**facts, rows=20, sizes=2).guarantee.size_from_data == 1
    # Exactly one bit, which is rounded against us.
    one = kept_examples(scheme="own", kept=1, n=20, rows=40).guarantee
    assert one.side_bits == 2
    assert [width(count) for count in (1, 2, 3, 4, 5, 9)] == [0, 1, 2, 2, 3, 4]
