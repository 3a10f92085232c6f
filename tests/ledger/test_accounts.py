"""Accounts, caps and balances."""

from __future__ import annotations

import pytest

from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    BoundedRange,
    Budget,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
    compose,
    repeat,
    rho_within,
    zcdp_epsilon,
)
from reticent.ledger import AccountId, AccountScope, Balance, Cap, Charge, Method, Spend
from reticent.ledger.cap_changes import successor
from reticent.ledger.units import MAX_UNITS

CLIENT = AccountId(AccountScope.CLIENT, "a")
STEP = claim(PureDP(0.1), ReplaceOne(100), Scope.ANSWER, statement="test")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\x1fb", None, 3])
def test_account_names_are_printable(name):
    with pytest.raises(InvalidParameterError, match="name="):
        AccountId(AccountScope.CLIENT, name)


def test_account_scope_is_one_of_three():
    with pytest.raises(InvalidParameterError, match="scope="):
        AccountId("client", "a")


def test_account_name_round_trips():
    odd = AccountId(AccountScope.DATASET, "café: a:b")
    assert AccountId.parse(str(odd)) == odd


@pytest.mark.parametrize("text", ["", "client", "nobody:a", ":a", "client:"])
def test_account_text_is_checked(text):
    with pytest.raises(InvalidParameterError):
        AccountId.parse(text)


def test_basic_cap_limits_epsilon_and_delta():
    cap = Cap.basic(epsilon=1.0, delta=1e-6)
    assert cap.limits == Spend(10**9, 10**12, MAX_UNITS, MAX_UNITS)
    assert cap.exhausted == Spend(10**9, 10**12, 0, 0)
    assert cap.cost(Charge.of(STEP), 3) == Spend(3 * 10**8, 0, 0, 3)


@pytest.mark.parametrize("slack", [0.0, 5e-7])
def test_zcdp_cap_converts_back_to_its_promise(slack):
    cap = Cap.zcdp(epsilon=1.0, delta=1e-6, slack=slack)
    assert cap.method is Method.ZCDP
    rho = cap.limits.rho / 10**12
    assert zcdp_epsilon(rho, 1e-6 - slack) <= 1.0
    assert zcdp_epsilon(rho * (1 + 1e-6), 1e-6 - slack) > 1.0  # and not much less
    assert cap.limits.delta == round(slack * 10**18)
    assert rho == pytest.approx(rho_within(1.0, 1e-6 - slack), abs=2e-12)


@pytest.mark.parametrize(
    "numbers",
    [
        {"epsilon": 0.0, "delta": 1e-6},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "delta": 1e-6, "slack": 1e-6},
        {"epsilon": 1.0, "delta": 1e-20},
    ],
)
def test_zcdp_cap_needs_room(numbers):
    with pytest.raises(InvalidParameterError, match="zcdp"):
        Cap.zcdp(**numbers)


def test_count_cap_is_for_one_certificate():
    total = repeat(STEP, 500, delta=1e-6)
    cap = Cap.count(total)
    assert cap.limits.answers == 500
    assert cap.certificate == STEP.id
    promised = Balance(CLIENT, cap).as_dict()["promise"]
    assert promised["epsilon"] == pytest.approx(total.guarantee.epsilon, rel=1e-9)
    assert promised["epsilon"] >= total.guarantee.epsilon
    assert cap.cost(Charge.of(STEP), 2) == Spend(0, 0, 0, 2)
    other = Charge.loss(epsilon=0.01, certificate="cheaper")
    with pytest.raises(InvalidParameterError, match="cheaper"):
        cap.cost(other, 1)


def test_count_cap_needs_a_total_of_equal_answers():
    another = claim(PureDP(0.2), ReplaceOne(100), Scope.ANSWER, statement="test")
    rho = claim(ZCDP(0.1), ReplaceOne(100), Scope.ANSWER, statement="test")
    for wrong in (STEP, compose([STEP, another]), repeat(rho, 3)):
        with pytest.raises(InvalidParameterError, match="repeat"):
            Cap.count(wrong)


def test_cap_within_a_budget_chooses_the_method_in_advance():
    assert Cap.within(Budget(1.0)) == Cap.basic(epsilon=1.0)
    assert Cap.within(Budget(1.0, 1e-6)) == Cap.either(epsilon=1.0, delta=1e-6)


