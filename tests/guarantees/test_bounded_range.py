"""G25: adaptive composition of bounded-range steps, against second computations."""

from __future__ import annotations

import math
from itertools import islice, product

import mpmath
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from reticent.errors import NoDerivationError, RuleError
from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    Budget,
    PureDP,
    answers_within,
    bounded_range,
    compose,
    largest_range,
    range_composition,
    range_epsilon,
    range_running_total,
    recheck,
    repeat,
    rho_within,
    zcdp_epsilon,
)
from reticent.guarantees.bounded_range import (
    affordable,
    range_answers,
    range_levels,
    value_iteration,
)
from tests.guarantees.cases import answer
from tests.guarantees.exact_losses import ranged

GOLDEN = (math.sqrt(5) - 1) / 2


def one_step(x, step):
    """Return V_1, the curve of the odds pair."""
    inside = np.square(np.expm1((np.minimum(x, step) - step) / 2)) / -math.expm1(-step)
    return np.where(x < -step, -np.expm1(np.minimum(x, 0)), inside)


def smooth_iteration(step, count, points=1500):
    """Return V_count as a function: splines, and a golden-section search for t."""
    curve = lambda x: one_step(x, step)  # noqa: E731 - replaced below
    for number in range(2, count + 1):
        x = number * step * np.linspace(0, 1, points) ** 1.5
        values = best_of_t(curve, x, step)
        positive = CubicSpline(x, values)

        def curve(x, positive=positive, end=number * step):
            far = np.minimum(np.abs(x), end)
            above = np.where(np.abs(x) >= end, 0.0, positive(far))
            return np.where(x >= 0, above, -np.expm1(-far) + np.exp(-far) * above)

    return curve


