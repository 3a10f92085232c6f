"""P1: no neighbour moves a law by more than epsilon, and draws follow the law."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import factorial

import numpy as np
import pytest

from reticent._numbers import exact
from reticent.guarantees import (
    BoundedRange,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    recheck,
)
from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    average_vote,
    gaussian_vote,
    geometric_vote,
    geometric_vote_certificate,
    permute_and_flip_vote,
    permute_and_flip_vote_certificate,
    soft_vote,
    soft_vote_certificate,
)
from tests.mechanisms.neighbours import (
    assert_loses_at_most,
    vote_pairs,
    worst_loss,
    worst_range,
)
from tests.stats import assert_follows, mutant, rejects

EPSILONS = [1e-3, 0.1, 1.0, 5.0]
SIZES = [(2, 7), (2, 6), (3, 5), (4, 4)]
DRAWS = 1_000_000


@pytest.mark.parametrize(("n_labels", "voters"), SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_soft_vote_moves_odds_by_epsilon(epsilon, n_labels, voters):
    bounds = worst_range(lambda v: soft_vote(v, epsilon), vote_pairs(n_labels, voters))
    assert_loses_at_most(bounds, epsilon)


@pytest.mark.parametrize("voters", [1, 2, 6, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_geometric_vote_loses_epsilon(epsilon, voters):
    bounds = worst_loss(lambda v: geometric_vote(v, epsilon), vote_pairs(2, voters))
    assert_loses_at_most(bounds, epsilon)


@pytest.mark.parametrize(("n_labels", "voters"), SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_permute_and_flip_loses_epsilon(epsilon, n_labels, voters):
    law = worst_loss(
        lambda v: permute_and_flip_vote(v, epsilon), vote_pairs(n_labels, voters)
    )
    # With two labels the bound is attained; more labels lose less at small epsilon.
    assert_loses_at_most(law, epsilon, tight=n_labels == 2)


def test_factor_two_is_caught():
    # exp(epsilon * votes): the rule that is often quoted.
    bounds = worst_range(lambda v: soft_vote(v, 2.0), vote_pairs(2, 6))
    assert rejects(assert_loses_at_most, bounds, 1.0)
    pure = worst_loss(lambda v: soft_vote(v, 2.0), vote_pairs(2, 9))
    assert pure[0] > 1.9


@pytest.mark.parametrize("law", [geometric_vote, permute_and_flip_vote])
def test_pure_rules_are_not_of_bounded_range(law):
    # Accounting them as epsilon^2/8 would be wrong.
    bounds = worst_range(lambda v: law(v, 1.0), vote_pairs(2, 6))
    assert bounds[0] > 1.2


def test_epsilon_means_its_decimal():
    # The float 0.1 is above one tenth; the vote stays below what 0.1 prints.
    for epsilon in (0.1, 0.3, 2.0**-40, 1 / 3, 0.7):
        for voters in (6, 10**6):
            response = soft_vote([[0, voters], [1, voters - 1]], epsilon)
            used = 2 * np.diff(response.log_weights[:, 0])[0]
            assert exact(epsilon) * (1 - 2.0**-28) < used <= exact(epsilon)


def test_products_of_epsilon_and_votes_are_exact(seed):
    rng = np.random.default_rng(seed)
    for epsilon in rng.uniform(0.001, 10, 50):
        votes = rng.multinomial(10**6, [0.2, 0.3, 0.5])
        weights = soft_vote([votes], epsilon).log_weights[0]
        rate = soft_vote([[10**6, 0]], epsilon).log_weights[0, 0] / 10**6
        for vote, weight in zip(votes, weights, strict=True):
            assert exact_float(weight) == int(vote) * exact_float(rate)


def exact_float(value):
    numerator, denominator = float(value).as_integer_ratio()
    return Fraction(numerator, denominator)


@pytest.mark.parametrize("law", [soft_vote, permute_and_flip_vote])
def test_laws_agree_with_intervals(law, seed):
    votes = np.random.default_rng(seed).multinomial(40, np.full(5, 0.2), size=6)
    check_against_intervals(law(votes, 0.7))


@pytest.mark.parametrize("voters", [8, 9])
def test_geometric_law_agrees_with_intervals(voters):
    check_against_intervals(
        geometric_vote([[k, voters - k] for k in range(voters + 1)], 0.7)
    )


def check_against_intervals(response):
    for row in range(len(response)):
        for (low, high), log in zip(
            response.exact(row), response.log_probabilities[row], strict=True
        ):
            assert high - low <= 2.0**-64
            assert abs(float(low) - log) <= 1e-12 * max(1.0, abs(log))
    assert response.probabilities.sum(axis=1) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("k", range(6))
def test_geometric_law_is_the_formula(k):
    for voters in (5, 6):
        t = abs(k - voters / 2)
        odd = np.exp(-0.8 * (t - 0.5)) / (1 + np.exp(0.8))
        minority = odd if voters % 2 else np.exp(-0.8 * t) / 2
        law = geometric_vote([[voters - k, k]], 0.8).probabilities[0]
        assert law.min() == pytest.approx(minority, rel=1e-9)
        assert k == voters / 2 or law.argmin() == (2 * k < voters)


def test_permute_and_flip_law_is_that_of_the_algorithm():
    # Enumerate every order of five labels.
    votes = np.array([3, 0, 5, 5, 1])
    chances = np.exp(-0.9 / 2 * (votes.max() - votes))
    law = np.zeros(5)
    for order in permutations(range(5)):
        left = 1 / factorial(5)
        for label in order:
            law[label] += left * chances[label]
            left *= 1 - chances[label]
    assert permute_and_flip_vote([votes], 0.9).probabilities[0] == pytest.approx(
        law, rel=1e-9
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("voters", [5, 8])
def test_pure_rules_err_no_more_than_the_soft_one(epsilon, voters):
    rows = [[k, voters - k] for k in range(voters + 1)]
    soft, geometric, flip = (
        law(rows, epsilon).probabilities.min(axis=1)
        for law in (soft_vote, geometric_vote, permute_and_flip_vote)
    )
    assert (geometric <= soft * (1 + 1e-12)).all()
    assert (flip <= soft * (1 + 1e-12)).all()
    # The geometric error is this share of the soft one: 1 at a tie, and towards half
    # (less for odd r) as the margin t grows.
    t = np.abs(np.arange(voters + 1) - voters / 2)
    limit = 1 / (2 * np.cosh(epsilon / 2)) if voters % 2 else 0.5
    assert geometric / soft == pytest.approx(limit * (1 + np.exp(-epsilon * t)))


EXTREME = {
    "soft": lambda v: soft_vote(v, 10.0),
    "geometric": lambda v: geometric_vote(v, 10.0),
    "permute-and-flip": lambda v: permute_and_flip_vote(v, 10.0),
    "gaussian": lambda v: gaussian_vote(v, 0.5),
    "average": lambda v: average_vote(v, 10.0),
}


@pytest.mark.parametrize("name", EXTREME)
def test_no_label_is_impossible(name):
    response = EXTREME[name]([[0, 10**6], [10**6, 0], [499_999, 500_001]])
    assert np.isfinite(response.log_probabilities).all()
    assert (response.log_probabilities <= 0).all()
    assert (response.probabilities > 0).all()
    if name != "gaussian":
        for row in range(3):
            assert all(low > -(10**8) for low, _ in response.exact(row))


def test_zero_check_catches_a_float_sigmoid():
    assert 1 - 1 / (1 + np.exp(-40.0)) == 0.0


VOTES = [3, 1, 2]
PAIR = [4, 1]


@pytest.mark.parametrize(
    "law", [soft_vote, permute_and_flip_vote, geometric_vote], ids=lambda f: f.__name__
)
def test_draws_follow_the_law(law, seed):
    votes = PAIR if law is geometric_vote else VOTES
    response = law(np.tile(votes, (DRAWS, 1)), 1.3)
    labels = response.draw(SeededSource(seed))
    expected = law([votes], 1.3).probabilities[0]
    counts = np.bincount(labels, minlength=len(votes))
    assert_follows(counts, expected)
    assert rejects(assert_follows, counts, mutant(expected))


def test_system_draws_follow_the_law():
    response = geometric_vote(np.tile(PAIR, (200_000, 1)), 1.3)
    counts = np.bincount(response.draw(SystemSource()), minlength=2)
    assert_follows(counts, response.probabilities[0])


def test_two_draws_are_independent(seed):
    response, source = soft_vote([PAIR] * 50_000, 1.0), SeededSource(seed)
    first, second = response.draw(source), response.draw(source)
    p = response.probabilities[0]
    both = np.outer(p, p).ravel()
    assert_follows(np.bincount(2 * first + second, minlength=4), both)
    # One draw handed out twice is the reused noise that voids composition.
    assert rejects(assert_follows, np.bincount(3 * first, minlength=4), both)


def test_abstentions_need_a_public_number_of_voters():
    with pytest.raises(ValueError, match="voters"):
        soft_vote([[1, 2], [1, 1]], 1.0)
    response = soft_vote([[1, 2], [1, 1]], 1.0, voters=3)
    assert len(response) == 2
    assert len(permute_and_flip_vote(np.zeros((3, 4)), 1.0, voters=2)) == 3


def test_an_abstention_costs_at_most_epsilon():
    # A voter that falls silent, or starts to speak, moves one count by one.
    rows = [[3, 2], [2, 2], [3, 1]]
    for law in (soft_vote, permute_and_flip_vote):
        logs = law(rows, 1.0, voters=5).log_probabilities
        assert np.abs(logs[0] - logs[1:]).max() <= 1.0


def test_empty_batches_are_answered_by_nothing():
    for law in (soft_vote, geometric_vote, permute_and_flip_vote):
        response = law(np.zeros((0, 2), dtype=int), 1.0)
        assert response.draw(SystemSource()).shape == (0,)
        assert response.probabilities.shape == (0, 2)


def test_laws_are_read_only():
    response = soft_vote([[1, 2]], 1.0)
    with pytest.raises(ValueError, match="read-only"):
        response.probabilities[0, 0] = 1.0


@pytest.mark.parametrize(
    ("certify", "guarantee"),
    [
        (soft_vote_certificate, BoundedRange(0.5)),
        (geometric_vote_certificate, PureDP(0.5)),
        (permute_and_flip_vote_certificate, PureDP(0.5)),
    ],
)
def test_certificates_say_what_one_answer_costs(certify, guarantee):
    certificate = certify(n=100, epsilon=0.5)
    assert certificate.guarantee == guarantee
    assert certificate.relation == ReplaceOne(100)
    assert certificate.scope is Scope.ANSWER
    assert certificate.proved
    recheck(Certificate.from_json(certificate.to_json()))
    assert not certify(n=100, epsilon=0.5, seeded=True).proved
