"""G10, G11: what private outputs say about the population."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reticent.errors import InvalidGuaranteeError, RuleError
from reticent.guarantees import (
    ApproxDP,
    PureDP,
    RobustGeneralization,
    Sample,
    approx_robust_error,
    approx_to_robust,
    group,
    pure_robust_error,
    pure_to_robust,
)
from reticent.guarantees.convert import sigmoid
from tests.guarantees.cases import HOSTILE_NUMBERS, given
from tests.guarantees.fair_bits import tilted_tail
from tests.guarantees.worst_cases import largest

# ----------------------------------------------------------------------- G10


def counts_of(units, kinds):
    """Return every way to draw `units` of `kinds` kinds, as counts."""
    if kinds == 1:
        return [(units,)]
    return [
        (first, *rest)
        for first in range(units + 1)
        for rest in counts_of(units - first, kinds - 1)
    ]


def worst_overfitting(units, epsilon, error, *, features=2):
    """Return the most likely overfitting over *all* epsilon-DP choices of a feature.

    Data are fair bits, one for each feature; the mechanism names a feature after
    seeing counts of the patterns, and overfits if that feature's average is more than
    `error` off. A linear program over the mechanism's probabilities.
    """
    patterns = list(itertools.product((0, 1), repeat=features))
    data = counts_of(units, len(patterns))
    number = {counts: i for i, counts in enumerate(data)}
    weight = [
        math.factorial(units)
        / math.prod(map(math.factorial, counts))
        / len(patterns) ** units
        for counts in data
    ]
    objective = np.zeros(len(data) * features)
    rows, columns, values, equal = [], [], [], np.zeros((len(data), len(objective)))
    for counts, i in number.items():
        for feature in range(features):
            ones = sum(
                c
                for c, pattern in zip(counts, patterns, strict=True)
                if pattern[feature]
            )
            objective[i * features + feature] = weight[i] * (
                abs(ones / units - 0.5) > error
            )
            equal[i, i * features + feature] = 1
        for out, into in itertools.permutations(range(len(patterns)), 2):
            if counts[out] == 0:
                continue
            moved = list(counts)
            moved[out] -= 1
            moved[into] += 1
            j = number[tuple(moved)]
            for feature in range(features):
                row = len(rows) // 2
                rows += [row, row]
                columns += [i * features + feature, j * features + feature]
                values += [1.0, -math.exp(epsilon)]
    from scipy.sparse import csr_array

    below = csr_array((values, (rows, columns)), shape=(len(rows) // 2, len(objective)))
    best, _ = largest(
        objective,
        below,
        np.zeros(below.shape[0]),
        equal=equal,
        values=np.ones(len(data)),
    )
    return best


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_g10_holds_for_every_private_choice(epsilon):
    units = 6
    closest = 0.0
    for beta in (0.5, 0.2, 0.05):
        tau = pure_robust_error(epsilon, units, beta)
        reached = worst_overfitting(units, epsilon, tau) if tau < 0.5 else 0.0
        assert reached <= beta
        # What the best mechanism does reach with probability beta, over the bound.
        levels = [k / units for k in range(4)]
        truth = max(
            (
                lev
                for lev in levels
                if worst_overfitting(units, epsilon, lev - 1e-9) > beta
            ),
            default=0.0,
        )
        assert truth <= tau
        closest = max(closest, truth / tau)
    assert closest > 0.3  # six units, two features: not vacuous


def test_g10_needs_its_epsilon():
    """The control: what holds for a fixed feature is broken by choosing freely."""
    units, beta, tau = 5, 0.4, 0.29
    assert worst_overfitting(units, 0.0, tau) <= beta
    assert worst_overfitting(units, 8.0, tau) > 1.4 * beta
    assert pure_robust_error(8.0, units, beta) > 1


@pytest.mark.parametrize("units", [100, 2000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5])
def test_g10_covers_the_exponential_mechanism_over_many_features(units, epsilon):
    """Among ever more features the chosen one's bits are tilted by epsilon/2."""
    closest = 0.0
    for beta in (0.1, 1e-3, 1e-6):
        tau = pure_robust_error(epsilon, units, beta)
        assert tilted_tail(units, epsilon / 2, tau) <= beta
        truth = next(
            k / units
            for k in range(units)
            if tilted_tail(units, epsilon / 2, k / units) <= beta
        )
        closest = max(closest, truth / tau)
    assert closest > 0.55
    # The control: without the part that grows with epsilon it would be broken.
    if epsilon >= 0.5:
        hoeffding = pure_robust_error(0.0, units, 1e-3)
        assert tilted_tail(units, epsilon / 2, hoeffding) > 1e-3


def test_g10_beats_the_printed_condition():
    """S0 Lemma 31 asks for eps <= tau/2 and n >= 12 ln(4/beta)/tau^2."""
    for tau, beta in ((0.1, 0.05), (0.02, 1e-3)):
        n = math.ceil(12 * math.log(4 / beta) / tau**2)
        assert pure_robust_error(tau / 2, n, beta) < 0.5 * tau


