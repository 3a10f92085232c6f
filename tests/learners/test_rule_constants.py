"""Constants of the rules of releases, each from its formula or its worst case."""

import math
from fractions import Fraction

import numpy as np
import pytest

from reticent.errors import RuleError
from reticent.estimators.linear.stability import erm_sensitivity
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
    gaussian_delta,
)
from reticent.learners.linear.best_subset import score_sensitivity
from reticent.learners.linear.gradient_rules import (
    clipped_sum,
    noisy_steps,
    noisy_steps_zcdp,
)
from reticent.learners.linear.log_concave_laws import sampled_model
from reticent.learners.linear.noise_rules import (
    coefficient_sensitivity,
    objective_noise,
    objective_release,
    solver_distance,
)
from reticent.learners.public.rules import student_of_answers
from reticent.learners.public.separator_rules import (
    gaussian_room,
    gaussian_separator,
    laplace_room,
    laplace_separator,
)


def near(value):
    return pytest.approx(value, rel=1e-12, abs=0)


def test_a_clipped_sum_moves_from_a_vector_to_its_opposite():
    clip, dimension = 0.75, 16
    unit = np.full(dimension, clip / math.sqrt(dimension))  # of norm `clip`
    moved = clipped_sum(n=9, clip=clip, dimension=dimension).guarantee
    assert moved.l2 == near(np.linalg.norm(2 * unit))
    assert moved.l1 == near(np.abs(2 * unit).sum())


def test_noisy_steps_add_up_their_rho():
    premise = clipped_sum(n=9, clip=0.75, dimension=2)
    # Steps of rho = (1.5 / 6)^2 / 2 = 1/32 each (Bun and Steinke, Prop. 1.6).
    made = noisy_steps_zcdp(premise, steps=7, scale=6.0).guarantee
    assert made.rho == near(7 / 32)


def test_noisy_steps_reach_the_delta_of_one_step_of_all():
    premise = clipped_sum(n=9, clip=0.75, dimension=2)
    # A grid so fine that discrete noise is as good as continuous.
    facts = {"steps": 9, "scale": 6.0, "grid": 2.0**-20, "epsilon": 1.0}
    reached = gaussian_delta(3 * 1.5 / 6.0, 1.0)
    made = noisy_steps(premise, **facts, delta=reached * (1 + 1e-6)).guarantee
    assert (made.epsilon, made.delta) == (1.0, reached * (1 + 1e-6))
    with pytest.raises(RuleError, match="reaches"):
        noisy_steps(premise, **facts, delta=reached * (1 - 1e-6))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
def test_a_sampler_s_distance_counts_on_both_sides(epsilon):
    tau = 1e-6
    made = sampled_model(n=9, epsilon=epsilon, tv_error=tau).guarantee
    # P' = P + tau and Q' = Q - tau at P = e^eps Q: P' - e^eps Q' is this.
    assert made.delta == near((1 + math.exp(epsilon)) * tau)
    assert made.epsilon == epsilon


def test_a_computed_score_moves_by_a_step_more_than_its_parts():
    # 8 steps for the unit, n gap steps = 3.2 for the solver, one for rounding.
    assert score_sensitivity(10, 8, 0.04) == 8 + 4 + 1
    assert score_sensitivity(10, 8, 0.0) <= 8 + 1 + 1


def test_coefficients_move_as_a_prediction_of_a_row_of_norm_one():
    facts = {"lipschitz": 0.5, "regularization": 0.1, "tolerance": 1e-3, "radius": 9.0}
    one = erm_sensitivity(n=50, feature_bound=1.0, **facts)
    # Two gradients of norm L/n and two tolerances, over the strength.
    assert one.guarantee.l2 == near((2 * 0.5 / 50 + 2e-3) / 0.1)
    left_out = erm_sensitivity(n=50, feature_bound=1.0, relation="zero-out", **facts)
    assert left_out.guarantee.l2 == near((0.5 / 50 + 2e-3) / 0.1)
    made = coefficient_sensitivity(one, dimension=25).guarantee
    assert made.l2 == near(one.guarantee.l2)
    assert made.l1 == near(5 * one.guarantee.l2)


def tilted(**changes):
    facts = {
        "n": 100, "slope": 0.5, "curvature": 0.25, "l1_bound": 3.0, "l2_bound": 2.0,
        "regularization": 0.1, "scale": 8.0, "grid": 2.0**-10, "dimension": 6,
    }  # fmt: skip
    return objective_noise(**{**facts, **changes})


