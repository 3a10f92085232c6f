"""Totals that hold whenever somebody looks, and caps that many models share (G22)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Budget,
    Filter,
    Others,
    PureDP,
    answers_within,
    recheck,
    repeat,
    rho_within,
    running_total,
    spent_total,
    within_filter,
    zcdp_epsilon,
)
from reticent.guarantees.totals import LEVELS, level_epsilon
from tests.guarantees.cases import answer

DELTA = 1e-6


def excess(loss, epsilon):
    """Return how much of a transcript's probability exceeds e^epsilon times the other.

    `loss` is ln(P/Q) of the transcript; the result is relative to P.
    """
    return np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - loss)))


def worst_stopping(step, printed):
    """Return the exact delta of the analyst who stops at the worst moment.

    Randomized responses at `step` are asked one by one; after k of them the analyst
    may stop, and `printed[k]` is the epsilon that the total then shows. The value of
    the optimal stopping problem is the sum of (P - e^printed Q)^+ over all stopped
    transcripts.
    """
    right = 1 / (1 + math.exp(-step))
    last = len(printed) - 1
    loss = step * np.arange(-last, last + 1, 2)
    value = excess(loss, printed[last])
    for k in range(last - 1, -1, -1):
        loss = step * np.arange(-k, k + 1, 2)
        going_on = right * value[1:] + (1 - right) * value[:-1]
        value = np.maximum(excess(loss, printed[k]), going_on)
    return float(value[0])


def shown(step, cap, most):
    """Return what `spent` shows after 0, 1, ... answers."""
    totals = [spent_total({step: k}, cap).guarantee for k in range(1, most + 1)]
    assert all(t.epsilon <= cap.epsilon for t in totals)
    return [0.0, *(t.epsilon for t in totals)], totals


@pytest.mark.parametrize(("epsilon", "budget"), [(0.05, 2.0), (0.1, 4.0), (0.1, 6.0)])
def test_a_total_is_true_at_the_worst_moment(epsilon, budget):
    step = answer(PureDP(epsilon))
    cap = Filter(budget, DELTA, DELTA / 20, DELTA / 20)
    most = int(cap.rho / (epsilon**2 / 2))
    printed, totals = shown(step, cap, most)
    assert worst_stopping(epsilon, printed) <= DELTA
    assert all(t.delta <= DELTA for t in totals if isinstance(t, ApproxDP))
    # The formula for a number fixed in advance is false at a chosen moment.
    fixed = [
        repeat(step, k, delta=DELTA, methods=("basic", "exact", "zcdp"))
        for k in range(1, most + 1)
    ]
    naive = worst_stopping(epsilon, [0.0, *(c.guarantee.epsilon for c in fixed)])
    assert naive > 2 * DELTA


def test_the_old_formula_was_wrong_by_an_order_of_magnitude():
    """Two thousand small steps, the exact law of each number of them."""
    step, delta, last = 0.05, 1e-4, 2000
    fixed = [
        repeat(answer(PureDP(step)), k, delta=delta, methods=("exact",))
        for k in range(1, last + 1, 20)
    ]
    epsilons = np.repeat([c.guarantee.epsilon for c in fixed], 20)
    # Every twentieth is looked at; in between, nobody can stop.
    printed = np.full(last + 1, np.inf)
    printed[1::20] = epsilons[::20]
    assert worst_stopping(step, printed.tolist()) > 8 * delta


@pytest.mark.parametrize("kind", [PureDP(0.3), BoundedRange(0.3), ZCDP(0.002)])
def test_which_total_is_said_by_its_rule(kind):
    step, cap = answer(kind), Filter(3.0, DELTA, DELTA / 20, DELTA / 20)
    rho = {PureDP: 0.045, BoundedRange: 0.01125, ZCDP: 0.002}[type(kind)]
    for count in (1, 3, 10, int(cap.rho / rho)):
        total = spent_total({step: count}, cap)
        recheck(total)
        level = level_epsilon(Fraction(rho) * count, cap.totals)
        if total.rule == "G22-basic":
            assert total.guarantee.epsilon == pytest.approx(0.3 * count)
            assert 0.3 * count <= min(level, 3.0)
        elif total.rule == "G22-odometer":
            assert total.guarantee == ApproxDP(level, DELTA)
        else:
            assert total.rule == "G22-filter"
            assert total.guarantee == ApproxDP(3.0, DELTA)
            assert level > 3.0
    if not isinstance(kind, PureDP):
        assert total.rule == "G22-filter"


def test_levels_are_paid_for_out_of_their_part_of_delta():
    share = DELTA / 20 / len(LEVELS)
    assert len(LEVELS) == 129
    for rho in (1e-9, LEVELS[0], 0.01, 1.0, LEVELS[-1]):
        level = next(x for x in LEVELS if x >= rho)
        assert level_epsilon(Fraction(rho), DELTA / 20) == zcdp_epsilon(level, share)
    assert level_epsilon(Fraction(LEVELS[-1]) + 1, DELTA) is None
    assert level_epsilon(Fraction(1, 10), 0.0) is None


def test_a_cap_keeps_three_parts_of_delta():
    cap = Filter(2.0, DELTA, slack=3e-7, totals=2e-7)
    assert cap.conversion == pytest.approx(5e-7, rel=1e-12)
    assert cap.conversion <= 5e-7
    assert cap.rho == pytest.approx(rho_within(2.0, 5e-7), rel=1e-12)
    assert Filter(2.0, DELTA, slack=DELTA).rho == 0
    assert Filter(2.0).rho == 0
    with pytest.raises(RuleError, match="parts of"):
        Filter(2.0, DELTA, slack=9e-7, totals=2e-7)


def test_a_cap_promises_itself_and_no_more():
    small, large = answer(PureDP(0.05)), answer(PureDP(1.0))
    cap = {"epsilon": 2.0, "delta": DELTA, "slack": 0.0}
    assert within_filter(large, counts=(2,), **cap).guarantee == ApproxDP(2.0, DELTA)
    most = int(rho_within(2.0, DELTA) / 0.00125)
    assert most > 40  # more than the sum of epsilons allows
    assert within_filter(small, counts=(most,), **cap).guarantee.epsilon == 2.0
    for premises, counts in (
        ((small,), (most + 1,)),
        ((large,), (3,)),
        ((small, large), (most, 1)),
        ((answer(ApproxDP(0.1, 1e-9)),), (1,)),
        ((answer(ZCDP(1.0)),), (1,)),
    ):
        with pytest.raises(RuleError, match="got more"):
            within_filter(*premises, counts=counts, **cap)
    assert within_filter(large, counts=(2,), epsilon=2.0).guarantee == PureDP(2.0)


def test_charges_of_others_count_and_are_assumed():
    step = answer(PureDP(0.1))
    cap = Filter(1.0, DELTA, DELTA / 20, DELTA / 20)
    total = spent_total({step: 2}, cap, Others(0.3, 0.0, 0.02, 5))
    assert total.guarantee == PureDP(0.5)
    assert total.answer_count() == 7
    assert "OTHER_CHARGES" in {a.code for a in total.assumptions}
    recheck(total)
    unknown = spent_total({step: 2}, cap, Others(None, 0.0, 0.005, 5))
    assert unknown.rule == "G22-odometer" or unknown.guarantee.epsilon == 1.0
    with pytest.raises(RuleError, match="no total"):
        spent_total({step: 2}, Filter(1.0), Others(None, 0.0, None, 1))
    with pytest.raises(RuleError, match="at most slack"):
        running_total(step, counts=(1,), delta=DELTA, other_delta=1e-7)


def test_steps_with_a_delta_show_the_whole_delta():
    step = answer(ApproxDP(0.1, 1e-9))
    cap = Filter(1.0, DELTA, DELTA / 20, DELTA / 20)
    assert spent_total({step: 3}, cap).guarantee == ApproxDP(0.3, DELTA)
    # Under a cap that was lowered meanwhile, the delta is what it takes.
    beyond = spent_total({step: 51}, cap)
    assert beyond.guarantee.delta == pytest.approx(5.1e-8 + cap.totals)
    assert beyond.guarantee.epsilon <= 5.1
    recheck(beyond)


def tails(step, count):
    """Return the exact excess of `count` randomized responses, as a function."""
    right = 1 / (1 + math.exp(-step))
    wins = np.arange(count + 1)
    chances = np.array(
        [math.comb(count, w) * right**w * (1 - right) ** (count - w) for w in wins]
    )
    loss = step * (2 * wins - count)
    return lambda epsilon: float(chances @ excess(loss, epsilon))


def most_steps(step, epsilon, delta):
    """Return how many equal steps are exactly within (epsilon, delta)."""
    count = 1
    while tails(step, count + 1)(epsilon) <= delta:
        count += 1
    return count


def adversary(cap, steps, admits):
    """Return the exact delta of the best adaptive choice of steps under a filter.

    `steps` maps the epsilon of a randomized response to its part of delta, with which
    it gives everything away; a state is how often each was used, and the loss so far.
    """
    kinds = list(steps)
    memory = {}

    def value(used, net):
        key = (used, net)
        if key in memory:
            return memory[key]
        loss = sum(n * e for n, e in zip(net, kinds, strict=True))
        best = float(excess(loss, cap))
        for place, epsilon in enumerate(kinds):
            more = tuple(n + (i == place) for i, n in enumerate(used))
            if not admits(dict(zip(kinds, more, strict=True))):
                continue
            right = 1 / (1 + math.exp(-epsilon))
            up, down = (
                tuple(n + s * (i == place) for i, n in enumerate(net)) for s in (1, -1)
            )
            going = right * value(more, up) + (1 - right) * value(more, down)
            gift = steps[epsilon]
            best = max(best, gift + (1 - gift) * going)
        memory[key] = best
        return best

    return value((0,) * len(kinds), (0,) * len(kinds))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.01), (0.8, 0.05)])
def test_either_sum_may_admit_a_charge(epsilon, delta):
    """The best adaptive analyst gains nothing from two ways of counting."""
    cap = Filter(epsilon, delta)

    def admits(counts):
        pure = sum(e * n for e, n in counts.items()) <= epsilon + 1e-12
        return pure or sum(e**2 / 2 * n for e, n in counts.items()) <= cap.rho

    both = adversary(epsilon, {0.4: 0.0, 0.1: 0.0}, admits)
    assert 0 < both <= delta
    # A filter whose two ways of counting are two budgets is caught.
    doubled = adversary(
        epsilon,
        {0.4: 0.0, 0.1: 0.0},
        lambda counts: 0.4 * counts[0.4] <= epsilon and 0.005 * counts[0.1] <= cap.rho,
    )
    assert doubled > delta


def test_what_is_left_of_delta_cannot_be_given_away_after_looking():
    """With exact numbers: a split in advance holds, a split afterwards does not."""
    step, epsilon, delta, gift = 0.2, 1.0, 0.02, 0.01
    whole = most_steps(step, epsilon, delta)
    part = most_steps(step, epsilon, delta - gift)
    assert part < whole
    steps = {step: 0.0, 1e-9: gift}

    def afterwards(counts):
        return counts[1e-9] <= 1 and counts[step] <= (part if counts[1e-9] else whole)

    def in_advance(counts):
        return counts[1e-9] <= 1 and counts[step] <= part

    assert adversary(epsilon, steps, in_advance) <= delta
    assert adversary(epsilon, steps, afterwards) > 1.05 * delta


@pytest.mark.parametrize(
    "budget", [Budget(1.0, 1e-6), Budget(4.0, 1e-6), Budget(8.0, 1e-9)]
)
def test_what_is_set_aside_costs_less_than_one_answer_in_a_hundred(budget):
    cap = Filter(budget.epsilon, budget.delta, budget.delta / 20, budget.delta / 20)
    assert cap.rho >= 0.99 * rho_within(budget.epsilon, budget.delta)
    # Equal pure steps, fixed in advance, would be covered by exact composition.
    lone = answers_within(answer(PureDP(0.01)), budget)
    assert int(cap.rho / 5e-5) >= 0.85 * lone
