"""Numbers of mechanisms that other tests take for granted."""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from reticent.guarantees import gaussian_delta
from reticent.mechanisms import (
    SystemSource,
    average_vote,
    consensus,
    gaussian_vote,
    geometric_vote,
    sigmoid_response,
    sparse,
    two_step_certificate,
    two_step_response,
)
from reticent.mechanisms.gaussian_vote import gaussian_vote_delta
from reticent.mechanisms.sampling.gaussian_grid import grid_scale_to_continuous
from reticent.mechanisms.sampling.grid_noise import discrete_laplace_law, log_theta


@pytest.mark.parametrize(
    "response",
    [
        average_vote([[3, 2]], 1.0),
        geometric_vote([[3, 2]], 1.0),
        sigmoid_response([1], 1.0, bound=5),
        two_step_response([1], 1.0, bound=5),
    ],
    ids=["average", "geometric", "sigmoid", "two-step"],
)
def test_binary_answers_have_two_labels(response):
    assert response.n_labels == 2
    assert response.probabilities.shape == (1, 2)


def moves_to_a_tie(votes):
    """How many votes must move from the first to the second label until they tie."""
    second, first = sorted(votes)[-2:]
    moves = 0
    while first > second:
        first, second, moves = first - 1, second + 1, moves + 1
    return moves


def test_a_plurality_is_as_stable_as_the_votes_that_must_move():
    for voters in (1, 2, 9, 12):
        splits = product(range(voters + 1), repeat=3)
        rows = [list(votes) for votes in splits if sum(votes) == voters]
        expected = [max(0, moves_to_a_tie(votes) - 1) for votes in rows]
        assert consensus.stability(rows).tolist() == expected


def passing_chance(scale, w):
    """Pr[nu - rho >= w] for discrete Laplace noise of scales 2 s and s, summed."""
    law = discrete_laplace_law
    reach = int(80 * scale) + 2 * w
    places = np.arange(-reach, reach + 1)
    rho, nu = np.exp(law(places, scale)), np.exp(law(places, 2 * scale))
    above = np.cumsum(nu[::-1])[::-1]  # Pr[nu >= place]
    first = np.searchsorted(places, places + w)
    inside = first < len(places)
    return float((rho[inside] * above[first[inside]]).sum())


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.5])
@pytest.mark.parametrize("w", [1, 2, 7, 30])
def test_unstable_queries_pass_as_often_as_the_noise_says(scale, w):
    found = consensus._discrete_tail(scale, w)
    assert found == pytest.approx(passing_chance(scale, w), rel=1e-9, abs=1e-17)


def test_an_unstable_query_must_pass_strictly(monkeypatch):
    monkeypatch.setattr(consensus, "_discrete_tail", lambda scale, w: w / 100)
    assert consensus.false_stability(1.0, 50) == pytest.approx(0.51)
    assert consensus.false_stability(1.0, 500) == 1.0


def test_the_delta_of_consensus_adds_up_to_one_at_most():
    facts = {"epsilon": 1.0, "unstable": 1}
    one = consensus.consensus_delta(margin=9, queries=1, **facts)
    four = consensus.consensus_delta(margin=9, queries=4, **facts)
    assert four == pytest.approx(4 * one)
    assert consensus.consensus_delta(margin=9, queries=10**6, **facts) == 1.0


@pytest.mark.parametrize("margin", [1, 2, 3, 6])
def test_the_smallest_margin_is_found(margin):
    facts = {"epsilon": 1.0, "unstable": 1, "queries": 2}
    delta = consensus.consensus_delta(margin=margin, **facts)
    assert consensus.consensus_margin(delta=delta, **facts) == margin


@pytest.mark.parametrize("ratio", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 3.0, 200.0, 20_000.0])
def test_the_delta_of_gaussian_noise_is_never_below_its_curve(ratio, epsilon):
    with mpmath.workdps(400):
        mu, loss = mpmath.mpf(ratio), mpmath.mpf(epsilon)
        above = mpmath.ncdf(mu / 2 - loss / mu)
        below = mpmath.exp(loss) * mpmath.ncdf(-mu / 2 - loss / mu)
        truth = above - below
        found = mpmath.mpf(gaussian_delta(ratio, epsilon))
        # Discrete noise may lose a little more: both arguments leave room for it.
        less = loss * (1 - mpmath.mpf(2) ** -49)
        room = mpmath.ncdf(mu / 2 - less / mu) - mpmath.exp(less) * mpmath.ncdf(
            -mu / 2 - less / mu
        )
        assert max(truth * (1 + mpmath.mpf(2) ** -50), room) <= found
        assert found <= room * (1 + mpmath.mpf(10) ** -6) + mpmath.mpf(10) ** -299


def test_the_delta_of_gaussian_noise_is_a_probability():
    assert 0.99 < gaussian_delta(20.0, 0.5) <= 1.0
    assert gaussian_delta(2.0**19, 0.5) == 1.0


