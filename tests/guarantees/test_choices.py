"""A choice of settings stays one; it says nothing about predictions (G19 to G24)."""

import pytest

from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    basic_composition,
    claim,
    compose,
    dp_to_consistency,
    exact_composition,
    gaussian_composition,
    parallel_composition,
    pld_composition,
    post_process,
    prediction_to_expected,
    prediction_to_risk_multiple,
    pure_to_robust,
    range_composition,
    recheck,
    repeat,
    zcdp_composition,
)
from tests.guarantees.cases import answer, given

KINDS = [PureDP(0.1), BoundedRange(0.1), ApproxDP(0.1, 1e-9), ZCDP(0.1)]


def choice(guarantee, n=100):
    return claim(guarantee, ReplaceOne(n), Scope.CHOICE, statement="a search")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_totals_with_a_choice_are_about_a_choice(kind):
    searched = choice(kind)
    assert repeat(searched, 3).scope is Scope.CHOICE
    for other in (searched, answer(kind), given(kind)):
        assert compose([searched, other]).scope is Scope.CHOICE
        made = compose([other, searched], delta=1e-6)
        assert made.scope is Scope.CHOICE
        assert made.answer_count() is None
        recheck(made)


TOTALS = [
    (PureDP(0.1), lambda given: basic_composition(*given, counts=(1, 1))),
    (PureDP(0.1), lambda given: pld_composition(*given, counts=(1, 1), delta=1e-6)),
    (ZCDP(0.1), lambda given: zcdp_composition(*given, counts=(1, 1), delta=1e-6)),
    (PureDP(0.1), lambda given: exact_composition(given[0], counts=(2,), delta=1e-6)),
    (
        BoundedRange(0.1),
        lambda given: range_composition(*given, counts=(1, 1), delta=1e-6),
    ),
    (GaussianDP(0.1), lambda given: gaussian_composition(*given, counts=(1, 1))),
    (PureDP(0.1), lambda given: parallel_composition(*given)),
]


@pytest.mark.parametrize(("kind", "total"), TOTALS)
def test_every_rule_that_adds_up_keeps_the_choice(kind, total):
    made = total([choice(kind), given(kind)])
    assert made.scope is Scope.CHOICE
    assert total([given(kind), given(kind)]).scope is Scope.MODEL
    assert total([answer(kind), answer(kind)]).scope is Scope.INTERFACE
    recheck(made)


@pytest.mark.parametrize(
    "predict",
    [
        prediction_to_expected,
        lambda premise: prediction_to_risk_multiple(premise, beta=0.05),
        lambda premise: dp_to_consistency(premise, rate=0.1),
    ],
)
def test_predictions_are_bounded_by_answers_and_models_alone(predict):
    for allowed in (given, answer):
        recheck(predict(allowed(PureDP(0.1))))
    for searched in (choice(PureDP(0.1)), repeat(choice(PureDP(0.1)), 2)):
        with pytest.raises(RuleError, match="got CHOICE"):
            predict(searched)


def test_a_total_with_a_choice_bounds_no_overfitting():
    total = compose([choice(PureDP(0.1)), given(PureDP(0.1))])
    with pytest.raises(RuleError, match="got CHOICE"):
        pure_to_robust(total, beta=0.05)


def test_what_is_computed_from_a_choice_is_not_what_the_settings_give():
    searched = choice(PureDP(0.1))
    assert post_process(searched, what="a table").scope is Scope.CHOICE
    assert post_process(searched, what="a table", scope="choice") is not None
    for scope in ("answer", "interface", "model"):
        with pytest.raises(RuleError, match="got CHOICE, which promises nothing"):
            post_process(searched, what="answers", scope=scope)
