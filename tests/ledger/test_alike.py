"""Charges that are decided together: the same chain as one by one."""

from __future__ import annotations

import asyncio

import pytest

from reticent.errors import (
    BudgetExhaustedError,
    IdempotencyKeyReusedError,
    InvalidParameterError,
    ReticentError,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Checkpoint,
    MemoryLedger,
    Outcome,
    RequestForm,
    alike,
    decisions,
)
from reticent.ledger.operations import charging, charging_all, decide
from reticent.ledger.state import LedgerState
from reticent.signing import HMACSigner
from tests.ledger.accounts_and_requests import (
    ALICE,
    BOB,
    DATASET,
    MEMORY,
    MODEL,
    TENTH,
    asking,
    nano,
    opened,
)


def a_state(epsilon=1.0, cap=Cap.basic):
    """Return a state in which "old" was asked and answered, and a key was used."""
    state = LedgerState()
    for account in (DATASET, MODEL, ALICE, BOB):
        decisions.open_account(state, account, cap(epsilon=epsilon))
    receipt = decisions.charge(state, asking("used", b"old", memory=MEMORY))
    decisions.settle(state, receipt, [b"answer"])
    return state


def one_by_one(state, requests):
    return [decide(state, [charging(request)])[0] for request in requests]


def together(state, requests):
    return decide(state, [charging(request) for request in requests])


def facts(result):
    if isinstance(result, Exception):
        return type(result), str(result)
    return result.outcome, result.draw, result.places, result.answers, result.accounts


def either(epsilon):
    return Cap.either(epsilon=epsilon, delta=1e-6)


FRESH = [asking(f"k{n}", b"%d" % n, memory=MEMORY) for n in range(5)]
CASES = {
    "fresh": FRESH,
    "without memory": [asking(f"k{n}", b"%d" % n) for n in range(4)],
    "two clients": [
        asking(f"k{n}", b"%d" % n, client=who, memory=MEMORY)
        for n, who in enumerate((ALICE, ALICE, BOB, BOB, ALICE))
    ],
    "equal queries": [asking(f"k{n}", b"same", memory=MEMORY) for n in range(3)],
    "several queries": [*FRESH[:2], asking("two", b"a", b"b", memory=MEMORY)],
}


@pytest.fixture(autouse=True)
def one_moment(monkeypatch):
    """Entries hold the time; let it stand still."""
    monkeypatch.setattr(alike, "seconds", lambda: 1_700_000_000)
    monkeypatch.setattr(decisions, "seconds", lambda: 1_700_000_000)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cap", [Cap.basic, either], ids=["basic", "either"])
def test_the_chain_is_that_of_one_by_one(case, cap):
    alone, joined = a_state(cap=cap), a_state(cap=cap)
    expected, found = one_by_one(alone, CASES[case]), together(joined, CASES[case])
    assert joined.written == alone.written  # every field, every hash
    assert joined.accounts == alone.accounts
    assert list(map(facts, found)) == list(map(facts, expected))


def test_a_receipt_shows_the_accounts_after_the_whole_commit():
    state = a_state()
    found = together(state, FRESH)
    assert {receipt.answers_left for receipt in found} == {4}  # 10 less 1 less 5
    assert found[0].remaining == tuple(
        state.accounts[str(account)] for account in (DATASET, MODEL, ALICE)
    )


def test_what_is_not_new_is_decided_as_ever():
    state = a_state()
    requests = [
        asking("a", b"1", memory=MEMORY),
        asking("used", b"old", memory=MEMORY),  # a retry
        asking("b", b"old", memory=MEMORY),  # remembered: free for those who paid
        asking("a", b"1", memory=MEMORY),  # the same key twice in one commit
        asking("c", b"2", memory=MEMORY),
    ]
    found = together(state, requests)
    assert [receipt.outcome for receipt in found] == [
        Outcome.DRAW,
        Outcome.ANSWERED,
        Outcome.ANSWERED,
        Outcome.SPENT,
        Outcome.DRAW,
    ]
    assert found[1].answers == found[2].answers == (b"answer",)
    assert state.accounts[str(ALICE)].spent.answers == 3  # used, a and c


