"""Epsilon and delta of a promise: what a reader sees, and that it follows."""

import math

import pytest

from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Budget,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    Stated,
    bounded_range_to_zcdp,
    claim,
    gaussian_epsilon,
    gaussian_to_zcdp,
    in_plain_words,
    pure_to_zcdp,
    repeat,
    rules,
    stated,
    zcdp_composition,
    zcdp_epsilon,
)
from reticent.guarantees.stated import _IN_OTHER_WORDS


def certified(guarantee, scope=Scope.MODEL):
    return claim(guarantee, ReplaceOne(100), scope, statement="a test")


@pytest.mark.parametrize(
    ("promise", "text"),
    [
        (PureDP(0.25), "ε = 0.25"),
        (BoundedRange(0.5), "ε = 0.5"),
        (ApproxDP(0.999999, 1e-6), "ε = 1, δ = 1e-6"),
        (ApproxDP(1.0801, 2.5e-7), "ε = 1.09, δ = 2.5e-7"),
        (Budget(4.0, 1e-5), "ε = 4, δ = 1e-5"),
        (Budget(50.0), "ε = 50"),
        (PureDP(0.0), "ε = 0"),
    ],
)
def test_a_promise_has_one_text(promise, text):
    assert str(stated(promise)) == text
    assert in_plain_words(promise).startswith(f"{text}. Whoever")
    if not isinstance(promise, Budget):
        assert stated(certified(promise)) == stated(promise)


def test_delta_is_the_one_asked_for_or_the_usual_one():
    assert stated(ZCDP(0.02)) == (zcdp_epsilon(0.02, 1e-6), 1e-6)
    assert stated(GaussianDP(0.2), delta=1e-5) == (gaussian_epsilon(0.2, 1e-5), 1e-5)
    # A promise with its own delta keeps it.
    assert stated(ApproxDP(1.0, 1e-3), delta=1e-6) == (1.0, 1e-3)


def test_other_words_for_the_same_release_do_not_weaken_what_is_said():
    noise = certified(GaussianDP(0.2))
    exact = gaussian_epsilon(0.2, 1e-6)
    assert stated(gaussian_to_zcdp(noise)) == Stated(exact, 1e-6)
    assert exact < zcdp_epsilon(0.02, 1e-6)  # what zCDP alone says
    assert stated(pure_to_zcdp(certified(PureDP(1.0)))) == Stated(1.0)
    assert stated(bounded_range_to_zcdp(certified(BoundedRange(1.0)))).epsilon <= 1.0


def test_many_equal_answers_are_stated_as_one_who_repeats_them_is_told():
    one = certified(BoundedRange(0.1), Scope.ANSWER)
    together = zcdp_composition(one, counts=[40], answers=40)
    best = repeat(one, 40, delta=1e-6).guarantee
    assert stated(together).epsilon == pytest.approx(best.epsilon, rel=0.05)
    assert stated(together).epsilon < stated(together.guarantee).epsilon


def test_a_step_that_costs_more_is_not_passed_over():
    """The premise of any other rule says less about the conclusion: it is not read."""
    whole = certified(GaussianDP(0.2))
    twice = rules["G24-compose"].apply(whole, counts=[4])
    assert stated(twice).epsilon == pytest.approx(gaussian_epsilon(0.4, 1e-6))
    for name in _IN_OTHER_WORDS - {"M6"}:
        given = PureDP(0.3) if "GaussianDP" not in str(rules[name].takes) else None
        made = certified(given or GaussianDP(0.3))
        if name == "G2-zcdp":
            made = certified(BoundedRange(0.3))
        after = rules[name].apply(made)
        # Same release and relation: whatever bounds one bounds the other.
        assert (after.scope, after.relation) == (made.scope, made.relation)


def test_what_is_not_about_privacy_has_no_epsilon():
    assert stated(Sensitivity(l1=1.0, l2=1.0)) is None
    assert stated(certified(Sensitivity(l1=1.0, l2=1.0))) is None


def test_numbers_for_programs_are_not_rounded():
    found = stated(ZCDP(0.02)).as_dict()
    assert found["epsilon"] == zcdp_epsilon(0.02, 1e-6)
    assert found["text"] == str(stated(ZCDP(0.02)))
    assert math.isinf(Stated(math.inf).epsilon)
    assert str(Stated(math.inf)) == "ε = inf"
