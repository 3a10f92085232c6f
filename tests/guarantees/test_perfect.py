"""G15 to G18 and G23: perfect generalization, and what is made from outputs alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from reticent.errors import RuleError
from reticent.guarantees import (
    INDEPENDENT_RUNS,
    PerfectGeneralization,
    PureDP,
    ReplaceOne,
    compose_perfect,
    perfect_to_robust,
    pure_to_perfect,
    resample_perfect,
)
from tests.guarantees.cases import given, sampled
from tests.guarantees.fair_bits import (
    geometric_vote,
    simulated_loss,
    soft_vote,
    two_sided,
)
from tests.guarantees.worst_cases import largest

# ----------------------------------------------------------------------- G15


@pytest.mark.parametrize("vote", [soft_vote, geometric_vote])
@pytest.mark.parametrize(("units", "epsilon"), [(20, 0.1), (100, 0.05), (300, 0.1)])
def test_g15_covers_private_votes_of_fair_bits(vote, units, epsilon):
    weights = binom.pmf(np.arange(units + 1), units, 0.5)
    closest = 0.0
    for beta in (0.2, 0.01):
        premise = given(PureDP(epsilon), n=units)
        made = pure_to_perfect(premise, outputs=2, beta=beta).guarantee
        assert made.beta == beta
        truth = simulated_loss(vote(units, epsilon), weights, beta)
        assert truth <= made.epsilon
        closest = max(closest, truth / made.epsilon)
    assert closest > 0.15


def test_g15_is_below_what_is_printed_for_small_losses():
    n, epsilon, beta, outputs = 1000, 0.01, 0.05, 4
    t = epsilon * math.sqrt(n * math.log(2 * outputs / beta) / 2)
    made = pure_to_perfect(given(PureDP(epsilon), n=n), outputs=outputs, beta=beta)
    assert made.guarantee.epsilon == pytest.approx(t + n * epsilon**2 / 8)
    assert made.guarantee.epsilon < 0.6 * 2 * t
    large = pure_to_perfect(
        given(PureDP(1.0), n=n), outputs=outputs, beta=beta
    ).guarantee
    assert large.epsilon == pytest.approx(200 * t)
    zero = pure_to_perfect(given(PureDP(0.0), n=n), outputs=1, beta=beta).guarantee
    assert zero == PerfectGeneralization(beta, 0.0, 0.0)


# ----------------------------------------------------------------------- G16


def strange_after_resampling(units, ones):
    """Chance that draws from `ones` ones among `units` bits are the strange string."""
    share = Fraction(ones, units)
    half = units // 2
    return share**half * (1 - share) ** (units - half)


@pytest.mark.parametrize("units", [4, 6, 10])
def test_g16_makes_the_strange_mechanism_private(units):
    """S3 Thm 38's mechanism is (2^-n, 0, 0)-perfect; resampled it is (0, delta)-DP."""
    premise = sampled(PerfectGeneralization(0.5**units, 0.0, 0.0), n=units)
    made = resample_perfect(premise)
    assert made.relation == ReplaceOne(units)
    assert made.guarantee.epsilon == 0.0
    chances = [strange_after_resampling(units, ones) for ones in range(units + 1)]
    worst = max(abs(a - b) for a, b in itertools.pairwise(chances))
    assert worst <= Fraction(made.guarantee.delta)
    assert worst >= made.guarantee.delta / 4
    # The control: without resampling a neighbour is told apart surely (delta = 1).


def test_g16_numbers():
    made = resample_perfect(sampled(PerfectGeneralization(0.01, 0.3, 1e-4), n=50))
    chain = sum(math.exp(0.3 * i) for i in range(4))
    assert made.guarantee.epsilon == pytest.approx(1.2)
    assert made.guarantee.delta == pytest.approx(1e-4 * chain + 0.01 / 0.99)
    printed = 16 * 1e-4 + 2 * 0.01
    assert made.guarantee.delta < printed


