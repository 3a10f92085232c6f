"""A charge with answers that are known: written together, and once."""

from __future__ import annotations

import threading

import pytest

from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.ledger import Outcome
from tests.ledger.accounts_and_requests import DATASET, asking, nano, opened


def test_a_post_is_charged_and_answered_at_once(ledger):
    opened(ledger, epsilon=1.0)
    receipt = ledger.post(asking("first"), [b"yes"])
    assert receipt.outcome is Outcome.ANSWERED
    assert receipt.answers == (b"yes",)
    again = ledger.charge(asking("first"))
    assert (again.outcome, again.answers) == (Outcome.ANSWERED, (b"yes",))
    kinds = [entry.kind for entry in ledger.entries()][-2:]
    assert kinds == ["charge", "answer"]
    ledger.verify()


def test_of_many_who_post_under_one_key_one_wins(ledger):
    opened(ledger, epsilon=1.0)
    gate, won = threading.Barrier(16), []

    def post(number):
        gate.wait()
        mine = str(number).encode()
        if ledger.post(asking("one-key"), [mine]).answers == (mine,):
            won.append(number)

    threads = [threading.Thread(target=post, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    spent = nano(ledger, DATASET)
    assert ledger.charge(asking("one-key")).answers == (str(won[0]).encode(),)
    assert nano(ledger, DATASET) == spent
    assert ledger.verify().charges == 1


def test_a_refused_post_leaves_no_trace(ledger):
    opened(ledger, epsilon=0.1)
    ledger.post(asking("first"), [b"yes"])
    before = list(ledger.entries())
    with pytest.raises(BudgetExhaustedError):
        ledger.post(asking("second"), [b"no"])
    for request, answers in (
        (asking("third"), [b"a", b"b"]),
        (asking("third"), []),
        (asking("third"), ["text"]),
        (asking("third"), [b"x" * (2**20 + 1)]),
        (asking("third", memory="data@1"), [b"a"]),
    ):
        with pytest.raises(InvalidParameterError):
            ledger.post(request, answers)
    assert list(ledger.entries()) == before


def test_a_charge_that_waits_for_its_answer_is_not_overtaken(ledger):
    opened(ledger, epsilon=1.0)
    receipt = ledger.charge(asking("first"))
    posted = ledger.post(asking("first"), [b"mine"])
    assert posted.outcome is Outcome.SPENT
    assert posted.answers == (None,)
    assert ledger.settle(receipt, [b"theirs"]).answers == (b"theirs",)
