"""Charge, draw, settle: the same core for threads and for coroutines."""

import asyncio
import threading

import pytest

from reticent.errors import (
    AccountNotOpenError,
    AnswerLostError,
    BudgetExhaustedError,
    IdempotencyKeyReusedError,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    MemoryLedger,
    Outcome,
    Request,
)
from reticent.prediction import PaidAnswers, answer, answer_async

CLIENT = AccountId(AccountScope.CLIENT, "ward-7")
PRICE = Charge.loss(epsilon=0.5, certificate="one-answer")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("reticent.prediction.answering._WAITS", (0.0, 0.0))


@pytest.fixture
def ledger():
    opened = MemoryLedger()
    opened.open_account(CLIENT, Cap.basic(epsilon=2.0))
    return opened


def request(key, *queries, account=CLIENT):
    names = tuple(query.encode() for query in queries)
    return Request(
        key=key, accounts=(account,), charge=PRICE, queries=names, memory="data/model"
    )


class Drawer:
    """Draws numbered answers and counts how often it was asked."""

    def __init__(self):
        self.calls = []

    def at(self, places):
        self.calls.append(tuple(places))
        return [f"{len(self.calls)}.{place}".encode() for place in places]

    async def at_async(self, places):
        return self.at(places)

    def together(self, asked):
        assert all(about == "this one" for about, _ in asked)
        return [self.at(receipt.draw) for _, receipt in asked]


def by_thread(ledger, wanted, drawer):
    return answer(ledger, wanted, drawer.at)


def by_coroutine(ledger, wanted, drawer):
    return asyncio.run(answer_async(ledger, wanted, draw=drawer.at_async))


def together(ledger, wanted, drawer):
    return asyncio.run(
        answer_async(
            ledger,
            wanted,
            draw=drawer.at_async,
            together=drawer.together,
            about="this one",
        )
    )


FRONT_ENDS = pytest.mark.parametrize("ask", [by_thread, by_coroutine, together])


@FRONT_ENDS
def test_new_queries_are_drawn_once_and_paid_for(ask, ledger):
    drawer = Drawer()
    receipt = ask(ledger, request("k1", "a", "b", "a"), drawer)
    assert receipt.answers == (b"1.0", b"1.1", b"1.0")
    paid = PaidAnswers.of(receipt, CLIENT)
    assert (paid.paid, paid.left, paid.sequence) == (2, 2, receipt.sequence)
    again = ask(ledger, request("k1", "a", "b", "a"), drawer)
    assert again.answers == receipt.answers
    other = ask(ledger, request("k2", "b", "c"), drawer)
    assert other.answers == (b"1.1", b"2.1")
    assert drawer.calls == [(0, 1), (1,)]
    assert ledger.balance(CLIENT).spent.answers == 3


@FRONT_ENDS
def test_what_cannot_be_paid_for_is_not_drawn(ask, ledger):
    drawer = Drawer()
    with pytest.raises(BudgetExhaustedError) as refused:
        ask(ledger, request("k", *"abcde"), drawer)
    assert type(refused.value) is BudgetExhaustedError
    assert (drawer.calls, ledger.balance(CLIENT).spent.answers) == ([], 0)


@FRONT_ENDS
def test_a_lost_answer_is_never_drawn_again(ask, ledger):
    drawer = Drawer()
    assert ledger.charge(request("k", "a")).outcome is Outcome.DRAW  # and then a crash
    for _ in range(2):
        with pytest.raises(AnswerLostError, match="new key"):
            ask(ledger, request("k", "a"), drawer)
    assert drawer.calls == []
    assert ledger.balance(CLIENT).spent.answers == 1


@FRONT_ENDS
def test_a_draw_that_fails_leaves_a_charge_and_no_answer(ask, ledger):
    class Broken(Drawer):
        def at(self, places):
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        ask(ledger, request("k", "a"), Broken())
    with pytest.raises(AnswerLostError):
        ask(ledger, request("k", "a"), Drawer())


@FRONT_ENDS
def test_errors_have_types(ask, ledger):
    ask(ledger, request("k", "a"), Drawer())
    with pytest.raises(IdempotencyKeyReusedError):
        ask(ledger, request("k", "b"), Drawer())
    stranger = AccountId(AccountScope.CLIENT, "nobody")
    with pytest.raises(AccountNotOpenError):
        ask(ledger, request("k2", "a", account=stranger), Drawer())


@FRONT_ENDS
def test_a_repeated_request_waits_for_the_first(ask, ledger, monkeypatch):
    """Another process settles the answer while this one looks again."""
    first = ledger.charge(request("k", "a"))
    looks = []
    charge = ledger.charge

    def charge_again(wanted):
        looks.append(wanted.key)
        if len(looks) == 2:
            ledger.settle(first, [b"the first"])
        return charge(wanted)

    monkeypatch.setattr(ledger, "charge", charge_again)
    drawer = Drawer()
    assert ask(ledger, request("k", "a"), drawer).answers == (b"the first",)
    assert (len(looks), drawer.calls) == (2, [])


def test_threads_with_one_key_get_one_answer(ledger, monkeypatch):
    monkeypatch.setattr("reticent.prediction.answering._WAITS", (0.02,) * 500)
    drawer, given = Drawer(), []

    def ask():
        given.append(answer(ledger, request("k", "a"), drawer.at).answers)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == [(b"1.0",)] * 8
    assert drawer.calls == [(0,)]