def chain_slack(epsilon, delta, links):
    """Return the worst slack of two laws joined by so many (epsilon, delta) links."""
    size = links + 1
    below, limits = [], []
    for i, j in itertools.permutations(range(size), 2):
        if abs(i - j) == 1:
            row = np.zeros(size)
            row[i], row[j] = 1.0, -math.exp(epsilon)
            below += [row, -row]
            limits += [delta, math.expm1(epsilon) + delta]
    objective = np.zeros(size)
    objective[0], objective[-1] = 1.0, -math.exp(links * epsilon)
    return largest(objective, np.array(below), limits)[0]


def test_g16_chain_of_four_links_is_tight():
    for epsilon in (0.0, 0.2, math.log(2)):
        made = resample_perfect(sampled(PerfectGeneralization(0.0, epsilon, 1e-3), n=9))
        assert chain_slack(epsilon, 1e-3, 4) == pytest.approx(
            made.guarantee.delta, rel=1e-5
        )


def test_g16_needs_a_sample_that_suits_both_neighbours():
    """The proof takes one resample without the replaced unit that is good for both
    datasets. With n = 3, beta = 4/27 is below the printed 1/(2e), yet the bad sets of
    the two datasets, 4 of 27 resamples each, can cover all 8 that avoid the unit."""
    avoiding = [
        draws for draws in itertools.product(range(3), repeat=3) if 2 not in draws
    ]
    beta = 4 / 27
    bad_here, bad_there = set(avoiding[:4]), set(avoiding[4:])
    assert len(bad_here) / 27 == len(bad_there) / 27 == beta
    assert set(avoiding) <= bad_here | bad_there
    assert beta < 1 / (2 * math.e)
    premise = sampled(PerfectGeneralization(beta, 0.1, 0.0), n=3)
    with pytest.raises(RuleError, match=r"rule G16 needs 2 beta < \(1 - 1/n\)\^n"):
        resample_perfect(premise)
    # With one resample less to cover with, some resample is good for both.
    fewer = sampled(PerfectGeneralization(3 / 27, 0.1, 0.0), n=3)
    assert resample_perfect(fewer).guarantee.delta == pytest.approx(3 / 24)


@pytest.mark.parametrize("n", [2, 3, 10**9, 10**16, 10**18])
def test_g16_condition_is_exact_at_every_size(n):
    """Through logarithms: the power of the rounded base is off by n last digits."""
    exactly = (1 - Fraction(1, n)) ** n if n < 10 else None
    limit = float(exactly) if exactly else math.exp(-1) * (1 - 1 / (2 * n))
    for share, allowed in ((0.999999, True), (1.000001, False)):
        beta = share * limit / 2
        premise = sampled(PerfectGeneralization(beta, 0.1, 0.0), n=n)
        if allowed:
            resample_perfect(premise)
        else:
            with pytest.raises(RuleError, match="rule G16 needs 2 beta"):
                resample_perfect(premise)


def test_g16_refuses_large_losses_single_units_and_vacuous_totals():
    with pytest.raises(
        RuleError, match=r"rule G16 needs epsilon <= ln 2; got epsilon=0\.7"
    ):
        resample_perfect(sampled(PerfectGeneralization(0.0, 0.7, 0.0)))
    with pytest.raises(RuleError, match="rule G16 needs 2 beta"):
        resample_perfect(sampled(PerfectGeneralization(0.0, 0.1, 0.0), n=1))
    with pytest.raises(RuleError, match="rule G16 gives delta="):
        resample_perfect(sampled(PerfectGeneralization(0.0, 0.1, 0.5)))


# ----------------------------------------------------------------------- G17


def test_g17_covers_outputs_that_ignore_the_sample():
    """A fixed feature, published: (0, 0, 0)-perfect, so also (beta, 0, 0)."""
    closest = 0.0
    for units, beta in itertools.product([10, 101, 1000], [0.2, 1e-3]):
        made = perfect_to_robust(
            sampled(PerfectGeneralization(beta, 0.0, 0.0), n=units)
        )
        assert made.guarantee.delta == pytest.approx(2 * beta)
        assert two_sided(units, made.guarantee.epsilon) <= made.guarantee.delta
        truth = next(
            k / units
            for k in range(units + 1)
            if two_sided(units, k / units) <= made.guarantee.delta
        )
        closest = max(closest, truth / made.guarantee.epsilon)
    assert closest > 0.7