def test_a_tilted_objective_costs_two_gradients_a_determinant_and_a_grid():
    # Two gradients of l1 norm 0.5 * 3; a trace of 0.25 * 2^2 over n lambda = 10; six
    # coordinates on a grid.
    expected = 2 * 1.5 / 8 + 1.0 / 10 + 6 * 2.0**-10 / 8
    assert tilted().guarantee.epsilon == near(expected)
    left_out = tilted(relation="zero-out").guarantee
    assert left_out.epsilon == near(expected - 1.5 / 8)
    with pytest.raises(RuleError, match="grid"):
        tilted(scale=2.0**-11)
    assert tilted(scale=2.0**-9).guarantee.epsilon > 6 / 2


def test_two_computed_minimisers_are_apart_by_twice_their_distance():
    made = solver_distance(
        n=100, regularization=0.1, tolerance=1e-3, grid=2.0**-4, dimension=4
    ).guarantee
    # Each is off by the tolerance and by half a grid step a coordinate, over n.
    one = (1e-3 + math.sqrt(4) * 2.0**-5 / 100) / 0.1
    assert made.l2 == near(2 * one)
    assert made.l1 == near(2 * 2 * one)


def test_an_exact_minimiser_and_its_noise_add_up():
    exact = tilted()
    spent = exact.guarantee.epsilon
    noise = claim(PureDP(0.25), ReplaceOne(100), Scope.MODEL, statement="given")
    made = objective_release(exact, noise, epsilon=spent + 0.25 + 1e-9)
    assert made.guarantee.epsilon == spent + 0.25 + 1e-9
    with pytest.raises(RuleError, match="more than"):
        objective_release(exact, noise, epsilon=spent + 0.25 - 1e-9)


SEPARATOR = {"n": 20, "points": 5, "taught": 3, "steps": 4, "oracle": "brute force"}


@pytest.mark.parametrize("slack", [0, 2])
def test_laplace_weights_move_by_two_units_and_twice_the_slack(slack):
    scale = 50.0
    room = laplace_room(n=20, points=5, steps=4, scale=scale, slack=slack)
    # q <= 2^m e^(-T/2b) must be at most 2^-60 p, p = (e^(-(nk+g+1)/b)/2)^m.
    for extra, enough in ((0, True), (-3, False)):
        excess = room + extra - 20 * 4
        log_q = 5 * math.log(2) - excess / (2 * scale)
        log_p = -5 * ((20 * 4 + slack + 1) / scale + math.log(2))
        assert (log_q <= log_p - 60 * math.log(2)) is enough
    least = 2 * scale * (5 * math.log(4) + 5 * (81 + slack) / scale + math.log(2**60))
    assert 1 <= room - 20 * 4 - least <= 2
    facts = {**SEPARATOR, "scale": scale, "exact_oracle": True, "slack": slack}
    made = laplace_separator(**facts, room=room).guarantee
    # Three teaching points, each cheaper by 2k + 2g + 1 steps.
    assert made.epsilon == near(3 * (2 * 4 + 2 * slack + 1) / scale)
    with pytest.raises(RuleError, match="room"):
        laplace_separator(**facts, room=room - 1)


@pytest.mark.parametrize("slack", [0, 2])
def test_gaussian_weights_pay_for_every_labeling(slack):
    scale, epsilon = 400.0, 0.2
    room = gaussian_room(n=20, points=5, steps=4, scale=scale)
    # No coordinate reaches 64 scales; one more, because rooms are whole.
    assert 20 * 4 + 64 * 5 * scale < room <= 20 * 4 + 64 * 5 * scale + 2
    facts = {**SEPARATOR, "labelings": 6, "scale": scale, "epsilon": epsilon}
    facts |= {"exact_oracle": True, "slack": slack}
    made = gaussian_separator(**facts, room=room).guarantee
    worth = math.sqrt(Fraction(scale) ** 2 - 16)
    ratio = (2 * 4 + 2 * slack + 1) * math.sqrt(3) / worth
    expected = 6 * gaussian_delta(ratio, epsilon)
    assert made.delta == pytest.approx(expected, rel=1e-6, abs=0)
    assert made.epsilon == epsilon
    with pytest.raises(RuleError, match="room"):
        gaussian_separator(**facts, room=room - 1)


@pytest.mark.parametrize("promise", [PureDP(0.5), ApproxDP(0.5, 1e-6), ZCDP(0.25)])
def test_a_student_costs_what_its_answers_cost(promise):
    answers = claim(promise, ReplaceOne(9), Scope.INTERFACE, statement="given")
    assert student_of_answers(answers, asked=5).guarantee == promise
