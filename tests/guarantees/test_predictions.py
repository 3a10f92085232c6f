"""G19 to G21: private predictions and what they lose on fresh data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reticent.errors import InvalidGuaranteeError, RuleError
from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    Consistency,
    ExpectedGeneralization,
    PureDP,
    Sample,
    dp_to_consistency,
    prediction_to_expected,
    prediction_to_risk_multiple,
)
from reticent.guarantees.convert import sigmoid
from tests.guarantees.cases import answer, given
from tests.guarantees.worst_cases import largest, private_bits

# ----------------------------------------------------------------------- G19


def memoriser(domain, epsilon):
    """Expected loss e^{-epsilon} on the one known example, and one elsewhere."""
    train = math.exp(-epsilon)
    test = train / domain + (1 - 1 / domain)
    return train, test


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_g19_is_attained_by_remembering_one_example(epsilon):
    made = prediction_to_expected(answer(PureDP(epsilon), n=1)).guarantee
    train, test = memoriser(10**5, epsilon)
    assert test <= made.factor * train + made.slack
    assert test >= 0.999 * made.factor * train
    assert made == ExpectedGeneralization(made.factor, 0.0, 1)


@pytest.mark.parametrize(("units", "kinds"), [(1, 3), (2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (0.3, 0.05), (0.0, 0.1)])
def test_g19_holds_for_every_private_prediction(units, kinds, epsilon, delta):
    """Maximise E[test] - e^eps E[train] over all private bits on a small domain."""
    made = prediction_to_expected(answer(ApproxDP(epsilon, delta))).guarantee
    data = list(itertools.product(range(kinds), repeat=units))
    number = {word: i for i, word in enumerate(data)}
    size = len(data) * kinds
    pairs = [
        (number[word] * kinds + z, number[other] * kinds + z)
        for word, other in itertools.combinations(data, 2)
        if sum(a != b for a, b in zip(word, other, strict=True)) == 1
        for z in range(kinds)
    ]
    below, limits = private_bits(pairs, size, epsilon, delta)
    objective = np.zeros(size)
    for word, i in number.items():
        for z in range(kinds):
            objective[i * kinds + z] += 1 / len(data) / kinds
        for z in word:
            objective[i * kinds + z] -= made.factor / len(data) / units
    worst, _ = largest(objective, below, limits)
    assert worst <= made.slack + 1e-9
    # The control: without the factor, or the slack, it would be broken.
    if kinds > 2:
        for word, i in number.items():
            for z in word:
                objective[i * kinds + z] += (made.factor - 1) / len(data) / units
        assert largest(objective, below, limits)[0] > 0.01


@pytest.mark.parametrize("moment", [2, 3])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_g19_moments_hold_for_the_memoriser_and_a_shifted_one(moment, epsilon):
    delta, bound = 0.02, 2.0
    made = prediction_to_expected(
        answer(ApproxDP(epsilon, delta)), loss_bound=bound, moment=moment
    ).guarantee
    assert made.moment == moment
    assert made.factor == pytest.approx(math.exp(moment**2 * epsilon))
    for level in (0.1, 0.5, 0.9):
        train = level * bound * math.exp(-epsilon) - delta * bound
        test = level * bound
        assert test**moment <= made.factor * train**moment + made.slack
    pure = prediction_to_expected(answer(PureDP(epsilon)), moment=moment).guarantee
    assert pure.slack == 0.0


def test_g19_slack_is_the_lemmas_and_not_k_delta():
    """S1 Lemma 6.4 bounds E[test^k] by e^{k^2 eps} E[(train + k delta B)^k]: for a
    train loss near B that is k^2 delta B^k above the power, not k delta."""
    made = prediction_to_expected(answer(ApproxDP(0.0, 0.01)), moment=3).guarantee
    assert made.slack == pytest.approx((1 + 3 * 0.01) ** 3 - 1, rel=1e-9)
    assert made.slack > 3 * 0.01
    first = prediction_to_expected(
        answer(ApproxDP(0.7, 0.01)), loss_bound=5.0
    ).guarantee
    assert first.slack == pytest.approx(0.05, rel=1e-12)
    assert first.slack >= 0.05


def test_g19_refuses_what_overflows():
    with pytest.raises(RuleError, match="rule G19 leads to numbers"):
        prediction_to_expected(answer(PureDP(200.0)), moment=2)
    with pytest.raises(InvalidGuaranteeError, match="loss_bound"):
        prediction_to_expected(answer(PureDP(0.1)), loss_bound=0.0)
    with pytest.raises(InvalidGuaranteeError, match="moment"):
        prediction_to_expected(answer(PureDP(0.1)), moment=0)


# ----------------------------------------------------------------------- G20


def test_g20_is_the_best_whole_moment():
    for epsilon, beta in itertools.product([1e-4, 0.01, 0.3, 2.0], [0.5, 0.05, 1e-6]):
        made = prediction_to_risk_multiple(answer(PureDP(epsilon)), beta=beta).guarantee
        best = min(
            math.exp(k * epsilon + math.log(1 / beta) / k)
            for k in range(1, 5000)
            if k * epsilon < 600
        )
        assert made.factor == pytest.approx(best, rel=1e-9)
        # Without whole moments, as printed, it would be smaller, and unproved.
        assert made.factor >= math.exp(2 * math.sqrt(epsilon * math.log(1 / beta))) * (
            1 - 1e-12
        )
        assert made.failure == beta


@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_g20_covers_random_private_losses(units, epsilon, seed):
    """Random expected losses on a small domain, made private by Lipschitz extension."""
    rng = np.random.default_rng(seed)
    kinds = 3
    data = list(itertools.product(range(kinds), repeat=units))
    for _ in range(20):
        raw = rng.exponential(size=(len(data), kinds)) * 10 ** rng.uniform(-2, 2) + 0.01
        for i, word in enumerate(data):
            for z in set(word):
                raw[i, z] = 0.01
        apart = np.array(
            [
                [sum(a != b for a, b in zip(u, v, strict=True)) for v in data]
                for u in data
            ]
        )
        # The largest function below `raw` that moves by e^epsilon a unit.
        loss = (raw[None] * np.exp(epsilon * apart[..., None])).min(axis=1)
        train = np.array([np.mean(loss[i, list(word)]) for i, word in enumerate(data)])
        test = loss.mean(axis=1)
        for beta in (0.5, 0.1):
            made = prediction_to_risk_multiple(answer(PureDP(epsilon)), beta=beta)
            failed = np.mean(test >= made.guarantee.factor * train.max())
            assert failed <= beta
        assert (test > train).any()  # the predictor does remember


def test_g20_at_the_ends():
    free = prediction_to_risk_multiple(answer(PureDP(0.0)), beta=0.05).guarantee
    assert free.factor == pytest.approx(1.0, abs=1e-5)
    tiny = prediction_to_risk_multiple(answer(PureDP(5e-324)), beta=5e-324).guarantee
    assert tiny.factor == pytest.approx(1.0, abs=1e-2)
    with pytest.raises(RuleError, match="rule G20 leads to numbers"):
        prediction_to_risk_multiple(answer(PureDP(800.0)), beta=0.1)


# ----------------------------------------------------------------------- G21


@pytest.mark.parametrize("kinds", [2, 3, 5])
def test_g21_a_pure_release_overfits_by_tanh_of_a_quarter(kinds):
    """Guess the one example among K kinds, e^eps to 1; the worst K is 1 + e^{eps/2}."""
    epsilon = 2 * math.log(max(kinds - 1, 1.2))
    gap = dp_to_consistency(given(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    right = math.exp(epsilon) / (math.exp(epsilon) + kinds - 1)
    reached = (1 - 1 / kinds) - (1 - right)  # population risk less empirical risk
    assert reached <= gap
    if kinds > 2:
        assert reached >= 0.999 * gap
        assert gap == pytest.approx(math.tanh(epsilon / 4), rel=1e-14)


@pytest.mark.parametrize("kinds", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_g21_holds_for_every_pure_release_of_a_guess(kinds, epsilon):
    """Maximise the gap over all epsilon-DP guesses from one example."""
    gap = dp_to_consistency(given(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    size = kinds * kinds
    rows = []
    for z, other in itertools.permutations(range(kinds), 2):
        for y in range(kinds):
            row = np.zeros(size)
            row[z * kinds + y], row[other * kinds + y] = 1.0, -math.exp(epsilon)
            rows.append(row)
    objective = np.zeros(size)
    for z in range(kinds):
        objective[z * kinds + z] = 1 / kinds
    equal = np.kron(np.eye(kinds), np.ones(kinds))
    best, _ = largest(
        objective,
        np.array(rows),
        np.zeros(len(rows)),
        equal=equal,
        values=np.ones(kinds),
    )
    assert best - 1 / kinds <= gap + 1e-9
    # The control: an answer by itself may overfit by more, up to tanh(eps/2).
    alone = dp_to_consistency(answer(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    assert alone == pytest.approx(math.tanh(epsilon / 2), rel=1e-14)


def test_g21_predictions_reach_tanh_of_a_half():
    """Predict 1 with probability sigma(eps) where the example was seen, else
    sigma(-eps): with a large domain test and train differ by tanh(eps/2)."""
    epsilon, domain = 1.0, 10**4
    alone = dp_to_consistency(answer(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    train = sigmoid(-epsilon)
    test = (1 - 1 / domain) * sigmoid(epsilon) + train / domain
    assert 0.999 * alone <= test - train <= alone
    release = dp_to_consistency(given(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    assert test - train > 1.5 * release  # so the scope matters


def test_g21_adds_the_rate_and_follows_the_scope():
    made = dp_to_consistency(given(PureDP(0.4), n=50), rate=0.25)
    assert made.relation == Sample(50)
    assert made.guarantee.rate == pytest.approx(0.25 + math.tanh(0.1))
    approx = dp_to_consistency(given(ApproxDP(0.4, 0.01), n=50), rate=0.25).guarantee
    move = (math.expm1(0.4) + 0.02) / (math.exp(0.4) + 1)
    assert approx.rate == pytest.approx(0.25 + move)
    ranged = dp_to_consistency(answer(BoundedRange(0.4)), rate=0.0).guarantee
    assert ranged.rate == pytest.approx(math.tanh(0.1))
    assert dp_to_consistency(given(PureDP(0.0)), rate=0.0).guarantee == Consistency(0.0)
    printed = 0.25 + math.expm1(0.4)
    assert made.guarantee.rate < printed
