"""G1 to G5: the certified constants hold, are attained, and naive ones fail."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from reticent.errors import RuleError
from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    PureDP,
    Sensitivity,
    UniformStability,
    bounded_range_to_pure,
    bounded_range_to_stability,
    dp_to_stability,
    flip_private,
    flip_stable,
    laplace_noise,
    pure_to_approx,
    replace_stable,
)
from reticent.guarantees.convert import epsilon_delta, exponential_sum, sigmoid
from tests.guarantees.cases import answer, given
from tests.guarantees.worst_cases import worst_move

EPSILONS = [0.01, 0.3, 1.0, 4.0]


# ------------------------------------------------------------------------ G1


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_g1_is_the_worst_move_over_all_private_pairs(epsilon, delta, seed):
    gamma = dp_to_stability(answer(ApproxDP(epsilon, delta))).guarantee.gamma
    # Attained by an event among three outcomes (and so by any prediction) ...
    assert worst_move([1, 0, 0], epsilon, delta) == pytest.approx(gamma, rel=1e-6)
    # ... and not exceeded by any loss in [0, 1].
    rng = np.random.default_rng(seed)
    for loss in rng.random((5, 3)):
        assert worst_move(loss, epsilon, delta) <= gamma * (1 + 1e-6)
    # The control: one per cent less would be exceeded.
    assert worst_move([1, 0, 0], epsilon, delta) > 0.99 * gamma


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_g1_is_tanh_for_pure_privacy_and_below_the_printed_bound(epsilon):
    pure = dp_to_stability(answer(PureDP(epsilon))).guarantee.gamma
    assert pure == pytest.approx(math.tanh(epsilon / 2), rel=1e-14)
    assert pure < math.expm1(epsilon)
    both = dp_to_stability(answer(ApproxDP(epsilon, 0.01))).guarantee.gamma
    assert both < math.expm1(epsilon) + 0.01


def test_g1_at_the_ends():
    assert dp_to_stability(answer(PureDP(0.0))).guarantee == UniformStability(0.0)
    assert dp_to_stability(answer(PureDP(1e308))).guarantee == UniformStability(1.0)
    assert dp_to_stability(answer(ApproxDP(0.0, 0.5))).guarantee.gamma >= 0.5


# ------------------------------------------------------------------------ G2


def exponential_law(scores, epsilon):
    """Weights ``exp(epsilon score / 2)`` for scores of sensitivity one."""
    weights = np.exp(epsilon * (np.asarray(scores) - np.max(scores)) / 2)
    return weights / weights.sum()


def neighbouring_laws(epsilon, seed, *, count=200, outcomes=4):
    """Yield pairs of laws of the exponential mechanism on neighbouring scores."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        scores = rng.normal(scale=3, size=outcomes)
        moved = scores + rng.choice([-1.0, 0.0, 1.0], size=outcomes)
        yield exponential_law(scores, epsilon), exponential_law(moved, epsilon)
    half = np.array([0.5, -0.5])
    yield exponential_law(-half, epsilon), exponential_law(half, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_g2_exponential_mechanisms_have_bounded_range_and_its_stability(epsilon, seed):
    gamma = bounded_range_to_stability(answer(BoundedRange(epsilon))).guarantee.gamma
    spans, moves = [], []
    for law, other in neighbouring_laws(epsilon, seed):
        losses = np.log(law / other)
        spans.append(np.ptp(losses))
        moves.append(np.abs(law - other).sum() / 2)
        assert losses.min() <= 1e-12
        assert losses.max() >= -1e-12
    assert max(spans) <= epsilon * (1 + 1e-9)
    assert max(moves) <= gamma * (1 + 1e-9)
    assert max(spans) >= 0.99 * epsilon
    assert max(moves) >= 0.99 * gamma
    assert gamma == pytest.approx(math.tanh(epsilon / 4), rel=1e-14)
    # Half of what pure privacy would promise for small epsilon: not an accident of
    # the examples, because the pure bound is attained by randomized response.
    assert gamma < 0.8 * dp_to_stability(answer(PureDP(epsilon))).guarantee.gamma


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_g2_stability_holds_for_every_pair_of_bounded_range(epsilon, seed):
    """Given Q, the laws P of bounded range are a polytope: maximise over it."""
    gamma = bounded_range_to_stability(answer(BoundedRange(epsilon))).guarantee.gamma
    rng = np.random.default_rng(seed)
    worst = 0.0
    bases = [*rng.dirichlet(np.ones(4), size=12), two_point_base(epsilon)]
    for base in bases:
        size = len(base)
        rows = []
        for i, j in itertools.permutations(range(size), 2):
            row = np.zeros(size)
            row[i], row[j] = 1 / base[i], -math.exp(epsilon) / base[j]
            rows.append(row)
        for chosen in itertools.product((0, 1), repeat=size):
            best = linprog(
                -np.array(chosen, dtype=float),
                A_ub=np.array(rows),
                b_ub=np.zeros(len(rows)),
                A_eq=np.ones((1, size)),
                b_eq=[1.0],
            )
            worst = max(worst, -best.fun - np.dot(chosen, base))
    assert worst <= gamma * (1 + 1e-7)
    assert worst >= 0.99 * gamma


def two_point_base(epsilon):
    return np.array([sigmoid(-epsilon / 2), sigmoid(epsilon / 2)])


def test_g2_the_vote_without_the_one_half_costs_twice_its_epsilon():
    """S1 introduces the soft vote as exp(eps votes); the theorem has eps/2."""

    def worst(scale, epsilon=0.7, voters=30, labels=2):
        loss = 0.0
        for votes in itertools.product(range(voters + 1), repeat=labels):
            for gains, gives in itertools.permutations(range(labels), 2):
                if sum(votes) != voters or votes[gives] == 0:
                    continue
                moved = np.array(votes)
                moved[gains] += 1
                moved[gives] -= 1
                before = exponential_law(2 * scale * np.array(votes), epsilon)
                after = exponential_law(2 * scale * moved, epsilon)
                loss = max(loss, np.abs(np.log(before / after)).max())
        return loss

    assert 0.99 * 0.7 < worst(0.5) <= 0.7 * (1 + 1e-9)
    assert 0.99 * 1.4 < worst(1.0) <= 1.4 * (1 + 1e-9)


def test_g2_bounded_range_is_pure_of_the_same_epsilon():
    assert bounded_range_to_pure(given(BoundedRange(0.3))).guarantee == PureDP(0.3)
    assert pure_to_approx(given(BoundedRange(0.3))).guarantee == ApproxDP(0.3, 0.0)
    assert pure_to_approx(given(PureDP(0.3))).guarantee == ApproxDP(0.3, 0.0)
    zero = bounded_range_to_stability(answer(BoundedRange(0.0))).guarantee
    assert zero == UniformStability(0.0)


# ------------------------------------------------------------------ G3, G3k, G4


def flipped_loss(first, second, p):
    """Return the loss of two binary predictions after flipping with `p`."""
    a, b = p + (1 - 2 * p) * first, p + (1 - 2 * p) * second
    return max(abs(math.log(a / b)), abs(math.log((1 - a) / (1 - b))))


@pytest.mark.parametrize("p", [0.01, 0.2, 0.45])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0])
def test_g3_holds_for_all_stable_pairs_and_is_attained(gamma, p):
    epsilon = flip_stable(answer(UniformStability(gamma)), p=p).guarantee.epsilon
    worst = max(
        flipped_loss(a, max(0.0, a - gamma * share), p)
        for a in np.linspace(0, 1, 101)
        for share in (0.25, 1.0)
    )
    worst = max(worst, flipped_loss(gamma, 0.0, p))
    assert worst <= epsilon * (1 + 1e-12)
    assert worst >= 0.999 * epsilon


