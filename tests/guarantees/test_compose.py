"""G22: the smallest valid total, named by its method, never optimistic."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest

from reticent._numbers import exact
from reticent.errors import (
    RuleError,
)
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    PureDP,
    Scope,
    basic_composition,
    compose,
    exact_composition,
    pld_composition,
    recheck,
    repeat,
    zcdp_composition,
    zcdp_epsilon,
)
from reticent.guarantees.compose import answers_in, step_rho
from tests.guarantees.cases import answer, given
from tests.guarantees.exact_losses import (
    conversion,
    joint,
    odds_pair,
    pure_slack,
    ranged,
    response,
    slack_at,
)

KINDS = [PureDP(0.1), BoundedRange(0.1), ApproxDP(0.1, 1e-8), ZCDP(0.01)]


# ------------------------------------------------------------- repeat and compose


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-2])
@pytest.mark.parametrize("times", [1, 2, 7, 40])
def test_repeat_equals_so_many_compositions(kind, delta, times):
    step = answer(kind)
    total = repeat(step, times, delta=delta)
    assert total == compose([step] * times, delta=delta)
    assert total == compose([answer(kind) for _ in range(times)], delta=delta)
    assert total.answer_count() == times
    recheck(total)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_one_more_step_never_costs_less(kind, delta):
    def loss(times):
        total = repeat(answer(kind), times, delta=delta).guarantee
        return total.rho if isinstance(total, ZCDP) else total.epsilon

    losses = [loss(times) for times in (1, 2, 3, 4, 6, 9, 14, 20, 30)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(losses))
    assert losses[-1] > losses[0]


def test_totals_grow_with_epsilon_and_fall_with_delta(seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        times = int(rng.integers(2, 300))
        epsilon = float(10 ** rng.uniform(-3, 0))
        delta = float(10 ** rng.uniform(-8, -2))
        for kind in (PureDP, BoundedRange):
            for method in ("exact", "zcdp", "pld"):
                one = repeat(
                    answer(kind(epsilon)), times, delta=delta, methods=(method,)
                )
                more = repeat(
                    answer(kind(1.1 * epsilon)), times, delta=delta, methods=(method,)
                )
                less = repeat(
                    answer(kind(epsilon)), times, delta=2 * delta, methods=(method,)
                )
                assert one.guarantee.epsilon <= more.guarantee.epsilon * (1 + 1e-9)
                assert less.guarantee.epsilon <= one.guarantee.epsilon * (1 + 1e-9)


def test_the_smallest_wins_and_names_its_method():
    step = answer(PureDP(0.2))
    assert repeat(answer(ApproxDP(0.1, 1e-7)), 2, delta=2e-7).rule == "G22-basic"
    assert repeat(step, 200, delta=1e-6).rule == "G22-exact"
    assert repeat(answer(BoundedRange(0.2)), 200, delta=1e-6).rule == "G25"
    # Beyond what value iteration affords, zCDP remains.
    assert repeat(answer(BoundedRange(1e-3)), 10**6, delta=1e-6).rule == "G22-zcdp"
    large = answer(BoundedRange(3.0))
    assert repeat(large, 5, delta=1e-5).rule == "G25"
    # Of the others, the convolved odds pair is the best for few large steps.
    others = ("basic", "exact", "zcdp", "pld")
    assert repeat(large, 5, delta=1e-5, methods=others).rule == "G22-pld"
    everything = [
        repeat(step, 50, delta=1e-6, methods=(method,)).guarantee.epsilon
        for method in ("basic", "exact", "zcdp", "pld")
    ]
    assert repeat(step, 50, delta=1e-6).guarantee.epsilon == min(everything)
    assert all(
        repeat(step, 50, delta=1e-6, methods=(method,)).rule == f"G22-{method}"
        for method in ("basic", "exact", "zcdp", "pld")
    )


def test_votes_of_the_sheet():
    """Two hundred votes at 0.2 and delta 1e-6: 7.27 as bounded range, 16.5 as pure."""
    soft = repeat(answer(BoundedRange(0.2)), 200, delta=1e-6).guarantee.epsilon
    pure = repeat(answer(PureDP(0.2)), 200, delta=1e-6).guarantee.epsilon
    assert soft == pytest.approx(7.27, abs=0.01)
    assert pure == pytest.approx(16.5, abs=0.05)


def test_without_a_delta_losses_add_up_exactly():
    assert repeat(answer(PureDP(0.1)), 10).guarantee == PureDP(1.0)
    assert repeat(answer(BoundedRange(0.1)), 10).guarantee == PureDP(1.0)
    assert repeat(answer(ApproxDP(0.1, 1e-7)), 10).guarantee == ApproxDP(1.0, 1e-6)
    assert repeat(answer(ZCDP(0.1)), 10).guarantee == ZCDP(1.0)
    assert compose([answer(ZCDP(0.5)), answer(PureDP(1.0))]).guarantee == ZCDP(1.0)
    million = repeat(answer(PureDP(1e-6)), 10**6)
    assert million.guarantee == PureDP(1.0)


def test_scopes_and_counts_of_a_total():
    model, one = given(PureDP(0.1)), answer(PureDP(0.2))
    assert compose([model, model]).scope is Scope.MODEL
    assert compose([model, one]).scope is Scope.INTERFACE
    assert compose([one, one]).answer_count() == 2
    assert answers_in([model], [3]) is None


# ------------------------------------------------------------- never optimistic


def test_equal_pure_steps_are_never_underestimated(seed):
    """Promise 18: random cases against fifty digits, no method below the truth."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        epsilon = float(10 ** rng.uniform(-3, 0.3))
        times = int(10 ** rng.uniform(0, 3))
        delta = float(10 ** rng.uniform(-8, -2))
        for method in ("basic", "exact", "zcdp", "pld"):
            if method == "pld" and times == 1:
                continue
            total = repeat(
                answer(PureDP(epsilon)), times, delta=delta, methods=(method,)
            ).guarantee
            assert pure_slack(total.epsilon, epsilon, times) <= delta
        best = repeat(answer(PureDP(epsilon)), times, delta=delta).guarantee.epsilon
        # The control: one per cent less would be an underestimate.
        if 0 < best < min(700, 0.99 * epsilon * times):
            assert pure_slack(0.99 * best, epsilon, times) > delta


