"""Labels of public points under noise: exact laws against M4's certificates."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from reticent.errors import RuleError
from reticent.guarantees import (
    EXACT_ORACLE,
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    recheck,
)
from reticent.learners.public.separator_noise import (
    SeparatorFacts,
    gaussian_separator_noise,
    laplace_separator_noise,
)
from reticent.learners.public.separator_rules import (
    ORACLE_WITHIN_SLACK,
    gaussian_separator,
    laplace_separator,
    union_delta,
)
from reticent.mechanisms import discrete_gaussian_law
from tests.learners.separator_laws import (
    Noise,
    every,
    first,
    free,
    parity,
    shattered,
    thresholds,
    worst_violation,
)

HALF, THREE_QUARTERS = Fraction(1, 2), Fraction(3, 4)


def certified_shift(points, taught, steps, q, slack=0):
    """Return the certified epsilon times the scale, which is a whole shift."""
    scale = 1 / math.log(1 / q)
    certificate = laplace_separator(
        n=4,
        points=points,
        taught=taught,
        steps=steps,
        scale=scale,
        room=2**52,
        oracle="a table",
        exact_oracle=True,
        slack=slack,
    )
    assert certificate.proved
    shift = certificate.guarantee.epsilon * scale
    assert shift == pytest.approx((2 * steps + 2 * slack + 1) * taught, rel=1e-12)
    return round(shift)


# Pure privacy: in whole numbers, for every dataset, neighbour, labeling and for every
# way of breaking ties.


@pytest.mark.parametrize("values", [(parity,), (parity, every), (first, every)])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_shattered_points_are_private_and_the_shift_is_attained(m, n, values):
    tiny = shattered(m, *values)
    noise = Noise(m, THREE_QUARTERS, n + 1, lumped=True)
    shift = certified_shift(m, m, 1, THREE_QUARTERS)
    worst = worst_violation(tiny, noise, n, 1, shift)
    assert worst <= 1
    if n >= 2:  # not a bit of noise less would do
        assert worst == 1
        assert worst / noise.q > 1


def test_finer_steps_are_private():
    tiny, steps = shattered(2, parity, first), 5
    noise = Noise(2, THREE_QUARTERS, 2 * steps + 1, lumped=True)
    shift = certified_shift(2, 2, steps, THREE_QUARTERS)
    assert worst_violation(tiny, noise, 2, steps, shift) <= 1
    # Ties by the worst rule; with the best one the shift could be 2k a point, no less.
    assert worst_violation(tiny, noise, 2, steps, 2 * (2 * steps - 1)) > 1


def test_a_private_point_of_free_value_tells_nothing():
    tiny = free(shattered(2))
    noise = Noise(2, HALF, 4, lumped=True)
    upper, lower = noise.bounds(tiny, ((0, 0), (0, 1)), 1)
    assert len(set(upper)) == len(set(lower)) == 1


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_thresholds_are_private_at_the_scale_of_two_points(m, both):
    n, reach = 4, {2: 28, 3: 18, 4: 13}[m]
    tiny = thresholds(m, both=both)
    noise = Noise(m, HALF, reach, lumped=False)
    if len(tiny.labelings) == 2**m:
        noise = Noise(m, HALF, n + 1, lumped=True)
    shift = certified_shift(m, 2, 1, HALF)
    ratio = worst_violation(tiny, noise, n, 1, 0)
    assert ratio * noise.q**shift <= 1
    assert ratio * noise.q ** (shift // 2) > 1  # one point does not teach a cut


def test_a_class_that_is_neither_is_private():
    tiny = shattered(3, parity, every)
    kept = np.array([0, 2, 3, 5, 7])
    tiny = type(tiny)(tiny.table[kept], 3)
    noise = Noise(3, HALF, 18, lumped=False)
    assert worst_violation(tiny, noise, 4, 1, certified_shift(3, 3, 1, HALF)) <= 1
    assert worst_violation(tiny, noise, 4, 1, 3) > 1


@pytest.mark.parametrize("slack", [1, 2])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_an_oracle_within_its_slack_is_private_however_it_errs(m, slack):
    tiny, n = shattered(m, parity, every), 2
    # Noise beyond the data and the slack decides a label by itself.
    noise = Noise(m, HALF, n + slack + 1, lumped=True)
    shift = certified_shift(m, m, 1, HALF, slack)
    assert worst_violation(tiny, noise, n, 1, shift, slack) <= 1
    assert worst_violation(tiny, noise, n, 1, 3 * m, slack) > 1  # the exact oracle's


# Gaussian noise.


def parity_delta(m, scale, epsilon, context):
    """Return the exact delta of one unit at the parity of `m` public labels.

    The noise alone would label the points at random. Where the parity is wrong, the
    point of the smallest cost is turned if that costs less than a mistake. So the
    right parity has probability (1 + q)/2, q the probability of such a point.
    """
    share = context.erf(1 / (context.mpf(scale) * context.sqrt(2)))
    q = 1 - (1 - share) ** m
    return (1 + q) / 2 - context.exp(epsilon) * (1 - q) / 2


@pytest.mark.parametrize(("constant", "breaks_at"), [(1, 7), (2, 28), (5, 174)])
def test_the_printed_gaussian_scale_is_broken_by_parity(constant, breaks_at):
    context = mpmath.iv
    epsilon, delta = 1, context.mpf(10) ** -5

    def broken(m):
        scale = constant * context.sqrt(m * context.log(1 / delta)) / epsilon
        share = _interval_erf(1 / (scale * context.sqrt(2)))
        q = 1 - (1 - share) ** m
        excess = (1 + q) / 2 - context.exp(epsilon) * (1 - q) / 2 - delta
        assert excess.a > 0 or excess.b < 0, "the interval does not decide"
        return excess.a > 0

    assert next(m for m in range(1, breaks_at + 40) if broken(m)) == breaks_at


def _interval_erf(x):
    """Enclose erf on an interval: the series alternates and decreases for x < 1."""
    context = mpmath.iv
    term, total = x, x
    for j in range(1, 60):
        term = -term * x * x / j
        total += term / (2 * j + 1)
    rest = abs(term * x * x)
    return 2 / context.sqrt(context.pi) * (total + context.mpf([-1, 1]) * rest)


@pytest.mark.parametrize("m", [1, 7, 40, 174, 600])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_union_bound_survives_the_parity_attack(m, epsilon):
    noise = gaussian_noise(m, m, 2**m, epsilon=epsilon, delta=1e-5)
    scale = noise.scale / noise.steps
    with mpmath.workdps(50):
        assert parity_delta(m, scale, epsilon, mpmath) <= 1e-5


def gaussian_noise(m, taught, labelings, *, epsilon, delta, n=4, room=2**52):
    return gaussian_separator_noise(
        SeparatorFacts(
            n=n,
            points=m,
            taught=taught,
            labelings=labelings,
            room=room,
            oracle="a table",
            exact_oracle=True,
        ),
        epsilon=epsilon,
        delta=delta,
        labels_from_data=False,
        seeded=False,
    )


def gaussian_laws(tiny, n, steps, scale, reach):
    """Return the winners' laws under discrete Gaussian noise, for two ways with ties.

    Ties go to the first labeling in the one, to the last in the other.
    """
    axis = np.arange(-reach, reach + 1)
    one = np.exp(discrete_gaussian_law(axis, scale))
    grid = np.stack([g.ravel() for g in np.meshgrid(*[axis] * tiny.m, indexing="ij")])
    weight = np.prod([one[g + reach] for g in grid], axis=0)
    noise, count = tiny.labelings @ grid, len(tiny.labelings)
    known, found = {}, {}
    for data in tiny.datasets(n):
        costs = tuple(tiny.costs(data))
        if costs not in known:
            values = steps * np.array(costs)[:, None] + noise
            winners = (
                np.argmin(values, axis=0),
                count - 1 - np.argmin(values[::-1], axis=0),
            )
            known[costs] = [np.bincount(w, weight, minlength=count) for w in winners]
        found[data] = known[costs]
    return found


def worst_delta(laws, epsilon):
    return max(
        np.maximum(laws[data][0] - math.exp(epsilon) * laws[other][1], 0).sum()
        for data in laws
        for other in laws
        if _apart(data, other) <= 1
    )


@pytest.mark.parametrize(
    ("tiny", "taught"),
    [(shattered(2, parity, first), 2), (shattered(3, parity), 3), (thresholds(3), 2)],
    ids=["two shattered", "three shattered", "thresholds"],
)
def test_gaussian_certificates_hold_on_tiny_classes(tiny, taught):
    steps, scale, epsilon = 1, 9.0, 0.9
    certificate = gaussian_separator(
        n=2,
        points=tiny.m,
        taught=taught,
        labelings=len(tiny.labelings),
        steps=steps,
        scale=scale,
        room=2**52,
        epsilon=epsilon,
        oracle="a table",
        exact_oracle=True,
    )
    laws = gaussian_laws(tiny, 2, steps, scale, 45)
    assert worst_delta(laws, epsilon) <= certificate.guarantee.delta
    # The same laws do break a promise that is too good.
    assert worst_delta(laws, 0.1) > 1e-3


def _apart(data, other):
    left = list(data)
    for unit in other:
        if unit in left:
            left.remove(unit)
    return len(left)


# What is certified, and what is refused.


def facts(**changes):
    given = {
        "n": 1000,
        "points": 50,
        "taught": 50,
        "labelings": 51,
        "room": 2**52,
        "oracle": "Thresholds",
        "exact_oracle": True,
    }
    return SeparatorFacts(**{**given, **changes})


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 17.0])
def test_laplace_noise_meets_its_target_closely(epsilon):
    noise = laplace_separator_noise(
        facts(), epsilon=epsilon, labels_from_data=False, seeded=False
    )
    certificate = noise.certificate
    assert certificate.proved
    assert certificate.relation == ReplaceOne(1000)
    assert certificate.scope is Scope.MODEL
    assert isinstance(certificate.guarantee, PureDP)
    assert epsilon * (1 - 1e-9) <= certificate.guarantee.epsilon <= epsilon
    # S4's scale, 2m/epsilon, up to the half step for ties.
    assert noise.scale / noise.steps == pytest.approx(100 / epsilon, rel=1e-4)
    recheck(certificate)


def test_gaussian_noise_meets_its_target_closely():
    noise = gaussian_noise(50, 50, 10**6, epsilon=1.0, delta=1e-6, n=1000)
    guarantee = noise.certificate.guarantee
    assert isinstance(guarantee, ApproxDP)
    assert guarantee.epsilon == 1.0
    assert 0.99e-6 <= guarantee.delta <= 1e-6
    recheck(noise.certificate)


def test_the_curve_is_never_worse_than_the_tail_bound():
    # THEOREMS M4: N Pr[N(0,1) > t] <= delta, epsilon = (2 t s sqrt m + 2 m)/s^2.
    m, labelings, epsilon, delta = 100, 10**4, 1.0, 1e-6
    noise = gaussian_noise(m, m, labelings, epsilon=epsilon, delta=delta, n=1000)
    s = noise.scale / noise.steps
    t = mpmath.findroot(lambda x: mpmath.ncdf(-x) - delta / labelings, 5)
    assert (2 * t * s * math.sqrt(m) + 2 * m) / s**2 > epsilon


def test_assumptions_are_said():
    noise = laplace_separator_noise(
        facts(exact_oracle=False, oracle="LogisticRegression"),
        epsilon=1.0,
        labels_from_data=True,
        seeded=True,
    )
    assert noise.certificate.assumptions == {EXACT_ORACLE, PUBLIC_LABELS, SEEDED_NOISE}
    assert "LogisticRegression" in str(noise.certificate)


def test_slack_costs_noise_and_weakens_what_is_assumed():
    settings = {"epsilon": 1.0, "labels_from_data": False, "seeded": False}
    exact = laplace_separator_noise(facts(exact_oracle=False), **settings)
    loose = laplace_separator_noise(facts(exact_oracle=False, slack=3.0), **settings)
    assert loose.certificate.assumptions == {ORACLE_WITHIN_SLACK}
    ratio = (loose.scale / loose.steps) / (exact.scale / exact.steps)
    assert ratio == pytest.approx(4, rel=1e-4)
    recheck(loose.certificate)
    gaussian = gaussian_separator_noise(facts(slack=0.5), **settings, delta=1e-6)
    assert gaussian.certificate.proved  # the oracle is exact, whatever was allowed
    assert gaussian.certificate.parameter("slack") == gaussian.steps // 2 + 1


def test_steps_become_coarser_where_there_is_little_room():
    small = laplace_separator_noise(
        facts(room=2**30), epsilon=1.0, labels_from_data=False, seeded=False
    )
    assert 1 <= small.steps < 2**16
    recheck(small.certificate)
    with pytest.raises(ValueError, match="fewer public points"):
        laplace_separator_noise(
            facts(room=2**10), epsilon=1.0, labels_from_data=False, seeded=False
        )


LAPLACE = {
    "n": 10,
    "points": 3,
    "taught": 3,
    "steps": 4,
    "scale": 20.0,
    "room": 2**40,
    "oracle": "a table",
    "exact_oracle": True,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"taught": 4}, "taught"),
        ({"room": 1000}, "room"),
        ({"scale": math.nan}, "scale"),
        ({"scale": 0.0}, "scale"),
        ({"n": 0}, "n"),
        ({"steps": 0}, "steps"),
        ({"points": 2.5}, "points"),
        ({"slack": -1}, "slack"),
    ],
)
def test_laplace_rule_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        laplace_separator(**{**LAPLACE, **changes})


GAUSSIAN = {**LAPLACE, "epsilon": 1.0, "labelings": 4, "scale": 200.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"taught": 4}, "taught"),
        ({"room": 1000}, "room"),
        ({"epsilon": 701.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"labelings": 0}, "labelings"),
        ({"scale": 3.0}, "grid steps"),
        ({"labelings": 2**2000}, "labelings"),
    ],
)
def test_gaussian_rule_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        gaussian_separator(**{**GAUSSIAN, **changes})


def test_too_many_labelings_for_any_delta_are_refused():
    with pytest.raises(ValueError, match="laplace"):
        gaussian_noise(5000, 5000, 2**5000, epsilon=1.0, delta=1e-6)
    with pytest.raises(RuleError):
        union_delta(2**2000, 2.0**-1070)


# The room that the proof needs: no noise is cut off too often.


@pytest.mark.parametrize("m", [1, 3])
def test_the_tail_that_is_drawn_anew_is_below_every_labeling(m):
    n, steps, q = 2, 1, THREE_QUARTERS
    scale = 1 / math.log(4 / 3)
    given = {**LAPLACE, "n": n, "points": m, "taught": m, "steps": steps}
    room = next(r for r in range(1, 10**6) if _has_room({**given, "scale": scale}, r))
    limit = room - n * steps
    # Pr[sum |c| > limit] by convolution of exact weights.
    one = [(1 - q) / (1 + q) * (1 if s == 0 else 2) * q**s for s in range(limit + 1)]
    fits = [Fraction(1)] + [Fraction(0)] * limit
    for _ in range(m):
        fits = [
            sum(fits[j] * one[total - j] for j in range(total + 1))
            for total in range(limit + 1)
        ]
    tail = 1 - sum(fits)
    least = (q ** (n * steps + 1) / (1 + q)) ** m
    assert tail / (least - tail) < Fraction(1, 2**59)


def _has_room(given, room):
    try:
        laplace_separator(**{**given, "room": room})
    except RuleError:
        return False
    return True