def test_a_cap_by_either_sum_keeps_two_parts_of_its_delta():
    cap = Cap.either(epsilon=1.0, delta=1e-6)
    assert (cap.slack, cap.totals) == (5 * 10**10, 5 * 10**10)
    assert cap.limits.rho == int(cap.filter.rho * 10**12)
    assert zcdp_epsilon(cap.limits.rho / 10**12, 9e-7) <= 1.0
    assert cap.budget == Budget(1.0, 1e-6)
    assert Cap.either(epsilon=1.0, delta=1e-6, slack=1e-6).rho == 0
    with pytest.raises(InvalidParameterError, match="parts of delta"):
        Cap.either(epsilon=1.0, delta=1e-6, slack=8e-7, totals=3e-7)
    with pytest.raises(InvalidParameterError, match="epsilon > 0"):
        Cap.either(epsilon=0.0, delta=1e-6)


def test_either_sum_admits_what_fits_it():
    cap = Cap.either(epsilon=1.0, delta=1e-6)
    most = cap.limits.rho
    for spent, allowed in (
        (Spend(10**9, 0, MAX_UNITS, 5), True),
        (Spend(MAX_UNITS, 0, most, 5), True),
        (Spend(10**9 + 1, 0, most + 1, 5), False),
        (Spend(0, cap.slack + 1, 0, 5), False),
    ):
        assert cap.allows(spent) is allowed
    large = Charge.loss(epsilon=0.6, rho=0.18, certificate="large")
    small = Charge.loss(epsilon=0.01, rho=0.00005, certificate="small")
    noise = Charge.loss(rho=0.001, certificate="noise")
    plain = Charge.loss(epsilon=0.25, certificate="plain")
    assert cap.answers_left(large) == 1
    assert cap.answers_left(small) == most // 50_000_000 > 100
    assert cap.answers_left(noise) == most // 10**9
    assert cap.answers_left(plain) == 4
    # What has no epsilon leaves the sum of rhos, and the other way round.
    spent = cap.cost(noise, 1)
    assert spent.epsilon == MAX_UNITS
    assert cap.answers_left(plain, spent) == 0
    assert cap.answers_left(noise, cap.cost(plain, 1)) == 0


def test_a_cap_is_opened_for_answers_with_a_delta():
    charge = Charge.loss(epsilon=0.1, rho=0.005, delta=1e-7, certificate="c")
    budget = Budget(1.0, 1e-6)
    assert Cap.within(budget).answers_left(charge) == 0
    assert Cap.within(budget, charge=charge).answers_left(charge) == 10
    assert Cap.basic(epsilon=1.0, delta=1e-6).answers_left(charge) == 10


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6), Budget(6.0, 1e-9)])
@pytest.mark.parametrize(
    "kind", [PureDP(0.4), PureDP(0.01), BoundedRange(0.5), BoundedRange(0.02)]
)
def test_sharing_costs_a_lone_model_next_to_nothing(budget, kind):
    step = claim(kind, ReplaceOne(100), Scope.ANSWER, statement="test")
    charge, numbers = Charge.of(step), {"epsilon": budget.epsilon}
    alone = [Cap.basic(**numbers).answers_left(charge)]
    if budget.delta:
        alone.append(Cap.zcdp(**numbers, delta=budget.delta).answers_left(charge))
    shared = Cap.within(budget).answers_left(charge)
    assert shared >= alone[0]
    assert shared >= 0.99 * max(alone) - 1


def test_caps_follow_on_each_other():
    basic, zcdp = Cap.basic(epsilon=1.0), Cap.zcdp(epsilon=1.0, delta=1e-6)
    either = Cap.either(epsilon=2.0, delta=1e-6)
    spent = Spend(epsilon=5 * 10**8, answers=5)
    assert successor(basic, zcdp, spent) is None
    assert successor(zcdp, basic, spent) is None
    assert successor(either, Cap.count(repeat(STEP, 5)), spent) is None
    assert successor(basic, either, spent) is None
    assert successor(either, Cap.basic(epsilon=1.0, delta=1e-6), spent) is None
    assert successor(either, Cap.basic(epsilon=1.0, relation="x"), spent) is None
    # Half of the epsilons' square is more than their rhos can be.
    cap, then = successor(either, basic, spent)
    assert cap == either
    assert then == Spend(5 * 10**8, 0, 125 * 10**9, 5)
    cap, then = successor(either, zcdp, Spend(rho=10**9, answers=2))
    assert (cap.slack, cap.totals) == (0, 0)  # as the account was opened
    assert then == Spend(MAX_UNITS, 0, 10**9, 2)
    raised = Cap.either(epsilon=3.0, delta=2e-6)
    cap, then = successor(raised, Cap.either(epsilon=1.0, delta=1e-6, slack=5e-7), then)
    assert (cap.promise, cap.slack) == (raised.promise, 10**12)


@pytest.mark.parametrize("method", Method)
def test_cap_without_limits_is_refused(method):
    with pytest.raises(InvalidParameterError, match="misses a limit"):
        Cap(method=method)


