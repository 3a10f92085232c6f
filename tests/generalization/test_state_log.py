"""A state in a ledger: durable, in order, and of two writers one wins."""

import pytest

from reticent.errors import BudgetExhaustedError, InvalidParameterError, LedgerError
from reticent.generalization.session.costs import SessionAccounts, SessionCost
from reticent.generalization.shared_state import SharedState, StateLog, open_state_log
from reticent.ledger import MemoryLedger, SQLLedger


def opened(ledger):
    log = open_state_log(ledger, "trial", {"n": 3}, seeded=False)
    return SharedState({"number": 0}, log)


def counted(state):
    return {"number": state["number"] + 1}, state["number"]


def test_a_state_comes_back(tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with SQLLedger(url) as ledger:
        shared = opened(ledger)
        assert shared.read() == {"number": 0}
        assert [shared.change(counted) for _ in range(3)] == [0, 1, 2]
    with SQLLedger(url) as ledger:
        shared = opened(ledger)
        assert shared.read() == {"number": 3}
        assert shared.change(counted) == 3
        assert len(StateLog(ledger, "another")) == 0
        ledger.verify()


def test_of_two_writers_one_wins_even_with_the_same_words():
    ledger = MemoryLedger()
    first, second = opened(ledger), opened(ledger)
    assert first.latest() == second.latest() == (1, {"number": 0})
    assert second.swap(1, {"number": 1})
    assert not first.swap(1, {"number": 1})
    assert first.latest() == (2, {"number": 1})
    assert first.swap(2, {"number": 2})
    assert second.read() == {"number": 2}


@pytest.mark.parametrize("shared", [SharedState({"number": 0}), opened(MemoryLedger())])
def test_a_look_in_between_does_not_hide_what_was_overtaken(shared):
    version, state = shared.latest()
    shared.change(counted)
    assert shared.read() == {"number": 1}  # another thread looks
    assert not shared.swap(version, counted(state)[0])
    assert shared.read() == {"number": 1}


def test_a_step_is_taken_again_from_what_another_wrote():
    ledger = MemoryLedger()
    first, second = opened(ledger), opened(ledger)
    taken = []

    def interrupted(state):
        taken.append(state["number"])
        if len(taken) == 1:
            second.change(counted)
        return counted(state)

    assert first.change(interrupted) == 1
    assert taken == [0, 1]
    assert second.read() == {"number": 2}


def test_a_state_without_a_ledger_is_its_own():
    shared = SharedState({"number": 0})
    assert [shared.change(counted) for _ in range(2)] == [0, 1]
    assert shared.read() == {"number": 2}


def test_payers_at_once_share_one_budget_and_have_numbers_of_their_own():
    ledger = MemoryLedger()
    handles = [
        SessionAccounts(ledger, "trial", SessionCost(bits=3.0)) for _ in range(2)
    ]
    assert [purse.pay(SessionCost(bits=1.0)) for purse in (*handles, handles[0])] == [
        1,
        2,
        3,
    ]
    with pytest.raises(BudgetExhaustedError):
        handles[1].pay(SessionCost(bits=1.0))
    assert handles[0].spent == handles[1].spent == SessionCost(bits=3.0)


def test_an_opening_is_written_once():
    ledger = MemoryLedger()
    for _ in range(2):
        log = open_state_log(ledger, "trial", {"n": 3}, seeded=False)
    assert len(log) == 1
    assert log.state(0) == {"n": 3}
    with pytest.raises(LedgerError, match="other data"):
        open_state_log(ledger, "trial", {"n": 4}, seeded=False)


def test_a_ledger_that_was_written_off_has_nothing_left(tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with SQLLedger(url) as ledger:
        opened(ledger).change(counted)
    SQLLedger.write_off(url, reason="restored from an old copy")
    with SQLLedger(url) as ledger, pytest.raises(BudgetExhaustedError, match="off"):
        opened(ledger)


def test_a_record_without_a_text_is_not_skipped():
    ledger = MemoryLedger()
    shared = opened(ledger)
    log = StateLog(ledger, "trial")
    ledger.charge(log._request(1))  # by other means than a post
    with pytest.raises(LedgerError, match="record 1"):
        shared.read()


def test_names_are_checked():
    with pytest.raises(InvalidParameterError, match="name='a b'"):
        StateLog(MemoryLedger(), "a b")
    with pytest.raises(InvalidParameterError, match="both"):
        open_state_log(MemoryLedger(), None, {}, seeded=False)