def approximate_slack(epsilon, step, slack, count):
    """Return the delta of so many (step, slack) steps, over all 4^count outcomes."""
    return slack_at(joint([response(step, slack)] * count), epsilon)


@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize(("step", "slack"), [(0.5, 1e-3), (0.1, 0.01), (2.0, 1e-4)])
def test_exact_composition_of_approximate_steps_is_optimal(step, slack, count):
    premise = answer(ApproxDP(step, slack))
    for delta in (count * slack * 1.5, 0.2):
        total = exact_composition(premise, counts=[count], delta=delta).guarantee
        assert approximate_slack(total.epsilon, step, slack, count) <= delta + 1e-12
        if total.epsilon > 0:
            assert approximate_slack(0.995 * total.epsilon, step, slack, count) > delta


def test_mixed_steps_are_never_underestimated(seed):
    """Random mixtures of every kind against all sequences of outcomes."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        steps, pairs = [], []
        for _ in range(int(rng.integers(2, 6))):
            epsilon = float(rng.uniform(0.05, 1.5))
            slack = float(rng.uniform(0, 2e-3))
            kind = rng.choice(["pure", "range", "approx"])
            if kind == "pure":
                steps.append(PureDP(epsilon))
                pairs.append(response(epsilon))
            elif kind == "approx":
                steps.append(ApproxDP(epsilon, slack))
                pairs.append(response(epsilon, slack))
            else:
                steps.append(BoundedRange(epsilon))
                pairs.append(ranged(epsilon, float(rng.uniform(0.1, 0.9)) * epsilon))
        delta = 0.03
        truth = joint(pairs)
        for method in ("basic", "zcdp", "pld"):
            total = compose(
                map(answer, steps), delta=delta, methods=(method,)
            ).guarantee
            assert slack_at(truth, total.epsilon) <= delta
        halved = compose(
            [
                answer(type(s)(s.epsilon / 3))
                for s in steps
                if not isinstance(s, ApproxDP)
            ]
            or [answer(PureDP(1e-3))],
            delta=delta,
        ).guarantee
        if len(steps) >= 4 and not any(isinstance(s, ApproxDP) for s in steps):
            assert slack_at(truth, halved.epsilon) > delta  # the check can fail


def test_adaptive_steps_are_covered_by_every_method():
    """The second step is chosen by the first answer; parameters stay the same."""
    epsilon, delta = 0.8, 0.01
    first = ranged(epsilon, 0.5 * epsilon)
    after = [ranged(epsilon, 0.9 * epsilon), ranged(epsilon, 0.1 * epsilon)]
    laws = [
        np.concatenate([first[side][a] * after[a][side] for a in (0, 1)])
        for side in (0, 1)
    ]
    for method in ("basic", "exact", "zcdp", "pld"):
        total = repeat(answer(BoundedRange(epsilon)), 2, delta=delta, methods=(method,))
        assert slack_at(tuple(laws), total.guarantee.epsilon) <= delta
    # The control: the sum of the ranges is no bound on the range.
    losses = np.log(laws[0] / laws[1])
    assert np.ptp(losses) > 2.5 * epsilon


def test_bounded_range_totals_against_the_composed_odds_pair():
    for epsilon, times, cells in ((0.5, 2, 500), (2.0, 3, 70)):
        truth = joint([odds_pair(epsilon, cells)] * times)
        for delta in (1e-3, 0.05):
            found = repeat(
                answer(BoundedRange(epsilon)), times, delta=delta, methods=("pld",)
            ).guarantee
            assert slack_at(truth, found.epsilon) <= delta
            assert slack_at(truth, 0.95 * found.epsilon) > delta


def test_concentrated_totals_are_the_conversion_of_the_exact_sum(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        steps = [
            answer(kind(float(10 ** rng.uniform(-4, 0))))
            for kind in rng.choice([PureDP, BoundedRange, ZCDP], size=3)
        ]
        counts = [int(k) for k in rng.integers(1, 10**6, size=3)]
        delta = float(10 ** rng.uniform(-10, -1))
        made = zcdp_composition(*steps, counts=counts, delta=delta).guarantee
        rho = mpmath.mpf(0)
        with mpmath.workdps(60):
            for step, count in zip(steps, counts, strict=True):
                g = step.guarantee
                each = (
                    mpmath.mpf(repr(g.rho))
                    if isinstance(g, ZCDP)
                    else mpmath.mpf(repr(g.epsilon)) ** 2
                    / (8 if isinstance(g, BoundedRange) else 2)
                )
                rho += each * count
        best = conversion(rho, delta)
        assert made.epsilon >= best
        assert made.epsilon <= best * (1 + mpmath.mpf("1e-9"))


def test_deltas_of_steps_are_paid_for_in_concentrated_totals():
    step = answer(ApproxDP(0.1, 1e-8))
    made = zcdp_composition(step, counts=[10], delta=1e-6).guarantee
    assert made.epsilon == pytest.approx(zcdp_epsilon(10 * 0.1**2 / 2, 9e-7), rel=1e-12)
    with pytest.raises(RuleError, match=r"rule G22-zcdp needs a delta above the 1e-07"):
        zcdp_composition(step, counts=[10], delta=1e-7)
    with pytest.raises(RuleError, match=r"rule G22-exact needs a delta above"):
        exact_composition(step, counts=[10], delta=1e-8)
    with pytest.raises(RuleError, match=r"rule G22-pld cannot reach delta=1e-08"):
        pld_composition(step, counts=[10], delta=1e-8)
    with pytest.raises(RuleError, match="rule G22-basic gives delta"):
        basic_composition(answer(ApproxDP(0.1, 0.3)), counts=[4])


def test_transforms_never_forget_the_delta_of_lossless_steps():
    """Ten (0, 1e-3) steps are not (0, 1e-4)-DP, whatever the grid says."""
    with pytest.raises(RuleError, match="rule G22-pld cannot reach"):
        pld_composition(answer(ApproxDP(0.0, 1e-3)), counts=[10], delta=1e-4)


def test_step_rho_is_exact_and_rounded_up():
    assert step_rho(ZCDP(0.3)) == 0.3
    assert step_rho(PureDP(0.1)) == 0.005
    assert step_rho(BoundedRange(0.2)) == 0.005
    for epsilon in (0.1, 0.3, 1e-200, 5e-324, 1 / 3):
        assert exact(step_rho(PureDP(epsilon))) >= exact(epsilon) ** 2 / 2
