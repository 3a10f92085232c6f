"""G23: groups of everybody, pairs of samples, and post-processing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    PerfectGeneralization,
    PureDP,
    RobustGeneralization,
    Sample,
    Scope,
    TwoSampleCloseness,
    UniformStability,
    dp_to_group_perfect,
    perfect_to_pair,
    post_process,
    repeat,
)
from tests.guarantees.cases import answer, given, sampled
from tests.guarantees.fair_bits import soft_vote
from tests.guarantees.worst_cases import largest, private_pair

# ----------------------------------------------------------------------- G23


def test_g23_everybody_is_a_group():
    made = dp_to_group_perfect(given(PureDP(0.1), n=5))
    assert made.guarantee == PerfectGeneralization(0.0, 0.5, 0.0)
    assert made.relation == Sample(5)
    slack = dp_to_group_perfect(given(ApproxDP(0.1, 1e-4), n=5)).guarantee
    assert slack.delta == pytest.approx(1e-4 * math.expm1(0.5) / math.expm1(0.1))
    ranged = dp_to_group_perfect(given(BoundedRange(0.1), n=5)).guarantee
    assert ranged.epsilon == 0.5
    for epsilon, n in ((0.5, 100), (1.0, 30162)):
        with pytest.raises(RuleError, match="rule G23-group"):
            dp_to_group_perfect(given(ApproxDP(epsilon, 1e-6), n=n))


def test_g23_everybody_is_attained_by_a_chain():
    """All ones against all zeros: the soft vote loses nearly n epsilon."""
    units, epsilon = 40, 0.2
    chance = soft_vote(units, epsilon)
    made = dp_to_group_perfect(given(PureDP(epsilon), n=units)).guarantee
    loss = math.log(chance[-1] / chance[0])
    assert loss <= made.epsilon
    assert math.log(chance[units // 2] / chance[0]) >= 0.8 * made.epsilon / 2


def pair_slack(epsilon, delta, outcomes=3):
    """Return the worst slack at 2 epsilon of two laws, each close to a third."""
    rows, limits = [], []
    for first, second in ((0, 1), (1, 2)):
        pair, limit = private_pair(outcomes, epsilon, delta)
        for row in pair:
            wide = np.zeros(3 * outcomes)
            wide[first * outcomes : (first + 1) * outcomes] = row[:outcomes]
            wide[second * outcomes : (second + 1) * outcomes] = row[outcomes:]
            rows.append(wide)
        limits += list(limit)
    equal = np.zeros((3, 3 * outcomes))
    for law in range(3):
        equal[law, law * outcomes : (law + 1) * outcomes] = 1
    objective = np.zeros(3 * outcomes)
    objective[0], objective[2 * outcomes] = 1.0, -math.exp(2 * epsilon)
    return largest(objective, np.array(rows), limits, equal=equal, values=np.ones(3))[0]


@pytest.mark.parametrize("epsilon", [0.0, 0.3, math.log(2), 1.0, 2.0])
def test_g23_pairs_are_within_the_worst_detour_through_the_simulator(epsilon):
    delta = 1e-3
    made = perfect_to_pair(sampled(PerfectGeneralization(0.1, epsilon, delta)))
    worst = pair_slack(epsilon, delta)
    assert made.guarantee.failure == pytest.approx(0.2)
    assert made.guarantee.epsilon == pytest.approx(2 * epsilon)
    assert worst == pytest.approx(made.guarantee.delta, rel=1e-5)


def test_g23_pairs_need_more_than_three_delta_beyond_ln_two():
    """(2 eps, 3 delta) is false for eps > ln 2: the slack is delta (1 + e^eps).

    An event of probability zero under the second law, delta under the simulator and
    delta + e^eps delta under the first: each pair is (eps, delta)-close.
    """
    epsilon, delta = 1.0, 1e-3
    second, middle = 0.0, delta
    first = math.exp(epsilon) * middle + delta
    for a, b in ((first, middle), (middle, second)):
        assert a <= math.exp(epsilon) * b + delta + 1e-15
        assert b <= math.exp(epsilon) * a + delta
        assert 1 - a <= math.exp(epsilon) * (1 - b) + delta
        assert 1 - b <= math.exp(epsilon) * (1 - a) + delta
    assert first > math.exp(2 * epsilon) * second + 3 * delta
    made = perfect_to_pair(
        sampled(PerfectGeneralization(0.1, epsilon, delta))
    ).guarantee
    assert first <= math.exp(made.epsilon) * second + made.delta
    # Up to ln 2, three delta are enough.
    assert pair_slack(math.log(2), delta) <= 3 * delta + 1e-9


def test_g23_pairs_that_promise_nothing_are_refused():
    for perfect in (
        PerfectGeneralization(0.5, 0.1, 0.0),
        PerfectGeneralization(0.1, 5.0, 0.01),
    ):
        with pytest.raises(RuleError, match="rule G23-pair gives"):
            perfect_to_pair(sampled(perfect))
    exact = perfect_to_pair(sampled(PerfectGeneralization(0.0, 0.1, 0.0))).guarantee
    assert exact == TwoSampleCloseness(0.0, 0.2, 0.0)


PROCESSED = [
    PureDP(0.1),
    BoundedRange(0.1),
    ApproxDP(0.1, 1e-9),
    ZCDP(0.1),
    RobustGeneralization(0.1, 0.1),
    PerfectGeneralization(0.01, 0.1, 0.0),
]


@pytest.mark.parametrize("kind", PROCESSED, ids=lambda k: type(k).__name__)
def test_g23_keeps_what_outputs_promise(kind):
    made = post_process(given(kind), what="a table of means")
    assert made.guarantee == kind
    assert made.scope is Scope.MODEL
    for scope in Scope:
        assert (
            post_process(given(kind), what="answers", scope=scope.value).scope is scope
        )


def test_g23_bounded_range_survives_any_channel(seed):
    rng = np.random.default_rng(seed)
    epsilon = 0.7
    for _ in range(50):
        scores = rng.normal(size=4)
        laws = np.exp(
            [epsilon * scores, epsilon * (scores + rng.choice([-0.5, 0.5], 4))]
        )
        laws /= laws.sum(axis=1, keepdims=True)
        channel = rng.dirichlet(np.full(5, 0.3), size=4)
        losses = np.log((laws[0] @ channel) / (laws[1] @ channel))
        assert np.ptp(losses) <= epsilon * (1 + 1e-9)
        assert losses.min() <= 1e-12
        assert losses.max() >= -1e-12


def test_g23_one_answer_stays_one_answer():
    """A certificate of one answer holds query by query; many make no model."""
    one = answer(PureDP(0.1))
    assert post_process(one, what="rounded").scope is Scope.ANSWER
    for scope in ("model", "interface"):
        with pytest.raises(
            RuleError, match="rule G23 needs the scope INTERFACE or MODEL"
        ):
            post_process(one, what="a student", scope=scope)
    student = post_process(repeat(one, 50), what="a student", scope="model")
    assert student.scope is Scope.MODEL
    assert student.guarantee == PureDP(5.0)


@pytest.mark.parametrize("what", ["", "  ", None, 3])
def test_g23_needs_to_know_what_was_computed(what):
    with pytest.raises(RuleError, match="rule G23 needs what="):
        post_process(given(PureDP(0.1)), what=what)


def test_stability_is_no_output_to_process():
    with pytest.raises(RuleError, match="rule G23 needs"):
        post_process(given(UniformStability(0.1)), what="x")
