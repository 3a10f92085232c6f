"""Totals of many steps: never below the truth, and close to it."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad

from reticent.guarantees.loss import (
    delta_left,
    pld_epsilon,
    pure_delta,
    pure_epsilon,
    range_masses,
)
from tests.guarantees.exact_losses import (
    joint,
    odds_pair,
    pure_slack,
    ranged,
    response,
    sequences_slack,
    slack_at,
)

# ------------------------------------------------------------- equal pure steps


@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("step", [0.05, 0.7, 3.0])
def test_references_agree_sequence_by_sequence(step, count):
    for share in (0.0, 0.3, 0.5, 0.77, 1.0):
        epsilon = share * step * count
        listed = sequences_slack(epsilon, step, count)
        assert float(pure_slack(epsilon, step, count)) == pytest.approx(
            listed, rel=1e-9, abs=1e-13
        )
        assert slack_at(joint([response(step)] * count), epsilon) == pytest.approx(
            listed, rel=1e-9, abs=1e-13
        )


def test_pure_delta_is_never_below_fifty_digits(seed):
    rng = np.random.default_rng(seed)
    for _ in range(120):
        count = int(10 ** rng.uniform(0, 3.7))
        step = float(10 ** rng.uniform(-4, 0.7))
        spread = step * math.sqrt(count)
        epsilon = min(count * step, count * step**2 / 2 + spread * rng.uniform(0, 7))
        if rng.random() < 0.3:  # at a point of the grid of losses
            epsilon = step * round(epsilon / step)
        ours, true = pure_delta(epsilon, step, count), pure_slack(epsilon, step, count)
        assert ours >= true
        if true > 1e-200 and epsilon <= 700:
            assert ours - float(true) <= 1e-4 * float(true) + 1e-11


def test_pure_delta_of_a_million_steps():
    epsilon, step, count = 11.0, 0.002, 10**6
    ours, true = pure_delta(epsilon, step, count), pure_slack(epsilon, step, count)
    assert true <= ours <= true * (1 + 1e-6)


def test_pure_epsilon_is_enough_and_hardly_more(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        count = int(10 ** rng.uniform(0, 3.3))
        step = float(10 ** rng.uniform(-3, 0.5))
        delta = float(10 ** rng.uniform(-9, -1))
        epsilon = pure_epsilon(step, count, delta)
        assert pure_slack(epsilon, step, count) <= delta
        if 0 < epsilon < 700:
            assert pure_slack(0.999 * epsilon, step, count) > delta


def test_pure_epsilon_at_the_ends():
    assert pure_epsilon(0.0, 10, 1e-6) == 0.0
    assert pure_epsilon(1e-9, 1, 0.5) == 0.0
    assert pure_epsilon(0.5, 1, 1e-300) == pytest.approx(0.5)
    assert pure_epsilon(1e308, 10, 1e-6) == math.inf
    # Tiny slacks are resolved as well, although all atoms are summed one by one.
    assert pure_epsilon(1.0, 1000, 1e-15) < 0.75 * 1000
    assert pure_slack(pure_epsilon(1.0, 1000, 1e-15), 1.0, 1000) <= 1e-15
    # Far beyond what exp can hold, the total stays between the trivial bounds.
    assert 700 < pure_epsilon(10.0, 1000, 1e-6) <= 10_000 * (1 + 1e-14)
    large = pure_epsilon(0.5, 20_000, 1e-6)
    mean, spread = 10_000 * math.tanh(0.25), math.sqrt(20_000) / math.cosh(0.25) / 2
    assert mean < large < mean + 6 * spread
    assert pure_slack(large, 0.5, 20_000) <= 1e-6


def test_delta_left_never_leaves_too_much(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        slack = float(10 ** rng.uniform(-18, -2))
        count = int(10 ** rng.uniform(0, 3))
        delta = min(0.99, slack * count * float(rng.uniform(0.5, 3)))
        left = delta_left(delta, slack, count)
        with localcontext() as context:
            context.prec = 80
            kept = (1 - Decimal(repr(slack))) ** count
            true = 1 - (1 - Decimal(repr(delta))) / kept
        assert Decimal(left) <= true
        assert Decimal(left) >= true - abs(true) * Decimal("1e-15")
    assert delta_left(1e-6, 0.0, 10**9) == pytest.approx(1e-6, rel=1e-15)


# ----------------------------------------------------------- bounded-range steps


def odds_curve(level, epsilon):
    """Integrate ``(dP/dQ - e^level)+`` of the odds pair numerically."""
    c = math.exp(-epsilon)

    def excess(x):
        return max(0.0, c / (c + (1 - c) * x) ** 2 - math.exp(level))

    edge = (math.exp((-epsilon - level) / 2) - c) / (1 - c)
    return quad(excess, 0, min(1, max(0, edge)), epsabs=1e-13)[0]


def grid_curve(masses, cells, epsilon, level):
    """Return the delta at `level` of masses on a grid of losses."""
    losses = np.arange(-cells, cells + 1) * epsilon / cells
    return float((masses * np.maximum(0, -np.expm1(level - losses))).sum())


@pytest.mark.parametrize("cells", [1, 3, 16])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_range_masses_lie_on_the_curve_at_the_grid_and_above_between(epsilon, cells):
    masses = range_masses(epsilon, cells)
    assert masses.sum() == pytest.approx(1.0, rel=1e-12)
    assert (masses > 0).all()
    for level in np.linspace(-epsilon, epsilon, 2 * cells + 1):
        true = odds_curve(level, epsilon)
        on_grid = grid_curve(masses, cells, epsilon, level)
        assert on_grid == pytest.approx(true, rel=1e-9, abs=1e-12)
    for level in np.linspace(-epsilon, epsilon, 57):
        assert (
            grid_curve(masses, cells, epsilon, level)
            >= odds_curve(level, epsilon) - 1e-12
        )
    # The control: a smaller range lies below the curve.
    assert grid_curve(range_masses(0.9 * epsilon, cells), cells, 0.9 * epsilon, 0.0) < (
        odds_curve(0.0, epsilon)
    )


def test_range_masses_agree_with_connecting_the_dots():
    from dp_accounting.pld import pld_pmf

    epsilon, cells = 0.8, 40
    marks = np.arange(-cells, cells + 1)
    curve = [odds_curve(mark * epsilon / cells, epsilon) for mark in marks]
    theirs = pld_pmf.create_pmf_pessimistic_connect_dots(
        epsilon / cells, marks, curve
    ).to_dense_pmf()
    assert range_masses(epsilon, cells) == pytest.approx(theirs._probs, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_odds_pair_is_above_every_bounded_range(epsilon):
    for level in np.linspace(-0.5, 0.95, 9) * epsilon:
        true = odds_curve(level, epsilon)
        reached = [
            slack_at(ranged(epsilon, top), level)
            for top in np.linspace(0.001, 0.999, 200) * epsilon
        ]
        assert max(reached) <= true * (1 + 1e-9)
        assert max(reached) >= 0.98 * true


# ---------------------------------------------------------------- by transforms


@pytest.mark.parametrize(
    ("step", "count", "delta"),
    [
        (0.2, 200, 1e-6),
        (0.05, 1000, 1e-5),
        (1.0, 20, 1e-6),
        (3.0, 5, 1e-5),
        (1e-4, 50, 1e-4),
    ],
)
def test_transforms_of_pure_steps_agree_with_exact_composition(step, count, delta):
    found = pld_epsilon((("pure", step, 0.0, count),), delta)
    best = pure_epsilon(step, count, delta)
    assert best * (1 - 1e-9) <= found <= 1.001 * best + 1e-8
    assert pure_slack(found, step, count) <= delta


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_transforms_of_bounded_range_agree_with_the_composed_odds_pair(epsilon, count):
    delta = 1e-2
    cells = {1: 4000, 2: 600, 3: 80}[count]
    pair = joint([odds_pair(epsilon, cells)] * count)
    found = pld_epsilon((("range", epsilon, 0.0, count),), delta)
    assert slack_at(pair, found) <= delta
    assert slack_at(pair, 0.97 * found) > delta  # close, and the check can fail


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("count", [2, 5, 12])
def test_transforms_are_never_below_composed_exponential_mechanisms(
    epsilon, count, seed
):
    rng = np.random.default_rng(seed)
    for delta in (1e-2, 1e-5):
        found = pld_epsilon((("range", epsilon, 0.0, count),), delta)
        # Steps whose intervals differ, and the least favourable equal one.
        tops = [rng.uniform(0.05, 0.95, size=count) * epsilon for _ in range(6)]
        tops += [np.full(count, share * epsilon) for share in (0.3, 0.5, 0.7)]
        reached = [
            slack_at(joint([ranged(epsilon, t) for t in each]), found) for each in tops
        ]
        assert max(reached) <= delta
        if count == 12:
            lower = pld_epsilon((("range", 0.6 * epsilon, 0.0, count),), delta)
            assert (
                max(
                    slack_at(joint([ranged(epsilon, t) for t in each]), lower)
                    for each in tops
                )
                > delta
            )


@pytest.mark.parametrize(
    "steps",
    [
        (("pure", 0.3, 0.0, 3), ("range", 0.5, 0.0, 1)),
        (("pure", 0.3, 1e-3, 3), ("pure", 0.7, 0.0, 2)),
        (("pure", 1.0, 2e-3, 1), ("range", 0.4, 0.0, 1), ("pure", 0.1, 0.0, 3)),
        (("pure", 0.0, 1e-3, 3), ("pure", 0.5, 0.0, 2)),
    ],
)
def test_transforms_of_mixed_steps_agree_with_enumeration(steps):
    delta = 1e-2
    pairs = []
    for kind, epsilon, slack, count in steps:
        pair = response(epsilon, slack) if kind == "pure" else odds_pair(epsilon, 300)
        pairs += [pair] * count
    pair = joint(pairs)
    found = pld_epsilon(steps, delta)
    assert slack_at(pair, found) <= delta
    assert slack_at(pair, 0.985 * found) > delta


def test_transforms_with_a_delta_of_their_own_agree_with_exact_composition():
    for step, slack, count, delta in [(0.1, 1e-8, 100, 1e-5), (0.5, 1e-7, 30, 1e-5)]:
        found = pld_epsilon((("pure", step, slack, count),), delta)
        best = pure_epsilon(step, count, delta_left(delta, slack, count))
        assert best * (1 - 1e-6) <= found <= 1.002 * best


@pytest.mark.parametrize(
    ("steps", "delta"),
    [
        ((("pure", 0.0, 1e-3, 10),), 1e-4),  # the steps' own delta is too much
        ((("pure", 0.1, 0.9, 30),), 0.5),
        ((("pure", 0.1, 0.0, 10_000),), 1e-10),  # below what transforms resolve
        ((("pure", 1e308, 0.0, 1),), 1e-3),
        ((("range", 1e-305, 0.0, 1),), 1e-3),
    ],
)
def test_transforms_give_up_rather_than_guess(steps, delta):
    assert pld_epsilon(steps, delta) == math.inf


def test_transforms_at_the_ends():
    assert pld_epsilon((("pure", 0.0, 0.0, 5),), 1e-6) == 0.0
    assert pld_epsilon((("pure", 0.0, 1e-9, 5),), 1e-6) < 1e-8
    # Steps of very different size on one grid: wider, hence larger, but a bound.
    mixed = pld_epsilon((("pure", 1e-6, 0.0, 3), ("range", 10.0, 0.0, 2)), 1e-3)
    assert 10 < mixed < 20.1


def too_little(self, delta):
    return 0.1


def overflow(self, delta):
    return math.exp(delta * 1e9)


@pytest.mark.parametrize("broken", [too_little, overflow])
def test_a_total_below_its_parts_is_not_believed(monkeypatch, broken):
    """An overflowing transform may return anything; it is compared with a floor."""
    from dp_accounting.pld import privacy_loss_distribution

    pld_epsilon.cache_clear()
    steps = (("pure", 0.5, 0.0, 7),)
    assert pld_epsilon(steps, 1e-5) > 2
    monkeypatch.setattr(
        privacy_loss_distribution.PrivacyLossDistribution,
        "get_epsilon_for_delta",
        broken,
    )
    assert pld_epsilon(steps, 1.1e-5) == math.inf