def test_g10_certificates_move_to_the_sample():
    made = pure_to_robust(given(PureDP(0.1), n=400), beta=0.05)
    assert made.relation == Sample(400)
    assert made.guarantee == RobustGeneralization(
        pure_robust_error(0.1, 400, 0.05), 0.05
    )
    with pytest.raises(RuleError, match="rule G10 needs single units"):
        pure_to_robust(group(given(PureDP(0.1)), size=2), beta=0.05)


# ----------------------------------------------------------------------- G11


def test_g11_is_close_to_its_best_parameters(seed):
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    for _ in range(12):
        epsilon = float(10 ** rng.uniform(-3, -0.3))
        delta = float(10 ** rng.uniform(-14, -7)) * float(rng.random() < 0.8)
        n, beta = int(10 ** rng.uniform(2, 6)), float(10 ** rng.uniform(-3, -0.5))

        def bound(logs, n=n, beta=beta, epsilon=epsilon, delta=delta):
            b, c = math.exp(logs[0]), math.exp(logs[1])
            share = sigmoid(logs[2]) if delta else 0.0
            rest = (1 - share) * beta
            t = b * math.log((1 + 1 / c) / rest)
            s = delta / (share * beta) if delta else 0.0
            exponent = min(50.0, epsilon + 1 / (n * b))
            return 2 * t + c + math.expm1(exponent) + 2 * s

        starts = itertools.product([-math.log(n) / 2, -2.0], [-3.0], [0.0, -4.0])
        options = {"maxiter": 4000, "maxfev": 4000, "xatol": 1e-9, "fatol": 1e-13}
        best = min(
            minimize(bound, start, method="Nelder-Mead", options=options).fun
            for start in starts
        )
        ours = approx_robust_error(epsilon, delta, n, beta)
        assert best * (1 - 1e-6) <= ours <= best * (1 + 1e-6)


def test_g11_is_never_below_what_leaks_allow():
    """With probability delta everything is published: beta below that says nothing."""
    for delta, n in itertools.product([1e-6, 1e-3, 0.05], [10**3, 10**6, 10**12]):
        for share in (0.1, 0.5, 0.99):
            assert approx_robust_error(0.0, delta, n, share * delta) > 1
        assert approx_robust_error(0.0, delta, 10**12, min(0.9, 1e4 * delta)) < 1


def test_g11_covers_a_subsample_that_is_published():
    """Memorising m of n units is (0, m/n)-DP and overfits by m/n surely."""
    for n, drawn in ((10**4, 100), (10**6, 10)):
        error = approx_robust_error(0.0, drawn / n, n, 0.5)
        assert error >= drawn / n


def test_g11_covers_pure_mechanisms_too():
    for epsilon, n, beta in ((0.05, 10**4, 0.01), (0.2, 10**3, 0.1)):
        error = approx_robust_error(epsilon, 0.0, n, beta)
        assert tilted_tail(n, epsilon / 2, error) <= beta
        assert error > pure_robust_error(epsilon, n, beta)  # G10 is for pure privacy


def test_g11_is_below_the_fallback_wherever_that_holds(seed):
    """(18 eps, delta/eps) for eps < 1/3, delta < eps/4, n >= ln(4 eps/delta)/eps^2."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        epsilon = float(10 ** rng.uniform(-4, math.log10(1 / 3)))
        delta = epsilon / 4 * float(10 ** rng.uniform(-12, 0))
        least = math.log(4 * epsilon / delta) / epsilon**2
        n = math.ceil(least * float(rng.uniform(1, 3)))
        error = approx_robust_error(epsilon, delta, n, delta / epsilon)
        assert error < 18 * epsilon


@pytest.mark.parametrize("epsilon", [691.0, 1e300])
def test_g11_says_when_it_says_nothing(epsilon):
    assert approx_robust_error(epsilon, 0.0, 100, 0.1) == math.inf
    with pytest.raises(RuleError, match="rule G11 says nothing at epsilon="):
        approx_to_robust(given(ApproxDP(epsilon, 0.0)), beta=0.1)


def test_g11_certificates_move_to_the_sample():
    made = approx_to_robust(given(ApproxDP(0.05, 1e-9), n=10**4), beta=0.05)
    assert made.relation == Sample(10**4)
    error = approx_robust_error(0.05, 1e-9, 10**4, 0.05)
    assert made.guarantee == RobustGeneralization(error, 0.05)


@pytest.mark.parametrize("value", HOSTILE_NUMBERS, ids=lambda v: type(v).__name__)
def test_plain_functions_refuse_hostile_numbers(value):
    for act in (
        lambda: pure_robust_error(value, 100, 0.1),
        lambda: pure_robust_error(0.1, value, 0.1),
        lambda: pure_robust_error(0.1, 100, value),
        lambda: approx_robust_error(value, 0.0, 100, 0.1),
        lambda: approx_robust_error(0.1, value, 100, 0.1),
        lambda: approx_robust_error(0.1, 0.0, 100, value),
    ):
        if value == 10**400:
            continue
        with pytest.raises(InvalidGuaranteeError):
            act()
