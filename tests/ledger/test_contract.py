"""What every ledger promises, tested on each of them."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reticent.errors import (
    BudgetExhaustedError,
    IdempotencyKeyReusedError,
    InvalidParameterError,
    LedgerError,
    RelationMismatchError,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    Outcome,
    Spend,
    newest_first,
)
from reticent.ledger.units import MAX_UNITS
from tests.ledger.accounts_and_requests import (
    ALICE,
    BOB,
    DATASET,
    EVERYBODY,
    MEMORY,
    MODEL,
    TENTH,
    asking,
    nano,
    opened,
)

UNIT = 10**8  # nano-epsilon in one tenth


def spent(ledger: Ledger) -> list[int]:
    return [nano(ledger, account) // UNIT for account in EVERYBODY]


def answer(ledger: Ledger, request, *answers: bytes):
    receipt = ledger.charge(request)
    assert receipt.outcome is Outcome.DRAW
    return ledger.settle(receipt, answers)


def test_it_is_a_ledger(ledger):
    assert isinstance(ledger, Ledger)


def test_charge_touches_every_account_and_no_other(ledger):
    opened(ledger)
    receipt = ledger.charge(asking("k"))
    assert spent(ledger) == [1, 1, 1, 0]
    assert receipt.outcome is Outcome.DRAW
    assert receipt.draw == (0,)
    assert receipt.accounts == {
        str(account): Spend(UNIT, 0, 0, 1) for account in (DATASET, MODEL, ALICE)
    }
    assert [balance.spent.epsilon for balance in receipt.remaining] == [UNIT] * 3


def test_receipt_names_the_entry_in_the_chain(ledger):
    opened(ledger)
    receipt = ledger.charge(asking("k"))
    (entry,) = [entry for entry in ledger.entries() if entry.kind == "charge"]
    assert (receipt.sequence, receipt.entry_hash) == (entry.sequence, entry.hash)
    assert (entry.request, dict(entry.costs())) == ("k", dict(receipt.accounts))


def test_a_key_is_known_once_it_is_charged(ledger):
    opened(ledger)
    assert not ledger.charged("k1")
    ledger.charge(asking("k1"))
    assert ledger.charged("k1")
    assert not ledger.charged("k2")


def test_ten_tenths_fit_a_budget_of_one_and_eleven_do_not(ledger):
    opened(ledger)
    for number in range(10):
        ledger.charge(asking(f"k{number}"))
    with pytest.raises(BudgetExhaustedError, match="1 more answer at"):
        ledger.charge(asking("k10"))
    assert spent(ledger) == [10, 10, 10, 0]


def test_refusal_of_one_account_charges_none(ledger):
    opened(ledger, income=0.3)
    for number in range(3):
        ledger.charge(asking(f"k{number}"))
    before = [balance.as_dict() for balance in ledger.balances()]
    entries = ledger.verify().entries
    with pytest.raises(BudgetExhaustedError, match="model:income@3"):
        ledger.charge(asking("k3"))
    assert [balance.as_dict() for balance in ledger.balances()] == before
    assert ledger.verify().entries == entries


def test_refused_key_may_be_used_when_the_cap_is_raised(ledger):
    opened(ledger, alice=0.0)
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(asking("k"))
    ledger.set_cap(ALICE, Cap.basic(epsilon=1.0))
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW


def test_batch_is_charged_whole_or_not_at_all(ledger):
    opened(ledger)
    with pytest.raises(BudgetExhaustedError, match="Ask for at most 10"):
        ledger.charge(asking("k", *(bytes([i]) for i in range(11))))
    assert spent(ledger) == [0, 0, 0, 0]
    receipt = ledger.charge(asking("k", *(bytes([i]) for i in range(10))))
    assert receipt.draw == tuple(range(10))
    assert spent(ledger) == [10, 10, 10, 0]


def test_retry_before_the_answer_is_spent_without_result(ledger):
    opened(ledger)
    first = ledger.charge(asking("k"))
    again = ledger.charge(asking("k"))
    assert again.outcome is Outcome.SPENT
    assert (again.draw, again.answers) == ((), (None,))
    assert (again.sequence, again.entry_hash) == (first.sequence, first.entry_hash)
    assert spent(ledger) == [1, 1, 1, 0]


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_retry_after_the_answer_replays_the_same_bytes(ledger, memory):
    opened(ledger)
    request = asking("k", b"x", b"y", memory=memory)
    first = answer(ledger, request, b"yes", b"\x00\xff")
    again = ledger.charge(request)
    assert first.answers == again.answers == (b"yes", b"\x00\xff")
    assert again.outcome is Outcome.ANSWERED
    assert again.sequence == first.sequence
    assert spent(ledger) == [2, 2, 2, 0]


@pytest.mark.parametrize(
    "other",
    [
        {"queries": (b"other",)},
        {"accounts": (DATASET, MODEL, BOB)},
        {"charge": Charge.loss(epsilon=0.2, certificate="tenth")},
        {"charge": Charge.loss(epsilon=0.1, certificate="another")},
        {"memory": MEMORY},
    ],
)
def test_key_of_another_request_is_refused(ledger, other):
    opened(ledger)
    ledger.charge(asking("k"))
    with pytest.raises(InvalidParameterError, match="different request"):
        ledger.charge(asking("k", **other))
    assert spent(ledger) == [1, 1, 1, 0]


def test_answer_is_stored_once(ledger):
    opened(ledger)
    receipt = ledger.charge(asking("k"))
    ledger.settle(receipt, [b"yes"])
    assert ledger.settle(receipt, [b"yes"]).answers == (b"yes",)
    with pytest.raises(LedgerError, match="drawn once"):
        ledger.settle(receipt, [b"no"])
    assert ledger.charge(asking("k")).answers == (b"yes",)


@pytest.mark.parametrize("answers", [[], [b"a", b"b"], ["text"], [b"x" * (2**20 + 1)]])
def test_answers_that_do_not_fit_are_refused(ledger, answers):
    opened(ledger)
    receipt = ledger.charge(asking("k"))
    with pytest.raises(InvalidParameterError, match="answers"):
        ledger.settle(receipt, answers)


def test_receipt_of_another_ledger_is_refused(ledger):
    opened(ledger)
    receipt = ledger.charge(asking("k"))
    for strange in ({"entry_hash": "0" * 64}, {"sequence": 999}, {"sequence": None}):
        with pytest.raises(LedgerError, match="not of this ledger"):
            ledger.settle(receipt._replace(**strange), [b"yes"])


def test_finished_receipt_takes_no_more_answers(ledger):
    opened(ledger)
    done = answer(ledger, asking("k"), b"yes")
    with pytest.raises(InvalidParameterError):
        ledger.settle(done, [b"yes"])


def test_repeated_query_is_free_for_those_who_paid(ledger):
    opened(ledger)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    entries = ledger.verify().entries
    again = ledger.charge(asking("k2", b"x", memory=MEMORY, record=False))
    assert (again.outcome, again.answers) == (Outcome.ANSWERED, (b"yes",))
    assert (again.sequence, again.entry_hash, again.accounts) == (None, None, {})
    assert spent(ledger) == [1, 1, 1, 0]
    assert ledger.verify().entries == entries


def test_key_of_a_free_answer_is_recorded(ledger):
    opened(ledger)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    free = asking("k2", b"x", memory=MEMORY)
    first = ledger.charge(free)
    assert (first.outcome, first.accounts) == (Outcome.ANSWERED, {})
    assert first.sequence is not None
    with pytest.raises(IdempotencyKeyReusedError):
        ledger.charge(asking("k2", b"y", memory=MEMORY))
    again = ledger.charge(free)
    assert (again.sequence, again.answers) == (first.sequence, (b"yes",))
    assert ledger.charged("k2")
    assert spent(ledger) == [1, 1, 1, 0]
    ledger.verify()


def test_client_who_sees_an_answer_first_pays_alone(ledger):
    opened(ledger)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    view = ledger.charge(asking("k2", b"x", client=BOB, memory=MEMORY))
    assert (view.outcome, view.answers) == (Outcome.ANSWERED, (b"yes",))
    assert view.accounts == {str(BOB): Spend(UNIT, 0, 0, 1)}
    assert spent(ledger) == [1, 1, 1, 1]
    for key in ("k2", "k3"):  # a retry, and the same question once more
        again = ledger.charge(asking(key, b"x", client=BOB, memory=MEMORY))
        assert again.answers == (b"yes",)
    assert spent(ledger) == [1, 1, 1, 1]


def test_client_without_budget_sees_no_remembered_answer(ledger):
    opened(ledger, bob=0.0)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    with pytest.raises(BudgetExhaustedError, match="client:bob"):
        ledger.charge(asking("k2", b"x", client=BOB, memory=MEMORY))


def test_remembered_answer_outlives_the_dataset_budget(ledger):
    opened(ledger, adult=0.1)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    assert ledger.charge(asking("k2", b"x", memory=MEMORY)).answers == (b"yes",)
    view = ledger.charge(asking("k3", b"x", client=BOB, memory=MEMORY))
    assert view.answers == (b"yes",)
    with pytest.raises(BudgetExhaustedError, match="dataset:adult@1"):
        ledger.charge(asking("k4", b"y", memory=MEMORY))


def test_remembered_answer_outlives_a_lowered_cap(ledger):
    opened(ledger)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    answer(ledger, asking("k2", b"y", memory=MEMORY), b"no")
    view = ledger.charge(asking("k3", b"x", client=BOB, memory=MEMORY))
    assert view.outcome is Outcome.ANSWERED
    before = ledger.balances()
    for account in (DATASET, ALICE, BOB):
        ledger.set_cap(account, Cap.basic(epsilon=0.05))  # half of what one costs
    for client in (ALICE, BOB):
        again = ledger.charge(asking(f"{client}-1", b"x", client=client, memory=MEMORY))
        assert (again.outcome, again.answers) == (Outcome.ANSWERED, (b"yes",))
        assert again.accounts == {}
    replayed = ledger.charge(asking("k2", b"y", memory=MEMORY))
    assert replayed.answers == (b"no",)
    # What is new to an account is refused, whoever else has paid for it.
    for client, query in ((ALICE, b"z"), (BOB, b"y"), (BOB, b"z")):
        with pytest.raises(BudgetExhaustedError):
            ledger.charge(asking("new", query, client=client, memory=MEMORY))
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(asking("mixed", b"x", b"z", memory=MEMORY))
    assert [b.spent for b in ledger.balances()] == [b.spent for b in before]
    ledger.verify()


@pytest.mark.parametrize(
    "other",
    [
        {"memory": "adult@1/income@4"},
        {"memory": None},
        {"charge": Charge.loss(epsilon=0.2, certificate="tenth")},
        {"charge": Charge.loss(epsilon=0.1, certificate="another")},
    ],
)
def test_memory_is_of_one_model_and_one_charge(ledger, other):
    opened(ledger)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"yes")
    fields = {"memory": MEMORY, **other}
    assert ledger.charge(asking("k2", b"x", **fields)).outcome is Outcome.DRAW


def test_lost_answer_is_not_remembered_and_a_new_key_pays_again(ledger):
    opened(ledger)
    ledger.charge(asking("k1", b"x", memory=MEMORY))  # and no answer
    assert ledger.charge(asking("k1", b"x", memory=MEMORY)).outcome is Outcome.SPENT
    answer(ledger, asking("k2", b"x", memory=MEMORY), b"second")
    assert spent(ledger) == [2, 2, 2, 0]
    third = ledger.charge(asking("k3", b"x", memory=MEMORY))
    assert third.answers == (b"second",)


def test_two_draws_of_one_query_are_both_paid_and_the_first_answer_stays(ledger):
    opened(ledger)
    alice = ledger.charge(asking("a", b"x", memory=MEMORY))
    bob = ledger.charge(asking("b", b"x", client=BOB, memory=MEMORY))
    assert spent(ledger) == [2, 2, 1, 1]
    assert ledger.settle(bob, [b"bob's"]).answers == (b"bob's",)
    assert ledger.settle(alice, [b"alice's"]).answers == (b"alice's",)
    assert ledger.charge(asking("a", b"x", memory=MEMORY)).answers == (b"alice's",)
    # The remembered release is Bob's; Alice paid for her own, not for that one.
    seen = ledger.charge(asking("a2", b"x", memory=MEMORY))
    assert seen.answers == (b"bob's",)
    assert spent(ledger) == [2, 2, 2, 1]


def test_mixed_batch_pays_for_what_is_new_to_each(ledger):
    opened(ledger)
    answer(ledger, asking("k1", b"x", b"y", memory=MEMORY), b"X", b"Y")
    ledger.charge(asking("k2", b"x", client=BOB, memory=MEMORY))
    batch = asking("k3", b"z", b"x", b"y", b"z", b"y", client=BOB, memory=MEMORY)
    receipt = ledger.charge(batch)
    # Everybody pays for z; Bob pays for y; he paid for x before.
    assert spent(ledger) == [3, 3, 2, 3]
    assert receipt.draw == (0,)
    assert receipt.answers == (None, b"X", b"Y", None, b"Y")
    done = ledger.settle(receipt, [b"Z"])
    assert done.answers == (b"Z", b"X", b"Y", b"Z", b"Y")
    assert ledger.charge(batch).answers == done.answers
    assert spent(ledger) == [3, 3, 2, 3]


def test_lost_batch_gives_nothing_back(ledger):
    opened(ledger)
    answer(ledger, asking("k1", b"x", memory=MEMORY), b"X")
    batch = asking("k2", b"x", b"y", memory=MEMORY)
    ledger.charge(batch)
    assert ledger.charge(batch).answers == (None, None)


def test_without_memory_every_question_is_drawn_and_paid(ledger):
    opened(ledger)
    receipt = ledger.charge(asking("k", b"x", b"x"))
    assert receipt.draw == (0, 1)
    assert ledger.settle(receipt, [b"1", b"2"]).answers == (b"1", b"2")
    assert ledger.charge(asking("k", b"x", b"x")).answers == (b"1", b"2")
    assert spent(ledger) == [2, 2, 2, 0]


def test_many_keys_do_not_multiply_the_budget(ledger):
    # 1,000 clients, one dataset cap of B = 1 at eps = 0.1.
    ledger.open_account(DATASET, Cap.basic(epsilon=1.0))

    def one_client(number: int) -> bool:
        client = AccountId(AccountScope.CLIENT, f"client-{number}")
        ledger.open_account(client, Cap.basic(epsilon=1.0))
        request = asking(f"k{number}", accounts=(DATASET, client))
        try:
            return ledger.charge(request).outcome is Outcome.DRAW
        except BudgetExhaustedError:
            return False

    with ThreadPoolExecutor(64) as pool:
        draws = sum(pool.map(one_client, range(1000)))
    assert draws == 10
    assert nano(ledger, DATASET) == 10 * UNIT


def test_account_opens_once(ledger):
    cap = Cap.basic(epsilon=1.0)
    assert ledger.open_account(ALICE, cap) == ledger.open_account(ALICE, cap)
    assert ledger.verify().entries == 2
    with pytest.raises(InvalidParameterError, match="set_cap"):
        ledger.open_account(ALICE, Cap.basic(epsilon=2.0))


def test_cap_changes_on_record_and_keeps_what_was_spent(ledger):
    opened(ledger)
    ledger.charge(asking("k"))
    raised = ledger.set_cap(ALICE, Cap.basic(epsilon=2.0))
    assert raised == ledger.set_cap(ALICE, Cap.basic(epsilon=2.0))
    assert raised.spent.epsilon == UNIT
    lowered = ledger.set_cap(ALICE, Cap.basic(epsilon=0.05))
    assert lowered.remaining == Spend()
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(asking("k2"))
    assert [entry.kind for entry in ledger.entries()].count("cap") == 2
    ledger.verify()


def test_method_of_an_account_is_fixed(ledger):
    opened(ledger)
    with pytest.raises(InvalidParameterError, match="method is fixed"):
        ledger.set_cap(ALICE, Cap.zcdp(epsilon=1.0, delta=1e-6))
    with pytest.raises(InvalidParameterError, match="method is fixed"):
        ledger.set_cap(ALICE, Cap.basic(epsilon=1.0, relation="add-remove"))


def test_unknown_account_is_named(ledger):
    with pytest.raises(InvalidParameterError, match="dataset:adult@1"):
        ledger.charge(asking("k"))
    with pytest.raises(InvalidParameterError, match="client:alice"):
        ledger.balance(ALICE)
    with pytest.raises(InvalidParameterError, match="client:alice"):
        ledger.set_cap(ALICE, Cap.basic(epsilon=1.0))


def test_zcdp_account_counts_rho(ledger):
    cap = Cap.zcdp(epsilon=1.0, delta=1e-6, slack=1e-7)
    ledger.open_account(DATASET, cap)
    charge = Charge.loss(epsilon=0.1, delta=6e-8, rho=0.005, certificate="c")
    request = asking("k", accounts=(DATASET,), charge=charge)
    ledger.charge(request)
    assert ledger.balance(DATASET).spent == Spend(0, 6 * 10**10, 5 * 10**9, 1)
    with pytest.raises(BudgetExhaustedError):  # delta: 1.2e-7 > 1e-7
        ledger.charge(asking("k2", accounts=(DATASET,), charge=charge))


def test_either_account_counts_both_ways(ledger):
    cap = Cap.either(epsilon=1.0, delta=1e-6)
    ledger.open_account(DATASET, cap)

    def ask(key, charge, times=1):
        queries = [f"{key}{n}".encode() for n in range(times)]
        return ledger.charge(asking(key, *queries, accounts=(DATASET,), charge=charge))

    tenth = Charge.loss(epsilon=0.1, rho=0.00125, certificate="soft")
    large = Charge.loss(epsilon=0.5, rho=0.125, certificate="large")
    noise = Charge.loss(rho=0.001, certificate="noise")
    approximate = Charge.loss(epsilon=0.01, delta=4e-8, rho=5e-5, certificate="delta")
    ask("a", large)  # its rho is more than the cap holds, its epsilon is not
    assert ledger.balance(DATASET).spent == Spend(5 * 10**8, 0, 125 * 10**9, 1)
    ask("b", tenth, 5)
    with pytest.raises(BudgetExhaustedError, match=r"all of .* in total is spent"):
        ask("c", tenth)
    ledger.open_account(MODEL, cap)

    def other(key, charge, times=1):
        queries = [f"{key}{n}".encode() for n in range(times)]
        return ledger.charge(asking(key, *queries, accounts=(MODEL,), charge=charge))

    other("d", tenth, 15)  # more than the sum of epsilons admits
    other("e", noise)
    assert ledger.balance(MODEL).spent.epsilon == MAX_UNITS
    other("f", approximate)
    with pytest.raises(BudgetExhaustedError):  # delta: 8e-8 > 5e-8
        other("g", approximate)
    left = ledger.balance(MODEL).answers_left(noise)
    other("h", noise, left)
    with pytest.raises(BudgetExhaustedError):
        other("i", noise)
    assert ledger.balance(MODEL).spent.epsilon == MAX_UNITS
    ledger.verify()


def test_older_accounts_go_on_by_either_sum(ledger):
    ledger.open_account(ALICE, Cap.basic(epsilon=1.0))
    ledger.open_account(BOB, Cap.zcdp(epsilon=1.0, delta=1e-6))
    charge = Charge.loss(epsilon=0.1, rho=0.005, certificate="c")
    for key, account in (("a", ALICE), ("b", BOB)):
        ledger.charge(asking(key, accounts=(account,), charge=charge))
    wider = Cap.either(epsilon=2.0, delta=1e-6)
    assert ledger.set_cap(ALICE, wider).spent == Spend(10**8, 0, 5 * 10**9, 1)
    assert ledger.set_cap(BOB, wider).spent == Spend(MAX_UNITS, 0, 5 * 10**9, 1)
    assert ledger.balance(BOB).cap.promise == wider.promise
    for key, account in (("c", ALICE), ("d", BOB)):
        ledger.charge(asking(key, accounts=(account,), charge=charge))
    with pytest.raises(InvalidParameterError, match="whether it has a delta"):
        ledger.set_cap(BOB, Cap.either(epsilon=1.0, delta=0.0))
    ledger.verify()


def test_charge_that_an_account_cannot_count_is_refused(ledger):
    opened(ledger)
    rho_only = Charge.loss(rho=0.005, certificate="c")
    with pytest.raises(InvalidParameterError, match="cannot be counted"):
        ledger.charge(asking("k", charge=rho_only))
    other = Charge.loss(epsilon=0.1, certificate="c", relation="add-remove")
    with pytest.raises(RelationMismatchError, match="add-remove"):
        ledger.charge(asking("k", charge=other))
    assert spent(ledger) == [0, 0, 0, 0]


def test_async_callers_get_the_same(ledger):
    opened(ledger, epsilon=3.2)

    async def one(number: int):
        receipt = await ledger.acharge(asking(f"k{number}"))
        return await ledger.asettle(receipt, [f"{number}".encode()])

    async def many():
        return await asyncio.gather(*(one(number) for number in range(32)))

    done = asyncio.run(many())
    assert [receipt.answers for receipt in done] == [
        (f"{number}".encode(),) for number in range(32)
    ]
    assert spent(ledger) == [32, 32, 32, 0]
    with pytest.raises(BudgetExhaustedError):
        asyncio.run(one(32))


def test_entries_are_numbered_and_sealed(ledger):
    opened(ledger)
    answer(ledger, asking("k", b"x", memory=MEMORY), b"yes")
    entries = list(ledger.entries())
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.kind for entry in entries[-2:]] == ["charge", "answer"]
    assert entries[-1].settles == entries[-2].sequence
    assert [entry.sequence for entry in ledger.entries(after=4)] == [5, 6, 7]
    seen = ledger.verify()
    assert (seen.entries, seen.charges, seen.answers) == (7, 1, 1)
    assert seen.head == entries[-1].hash
    assert seen.epoch == 0


def test_entries_hold_no_query(ledger):
    opened(ledger)
    answer(ledger, asking("k", b"canary-4711", memory=MEMORY), b"yes")
    assert not any("canary" in repr(entry) for entry in ledger.entries())


def test_balances_are_sorted(ledger):
    opened(ledger)
    names = [str(balance.account) for balance in ledger.balances()]
    assert names == sorted(str(account) for account in EVERYBODY)


def test_closed_ledger_refuses(ledger):
    opened(ledger)
    receipt = ledger.charge(asking("k"))
    ledger.close()
    ledger.close()
    for act in (
        lambda: ledger.charge(asking("k2")),
        lambda: ledger.settle(receipt, [b"yes"]),
        lambda: ledger.balance(ALICE),
        ledger.balances,
        ledger.verify,
        lambda: list(ledger.entries()),
    ):
        with pytest.raises(LedgerError, match="closed"):
            act()


def test_ledger_is_not_pickled(ledger):
    with pytest.raises(LedgerError, match="a ledger is not"):
        pickle.dumps(ledger)


def test_receipt_prints_no_answer(ledger):
    opened(ledger)
    receipt = answer(ledger, asking("k"), b"canary-4711")
    assert "canary" not in repr(receipt)
    assert "canary" not in str(receipt.as_dict())
    assert receipt.as_dict()["accounts"][str(ALICE)]["epsilon"] == TENTH.epsilon


def answered(ledger, *requests, draw):
    """Ask at once for all of them; return receipts or errors."""

    async def everybody():
        asked = [ledger.aanswer(request, draw, request.key) for request in requests]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(everybody())


class Drawn:
    """Answers each request with its key, and notes whom it was called for."""

    def __init__(self):
        self.calls = []

    def __call__(self, asked):
        self.calls.append([key for key, _ in asked])
        return [[key.encode()] * len(receipt.draw) for key, receipt in asked]

    @property
    def keys(self):
        return sorted(key for call in self.calls for key in call)


def test_answering_at_once_is_charging_drawing_and_settling(ledger):
    opened(ledger)
    requests = [asking(f"k{number}") for number in range(3)]
    draw = Drawn()
    receipts = answered(ledger, *requests, draw=draw)
    assert [receipt.answers for receipt in receipts] == [(b"k0",), (b"k1",), (b"k2",)]
    assert all(receipt.outcome is Outcome.ANSWERED for receipt in receipts)
    assert draw.keys == ["k0", "k1", "k2"]
    assert spent(ledger) == [3, 3, 3, 0]
    kinds = [entry.kind for entry in ledger.entries()][-6:]
    assert sorted(kinds) == ["answer"] * 3 + ["charge"] * 3
    ledger.verify()


def test_what_has_its_answer_is_not_drawn_again(ledger):
    opened(ledger)
    first, draw = asking("k", b"q", memory=MEMORY), Drawn()
    other = asking("other", b"q", client=BOB, memory=MEMORY)
    answered(ledger, first, draw=draw)
    again, seen = answered(ledger, first, other, draw=draw)
    assert again.answers == seen.answers == (b"k",)
    assert draw.keys == ["k"]
    assert spent(ledger) == [1, 1, 1, 1]


def test_a_lost_answer_is_not_drawn_again(ledger):
    opened(ledger)
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW
    draw = Drawn()
    (receipt,) = answered(ledger, asking("k"), draw=draw)
    assert receipt.outcome is Outcome.SPENT
    assert draw.calls == []


def test_refusals_do_not_stop_those_who_ask_at_the_same_time(ledger):
    opened(ledger, epsilon=0.2)
    draw = Drawn()
    requests = [asking(f"k{number}") for number in range(5)]
    found = answered(ledger, *requests, draw=draw)
    refused = [isinstance(receipt, BudgetExhaustedError) for receipt in found]
    assert sum(refused) == 3
    assert len(draw.keys) == 2
    assert spent(ledger)[0] == 2


@pytest.mark.parametrize(
    ("draw", "error"),
    [
        (lambda asked: 1 / 0, ZeroDivisionError),
        (lambda asked: [[b"one", b"too many"] for _ in asked], InvalidParameterError),
        (lambda asked: [["text"] for _ in asked], InvalidParameterError),
        (lambda asked: [], ValueError),
    ],
    ids=["fails", "too many", "not bytes", "none"],
)
def test_a_draw_that_fails_is_spent_and_harms_nobody_else(ledger, draw, error):
    opened(ledger)
    (found,) = answered(ledger, asking("k"), draw=draw)
    assert isinstance(found, error)
    assert spent(ledger) == [1, 1, 1, 0]
    (again,) = answered(ledger, asking("k"), draw=Drawn())
    assert again.outcome is Outcome.SPENT
    (other,) = answered(ledger, asking("other"), draw=Drawn())
    assert other.answers == (b"other",)
    ledger.verify()


def test_each_way_to_draw_is_called_once_for_a_commit(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url), epsilon=10.0)
    ways = [Drawn(), Drawn()]

    async def everybody():
        requests = [asking(f"k{number}") for number in range(20)]
        asked = [
            ledger.aanswer(request, ways[place % 2], request.key)
            for place, request in enumerate(requests)
        ]
        return await asyncio.gather(*asked)

    receipts = asyncio.run(everybody())
    assert [receipt.answers[0] for receipt in receipts] == [
        b"k%d" % number for number in range(20)
    ]
    assert [len(way.calls) for way in ways] == [1, 1]


def test_whoever_goes_away_while_answers_are_drawn_harms_nobody(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url))

    async def everybody():
        loop = asyncio.get_running_loop()
        tasks = []

        def draw(asked):
            gone = threading.Event()
            loop.call_soon_threadsafe(lambda: (tasks[0].cancel(), gone.set()))
            assert gone.wait(60)
            return [[key.encode()] for key, _ in asked]

        tasks += [
            asyncio.create_task(ledger.aanswer(asking(key), draw, key))
            for key in ("gone", "stays")
        ]
        return await asyncio.gather(*tasks, return_exceptions=True)

    gone, stays = asyncio.run(everybody())
    assert isinstance(gone, asyncio.CancelledError)
    assert stays.answers == (b"stays",)
    assert spent(ledger)[0] == 2
    # It was paid for and drawn, so it is stored for whoever asks again.
    assert ledger.charge(asking("gone")).answers == (b"gone",)
    ledger.verify()


def test_closing_settles_what_was_drawn(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url))

    async def ask():
        closing = threading.Thread(target=ledger.close)

        def draw(asked):
            closing.start()
            while not ledger._commits._stopped:
                time.sleep(0.001)
            return [[key.encode()] for key, _ in asked]

        receipt = await ledger.aanswer(asking("k"), draw, "k")
        await asyncio.to_thread(closing.join)
        return receipt

    assert asyncio.run(ask()).answers == (b"k",)
    again = open_ledger(sql_url).charge(asking("k"))
    assert again.answers == (b"k",)


def test_acts_are_in_the_chain_and_cost_nothing(ledger):
    opened(ledger)
    before = ledger.balances()
    entry = ledger.record("key created", "boss", {"client": "ward-7", "models": None})
    assert ledger.record("key revoked", "boss", {"id": "\x1f é"}).sequence == (
        entry.sequence + 1
    )
    first, second = list(ledger.entries(after=entry.sequence - 1))
    assert first == entry
    told = first.content()
    assert told.pop("time") > 0
    facts = {"client": "ward-7", "models": None}
    assert told == {"act": "key created", "by": "boss", "facts": facts}
    assert second.content()["facts"] == {"id": "\x1f é"}
    assert ledger.balances() == before
    assert ledger.verify().entries == second.sequence


@pytest.mark.parametrize(
    ("act", "by", "facts"),
    [("a\nb", "boss", {}), ("a", "\x1f", {}), ("a", "b", {"x": "y" * 5000})],
)
def test_acts_that_cannot_be_written_are_refused(ledger, act, by, facts):
    before = ledger.verify().head
    with pytest.raises(InvalidParameterError):
        ledger.record(act, by, facts)
    assert ledger.verify().head == before


def test_entries_are_read_from_the_newest_on_without_the_others(ledger, monkeypatch):
    monkeypatch.setattr("reticent.ledger.protocol._BLOCK", 3)
    assert ledger.length() == len(list(ledger.entries()))
    opened(ledger)
    for number in range(7):
        ledger.charge(asking(f"k{number}"))
    everything = [entry.sequence for entry in ledger.entries()]
    assert ledger.length() == everything[-1] == len(everything)
    assert [e.sequence for e in newest_first(ledger)] == everything[::-1]
    for before in (1, 2, 4, 5, 99):
        found = [e.sequence for e in newest_first(ledger, before=before)]
        assert found == [each for each in everything[::-1] if each < before]