def test_g3_is_sharper_than_printed():
    """S2 Cor. 1 asks for gamma = eps p / 2; twice that and more is allowed."""
    for epsilon, p in itertools.product([0.1, 0.5, 1.0], [0.05, 0.2]):
        printed = flip_stable(answer(UniformStability(epsilon * p / 2)), p=p)
        assert printed.guarantee.epsilon < 0.5 * epsilon
        ours = math.expm1(epsilon) * p / (1 - 2 * p)
        allowed = flip_stable(answer(UniformStability(ours)), p=p).guarantee.epsilon
        assert allowed == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("labels", [2, 3, 5])
@pytest.mark.parametrize(("gamma", "p"), [(0.01, 0.1), (0.3, 0.5), (1.0, 0.9)])
def test_g3k_is_the_worst_loss_over_stable_laws(labels, gamma, p, seed):
    premise = answer(UniformStability(gamma))
    epsilon = replace_stable(premise, p=p, labels=labels).guarantee.epsilon
    rng = np.random.default_rng(seed)
    corner = np.zeros(labels)
    corner[0] = 1.0
    worst = 0.0
    for base in [*rng.dirichlet(np.ones(labels), size=30), corner]:
        for label in range(labels):
            # The most that label can gain within total variation gamma.
            lifted = min(1.0, base[label] + gamma)
            before = (1 - p) * base[label] + p / labels
            worst = max(worst, math.log(((1 - p) * lifted + p / labels) / before))
    assert worst <= epsilon
    assert worst >= 0.999 * epsilon