def test_a_cap_refuses_those_that_do_not_fit():
    state = a_state(epsilon=0.4)  # "used" took the first of four
    found = together(state, FRESH)
    refused = [isinstance(each, BudgetExhaustedError) for each in found]
    assert refused == [False, False, False, True, True]
    assert state.accounts[str(DATASET)].spent.answers == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"charge": Charge.loss(epsilon=0.1, certificate="c", relation="add-remove")},
        {"charge": Charge.loss(rho=0.1, certificate="c")},
        {"accounts": (DATASET, AccountId(AccountScope.CLIENT, "nobody"))},
    ],
    ids=["relation", "kind of loss", "account"],
)
def test_what_no_account_can_count_is_refused_and_the_others_are_charged(wrong):
    """A refusal is a result: it must not become an error of the whole commit."""
    state = a_state()
    bad = [asking(f"bad{n}", b"%d" % n, memory=MEMORY, **wrong) for n in range(2)]
    found = together(state, [*FRESH[:2], *bad, *FRESH[2:4]])
    assert [isinstance(each, ReticentError) for each in found] == [
        *(False, False),
        *(True, True),
        *(False, False),
    ]
    assert state.accounts[str(ALICE)].spent.answers == 5


def test_a_form_makes_the_same_requests():
    accounts = (DATASET, MODEL, ALICE)
    for memory in (MEMORY, None):
        form = RequestForm(accounts, TENTH, memory)
        for queries in ([b"one"], [b"one", b"two"]):
            made = form.filled("key", queries, record=True)
            assert made == asking("key", *queries, memory=memory)
            assert (
                made.fingerprint == asking("key", *queries, memory=memory).fingerprint
            )
    with pytest.raises(InvalidParameterError, match="n_queries=0"):
        form.filled("key", [], record=True)
    with pytest.raises(InvalidParameterError, match="idempotency key"):
        form.filled("a b", [b"one"], record=True)
    with pytest.raises(InvalidParameterError, match="different"):
        RequestForm((ALICE, ALICE), TENTH, None)


def test_callers_that_do_not_wait_are_called_with_receipt_or_error(ledger):
    opened(ledger, epsilon=0.2)
    found, asked = [], [asking(f"k{n}", b"%d" % n, memory=MEMORY) for n in range(4)]

    def draw(pairs):
        return [[b"drawn"] for _ in pairs]

    def fails(result):
        raise RuntimeError("a caller that fails")

    async def ask_all():
        loop, heard = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: heard.append(context))
        if not isinstance(ledger, MemoryLedger):  # called at once, so it sees the error
            ledger.answer_then(asking("x", b"x", memory=MEMORY), draw, None, fails)
        for request in asked:
            ledger.answer_then(request, draw, None, found.append)
        while len(found) < len(asked):
            await asyncio.sleep(0.001)
        return heard

    heard = asyncio.run(ask_all())
    errors = [each for each in found if isinstance(each, BudgetExhaustedError)]
    answers = [each.answers for each in found if not isinstance(each, Exception)]
    paid = 2 - len(heard)
    assert len(heard) == (not isinstance(ledger, MemoryLedger))
    assert answers == [(b"drawn",)] * paid
    assert len(errors) == 4 - paid
    assert nano(ledger, DATASET) == 200_000_000


def answered_together(ledger, requests, draw, then=None):
    """Have requests answered that came together; return what became of each."""
    found = {}

    def told(about, result):
        found[about] = result
        if then is not None:
            then(about)

    async def ask():
        loop, heard = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: heard.append(context))
        asked = [(request, number) for number, request in enumerate(requests)]
        ledger.answer_all(asked, draw, told)
        while len(found) < len(requests):
            await asyncio.sleep(0.001)
        return heard

    heard = asyncio.run(ask())
    return [found[number] for number in range(len(requests))], heard


