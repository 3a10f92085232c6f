"""Constants of perturbed minimisers: chances, mean moves and their caps."""

import math

import mpmath
import pytest

from reticent.errors import RuleError
from reticent.guarantees import gaussian_delta
from reticent.learners.public import rules as public_rules
from reticent.learners.public.rules import (
    complexity_at_most,
    mean_at_most,
    minimiser_move,
    near_tie_at_most,
    perturbed_minimisers,
    perturbed_move,
    regularized_sensitivity,
    squared_move_at_most,
)


def chance(distance_squared, slack, complexity):
    """S4 Prop. 1 with the term that it drops: t G + t^2/4, t = 4 slack/r^2."""
    t = 4 * mpmath.mpf(slack) / distance_squared
    return min(mpmath.mpf(1), t * complexity + t**2 / 4)


@pytest.mark.parametrize("distance", [0.5, 1.5])
@pytest.mark.parametrize("slack", [1e-6, 0.01])
def test_near_ties_are_as_rare_as_the_proposition_says(distance, slack):
    found = near_tie_at_most(distance, slack=slack, complexity=2.0)
    truth = chance(mpmath.mpf(distance) ** 2, slack, 2)
    assert truth <= found <= truth * (1 + 1e-9)
    assert near_tie_at_most(0.01, slack=1.0, complexity=1.0) == 1.0


@pytest.mark.parametrize("m", [1, 30, 1000])
@pytest.mark.parametrize("slack", [1e-5, 0.02])
def test_mean_squared_moves_sum_the_chances(m, slack):
    with mpmath.workdps(40):
        # Squared distances are the multiples of 4/m up to 4.
        squares = [mpmath.mpf(4 * k) / m for k in range(1, m + 1)]
        truth = sum(chance(square, slack, 2) for square in squares) * 4 / m
        found = squared_move_at_most(m=m, slack=slack, complexity=2.0)
        assert truth <= found <= truth * (1 + 1e-9)
    assert squared_move_at_most(m=m, slack=1e9, complexity=1.0) == 4.0


@pytest.mark.parametrize("expected", [1e-6, 0.2, 0.5])
@pytest.mark.parametrize("count", [5, 400])
def test_a_mean_stays_where_chernoff_says(expected, count):
    delta = 1e-3
    found = mpmath.mpf(mean_at_most(expected, count=count, delta=delta))

    def tail(p):
        q = mpmath.mpf(expected)
        away = p * mpmath.log(p / q)
        if p < 1:
            away += (1 - p) * mpmath.log((1 - p) / (1 - q))
        return mpmath.exp(-count * away)

    if found < 1:
        assert tail(found) <= delta <= tail(found * (1 - mpmath.mpf(10) ** -9))
    else:
        assert tail(mpmath.mpf(1)) >= delta
    assert mean_at_most(0.5, count=1, delta=1e-9) == 1.0


def test_the_complexity_is_that_of_so_many_gaussians():
    # sqrt(2 ln N), and E sum |xi_i| / sqrt m = sqrt(2 m / pi) for all labelings.
    assert complexity_at_most(50, 10) == pytest.approx(math.sqrt(2 * math.log(10)))
    assert complexity_at_most(5, 2**60) == pytest.approx(math.sqrt(10 / math.pi))


@pytest.mark.parametrize("grid", [1e-9, 1e-6])
def test_the_move_of_a_mean_adds_the_parts_of_the_grid(grid):
    n, m, eta, repeats, complexity, delta = 10**6, 20, 0.5, 50, 2.0, 1e-6
    mean = squared_move_at_most(m=m, slack=1 / (n * eta), complexity=complexity)
    # Rounded weights change a minimiser only near a tie of the smallest distance, and
    # the law of the weights by m grid^2/8; each counts four, the first for both.
    tie = chance(mpmath.mpf(4) / m, math.sqrt(m) * grid / 2, complexity)
    mean += 8 * float(tie) + 4 * 2 * m * grid**2 / 8
    expected = 2 * math.sqrt(mean_at_most(mean / 4, count=repeats, delta=delta))
    found = perturbed_move(
        n=n, m=m, eta=eta, repeats=repeats, complexity=complexity, grid=grid,
        delta=delta,
    )  # fmt: skip
    assert found == pytest.approx(expected, rel=1e-9)


def test_regularised_minimisers_move_by_the_smaller_bound():
    assert minimiser_move(100, 0.25, lipschitz=None, leverage=None) == pytest.approx(
        1 / 5
    )
    assert minimiser_move(100, 0.25, lipschitz=0.5, leverage=2.0) == pytest.approx(
        0.5 * 2 / 25
    )
    facts = {"n": 100, "m": 9, "eta": 0.25}
    made = regularized_sensitivity(**facts, gap=1e-4, reach=1.0, rounding=0.01)
    moved = 1 / 5 + 2 * math.sqrt(1e-4 / 0.25) + 0.02
    assert made.guarantee.l2 == pytest.approx(3 * moved)
    assert made.guarantee.l1 == pytest.approx(9 * moved)
    near = regularized_sensitivity(**facts, gap=0.0, reach=0.05)
    assert near.guarantee.l2 == pytest.approx(3 * 0.1)


def test_minimisers_that_may_be_anywhere_move_across_the_points():
    facts = {"n": 10, "m": 20, "repeats": 10**6, "complexity": 2.0, "grid": 1e-9}
    assert perturbed_move(**facts, eta=1e-9, delta=1e-6) == 2.0


@pytest.mark.parametrize(("moved", "scale"), [(0.01, 0.1), (0.0, 2.0**-38)])
@pytest.mark.parametrize("step", [2.0**-60, 2.0**-8])
def test_noise_for_a_mean_covers_its_move_and_its_grid(monkeypatch, moved, scale, step):
    monkeypatch.setattr(public_rules, "perturbed_move", lambda **_: moved)
    scale = max(scale, 8 * step)
    m, epsilon, lost = 9, 1.0, 1e-9
    facts = {
        "n": 100, "m": m, "eta": 0.5, "repeats": 5, "labelings": 4, "weight_grid": 1e-9,
        "scale": scale, "grid": step, "epsilon": epsilon, "delta_stability": lost,
        "oracle": "brute force", "exact_oracle": True,
    }  # fmt: skip
    # The mean labels move, are rounded at both ends, and lie on a fine grid.
    far = math.sqrt(m) * (moved + step + 2.0**-40)
    noise = math.sqrt(scale**2 - 16 * step**2)
    reached = gaussian_delta(far / noise, epsilon) + lost
    made = perturbed_minimisers(**facts, delta=reached * (1 + 1e-6)).guarantee
    assert (made.epsilon, made.delta) == (epsilon, reached * (1 + 1e-6))
    with pytest.raises(RuleError, match="reaches"):
        perturbed_minimisers(**facts, delta=reached * (1 - 1e-6))