@pytest.mark.parametrize(
    "cap",
    [
        Cap.basic(epsilon=1.0, delta=1e-6, relation="add-remove"),
        Cap.zcdp(epsilon=1.0, delta=1e-6, slack=1e-7),
        Cap.either(epsilon=1.0, delta=1e-6, slack=1e-7),
        Cap.count(repeat(STEP, 5)),
    ],
)
def test_cap_round_trips_through_json(cap):
    again = Cap.from_json(cap.to_json())
    assert again == cap
    assert again.limits == cap.limits
    assert again.same_kind(cap)


def test_caps_of_older_ledgers_are_spelt_as_they_were():
    """Accounts and chains hold these texts, and every start compares them."""
    rest = '"relation":"replace-one"'
    start = '{"answers":null,"certificate":null,"delta":1000000000000,'
    for cap, text in (
        (
            Cap.basic(epsilon=1.0, delta=1e-6),
            f'{start}"epsilon":1000000000,"method":"basic",{rest},"rho":null,"slack":0}}',
        ),
        (
            Cap.zcdp(epsilon=1.0, delta=1e-6, slack=1e-7),
            f'{start}"epsilon":1000000000,"method":"zcdp",{rest},"rho":24129622344,'
            '"slack":100000000000}',
        ),
        (
            Cap.count(repeat(STEP, 5)),
            f'{{"answers":5,"certificate":"{STEP.id}","delta":0,"epsilon":500000000,'
            f'"method":"count",{rest},"rho":null,"slack":0}}',
        ),
    ):
        assert cap.to_json() == text
        assert Cap.from_json(text) == cap


def test_cap_refuses_hostile_units():
    with pytest.raises(InvalidParameterError, match="answers="):
        Cap(method=Method.COUNT, answers=-1, certificate="c")


def test_balance_says_what_is_left():
    spent = Spend(epsilon=3 * 10**8, answers=3)
    balance = Balance(CLIENT, Cap.basic(epsilon=1.0), spent)
    assert balance.remaining == Spend(epsilon=7 * 10**8)
    assert balance.answers_left(Charge.of(STEP)) == 7
    assert balance.as_dict() == {
        "account": "client:a",
        "method": "basic",
        "spent": {"epsilon": 0.3, "delta": 0.0},
        "cap": {"epsilon": 1.0, "delta": 0.0},
        "promise": {"epsilon": 1.0, "delta": 0.0},
        "answers": 3,
    }
    assert str(balance) == "client:a: epsilon 0.3 of 1, delta 0 of 0"


def test_balances_of_other_methods_print():
    zcdp = Balance(CLIENT, Cap.zcdp(epsilon=1.0, delta=1e-6), Spend(rho=5 * 10**9))
    assert "rho 0.005 of" in str(zcdp)
    bounded = claim(BoundedRange(0.1), ReplaceOne(9), Scope.ANSWER, statement="test")
    assert zcdp.answers_left(Charge.of(bounded)) > zcdp.answers_left(Charge.of(STEP))
    count = Balance(CLIENT, Cap.count(repeat(STEP, 5)), Spend(answers=2))
    assert str(count) == "client:a: answers 2 of 5"
    rho = claim(ZCDP(0.1), ReplaceOne(9), Scope.ANSWER, statement="test")
    either = Cap.either(epsilon=1.0, delta=1e-6)
    spent = Spend(10**8, 0, 5 * 10**9, 1)
    shown = str(Balance(CLIENT, either, spent))
    assert shown.startswith("client:a: epsilon 0.1 of 1 or rho 0.005 of 0.024")
    unknown = Balance(CLIENT, either, spent._replace(epsilon=MAX_UNITS))
    assert str(unknown).startswith("client:a: rho 0.005 of 0.024")
    assert unknown.as_dict()["spent"]["epsilon"] is None
    assert unknown.share[1] == "rho"
    unpromised = Cap(method=Method.ZCDP, rho=Charge.of(rho).rho)
    assert Balance(CLIENT, unpromised).as_dict()["promise"]["epsilon"] is None


@pytest.mark.parametrize("answers", [1, 7, 100])
@pytest.mark.parametrize("method", ["basic", "zcdp"])
def test_sums_are_never_optimistic(method, answers):
    # What the account says was spent covers the certificates' sum.
    cap = (
        Cap.basic(epsilon=100.0)
        if method == "basic"
        else Cap.zcdp(epsilon=9.0, delta=1e-6)
    )
    step = claim(PureDP(1 / 3), ReplaceOne(9), Scope.ANSWER, statement="test")
    spent = Balance(CLIENT, cap, cap.cost(Charge.of(step), answers)).as_dict()["spent"]
    if method == "basic":
        assert spent["epsilon"] >= repeat(step, answers).guarantee.epsilon
    else:
        assert spent["rho"] >= answers * (1 / 3) ** 2 / 2
