"""Composition at its limits: misuse, many steps, and how many answers fit."""

from __future__ import annotations

import math

import pytest

from reticent.errors import (
    InvalidGuaranteeError,
    InvalidParameterError,
    RelationMismatchError,
    RuleError,
)
from reticent.guarantees import (
    QUICK_METHODS,
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Budget,
    PureDP,
    RobustGeneralization,
    Sample,
    answers_within,
    basic_composition,
    compose,
    pld_composition,
    repeat,
    zcdp_composition,
)
from tests.guarantees.cases import answer, given

# ---------------------------------------------------------------- misuse


def test_relations_do_not_mix():
    with pytest.raises(
        RelationMismatchError, match=r"rule G22-basic needs one relation"
    ):
        compose([answer(PureDP(0.1)), given(PureDP(0.1), relation=AddRemove())])
    with pytest.raises(RelationMismatchError, match="replace one unit of 7"):
        compose([answer(PureDP(0.1)), answer(PureDP(0.1), n=7)])
    with pytest.raises(
        RelationMismatchError, match="rule G22-basic needs the relation"
    ):
        compose([given(PureDP(0.1), relation=Sample(5))])


def test_nothing_and_nonsense_do_not_compose():
    for delta in (0.0, 1e-6):
        with pytest.raises(RuleError, match="at least one certificate"):
            compose([], delta=delta)
    with pytest.raises(RuleError, match="composition takes certificates; got PureDP"):
        compose([PureDP(0.1)])
    with pytest.raises(RuleError, match="composition takes certificates; got str"):
        repeat("certificate", 3)
    with pytest.raises(RuleError, match="RobustGeneralization"):
        repeat(given(RobustGeneralization(0.1, 0.1)), 2)
    with pytest.raises(RuleError, match=r"methods=\['rdp'\] are not known"):
        repeat(answer(PureDP(0.1)), 2, delta=1e-6, methods=("rdp",))
    with pytest.raises(RuleError, match="no method composes these steps"):
        repeat(answer(ApproxDP(0.1, 1e-3)), 2, delta=1e-3)
    with pytest.raises(RuleError, match="no method composes"):
        repeat(answer(PureDP(0.1)), 2, delta=1e-3, methods=())


@pytest.mark.parametrize("times", [0, -1, 1.0, True, None, "3", math.nan, 10**4000])
def test_counts_are_positive_whole_numbers(times):
    with pytest.raises(InvalidGuaranteeError, match="times"):
        repeat(answer(PureDP(0.1)), times)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2, math.nan, math.inf, "x", None, True])
def test_a_target_delta_lies_between_zero_and_one(delta):
    with pytest.raises(InvalidParameterError, match="delta"):
        repeat(answer(PureDP(0.1)), 3, delta=delta)


@pytest.mark.parametrize(
    "derive", [basic_composition, zcdp_composition, pld_composition]
)
def test_counts_and_answers_must_match_the_premises(derive):
    step = answer(PureDP(0.1))
    target = {} if derive is basic_composition else {"delta": 1e-3}
    with pytest.raises(RuleError, match="one count per premise; got 2 counts for 1"):
        derive(step, counts=[1, 2], **target)
    with pytest.raises(RuleError, match=r"needs answers=3 .* got answers=300"):
        derive(step, counts=[3], answers=300, **target)
    assert derive(step, counts=[3], answers=3, **target).answer_count() == 3


def test_many_steps_fall_back_on_closed_forms():
    assert repeat(answer(PureDP(1e-4)), 10**6, delta=1e-6).rule == "G22-exact"
    kinds = [answer(PureDP(0.001 * k)) for k in range(1, 12)]
    assert compose(kinds * 50, delta=1e-6).rule == "G22-zcdp"
    # Below what transforms resolve, the others still answer.
    tiny = repeat(answer(PureDP(0.1)), 10_000, delta=1e-11)
    assert tiny.rule in {"G22-exact", "G22-zcdp"}


# ------------------------------------------------------------- answers within


@pytest.mark.parametrize(
    "kind",
    [PureDP(0.1), PureDP(0.37), BoundedRange(0.1), ApproxDP(0.1, 1e-9), ZCDP(1e-3)],
    ids=str,
)
@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6), Budget(8.0, 1e-4)])
def test_answers_within_is_exact_at_the_boundary(kind, budget):
    step = answer(kind)
    most = answers_within(step, budget)

    def fits(times):
        try:
            total = repeat(step, times, delta=budget.delta, methods=QUICK_METHODS)
        except RuleError:
            return False
        return budget.covers(total.guarantee)

    assert not fits(most + 1)
    assert most == 0 or fits(most)


def test_answers_within_of_round_numbers():
    assert answers_within(answer(PureDP(0.1)), Budget(1.0)) == 10
    assert answers_within(answer(PureDP(0.1)), Budget(0.99)) == 9
    assert answers_within(answer(PureDP(1.1)), Budget(1.0)) == 0
    assert answers_within(answer(ApproxDP(0.1, 1e-6)), Budget(1.0, 3e-6)) >= 2
    assert answers_within(answer(ZCDP(0.1)), Budget(1.0)) == 0
    assert answers_within(answer(PureDP(0.0)), Budget(1.0)) == 10**12
    assert answers_within(answer(PureDP(1e-6)), Budget(1.0)) == 10**6
