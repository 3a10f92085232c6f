"""G10 to G14 and G19 to G21: what privacy, few outputs and compression generalise."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from reticent.errors import InvalidGuaranteeError, InvalidParameterError, RuleError
from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    Compression,
    Consistency,
    ExpectedGeneralization,
    FiniteRange,
    PureDP,
    ReplaceOne,
    RobustGeneralization,
    Sample,
    Scope,
    approx_robust_error,
    approx_to_robust,
    compose_compressions,
    compression,
    compression_to_robust,
    dp_to_consistency,
    finite_range,
    finite_range_to_robust,
    group,
    prediction_to_expected,
    prediction_to_risk_multiple,
    pure_robust_error,
    pure_to_robust,
)
from reticent.guarantees.convert import sigmoid
from tests.guarantees.cases import HOSTILE_NUMBERS, answer, given, sampled
from tests.guarantees.worst_cases import largest, private_bits

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


def tilted_tail(units, tilt, error):
    """Overfitting by more than `error` when a bit's log-odds are moved by `tilt`."""
    p = sigmoid(tilt)
    low = math.ceil(units * (0.5 - error) - 1e-9) - 1
    high = math.floor(units * (0.5 + error) + 1e-9)
    return binom.cdf(low, units, p) + binom.sf(high, units, p)


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


# ----------------------------------------------------------------------- G12


def two_sided(units, error):
    """Chance that a fair bit's average is more than `error` off."""
    return tilted_tail(units, 0.0, error)


@pytest.mark.parametrize("outputs", [1, 2, 100, 10**6])
@pytest.mark.parametrize("units", [10, 1000])
def test_g12_covers_the_worst_of_independent_features(outputs, units):
    closest = 0.0
    for beta in (0.3, 1e-2, 1e-5):
        premise = finite_range(size=outputs, n=units, scope="model")
        error = finite_range_to_robust(premise, beta=beta).guarantee.epsilon
        assert -math.expm1(outputs * math.log1p(-two_sided(units, error))) <= beta
        truth = next(
            k / units
            for k in range(units + 1)
            if -math.expm1(
                outputs * math.log1p(-min(0.999999, two_sided(units, k / units)))
            )
            <= beta
        )
        closest = max(closest, truth / error)
    assert closest > (0.7 if units > 10 else 0.5)


@pytest.mark.parametrize("units", [1, 3, 5, 101])
def test_g12_needs_the_two_that_the_paper_drops(units):
    """S3 Thm 21 prints sqrt(ln(R/beta)/(2n)): an odd number of fair bits is never
    balanced, so one fixed feature is off by 1/(2n) surely."""
    error = 1 / (2 * units) - 1e-9
    printed = math.exp(-2 * units * error**2)  # the failure that it would allow, R = 1
    assert two_sided(units, error) == pytest.approx(1.0)
    assert printed < 1
    premise = finite_range(size=1, n=units, scope="model")
    ours = finite_range_to_robust(premise, beta=printed).guarantee
    assert two_sided(units, ours.epsilon) <= printed


def test_g12_takes_ranges_too_long_for_a_float():
    huge = sampled(FiniteRange(2**5000), n=10**6)
    error = finite_range_to_robust(huge, beta=0.05).guarantee.epsilon
    assert error == pytest.approx(math.sqrt((5001 * math.log(2) + math.log(20)) / 2e6))


# ------------------------------------------------------------------ G13, G14


def kept_one_of(units, error):
    """Chance that the best of `units` decoded features overfits by more than `error`.

    Each example carries the number of a feature of its own and fair bits of all
    features; the one kept decides the feature, and counts as a one itself.
    """
    high = math.floor(units * (0.5 + error) - 1 + 1e-9)
    low = math.ceil(units * (0.5 - error) - 1 - 1e-9) - 1
    one = binom.sf(high, units - 1, 0.5) + binom.cdf(low, units - 1, 0.5)
    return -math.expm1(units * math.log1p(-min(one, 1 - 1e-12)))