def best_of_t(curve, x, step):
    def gain(t):
        up = np.expm1(t - step) / np.expm1(-step)
        return up * curve(x - t) + (1 - up) * curve(x - t + step)

    grid = np.linspace(0, step, 257)[:, np.newaxis]
    start = grid[np.argmax([gain(t + 0 * x) for t in grid], axis=0), 0]
    low = np.maximum(0, start - step / 256)
    high = np.minimum(step, start + step / 256)
    for _ in range(32):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        better = gain(left) > gain(right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    return np.maximum(
        gain((low + high) / 2), np.maximum(gain(0 * x), gain(step + 0 * x))
    )


def grid_adversary(step, count, top, cells):
    """Return what an adversary reaches whose intervals are on a grid: V from below."""
    t = np.arange(cells + 1) * step / cells
    up = np.expm1(t - step) / np.expm1(-step)
    x = np.arange(math.ceil(top / step * cells) + 1) * step / cells
    values = np.zeros(x.size)
    below = -np.expm1(-x[cells:0:-1])
    for _ in range(count):
        reflected = np.exp(-x[cells:0:-1]) * values[cells:0:-1]
        padded = np.concatenate((below + reflected, values, np.zeros(cells)))
        values = np.max(
            [
                up[j] * padded[cells - j : cells - j + x.size]
                + (1 - up[j]) * padded[2 * cells - j : 2 * cells - j + x.size]
                for j in range(cells + 1)
            ],
            axis=0,
        )
    return x, values


def where(curve, delta, top):
    low, high = 0.0, top
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return high


# ---------------------------------------------------------------- the number itself


@pytest.mark.parametrize(
    ("step", "count", "delta"),
    [(1.0, 2, 0.1), (0.5, 3, 1e-2), (0.3, 5, 1e-3), (2.0, 3, 1e-3), (0.2, 8, 1e-3)],
)
def test_it_equals_an_independent_value_iteration(step, count, delta):
    curve = smooth_iteration(step, count)
    true = where(lambda x: float(curve(np.array(x))), delta, step * count)
    found = range_epsilon(step, count, delta, cells=4096)
    assert true - 1e-9 <= found <= true + 1e-6
    assert found <= range_epsilon(step, count, delta) <= 1.005 * true


def test_finer_grids_approach_the_truth_from_above():
    curve = smooth_iteration(0.5, 4)
    true = where(lambda x: float(curve(np.array(x))), 1e-2, 2.0)
    errors = [range_epsilon(0.5, 4, 1e-2, cells=c) - true for c in (8, 64, 1024)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 0.02
    assert -1e-9 < errors[-1] < 1e-6


def test_two_hundred_votes_of_the_sheet():
    """7.27 where zCDP says 7.77; an adversary on a grid reaches 7.27 too."""
    x, values = grid_adversary(0.2, 200, 9.0, 16)
    reached = float(x[values > 1e-6][-1])
    found = range_epsilon(0.2, 200, 1e-6)
    assert 7.25 < reached <= found < 7.28
    assert zcdp_epsilon(200 * 0.2**2 / 8, 1e-6) > 7.76


@pytest.mark.parametrize("step", [0.4, 1.5])
def test_two_steps_by_enumeration(step):
    """Every strategy on a grid: t of the first step, and t after either answer."""
    t = np.linspace(0, step, 25)[1:-1]
    pairs = [ranged(step, top) for top in t]
    x = 0.7 * step
    factor, best = math.exp(x), 0.0
    for first, after_up, after_down in product(pairs, repeat=3):
        p = np.concatenate((first[0][0] * after_up[0], first[0][1] * after_down[0]))
        q = np.concatenate((first[1][0] * after_up[1], first[1][1] * after_down[1]))
        best = max(best, float(np.maximum(p - factor * q, 0).sum()))
    assert x - 1e-12 <= range_epsilon(step, 2, best, cells=512)
    assert range_epsilon(step, 2, best * 1.01, cells=512) <= x


def test_three_steps_by_transcripts(seed):
    """The law of all eight transcripts, for strategies at random and for a good one."""
    rng = np.random.default_rng(seed)
    step, x = 0.8, 0.6
    curves = [lambda x: one_step(x, step), smooth_iteration(step, 2, 400)]

    def good(loss, left):
        if left == 1:
            return min(step, max(0.0, (step + x - loss) / 2))
        t = np.linspace(0, step, 400)
        up = np.expm1(t - step) / np.expm1(-step)
        rest = curves[left - 2]
        gains = up * rest(x - loss - t) + (1 - up) * rest(x - loss - t + step)
        return float(t[np.argmax(gains)])

    def delta(choose):
        laws = [(1.0, 1.0)]
        for left in (3, 2, 1):
            longer = []
            for p, q in laws:
                top = min(max(choose(math.log(p / q), left), 1e-9), step - 1e-9)
                one, other = ranged(step, top)
                longer += [(p * a, q * b) for a, b in zip(one, other, strict=True)]
            laws = longer
        assert len(laws) == 8
        return sum(max(0.0, p - math.exp(x) * q) for p, q in laws)

    reached = delta(good)
    assert x - 1e-9 <= range_epsilon(step, 3, reached)
    assert range_epsilon(step, 3, reached * 1.001, cells=1024) <= x
    for _ in range(200):
        assert delta(lambda loss, left: rng.uniform(0, step)) <= reached


def test_one_step_has_a_formula():
    first = next(value_iteration(0.7, 0.7, 10))
    x = np.arange(11) * 0.07
    assert np.allclose(first, one_step(x, 0.7), rtol=1e-12)
    assert range_epsilon(0.7, 1, 1e-6) == pytest.approx(0.7)


@pytest.mark.parametrize(("step", "count"), [(3.0, 6), (20.0, 12)])
def test_values_rise_with_the_steps_and_stay_below_one(step, count):
    """A step that reveals nothing is one of the adversary's choices."""
    before = np.zeros(1)
    for values in islice(value_iteration(step, 2 * step, 8), count):
        assert values.max() <= 1.0
        assert (values >= before).all()
        before = values
    assert before[0] > 0.9


def test_values_are_rounded_up():
    """Two steps in thirty digits: no value is below the truth at a given t."""
    step, cells = 0.5, 64
    iteration = value_iteration(step, 1.0, cells)
    next(iteration)
    values = next(iteration)
    with mpmath.workdps(30):
        e = mpmath.mpf(step)

        def single(x):
            if x >= e:
                return mpmath.mpf(0)
            if x <= -e:
                return 1 - mpmath.exp(x)
            return (1 - mpmath.exp((x - e) / 2)) ** 2 / (1 - mpmath.exp(-e))

        for place in (0, 3, 17, 40, 90, 127):
            x = e * place / cells
            best = mpmath.mpf(0)
            for part in range(257):
                t = e * part / 256
                up = (1 - mpmath.exp(t - e)) / (1 - mpmath.exp(-e))
                gain = up * single(x - t) + (1 - up) * single(x - t + e)
                best = max(best, gain)
            assert values[place] >= best
            assert values[place] <= best * (1 + mpmath.mpf("1e-3")) + 1e-5


def test_never_above_zcdp_nor_the_sum(seed):
    rng = np.random.default_rng(seed)
    for _ in range(12):
        step, delta = (
            float(10 ** rng.uniform(-2, 0.7)),
            float(10 ** rng.uniform(-9, -1)),
        )
        count = int(rng.integers(1, 60))
        found = range_epsilon(step, count, delta)
        assert found <= zcdp_epsilon(count * step**2 / 8, delta) * (1 + 1e-12)
        assert found <= step * count * (1 + 1e-12)
        assert range_epsilon(step, count, delta / 2) >= found
        assert range_epsilon(step, count + 1, delta) >= found * (1 - 2e-3)
    # Too many steps for a grid, too large or too small ones: zCDP alone.
    assert not affordable(0.001, 10**7, 1e-6)
    assert not affordable(50.0, 5, 1e-6)
    assert not affordable(0.1, 5, 1e-300)
    large = range_epsilon(0.001, 10**7, 1e-6)
    assert large == pytest.approx(zcdp_epsilon(10**7 * 1e-6 / 8, 1e-6))


# ------------------------------------------------------------------ counterexample


def test_ranges_do_not_add_up_as_ranges():
    """The place of the second interval depends on the first answer: three epsilons."""
    step, near = 1.0, 1e-3
    first = ranged(step, step / 2)
    p, q = [], []
    for answered, top in ((0, step - near), (1, near)):
        second = ranged(step, top)
        assert np.ptp(np.log(second[0] / second[1])) == pytest.approx(step)
        p += [first[0][answered] * part for part in second[0]]
        q += [first[1][answered] * part for part in second[1]]
    losses = np.log(np.array(p) / np.array(q))
    assert np.ptp(losses) == pytest.approx(3 * step - 2 * near)
    with pytest.raises(NoDerivationError):
        BoundedRange(step).times(2)
    for delta in (0.0, 1e-6):
        total = repeat(answer(BoundedRange(step)), 2, delta=delta).guarantee
        assert not isinstance(total, BoundedRange)


# ------------------------------------------------------------ certificates and caps


def test_the_certificate_is_the_smallest_and_names_its_rule():
    step = answer(BoundedRange(0.2))
    total = repeat(step, 200, delta=1e-6)
    assert (total.rule, total.answer_count()) == ("G25", 200)
    assert total.guarantee == ApproxDP(range_epsilon(0.2, 200, 1e-6), 1e-6)
    recheck(total)
    # Steps of smaller range count as the largest, in any order.
    mixed = compose([answer(BoundedRange(0.19)), step] * 20, delta=1e-6)
    assert mixed.rule == "G25"
    assert mixed.guarantee == repeat(step, 40, delta=1e-6).guarantee
    # A step that is pure and not of bounded range is not composed like one.
    other = compose([step, answer(PureDP(0.2))] * 20, delta=1e-6)
    assert other.rule != "G25"
    with pytest.raises(RuleError):
        range_composition(answer(PureDP(0.2)), counts=[2], delta=1e-6)
    nothing = range_composition(answer(BoundedRange(0.0)), counts=[9], delta=1e-6)
    assert nothing.guarantee == ApproxDP(0.0, 1e-6)


@pytest.mark.parametrize(("step", "budget"), [(0.1, 1.0), (0.05, 1.0), (0.5, 4.0)])
def test_how_many_answers_a_budget_covers(step, budget):
    certificate, delta = answer(BoundedRange(step)), 1e-6
    covered = answers_within(certificate, Budget(budget, delta))
    assert repeat(certificate, covered, delta=delta).guarantee.epsilon <= budget
    more = repeat(certificate, covered + 1 + covered // 250, delta=delta)
    assert more.guarantee.epsilon > budget
    by_rho = int(rho_within(budget, delta) / (step**2 / 8))
    assert covered >= 1.06 * by_rho or covered == by_rho == int(budget / step)
    # About as many on the coarser question, and zCDP's number where no grid fits.
    assert abs(range_answers(step, budget, delta) - covered) <= 1 + covered // 100
    assert range_answers(1e-4, budget, delta) == int(
        rho_within(budget, delta) / (1e-4**2 / 8)
    )


def test_the_largest_step_of_so_many():
    step = largest_range(50, 2.0, 1e-6)
    assert range_epsilon(step, 50, 1e-6) <= 2.0
    assert range_epsilon(step * 1.002, 50, 1e-6) > 2.0
    assert step > 1.05 * math.sqrt(8 * rho_within(2.0, 1e-6) / 50)
    assert largest_range(4, 2.0, 0.0) == 0.5
    assert largest_range(10, 1.0, 0.0) * 10 <= 1.0


# ------------------------------------------------------------ totals at every moment


def worst_moment(step, printed, cells):
    """Return the delta of an adversary who chooses intervals and when to stop."""
    last = len(printed) - 1
    t = np.arange(cells + 1) * step / cells
    up = np.expm1(t - step) / np.expm1(-step)
    size = last * cells
    loss = np.arange(-size, size + 1) * step / cells

    def stopped(epsilon):
        return -np.expm1(np.minimum(0.0, epsilon - loss))

    value = stopped(printed[last])
    for epsilon in printed[-2::-1]:
        padded = np.concatenate((np.zeros(cells), value, np.ones(cells)))
        going_on = np.max(
            [
                up[j] * padded[cells + j : cells + j + loss.size]
                + (1 - up[j]) * padded[j : j + loss.size]
                for j in range(cells + 1)
            ],
            axis=0,
        )
        value = np.maximum(stopped(epsilon), going_on)
    return float(value[size])


def test_a_total_is_true_at_the_worst_moment():
    step, most, delta = 0.25, 60, 1e-3
    certificate = answer(BoundedRange(step))
    fixed = {"most": most, "delta": delta, "totals": delta / 20}
    totals = [
        range_running_total(certificate, counts=[k], answers=k, **fixed)
        for k in range(1, most + 1)
    ]
    printed = [0.0, *(total.guarantee.epsilon for total in totals)]
    assert worst_moment(step, printed, 6) <= delta
    assert printed == sorted(printed)
    kinds = [type(total.guarantee) for total in totals]
    assert kinds.index(ApproxDP) == 2
    assert all(kind is ApproxDP for kind in kinds[kinds.index(ApproxDP) :])
    # What is right for a number fixed in advance is wrong at a chosen moment.
    naive = [0.0, *(range_epsilon(step, k, delta) for k in range(1, most + 1))]
    assert worst_moment(step, naive, 6) > 2 * delta


def test_levels_and_limits_of_the_running_total():
    levels = range_levels(200)
    assert levels[-1] == 200
    assert list(levels) == sorted(set(levels))
    assert range_levels(1) == (1,)
    certificate = answer(BoundedRange(0.1))
    fixed = {"most": 40, "delta": 1e-6, "totals": 5e-8}
    total = range_running_total(certificate, counts=[40], **fixed)
    assert total.guarantee == ApproxDP(
        range_epsilon(0.1, 40, math.nextafter(9.5e-7, 0)), 1e-6
    )
    recheck(total)
    for wrong in ({"most": 39}, {"totals": 1e-6}):
        with pytest.raises(RuleError):
            range_running_total(certificate, counts=[40], **{**fixed, **wrong})
    free = range_running_total(answer(BoundedRange(0.0)), counts=[40], **fixed)
    assert free.guarantee == PureDP(0.0)


def test_a_curve_is_computed_once(monkeypatch):
    asked = []
    iterate = bounded_range.value_iteration

    def counted(*arguments):
        asked.append(arguments)
        return iterate(*arguments)

    monkeypatch.setattr(bounded_range, "value_iteration", counted)
    bounded_range._curve.cache_clear()
    for delta in (2e-6, 3e-6, 9e-6):
        range_epsilon(0.21, 31, delta)
    assert len(asked) == 1