def leaky(kinds, units, share):
    """Publish the sample with probability `share`, else a uniform one.

    Compared with the uniform simulator, every law is within the returned epsilon, so
    this is (0, epsilon, 0)-perfect for every distribution.
    """
    total = float(kinds) ** units
    return max(math.log(share * total + 1 - share), -math.log1p(-share))


def test_g17_holds_where_the_printed_lemma_is_false():
    """S3 Lemma 36 has ln(2 eps + 1) where e^eps belongs, in 2/n ln(2(2 eps+1)/..)."""
    kinds, units, share, slack = 400, 40, 0.9, 0.1
    epsilon = leaky(kinds, units, share)
    assert 200 < epsilon < 300
    # An adversary who reads the sample overfits by 1 - n/kinds, with chance `share`.
    overfitting = 1 - units / kinds
    printed = math.sqrt(2 / units * math.log(2 * (2 * epsilon + 1) / slack))
    assert printed < overfitting
    assert share > 2 * slack  # so the printed (printed, 2 slack) is false
    ours = perfect_to_robust(
        sampled(PerfectGeneralization(slack, epsilon, 0.0), n=units)
    )
    assert ours.guarantee.epsilon > overfitting


def test_g17_follows_a_weak_leak():
    """Small epsilon: publish one bit of randomized response about a fixed feature."""
    units, beta = 400, 0.01
    for epsilon in (0.1, 1.0):
        premise = sampled(PerfectGeneralization(beta, epsilon, 0.0), n=units)
        made = perfect_to_robust(premise).guarantee
        # Whatever the bit, at most e^eps times as likely as without the sample.
        reached = beta + math.exp(epsilon) * two_sided(units, made.epsilon)
        assert reached <= made.delta


def test_g17_needs_some_slack_but_not_too_much():
    for beta, delta in ((0.0, 0.0), (0.5, 0.0), (0.3, 0.3)):
        with pytest.raises(RuleError, match=r"rule G17 needs 0 < beta \+ delta < 1/2"):
            perfect_to_robust(sampled(PerfectGeneralization(beta, 0.1, delta)))


# ----------------------------------------------------------------------- G18


@pytest.mark.parametrize("units", [3, 6])
def test_g18_two_strange_mechanisms_add_their_betas(units):
    """Each says "strange" on one balanced string: together on two, attained."""
    one = sampled(PerfectGeneralization(0.5**units, 0.0, 0.0), n=units)
    made = compose_perfect(one, one)
    strange = 2 * 0.5**units  # fair bits hit either string
    assert made.guarantee == PerfectGeneralization(strange, 0.0, 0.0)
    assert INDEPENDENT_RUNS in made.assumptions


def test_g18_numbers_and_refusals():
    parts = [sampled(PerfectGeneralization(0.1, e, 0.0)) for e in (0.1, 0.2, 0.3)]
    made = compose_perfect(*parts).guarantee
    assert made == PerfectGeneralization(0.3, 0.6, 0.0)
    with pytest.raises(RuleError, match="rule G18 needs delta = 0 and one sample"):
        compose_perfect(parts[0], sampled(PerfectGeneralization(0.1, 0.1, 1e-9)))
    with pytest.raises(RuleError, match="rule G18 needs delta = 0 and one sample"):
        compose_perfect(parts[0], sampled(PerfectGeneralization(0.1, 0.1, 0.0), n=7))
    with pytest.raises(RuleError, match="rule G18 gives beta=1"):
        compose_perfect(*parts * 4)
    with pytest.raises(RuleError, match="rule G18 needs at least one"):
        compose_perfect()
