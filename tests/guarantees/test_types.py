"""Guarantees: frozen values that validate themselves and know how they compose."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re

import pytest

from reticent.errors import InvalidGuaranteeError, NoDerivationError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Budget,
    Compression,
    Consistency,
    ExpectedGeneralization,
    FiniteRange,
    GaussianDP,
    Guarantee,
    PerfectGeneralization,
    PureDP,
    RiskMultiple,
    RobustGeneralization,
    Sensitivity,
    TwoSampleCloseness,
    UniformStability,
)
from tests.guarantees.cases import HOSTILE_NUMBERS

EVERY = [
    PureDP(0.5),
    BoundedRange(0.5),
    ApproxDP(0.5, 1e-6),
    ZCDP(0.25),
    UniformStability(0.125),
    Sensitivity(2.0, 1.5),
    Sensitivity(2.0),
    FiniteRange(7),
    Compression(3, 2, 1),
    RobustGeneralization(0.1, 0.05),
    PerfectGeneralization(0.01, 0.5, 1e-6),
    TwoSampleCloseness(0.02, 1.0, 3e-6),
    ExpectedGeneralization(1.5, 0.25, 2),
    ExpectedGeneralization(1.5, 0.25),
    RiskMultiple(3.0, 0.05),
    Consistency(0.125),
]
PRINTED = [
    "0.5-DP",
    "0.5-bounded-range DP",
    "(0.5, 1e-06)-DP",
    "0.25-zCDP",
    "0.125-stable prediction",
    "sensitivity 2 (l1), 1.5 (l2)",
    "sensitivity 2",
    "one of 7 outputs",
    "decoded from 3 examples and 2 bits",
    "(0.1, 0.05)-robust generalization",
    "(0.01, 0.5, 1e-06)-perfect generalization",
    "two samples within (1, 3e-06) except with probability 0.02",
    "E[test loss^2] <= 1.5 E[train loss^2] + 0.25",
    "E[test loss] <= 1.5 E[train loss] + 0.25",
    "test loss < 3 x train loss except with probability 0.05",
    "expected excess risk <= 0.125",
]
ADDITIVE = [PureDP(0.5), ApproxDP(0.5, 1e-6), ZCDP(0.25)]
ALONE = [
    BoundedRange(0.5),
    UniformStability(0.1),
    Sensitivity(1.0),
    RobustGeneralization(0.1, 0.05),
    PerfectGeneralization(0.01, 0.5, 0.0),
    TwoSampleCloseness(0.02, 1.0, 0.0),
    RiskMultiple(3.0, 0.05),
    Consistency(0.1),
]


def kinds(values):
    return [type(value).__name__ for value in values]


@pytest.mark.parametrize("guarantee", EVERY, ids=kinds(EVERY))
def test_guarantees_are_values(guarantee):
    again = Guarantee.from_dict(guarantee.as_dict())
    assert again == guarantee
    assert hash(again) == hash(guarantee)
    assert again is not guarantee
    assert guarantee.implies(again)
    name = dataclasses.fields(guarantee)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(guarantee, name, 0.0)


def test_guarantees_of_different_kinds_never_meet():
    assert PureDP(0.5) != BoundedRange(0.5)
    assert not PureDP(0.5).implies(BoundedRange(0.5))
    assert len(set(EVERY)) == len(EVERY)


@pytest.mark.parametrize(
    ("guarantee", "printed"), list(zip(EVERY, PRINTED, strict=True)), ids=kinds(EVERY)
)
def test_guarantees_print_their_numbers(guarantee, printed):
    assert str(guarantee) == printed


@pytest.mark.parametrize("value", HOSTILE_NUMBERS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("guarantee", EVERY, ids=kinds(EVERY))
def test_hostile_numbers_are_refused_in_every_field(guarantee, value):
    for field in dataclasses.fields(guarantee):
        if value is None and field.name == "l2":
            continue  # left out: the same as l1
        if type(guarantee) is FiniteRange and value == 10**400:
            continue  # so many outputs are possible
        if type(guarantee) is Compression and value == 10**400:
            continue
        if field.name == "moment" and value == 10**400:
            continue
        with pytest.raises(InvalidGuaranteeError, match=field.name):
            dataclasses.replace(guarantee, **{field.name: value})


@pytest.mark.parametrize("value", [1.0, 1, 1.5])
def test_a_delta_of_one_promises_nothing_and_is_refused(value):
    for build in (
        lambda: ApproxDP(1.0, value),
        lambda: RobustGeneralization(0.1, value),
        lambda: PerfectGeneralization(value, 0.1, 0.0),
        lambda: PerfectGeneralization(0.0, 0.1, value),
        lambda: TwoSampleCloseness(value, 0.1, 0.0),
        lambda: RiskMultiple(1.0, value),
    ):
        with pytest.raises(InvalidGuaranteeError, match="< 1"):
            build()


def test_bounds_that_exclude_each_other_are_refused():
    with pytest.raises(InvalidGuaranteeError, match=r"gamma <= 1; got gamma=1\.5"):
        UniformStability(1.5)
    with pytest.raises(InvalidGuaranteeError, match="l2 <= l1"):
        Sensitivity(1.0, 2.0)
    with pytest.raises(InvalidGuaranteeError, match="l2 >= 0"):
        Sensitivity(1.0, -1.0)


def test_zero_and_subnormal_losses_are_allowed():
    assert PureDP(-0.0) == PureDP(0.0)
    assert str(PureDP(-0.0)) == "0-DP"
    assert PureDP(5e-324).times(3).epsilon > 0


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        (PureDP(0.5), PureDP(0.6)),
        (ApproxDP(0.5, 1e-6), ApproxDP(0.5, 2e-6)),
        (Compression(1, 0, 0), Compression(1, 1, 1)),
        (ExpectedGeneralization(1.0, 0.1, 2), ExpectedGeneralization(1.1, 0.1, 2)),
    ],
)
def test_implies_is_a_partial_order(strong, weak):
    assert strong.implies(weak)
    assert not weak.implies(strong)


def test_what_cannot_be_compared_implies_nothing():
    assert not ApproxDP(0.5, 1e-5).implies(ApproxDP(0.6, 1e-6))
    assert not ApproxDP(0.6, 1e-6).implies(ApproxDP(0.5, 1e-5))
    assert not ExpectedGeneralization(1, 0, 1).implies(ExpectedGeneralization(2, 0, 2))
    assert not ExpectedGeneralization(1, 0, 1).implies(PureDP(1.0))


@pytest.mark.parametrize("guarantee", ADDITIVE, ids=kinds(ADDITIVE))
def test_times_equals_repeated_then(guarantee):
    total = guarantee
    for count in range(2, 12):
        total = total.then(guarantee)
        assert total == guarantee.times(count)
        assert guarantee.times(count - 1).implies(total)
        assert not total.implies(guarantee.times(count - 1))


def test_ten_steps_of_a_tenth_cost_one():
    assert PureDP(0.1).times(10) == PureDP(1.0)
    assert sum([0.1] * 10) != 1.0  # floats alone: the control


@pytest.mark.parametrize("guarantee", ALONE, ids=kinds(ALONE))
def test_what_does_not_compose_says_so(guarantee):
    name = type(guarantee).__name__
    for act in (lambda: guarantee.times(2), lambda: guarantee.then(guarantee)):
        with pytest.raises(NoDerivationError, match=f"{name} does not compose"):
            act()


def test_different_kinds_do_not_add_up():
    with pytest.raises(NoDerivationError, match="PureDP and ZCDP"):
        PureDP(0.1).then(ZCDP(0.1))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None, "2"])
def test_times_refuses_what_is_no_count(count):
    with pytest.raises(InvalidGuaranteeError, match="count"):
        PureDP(0.1).times(count)


def test_totals_beyond_floats_are_refused():
    with pytest.raises(InvalidGuaranteeError, match="finite"):
        PureDP(1e308).times(10)
    with pytest.raises(InvalidGuaranteeError, match="delta < 1"):
        ApproxDP(0.1, 0.5).times(2)


def test_finite_ranges_multiply_and_stay_printable():
    assert FiniteRange(3).times(4) == FiniteRange(81)
    assert FiniteRange(3).then(FiniteRange(5)) == FiniteRange(15)
    assert str(FiniteRange(10).times(12)) == "one of very many outputs"
    assert len(str(FiniteRange(2).times(6000).size)) > 1800
    with pytest.raises(InvalidGuaranteeError, match="bits"):
        FiniteRange(2).times(10**12)


def test_compressions_add_up_with_every_length_read_off_the_data():
    total = Compression(3, 1, 1).times(4).then(Compression(2, 0, 0))
    assert total == Compression(14, 4, 4)
    assert str(Compression(3)) == "decoded from 3 examples"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "PureDP"},
        {"kind": "PureDP", "epsilon": 1.0, "delta": 0.1},
        {"kind": "_Additive"},
        {"kind": "Guarantee"},
        {"kind": "os.system", "epsilon": 1.0},
        {"kind": 3},
        {"kind": ["PureDP"], "epsilon": 1.0},
    ],
)
def test_only_known_kinds_with_their_own_numbers_are_read(data):
    with pytest.raises(InvalidGuaranteeError, match="is not a guarantee of reticent"):
        Guarantee.from_dict(data)


def bounded_range_of(law, other):
    """Length of the interval that the log-ratios of two laws span, with 0 inside."""
    losses = [math.log(law[y] / other[y]) for y in law]
    return max(*losses, 0.0) - min(*losses, 0.0)


def binary(epsilon, top):
    """Return two laws whose log-ratios are `top` and ``top - epsilon``."""
    low = math.exp(top - epsilon)
    q = (1 - low) / (math.exp(top) - low)
    return {1: math.exp(top) * q, 0: low * (1 - q)}, {1: q, 0: 1 - q}


def test_bounded_ranges_do_not_add_up_when_steps_adapt():
    """Why BoundedRange has no sum: the second step's interval moves with the first."""
    epsilon = 0.5
    first = binary(epsilon, epsilon / 2)
    # After a 1 the second interval lies above zero, after a 0 below: each step by
    # itself has range epsilon, whatever came before.
    second = {1: binary(epsilon, 0.99 * epsilon), 0: binary(epsilon, 0.01 * epsilon)}
    for law, other in [first, *second.values()]:
        assert bounded_range_of(law, other) == pytest.approx(epsilon)
    joint = [
        {
            (a, b): first[i][a] * second[a][i][b]
            for a, b in itertools.product((0, 1), (0, 1))
        }
        for i in (0, 1)
    ]
    assert [sum(law.values()) for law in joint] == pytest.approx([1.0, 1.0])
    assert bounded_range_of(*joint) > 2.9 * epsilon  # not 2 epsilon
    assert (
        max(abs(math.log(joint[0][y] / joint[1][y])) for y in joint[0]) <= 2 * epsilon
    )
    # The control: without adaptivity the ranges do add up.
    fixed = [
        {
            (a, b): first[i][a] * second[1][i][b]
            for a, b in itertools.product((0, 1), (0, 1))
        }
        for i in (0, 1)
    ]
    assert bounded_range_of(*fixed) == pytest.approx(2 * epsilon)


@pytest.mark.parametrize(
    "value", [1 / 3, 1.0000004, 0.1234564, 999_999.5, 1.0000005e-6]
)
def test_what_is_printed_is_never_a_stronger_promise(value):
    """Rounding to the nearest would print a third as 0.333333, which nobody proved."""
    for promise in (PureDP(value), GaussianDP(value), ZCDP(value), BoundedRange(value)):
        text = re.match(r"[0-9.e+-]+?(?=-[A-Zbz])", str(promise))[0]
        assert type(promise)(value).implies(type(promise)(float(text)))
        assert float(text) <= value * (1 + 1.1e-5)
    if value < 1:
        numbers = re.findall(r"[0-9][0-9.e-]*", str(ApproxDP(2 * value, value)))
        real = (2 * value, value)
        assert all(float(n) >= v for n, v in zip(numbers, real, strict=True))
    assert "0.333334" in str(Budget(1 / 3))