def test_g3k_with_two_labels_is_g3_at_half_the_noise():
    premise = answer(UniformStability(0.2))
    two = replace_stable(premise, p=0.3, labels=2).guarantee.epsilon
    assert two == pytest.approx(flip_stable(premise, p=0.15).guarantee.epsilon)


@pytest.mark.parametrize("p", [0.01, 0.2, 0.45])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (0.5, 0.0), (0.5, 0.01), (2.0, 0.3), (9.0, 1e-4)]
)
def test_g4_is_the_worst_ratio_over_all_private_bits(epsilon, delta, p):
    """The ratio exceeds e^t if and only if a linear program has a positive value."""
    certified = flip_private(answer(ApproxDP(epsilon, delta)), p=p).guarantee.epsilon
    factor = math.exp(epsilon)
    below = [[1, -factor], [-factor, 1], [-1, factor], [factor, -1]]
    limits = [delta, delta, factor - 1 + delta, factor - 1 + delta]

    def excess(loss):
        weight = 1 - 2 * p
        cost = [-weight, math.exp(loss) * weight]
        best = linprog(cost, A_ub=below, b_ub=limits, bounds=(0, 1))
        return -best.fun + p - math.exp(loss) * p

    assert excess(certified) <= 1e-7
    assert excess(0.99 * certified) > 0


def test_g4_improves_pure_privacy_and_needs_p_below_one_half():
    assert flip_private(answer(PureDP(1.0)), p=0.2).guarantee.epsilon < 1.0
    assert flip_private(answer(PureDP(0.0)), p=0.2).guarantee == PureDP(0.0)
    assert flip_stable(answer(UniformStability(0.0)), p=0.2).guarantee == PureDP(0.0)
    for derive, kind in (
        (flip_private, PureDP(0.1)),
        (flip_stable, UniformStability(0.1)),
    ):
        with pytest.raises(RuleError, match=r"rule G\d needs p < 1/2; got p=0.5"):
            derive(answer(kind), p=0.5)


# ------------------------------------------------------------------------ G5


def laplace_loss(moved, scale):
    """Return the largest log-ratio of two Laplace densities, on a fine grid."""
    grid = np.linspace(-10 * scale, 10 * scale + moved, 20_001)
    return np.abs(np.abs(grid - moved) - np.abs(grid)).max() / scale