def echo(pairs):
    return [[b"for %d" % about] for about, _ in pairs]


MIXED = [
    asking("a", b"1", memory=MEMORY),
    asking("used", b"old", memory=MEMORY),  # a retry
    asking("b", b"old", memory=MEMORY),  # remembered
    asking("used", b"other", memory=MEMORY),  # another request with the same key
    asking("c", b"2", client=BOB, memory=MEMORY),
    asking("d", b"3", memory=MEMORY),
    asking("e", b"4", memory=MEMORY),  # no longer covered
]


def test_requests_that_came_together_are_answered_each_for_itself(ledger):
    opened(ledger, epsilon=0.4)
    first = ledger.charge(asking("used", b"old", memory=MEMORY))
    ledger.settle(first, [b"before"])
    found, _ = answered_together(ledger, MIXED, echo)
    told = [type(x) if isinstance(x, Exception) else x.answers for x in found]
    assert told == [
        (b"for 0",),
        (b"before",),
        (b"before",),
        IdempotencyKeyReusedError,
        (b"for 4",),
        (b"for 5",),
        BudgetExhaustedError,
    ]
    assert all(isinstance(x, Exception) or x.outcome is Outcome.ANSWERED for x in found)
    assert nano(ledger, DATASET) == 400_000_000
    assert ledger.verify().answers == 4


def test_one_caller_that_fails_does_not_silence_the_others(sqlite_url, open_ledger):
    ledger = opened(open_ledger(sqlite_url, largest_commit=2))

    def then(about):
        if about == 1:
            raise RuntimeError("a caller that fails")

    requests = [asking(f"k{n}", b"%d" % n, memory=MEMORY) for n in range(5)]
    found, heard = answered_together(ledger, requests, echo, then)
    told = [receipt.answers for receipt in found]
    assert told == [(b"for %d" % n,) for n in range(5)]
    assert len(heard) == 1


def test_answers_that_cannot_be_drawn_are_an_error_for_those_who_need_them(ledger):
    opened(ledger)
    first = ledger.charge(asking("used", b"old", memory=MEMORY))
    ledger.settle(first, [b"before"])

    def fails(pairs):
        raise RuntimeError("a model that fails")

    found, _ = answered_together(ledger, MIXED[:3], fails)
    assert isinstance(found[0], RuntimeError)
    assert [receipt.answers for receipt in found[1:]] == [(b"before",)] * 2
    assert ledger.charge(MIXED[0]).outcome is Outcome.SPENT  # never drawn again


def test_a_checkpoint_covers_what_is_seen_beside_answers_that_cannot_be_drawn(
    sql_url, open_ledger, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    place, key = tmp_path / "elsewhere" / "checkpoint.json", b"k" * 32
    ledger = opened(open_ledger(sql_url, checkpoints=place, signer=key))
    first = ledger.charge(asking("used", b"old", memory=MEMORY))
    ledger.settle(first, [b"before"])

    def fails(pairs):
        raise RuntimeError("a model that fails")

    # Bob pays to see what Alice asked, in one commit with what is never drawn.
    seen = asking("b", b"old", client=BOB, memory=MEMORY)
    asked = [seen, asking("c", b"new", client=BOB, memory=MEMORY)]
    found, _ = answered_together(ledger, asked, fails)
    assert found[0].answers == (b"before",)
    assert isinstance(found[1], RuntimeError)
    signed = Checkpoint.from_bytes(place.read_bytes(), HMACSigner(key))
    assert signed.reached.sequence >= found[0].sequence


@pytest.mark.parametrize("case", CASES)
def test_the_chain_of_requests_that_came_together_is_that_of_one_by_one(case):
    alone, joined = a_state(), a_state()
    expected = one_by_one(alone, CASES[case])
    operation = charging_all([(request, None) for request in CASES[case]], echo)
    (found,) = decide(joined, [operation])
    assert joined.written == alone.written
    assert list(map(facts, found)) == list(map(facts, expected))
    assert set(operation.needs.requests) == {request.key for request in CASES[case]}