def winning_chances(votes, scale):
    """The law of the noisy argmax (first of equals), height by height."""
    reach = int(14 * scale) + 3
    noise = np.arange(-reach, reach + 1)
    mass = np.exp(-(noise**2) / (2 * scale**2))
    mass /= mass.sum()

    def under(height):
        return mass[noise < height].sum()

    chances = []
    for label, own in enumerate(votes):
        total = 0.0
        for step, chance in zip(noise, mass, strict=True):
            for other, count in enumerate(votes):
                if other != label:  # a label before the winner must stay below it
                    chance *= under(own + step - count + (other > label))
            total += chance
        chances.append(total)
    return chances


@pytest.mark.parametrize("votes", [[3, 0], [1, 4, 2], [5, 5], [0, 2, 2, 9]], ids=str)
@pytest.mark.parametrize("scale", [0.7, 2.5])
def test_the_gaussian_vote_follows_its_noise(votes, scale):
    law = gaussian_vote([votes], scale)
    truth = winning_chances(votes, scale)
    assert law.probabilities[0] == pytest.approx(truth, rel=1e-9, abs=1e-16)
    # Beside rows of another spread, too.
    other = [sum(votes), *[0] * (len(votes) - 1)]
    both = gaussian_vote([votes, other], scale).probabilities[0]
    assert both == pytest.approx(truth, rel=1e-9, abs=1e-16)


@pytest.mark.parametrize("scale", [17**0.5, 5.0, 1e3, 1e7])
def test_noise_on_a_grid_is_worth_a_little_less(scale):
    found = Fraction(grid_scale_to_continuous(scale)) ** 2
    exact = Fraction(scale) ** 2 - 16
    assert found <= exact * (1 - Fraction(1, 2**50))
    assert found >= exact * (1 - Fraction(1, 2**40))


def vote_delta(scale, epsilon):
    """The delta of one moved vote: both counts' noise, pair by pair, in 60 digits."""
    variance = mpmath.mpf(scale) ** 2
    reach = int(14 * scale) + 6
    mass = {k: mpmath.exp(-(k**2) / (2 * variance)) for k in range(-reach, reach + 1)}
    total = sum(mass.values()) ** 2
    delta = mpmath.mpf(0)
    for (x, px), (y, py) in product(mass.items(), repeat=2):
        loss = (1 + x - y) / variance
        if loss > epsilon:
            delta += px * py / total * -mpmath.expm1(epsilon - loss)
    return delta


@pytest.mark.parametrize(
    ("scale", "epsilon"),
    [(0.5, 1.0), (1.0, 3.0), (1.5, 0.0), (0.25, 80.0 * (1 - 2.0**-42))],
)
def test_the_delta_of_one_gaussian_vote_is_never_below_its_sum(scale, epsilon):
    with mpmath.workdps(60):
        truth = vote_delta(scale, mpmath.mpf(epsilon))
        found = gaussian_vote_delta(scale, epsilon)
        assert truth <= found
        # The last of these losses is next to an atom, which a margin may pass over.
        assert found <= truth * (1 + mpmath.mpf(10) ** -9) or epsilon > 79


def test_the_delta_of_a_vote_without_noise_is_one():
    assert gaussian_vote_delta(0.1, 0.0) == 1.0
    # Where every term is beyond floats, something is left.
    assert 0 < gaussian_vote_delta(0.25, 5000.0) < 1e-290


@pytest.mark.parametrize("scale", [0.05, 0.4, 0.99, 1.0, 1.1, 20.0])
@pytest.mark.parametrize("shift", [0.0, 0.25, 0.5])
def test_sums_of_gaussian_weights_are_right_to_the_last_digits(scale, shift):
    with mpmath.workdps(60):
        weights = (
            mpmath.exp(-((k - mpmath.mpf(shift)) ** 2) / (2 * mpmath.mpf(scale) ** 2))
            for k in range(-400, 401)
        )
        truth = float(mpmath.log(mpmath.fsum(weights)))
    assert log_theta(scale, shift=shift) == pytest.approx(truth, rel=1e-14, abs=1e-14)


def test_a_sparse_vector_draws_at_its_scale_and_at_twice_it(monkeypatch):
    scales = []

    def draw(location, scale, source):
        scales.append(scale)
        return np.asarray(location)

    monkeypatch.setattr(sparse, "draw_discrete_laplace", draw)
    vector = sparse.SparseVector(5, epsilon=0.5, positives=3, source=SystemSource())
    assert vector.ask([1, 2]).tolist() == [False, False]
    # The threshold's noise has scale 2c/epsilon, that of queries twice as much (P9).
    assert scales == [pytest.approx(12.0), pytest.approx(24.0)]


@pytest.mark.parametrize("epsilon", [0.5, 40.0, 500.0])
def test_two_steps_cost_less_when_a_unit_is_added(epsilon):
    # ln((1 + e^eps)/2), which is eps - ln 2 for large losses.
    made = two_step_certificate(epsilon=epsilon, n=None).guarantee.epsilon
    expected = float(mpmath.log((1 + mpmath.exp(epsilon)) / 2))
    assert made == pytest.approx(expected, rel=1e-12)