@pytest.mark.parametrize("moved", [0.1, 2.0])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_g5_laplace_scale_is_move_over_epsilon_not_its_inverse(moved, epsilon):
    premise = answer(Sensitivity(moved))
    right = laplace_noise(premise, scale=moved / epsilon).guarantee.epsilon
    assert right == pytest.approx(epsilon, rel=1e-12)
    assert 0.999 * epsilon <= laplace_loss(moved, moved / epsilon) <= right
    # S1 Lemma 4.5 prints the scale epsilon / move.
    printed = laplace_noise(premise, scale=epsilon / moved).guarantee.epsilon
    assert laplace_loss(moved, epsilon / moved) == pytest.approx(printed, rel=1e-3)
    if moved > epsilon:
        assert printed > 2 * epsilon


def test_g5_a_vector_costs_its_l1_norm():
    made = laplace_noise(answer(Sensitivity(3.0, 1.8)), scale=2.0).guarantee
    assert made.epsilon == pytest.approx(1.5)
    assert laplace_noise(answer(Sensitivity(0.0)), scale=2.0).guarantee == PureDP(0.0)


@pytest.mark.parametrize("moved", [0.1, 1.0])
def test_g5_smooth_losses_lose_the_square_of_the_noise_once(moved):
    """An s-smooth loss loses s (move/epsilon)^2, as quadratics do; S1 prints s^2."""
    scale, smoothness = moved / 0.5, 3.0
    variance = 2 * scale**2
    lost = smoothness / 2 * variance
    assert lost == pytest.approx(smoothness * scale**2)
    assert lost < smoothness**2 * scale**2


# ------------------------------------------------------------------ rounding


def test_certified_numbers_are_never_below_the_formula(seed):
    """Each closed form against fifty digits, over random magnitudes."""
    rng = np.random.default_rng(seed)
    mp = mpmath.mp.clone()
    mp.dps = 50

    def number(low, high):
        return float(math.exp(rng.uniform(math.log(low), math.log(high))))

    for _ in range(300):
        epsilon, delta = number(1e-12, 600), number(1e-15, 0.9)
        gamma, p = number(1e-12, 1), number(1e-12, 0.499)
        e, d, g, q = (mp.mpf(repr(x)) for x in (epsilon, delta, gamma, p))
        q = mp.mpf(p)
        labels = int(rng.integers(2, 50))
        stable = answer(UniformStability(gamma))
        low = (1 - d) / (1 + mp.exp(e))
        high = (mp.exp(e) + d) / (1 + mp.exp(e))
        pairs = [
            (
                dp_to_stability(answer(ApproxDP(epsilon, delta))).guarantee.gamma,
                (mp.expm1(e) + 2 * d) / (mp.exp(e) + 1),
            ),
            (
                bounded_range_to_stability(
                    answer(BoundedRange(epsilon))
                ).guarantee.gamma,
                mp.tanh(e / 4),
            ),
            (flip_stable(stable, p=p).guarantee.epsilon, mp.log1p((1 - 2 * q) * g / q)),
            (
                replace_stable(stable, p=p, labels=labels).guarantee.epsilon,
                mp.log1p((1 - q) * g * labels / q),
            ),
            (
                flip_private(answer(ApproxDP(epsilon, delta)), p=p).guarantee.epsilon,
                max(
                    mp.log1p((1 - 2 * q) * d / q),
                    mp.log((q + (1 - 2 * q) * high) / (q + (1 - 2 * q) * low)),
                ),
            ),
            (
                exponential_sum(epsilon / 100, 100),
                mp.expm1(100 * mp.mpf(epsilon / 100)) / mp.expm1(mp.mpf(epsilon / 100)),
            ),
        ]
        for certified, true in pairs:
            assert certified >= true
            assert certified <= true * (1 + mp.mpf("1e-11"))


def test_exponential_sums_of_few_and_tiny_terms():
    assert exponential_sum(0.0, 7) == pytest.approx(7, rel=1e-14)
    assert exponential_sum(1e-300, 7) >= 7
    assert exponential_sum(math.log(2), 4) == pytest.approx(15, rel=1e-13)


def test_epsilon_delta_needs_a_kind_that_has_them():
    with pytest.raises(RuleError, match="has no epsilon and delta"):
        epsilon_delta(UniformStability(0.1))