@pytest.mark.parametrize("units", [20, 200, 5000])
def test_g13_covers_the_best_single_example(units):
    closest = 0.0
    for delta in (0.3, 0.05, 1e-4):
        premise = compression(kept=1, n=units)
        error = compression_to_robust(premise, delta=delta).guarantee.epsilon
        assert kept_one_of(units, error) <= delta
        truth = next(
            k / units for k in range(units) if kept_one_of(units, k / units) <= delta
        )
        closest = max(closest, truth / error)
        # The control: without counting the lists it would be broken.
        fixed = finite_range(size=1, n=units, scope="model")
        naive = finite_range_to_robust(fixed, beta=delta).guarantee.epsilon
        if units > 20:
            assert kept_one_of(units, naive) > delta
    assert closest > 0.7


def test_g13_formula_and_its_limits():
    made = compression_to_robust(compression(kept=3, n=100, side_bits=4), delta=0.05)
    spread = 3 * math.log(100) + 4 * math.log(2) + math.log(2 / 0.05)
    assert made.guarantee.epsilon == pytest.approx(math.sqrt(spread / (2 * 97)) + 0.03)
    chosen = compression(kept=3, n=100, side_bits=4, size_from_data=True)
    wider = compression_to_robust(chosen, delta=0.05).guarantee.epsilon
    spread += math.log(100)
    assert wider == pytest.approx(math.sqrt(spread / (2 * 97)) + 0.03)
    none = compression_to_robust(compression(kept=0, n=100), delta=0.05).guarantee
    one = finite_range_to_robust(finite_range(size=1, n=100, scope="model"), beta=0.05)
    assert none.epsilon == pytest.approx(one.guarantee.epsilon)
    with pytest.raises(RuleError, match="rule G13 needs fewer kept examples than n=5"):
        compression_to_robust(compression(kept=5, n=5), delta=0.05)
    with pytest.raises(
        InvalidParameterError, match="size_from_data must be True or False"
    ):
        compression(kept=1, n=5, size_from_data="yes")


def test_g13_is_well_below_what_is_printed():
    for n, k, delta in ((2000, 5, 0.05), (500, 1, 1e-3), (10**5, 20, 0.01)):
        premise = compression(kept=k, n=n)
        ours = compression_to_robust(premise, delta=delta).guarantee.epsilon
        printed = (
            math.sqrt(4 * k * math.log(n / delta) / n)
            + 8 * k * math.log(2 * n / delta) / n
            + k / n
        )
        assert ours < 0.4 * printed


def test_g14_adds_lists_bits_and_lengths():
    parts = [
        compression(kept=2, n=100),
        compression(kept=1, n=100, side_bits=3, size_from_data=True),
        compression(kept=4, n=100, size_from_data=True),
    ]
    total = compose_compressions(*parts)
    assert total.guarantee == Compression(7, 3, 2)
    assert total.proved
    with pytest.raises(RuleError, match="rule G14 needs one sample"):
        compose_compressions(parts[0], compression(kept=1, n=99))
    with pytest.raises(RuleError, match="rule G14 needs at least one"):
        compose_compressions()


def test_g14_lengths_read_off_the_data_cost_one_union_bound_each():
    """Where lists begin and end says something: a sequence of lists of length 0 or 1.

    Step j keeps one example if the sample is the j-th possible one, and none
    otherwise. One example is kept in all, and yet everything is known.
    """
    kinds, units, delta = 4096, 12, 0.05
    steps = kinds**units
    # The indicator of the sample is one on it and at most 12/4096 in the population.
    overfitting = 1 - units / kinds
    lists_alone = compression_to_robust(
        sampled(Compression(1, 0, 1), n=units), delta=delta
    ).guarantee.epsilon
    assert lists_alone < 0.8 < overfitting  # what one union bound would promise
    honest = compression_to_robust(
        sampled(Compression(1, 0, steps), n=units), delta=delta
    ).guarantee.epsilon
    assert honest > 1


# ----------------------------------------------------------------------- G19


