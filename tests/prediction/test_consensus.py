"""Consensus answers: one price for thousands of easy queries (P9)."""

import inspect

import numpy as np
import pytest

from reticent import Budget, BudgetExhaustedError
from reticent.errors import InvalidParameterError
from reticent.guarantees import ApproxDP, recheck, repeat
from reticent.ledger import AccountId, AccountScope, Cap, MemoryLedger
from reticent.prediction import (
    AnswerInterface,
    ConsensusInterface,
    PredictionInterface,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
)
from tests.prediction.learners import Table

BUDGET = Budget(2.0, 1e-6)
# One row a shard, whatever the deal; half of the rows are labelled 1.
SHARDS = 600
X = np.arange(SHARDS)[:, None] % 6
Y = X[:, 0] % 2


class Parity(Table):
    """Predict the parity, and on 5 the label of its row: there shards are tied."""

    def fit(self, X, y):
        self.first_ = int(np.asarray(y)[0])
        return self

    def predict(self, X):
        values = np.asarray(X)[:, 0]
        return np.where(values % 6 < 5, values % 2, self.first_)


@pytest.fixture(scope="module")
def model():
    return PrivateVotingClassifier(Parity(), 1.0, [0, 1], SHARDS).fit(X, Y)


def easy(n, start=0):
    """Different queries on which every shard agrees, with their answers."""
    rows = np.arange(start, start + 2 * n)
    rows = rows[rows % 6 < 5][:n]
    return rows[:, None], rows % 2


def test_thousands_of_easy_queries_fit_one_small_budget(model):
    interface = ConsensusInterface(model, BUDGET, queries=5000, unstable=1)
    rows, answers = easy(2000)
    np.testing.assert_array_equal(interface.predict(rows), answers)
    total = interface.certificate.guarantee
    assert isinstance(total, ApproxDP)
    assert BUDGET.covers(total)
    assert total.epsilon > 0.9 * BUDGET.epsilon
    recheck(interface.certificate)
    plain = repeat(model.certificate_, 2000, delta=1e-6)
    assert plain.guarantee.epsilon > 100 * total.epsilon


def test_doubtful_queries_are_voted_on_until_they_run_out(model):
    # Noise takes a tie for agreement with a chance of delta / queries.
    budget = Budget(2.0, 1e-9)
    interface = ConsensusInterface(model, budget, queries=50, unstable=1)
    doubtful = 5 + 6 * np.arange(4)[:, None]
    with pytest.raises(BudgetExhaustedError, match="1 of 4") as raised:
        interface.predict(doubtful)
    assert raised.value.answers.shape == (1,)
    assert interface.unstable_left == 0
    remembered = interface.predict(doubtful[:1])
    np.testing.assert_array_equal(remembered, raised.value.answers)


def test_repeated_queries_are_free(model):
    interface = ConsensusInterface(model, BUDGET, queries=3, unstable=1)
    rows, answers = easy(3)
    for _ in range(5):
        np.testing.assert_array_equal(
            interface.predict(np.tile(rows, (4, 1)))[:3], answers
        )
    assert interface.queries_left == 0
    with pytest.raises(BudgetExhaustedError, match="0 of 1"):
        interface.predict([[1000]])


def test_the_whole_price_is_charged_before_the_first_answer(model):
    ledger = MemoryLedger()
    ConsensusInterface(
        model, BUDGET, queries=100, unstable=1, ledger=ledger, dataset="d"
    )
    spent = ledger.balance(AccountId(AccountScope.DATASET, "d"))
    assert spent.spent.answers == 1


def test_shards_that_can_never_agree_enough_are_refused(model):
    with pytest.raises(InvalidParameterError, match=r"needs about \d+ shards"):
        ConsensusInterface(model, Budget(0.1, 1e-6), queries=5000, unstable=5)


def test_wrong_uses_are_named(model):
    with pytest.raises(InvalidParameterError, match="delta > 0"):
        ConsensusInterface(model, Budget(1.0), queries=10)
    with pytest.raises(InvalidParameterError, match="fitted"):
        ConsensusInterface(PrivateVotingClassifier(Table()), BUDGET, queries=10)
    with pytest.raises(ValueError, match="queries"):
        ConsensusInterface(model, BUDGET, queries=0)


def test_a_session_and_single_answers_share_a_budget(model):
    ledger, whole = MemoryLedger(), Budget(8.0, 1e-5)
    account = AccountId(AccountScope.DATASET, "data")
    ledger.open_account(account, Cap.either(epsilon=8.0, delta=1e-5, slack=5e-6))
    single = PredictionInterface(model, whole, ledger)
    before = single.remaining()
    session = ConsensusInterface(model, BUDGET, queries=100, ledger=ledger)
    session.predict(easy(5)[0])
    single.predict(easy(2)[0])
    assert single.remaining() < before - 2
    total = single.spent()
    assert whole.covers(total.guarantee)
    assert "OTHER_CHARGES" in {a.code for a in total.assumptions}


def test_a_refit_does_not_change_a_session():
    fitted = PrivateVotingClassifier(Parity(), 1.0, [0, 1], SHARDS).fit(X, Y)
    session = ConsensusInterface(fitted, BUDGET, queries=100)
    rows, answers = easy(20)
    fitted.estimator = Table()
    fitted.fit(X, 1 - Y)
    np.testing.assert_array_equal(session.predict(rows), answers)


def test_both_interfaces_are_asked_in_the_same_way(model):
    names = {name for name in vars(AnswerInterface) if not name.startswith("_")}
    names |= set(AnswerInterface.__annotations__)
    assert {"predict", "spent", "remaining", "capacity", "law", "budget"} <= names
    asked: list[AnswerInterface] = [
        ConsensusInterface(model, BUDGET, queries=100),
        PredictionInterface(model, BUDGET),
    ]
    rows, _ = easy(2)
    for interface in asked:
        assert not [name for name in names if not hasattr(interface, name)]
        left = interface.remaining()
        answers = interface.predict(rows, client="ward 7", key="once")
        assert len(answers) == 2
        assert interface.remaining() == left - 2
        assert left <= interface.capacity
        assert BUDGET.covers(interface.spent().guarantee)
        again = interface.predict(rows, client="ward 7", key="once")
        np.testing.assert_array_equal(again, answers)
        assert interface.charge.certificate == interface.certificate.id
        for name in ("predict", "spent", "remaining"):
            wanted = inspect.signature(getattr(AnswerInterface, name)).parameters
            offered = inspect.signature(getattr(type(interface), name)).parameters
            assert list(offered) == list(wanted), name


def test_a_session_in_which_doubts_ran_out_has_nothing_left(model):
    interface = ConsensusInterface(model, Budget(2.0, 1e-9), queries=50, unstable=1)
    assert interface.remaining() == 50
    with pytest.raises(BudgetExhaustedError):
        interface.predict(5 + 6 * np.arange(4)[:, None])
    assert interface.queries_left > 0
    assert interface.remaining() == 0


def test_other_laws_have_no_shards_to_agree():
    walk = ProjectedWalkClassifier(1.0, classes=[0, 1]).fit(X, Y)
    with pytest.raises(InvalidParameterError, match="PrivateVotingClassifier"):
        ConsensusInterface(walk, BUDGET, queries=10)