def memoriser(domain, epsilon):
    """Expected loss e^{-epsilon} on the one known example, and one elsewhere."""
    train = math.exp(-epsilon)
    test = train / domain + (1 - 1 / domain)
    return train, test


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_g19_is_attained_by_remembering_one_example(epsilon):
    made = prediction_to_expected(answer(PureDP(epsilon), n=1)).guarantee
    train, test = memoriser(10**5, epsilon)
    assert test <= made.factor * train + made.slack
    assert test >= 0.999 * made.factor * train
    assert made == ExpectedGeneralization(made.factor, 0.0, 1)


@pytest.mark.parametrize(("units", "kinds"), [(1, 3), (2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (0.3, 0.05), (0.0, 0.1)])
def test_g19_holds_for_every_private_prediction(units, kinds, epsilon, delta):
    """Maximise E[test] - e^eps E[train] over all private bits on a small domain."""
    made = prediction_to_expected(answer(ApproxDP(epsilon, delta))).guarantee
    data = list(itertools.product(range(kinds), repeat=units))
    number = {word: i for i, word in enumerate(data)}
    size = len(data) * kinds
    pairs = [
        (number[word] * kinds + z, number[other] * kinds + z)
        for word, other in itertools.combinations(data, 2)
        if sum(a != b for a, b in zip(word, other, strict=True)) == 1
        for z in range(kinds)
    ]
    below, limits = private_bits(pairs, size, epsilon, delta)
    objective = np.zeros(size)
    for word, i in number.items():
        for z in range(kinds):
            objective[i * kinds + z] += 1 / len(data) / kinds
        for z in word:
            objective[i * kinds + z] -= made.factor / len(data) / units
    worst, _ = largest(objective, below, limits)
    assert worst <= made.slack + 1e-9
    # The control: without the factor, or the slack, it would be broken.
    if kinds > 2:
        for word, i in number.items():
            for z in word:
                objective[i * kinds + z] += (made.factor - 1) / len(data) / units
        assert largest(objective, below, limits)[0] > 0.01


@pytest.mark.parametrize("moment", [2, 3])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_g19_moments_hold_for_the_memoriser_and_a_shifted_one(moment, epsilon):
    delta, bound = 0.02, 2.0
    made = prediction_to_expected(
        answer(ApproxDP(epsilon, delta)), loss_bound=bound, moment=moment
    ).guarantee
    assert made.moment == moment
    assert made.factor == pytest.approx(math.exp(moment**2 * epsilon))
    for level in (0.1, 0.5, 0.9):
        train = level * bound * math.exp(-epsilon) - delta * bound
        test = level * bound
        assert test**moment <= made.factor * train**moment + made.slack
    pure = prediction_to_expected(answer(PureDP(epsilon)), moment=moment).guarantee
    assert pure.slack == 0.0


def test_g19_slack_is_the_lemmas_and_not_k_delta():
    """S1 Lemma 6.4 bounds E[test^k] by e^{k^2 eps} E[(train + k delta B)^k]: for a
    train loss near B that is k^2 delta B^k above the power, not k delta."""
    made = prediction_to_expected(answer(ApproxDP(0.0, 0.01)), moment=3).guarantee
    assert made.slack == pytest.approx((1 + 3 * 0.01) ** 3 - 1, rel=1e-9)
    assert made.slack > 3 * 0.01
    first = prediction_to_expected(
        answer(ApproxDP(0.7, 0.01)), loss_bound=5.0
    ).guarantee
    assert first.slack == pytest.approx(0.05, rel=1e-12)
    assert first.slack >= 0.05


def test_g19_refuses_what_overflows():
    with pytest.raises(RuleError, match="rule G19 leads to numbers"):
        prediction_to_expected(answer(PureDP(200.0)), moment=2)
    with pytest.raises(InvalidGuaranteeError, match="loss_bound"):
        prediction_to_expected(answer(PureDP(0.1)), loss_bound=0.0)
    with pytest.raises(InvalidGuaranteeError, match="moment"):
        prediction_to_expected(answer(PureDP(0.1)), moment=0)


# ----------------------------------------------------------------------- G20


def test_g20_is_the_best_whole_moment():
    for epsilon, beta in itertools.product([1e-4, 0.01, 0.3, 2.0], [0.5, 0.05, 1e-6]):
        made = prediction_to_risk_multiple(answer(PureDP(epsilon)), beta=beta).guarantee
        best = min(
            math.exp(k * epsilon + math.log(1 / beta) / k)
            for k in range(1, 5000)
            if k * epsilon < 600
        )
        assert made.factor == pytest.approx(best, rel=1e-9)
        # Without whole moments, as printed, it would be smaller, and unproved.
        assert made.factor >= math.exp(2 * math.sqrt(epsilon * math.log(1 / beta))) * (
            1 - 1e-12
        )
        assert made.failure == beta


@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_g20_covers_random_private_losses(units, epsilon, seed):
    """Random expected losses on a small domain, made private by Lipschitz extension."""
    rng = np.random.default_rng(seed)
    kinds = 3
    data = list(itertools.product(range(kinds), repeat=units))
    for _ in range(20):
        raw = rng.exponential(size=(len(data), kinds)) * 10 ** rng.uniform(-2, 2) + 0.01
        for i, word in enumerate(data):
            for z in set(word):
                raw[i, z] = 0.01
        apart = np.array(
            [
                [sum(a != b for a, b in zip(u, v, strict=True)) for v in data]
                for u in data
            ]
        )
        # The largest function below `raw` that moves by e^epsilon a unit.
        loss = (raw[None] * np.exp(epsilon * apart[..., None])).min(axis=1)
        train = np.array([np.mean(loss[i, list(word)]) for i, word in enumerate(data)])
        test = loss.mean(axis=1)
        for beta in (0.5, 0.1):
            made = prediction_to_risk_multiple(answer(PureDP(epsilon)), beta=beta)
            failed = np.mean(test >= made.guarantee.factor * train.max())
            assert failed <= beta
        assert (test > train).any()  # the predictor does remember


def test_g20_at_the_ends():
    free = prediction_to_risk_multiple(answer(PureDP(0.0)), beta=0.05).guarantee
    assert free.factor == pytest.approx(1.0, abs=1e-5)
    tiny = prediction_to_risk_multiple(answer(PureDP(5e-324)), beta=5e-324).guarantee
    assert tiny.factor == pytest.approx(1.0, abs=1e-2)
    with pytest.raises(RuleError, match="rule G20 leads to numbers"):
        prediction_to_risk_multiple(answer(PureDP(800.0)), beta=0.1)


# ----------------------------------------------------------------------- G21


@pytest.mark.parametrize("kinds", [2, 3, 5])
def test_g21_a_pure_release_overfits_by_tanh_of_a_quarter(kinds):
    """Guess the one example among K kinds, e^eps to 1; the worst K is 1 + e^{eps/2}."""
    epsilon = 2 * math.log(max(kinds - 1, 1.2))
    gap = dp_to_consistency(given(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    right = math.exp(epsilon) / (math.exp(epsilon) + kinds - 1)
    reached = (1 - 1 / kinds) - (1 - right)  # population risk less empirical risk
    assert reached <= gap
    if kinds > 2:
        assert reached >= 0.999 * gap
        assert gap == pytest.approx(math.tanh(epsilon / 4), rel=1e-14)


@pytest.mark.parametrize("kinds", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_g21_holds_for_every_pure_release_of_a_guess(kinds, epsilon):
    """Maximise the gap over all epsilon-DP guesses from one example."""
    gap = dp_to_consistency(given(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    size = kinds * kinds
    rows = []
    for z, other in itertools.permutations(range(kinds), 2):
        for y in range(kinds):
            row = np.zeros(size)
            row[z * kinds + y], row[other * kinds + y] = 1.0, -math.exp(epsilon)
            rows.append(row)
    objective = np.zeros(size)
    for z in range(kinds):
        objective[z * kinds + z] = 1 / kinds
    equal = np.kron(np.eye(kinds), np.ones(kinds))
    best, _ = largest(
        objective,
        np.array(rows),
        np.zeros(len(rows)),
        equal=equal,
        values=np.ones(kinds),
    )
    assert best - 1 / kinds <= gap + 1e-9
    # The control: an answer by itself may overfit by more, up to tanh(eps/2).
    alone = dp_to_consistency(answer(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    assert alone == pytest.approx(math.tanh(epsilon / 2), rel=1e-14)


def test_g21_predictions_reach_tanh_of_a_half():
    """Predict 1 with probability sigma(eps) where the example was seen, else
    sigma(-eps): with a large domain test and train differ by tanh(eps/2)."""
    epsilon, domain = 1.0, 10**4
    alone = dp_to_consistency(answer(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    train = sigmoid(-epsilon)
    test = (1 - 1 / domain) * sigmoid(epsilon) + train / domain
    assert 0.999 * alone <= test - train <= alone
    release = dp_to_consistency(given(PureDP(epsilon), n=1), rate=0.0).guarantee.rate
    assert test - train > 1.5 * release  # so the scope matters


def test_g21_adds_the_rate_and_follows_the_scope():
    made = dp_to_consistency(given(PureDP(0.4), n=50), rate=0.25)
    assert made.relation == Sample(50)
    assert made.guarantee.rate == pytest.approx(0.25 + math.tanh(0.1))
    approx = dp_to_consistency(given(ApproxDP(0.4, 0.01), n=50), rate=0.25).guarantee
    move = (math.expm1(0.4) + 0.02) / (math.exp(0.4) + 1)
    assert approx.rate == pytest.approx(0.25 + move)
    ranged = dp_to_consistency(answer(BoundedRange(0.4)), rate=0.0).guarantee
    assert ranged.rate == pytest.approx(math.tanh(0.1))
    assert dp_to_consistency(given(PureDP(0.0)), rate=0.0).guarantee == Consistency(0.0)
    printed = 0.25 + math.expm1(0.4)
    assert made.guarantee.rate < printed


# ------------------------------------------------------------------ rounding


def test_certified_errors_are_never_below_the_formula(seed):
    rng = np.random.default_rng(seed)
    mp = mpmath.mp.clone()
    mp.dps = 50
    for _ in range(150):
        n = int(10 ** rng.uniform(0.5, 9))
        epsilon = float(10 ** rng.uniform(-9, 1))
        beta = float(10 ** rng.uniform(-30, -0.01))
        kept = int(rng.integers(0, min(n, 50)))
        bits, size = int(rng.integers(0, 99)), int(10 ** rng.uniform(0, 12))
        e, b = mp.mpf(repr(epsilon)), mp.mpf(repr(beta))
        reach = e * mp.sqrt(mp.mpf(n) / 8) + mp.sqrt(-mp.log(b))
        pairs = [
            (
                pure_robust_error(epsilon, n, beta),
                mp.sqrt((mp.log(2) + reach**2) / (2 * n)),
            ),
            (
                finite_range_to_robust(
                    finite_range(size=size, n=n, scope="model"), beta=beta
                ).guarantee.epsilon,
                mp.sqrt(mp.log(2 * size / b) / (2 * n)),
            ),
            (
                compression_to_robust(
                    compression(kept=kept, n=n, side_bits=bits), delta=beta
                ).guarantee.epsilon,
                mp.sqrt(
                    (kept * mp.log(n) + bits * mp.log(2) + mp.log(2 / b))
                    / (2 * (n - kept))
                )
                + mp.mpf(kept) / n,
            ),
        ]
        for certified, true in pairs:
            assert certified >= true
            assert certified <= true * (1 + mp.mpf("1e-13"))


def test_axioms_about_outputs_and_kept_examples_are_proved():
    assert finite_range(size=3, n=5, scope="interface").scope is Scope.INTERFACE
    assert compression(kept=2, n=5).scope is Scope.MODEL
    assert finite_range(size=3, n=5, scope="answer").proved
    assert ReplaceOne(5) != compression(kept=2, n=5).relation
