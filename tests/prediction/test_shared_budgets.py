"""One budget for many models: shared accounts, separate memories, true totals."""

import os
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent import Budget, BudgetExhaustedError
from reticent.errors import (
    InvalidParameterError,
    NotDeployableError,
    SeparateBudgetsWarning,
)
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    ZeroOut,
    bounded_range,
    claim,
    recheck,
    repeat,
    rho_within,
    zcdp_epsilon,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Balance,
    Cap,
    Charge,
    MemoryLedger,
    Method,
    Request,
    SQLLedger,
)
from reticent.prediction import (
    PredictionInterface,
    PrivateAveragingRegressor,
    PrivateNeighborsClassifier,
    PrivateVotingClassifier,
    budgets,
    spent_so_far,
)
from tests.prediction.stated import stated as stated_over

X, Y = load_breast_cancer(return_X_y=True)
BASE = make_pipeline(StandardScaler(), LogisticRegression())
DATA = AccountId(AccountScope.DATASET, "data")


def voting(epsilon, labels=Y, rule="auto", shards=9):
    model = PrivateVotingClassifier(BASE, epsilon, [0, 1], shards, rule=rule)
    return model.fit(X, labels)


SMALL, LARGE = voting(0.1), voting(0.25)
SOFT = voting(0.2, rule="soft")


def stated(guarantee):
    return stated_over(guarantee, len(Y))


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    if request.param == "memory":
        yield MemoryLedger()
        return
    with SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


def test_models_with_different_epsilons_share_a_budget(ledger):
    small = PredictionInterface(SMALL, Budget(1.0), ledger, name="small")
    large = PredictionInterface(LARGE, Budget(1.0), ledger, name="large")
    small.predict(X[:5])
    large.predict(X[:2])
    assert small.remaining() == large.remaining() == 0
    assert (small.capacity, large.capacity) == (10, 4)
    for interface in (small, large):
        total = interface.spent()
        assert total.guarantee == PureDP(1.0)
        assert total.answer_count() == 7
        assert total.proved
        recheck(total)
        with pytest.raises(BudgetExhaustedError, match="dataset:data"):
            interface.predict(X[20:21])
    ledger.verify()


@pytest.mark.parametrize("first", range(4))
def test_all_kinds_of_guarantee_share_a_budget_in_any_order(ledger, first):
    kinds = [SOFT, SMALL, stated(ZCDP(0.01)), stated(ApproxDP(0.2, 1e-9))]
    kinds = kinds[first:] + kinds[:first]
    budget = Budget(3.0, 1e-6)
    asked = [
        PredictionInterface(model, budget, ledger, name=f"model{place}")
        for place, model in enumerate(kinds)
    ]
    for interface in asked:
        interface.predict(X[:2])
    totals = {(i.spent().guarantee, i.spent().answer_count()) for i in asked}
    assert len(totals) == 1
    ((guarantee, answers),) = totals
    assert answers == 8
    assert guarantee.delta == 1e-6
    assert budget.covers(guarantee)
    answered = 8
    for turn in range(2, 400):
        try:
            asked[turn % 4].predict(X[[turn]])
            answered += 1
        except BudgetExhaustedError:
            continue
    assert asked[0].spent().guarantee == ApproxDP(3.0, 1e-6)
    assert asked[0].spent().rule == "G22-filter"
    assert 12 < answered < 400
    ledger.verify()


def test_a_release_is_charged_to_the_same_account(ledger):
    interface = PredictionInterface(SOFT, Budget(3.0, 1e-6), ledger)
    noisy = claim(ZCDP(0.05), ReplaceOne(len(Y)), Scope.MODEL, statement="test")
    charge = Charge.of(noisy)
    ledger.charge(
        Request(key="release", accounts=(DATA,), charge=charge, queries=(b"x",))
    )
    left = interface.remaining()
    interface.predict(X[:3])
    assert interface.remaining() == left - 3
    total = interface.spent()
    # Nobody told this interface what the release was: it counts, and is assumed.
    assert "OTHER_CHARGES" in {a.code for a in total.assumptions}
    assert total.answer_count() == 4
    recheck(total)


def test_models_do_not_answer_for_each_other(ledger):
    """Two models of equal price on opposite labels keep their own answers."""
    queries = X[:40]
    budget = Budget(400.0)
    yes, no = voting(5.0), voting(5.0, 1 - Y)
    first = PredictionInterface(yes, budget, ledger).predict(queries)
    second = PredictionInterface(no, budget, ledger).predict(queries)
    assert np.mean(first != second) > 0.8


def test_a_refitted_model_does_not_serve_stale_answers(ledger):
    queries = X[:40]
    model = voting(5.0)
    before = PredictionInterface(model, Budget(400.0), ledger).predict(queries)
    model.fit(X, 1 - Y)
    after = PredictionInterface(model, Budget(400.0), ledger).predict(queries)
    assert np.mean(before != after) > 0.8
    assert ledger.balance(DATA).spent.answers == 80


def test_a_live_interface_never_charges_one_model_and_draws_another():
    model = voting(0.1)
    interface = PredictionInterface(model, Budget(1.0), MemoryLedger())
    interface.predict(X[:2])
    model.set_params(epsilon=50.0)
    model.fit(X, 1 - Y)
    if hasattr(model, "law_"):  # a frozen law goes on as it was
        assert interface.predict(X[2:4]).size == 2
        assert interface.spent().guarantee == PureDP(0.4)
    else:
        with pytest.raises(InvalidParameterError, match="fitted again"):
            interface.predict(X[2:4])
        assert interface.spent().guarantee == PureDP(0.2)


def test_two_interfaces_without_a_ledger_do_not_double_the_budget():
    model = voting(0.25)
    first = PredictionInterface(model, Budget(1.0))
    answers = first.predict(X[:3])
    again = PredictionInterface(model, Budget(1.0))
    assert again.remaining() == 1
    np.testing.assert_array_equal(again.predict(X[:3]), answers)
    again.predict(X[3:4])
    with pytest.raises(BudgetExhaustedError):
        first.predict(X[4:5])
    assert first.spent().guarantee == again.spent().guarantee == PureDP(1.0)
    # Another budget for the same answers is a decision, not a second helping.
    with pytest.raises(InvalidParameterError, match="one budget"):
        PredictionInterface(model, Budget(2.0))
    # A new fit is another model, and another dataset has a budget of its own.
    assert PredictionInterface(model, Budget(1.0), dataset="other").remaining() == 4
    assert PredictionInterface(model.fit(X, Y), Budget(1.0)).remaining() == 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads
def test_a_forked_copy_of_the_memory_does_not_spend_the_budget_again():
    model = voting(0.25)
    interface = PredictionInterface(model, Budget(1.0))
    interface.predict(X[:1])

    def refused():
        for ask in (
            lambda: interface.predict(X[1:5]),
            lambda: PredictionInterface(model, Budget(1.0)),
        ):
            with pytest.raises(NotDeployableError, match="forked"):
                ask()
        return 0

    child = os.fork()
    if not child:
        code = 1
        try:
            code = refused()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    interface.predict(X[1:4])
    assert interface.spent().guarantee == PureDP(1.0)


def test_one_dataset_has_one_budget(ledger):
    PredictionInterface(SMALL, Budget(1.0), ledger)
    with pytest.raises(InvalidParameterError, match="budget already: ε = 1 in total"):
        PredictionInterface(LARGE, Budget(2.0), ledger)
    ledger.set_cap(DATA, Cap.within(Budget(2.0)))
    assert PredictionInterface(LARGE, Budget(2.0), ledger).remaining() == 8


def test_a_model_that_can_never_be_paid_for_opens_nothing(ledger):
    with pytest.raises(BudgetExhaustedError, match="covers none"):
        PredictionInterface(LARGE, Budget(0.2), ledger)
    assert ledger.balances() == []
    PredictionInterface(SMALL, Budget(0.2), ledger)
    with pytest.raises(BudgetExhaustedError, match=r"covers none"):
        PredictionInterface(LARGE, Budget(0.2), ledger)


def test_an_account_without_room_for_deltas_says_so(ledger):
    ledger.open_account(DATA, Cap.either(epsilon=1.0, delta=1e-6, slack=0.0))
    with pytest.raises(BudgetExhaustedError, match="keeps 0 of its delta"):
        PredictionInterface(stated(ApproxDP(0.1, 1e-8)), Budget(1.0, 1e-6), ledger)


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(3.0, 1e-6)])
def test_caps_may_move_under_a_live_interface(ledger, budget):
    interface = PredictionInterface(SOFT, budget, ledger)
    before = interface.capacity
    interface.predict(X[:4])
    ledger.set_cap(DATA, Cap.within(Budget(0.5 * budget.epsilon, budget.delta)))
    assert interface.capacity < before
    ledger.set_cap(DATA, Cap.within(Budget(0.1, budget.delta)))
    assert (interface.capacity, interface.remaining()) == (0, 0)
    # What is spent stays true below a lowered cap.
    assert interface.spent().guarantee == PureDP(0.8)
    with pytest.raises(BudgetExhaustedError):
        interface.predict(X[4:5])
    assert interface.predict(X[:4]).size == 4  # remembered, and paid for
    ledger.set_cap(DATA, Cap.within(budget))
    assert interface.capacity == before
    interface.predict(X[4:5])
    ledger.verify()


def test_accounts_of_older_versions_go_on(ledger):
    """A cap that counts equal answers, and one by zCDP, as they used to be opened."""
    total = repeat(SOFT.certificate_, 20, delta=1e-6)
    ledger.open_account(DATA, Cap.count(total))
    interface = PredictionInterface(SOFT, Budget(3.0, 1e-6), ledger)
    interface.predict(X[:3])
    assert interface.remaining() == 17
    shown = interface.spent()
    assert shown.guarantee.epsilon <= 3.0
    assert shown.answer_count() == 20  # the cap's own promise
    zcdp = AccountId(AccountScope.DATASET, "zcdp")
    ledger.open_account(zcdp, Cap.zcdp(epsilon=3.0, delta=1e-6))
    older = PredictionInterface(SOFT, Budget(3.0, 1e-6), ledger, dataset="zcdp")
    older.predict(X[:3], client="b")
    assert older.spent().guarantee == PureDP(0.6)
    older.predict(X[:30], client="b")
    assert older.spent().guarantee == ApproxDP(3.0, 1e-6)
    # A changed cap turns the account into one that any model can share.
    ledger.set_cap(zcdp, Cap.within(Budget(4.0, 1e-6)))
    noisy = stated(ZCDP(0.001))
    PredictionInterface(noisy, Budget(4.0, 1e-6), ledger, dataset="zcdp").predict(X[:1])
    ledger.verify()


def test_deltas_of_others_stay_in_the_total_when_the_cap_is_lowered_below_them(ledger):
    """One of the others has no epsilon, so that only the sum of rhos is known."""
    ledger.open_account(DATA, Cap.within(Budget(4.0, 1e-6)))
    for place, loss in enumerate((ZCDP(0.02), ApproxDP(0.1, 4e-8))):
        charge = Charge.of(claim(loss, ReplaceOne(9), Scope.MODEL, statement="test"))
        ledger.charge(
            Request(key=f"k{place}", accounts=(DATA,), charge=charge, queries=(b"m",))
        )
    interface = PredictionInterface(SMALL, Budget(4.0, 1e-6), ledger)
    assert interface.spent().guarantee.delta == 1e-6
    ledger.set_cap(DATA, Cap.within(Budget(4.0, 1e-9)))
    for total in (interface.spent(), spent_so_far(ledger.balance(DATA))):
        recheck(total)
        assert 4e-8 < total.guarantee.delta < 1e-6
        assert total.guarantee.epsilon > zcdp_epsilon(0.02, 1e-6)


@pytest.mark.parametrize(
    "relation",
    [ReplaceOne(1), ZeroOut(1), AddRemove(), ZeroOut(3, 3), ReplaceOne(2, 2)],
)
def test_a_total_is_about_the_neighbours_of_its_account(relation):
    charge = Charge.of(claim(PureDP(0.5), relation, Scope.MODEL, statement="test"))
    cap = Cap.within(Budget(4.0), relation=charge.relation)
    found = spent_so_far(Balance(DATA, cap, cap.cost(charge, 2)))
    assert (found.guarantee, found.relation) == (PureDP(1.0), relation)


def test_a_large_sum_of_rhos_leaves_the_sum_of_epsilons():
    cap, charge = Cap.within(Budget(200.0, 1e-6)), PureDP(100.0)
    cost = cap.cost(
        Charge.of(claim(charge, ReplaceOne(9), Scope.MODEL, statement="test")), 1
    )
    assert spent_so_far(Balance(DATA, cap, cost)).guarantee == charge


def test_written_off_budgets_are_not_called_unspent(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with SQLLedger(url) as ledger:
        PredictionInterface(SMALL, Budget(1.0), ledger).predict(X[:2])
    SQLLedger.write_off(url, reason="test")
    with SQLLedger(url) as ledger:
        interface = PredictionInterface(SMALL, Budget(1.0), ledger)
        assert interface.remaining() == 0
        assert interface.spent().guarantee.epsilon >= 1.0


def test_numbers_and_labels_share_a_budget(ledger):
    rows, targets = load_diabetes(return_X_y=True)
    model = PrivateAveragingRegressor(Ridge(), 0.5, bounds=(0, 400), n_shards=9).fit(
        rows, targets
    )
    other = PrivateVotingClassifier(LogisticRegression(), 0.1, [0, 1], 9)
    other.fit(rows, (targets > 150).astype(int))
    numbers = PredictionInterface(model, Budget(2.0), ledger)
    labels = PredictionInterface(other, Budget(2.0), ledger)
    numbers.predict(rows[:2])
    labels.predict(rows[:5])
    assert numbers.remaining() == 1
    assert labels.remaining() == 5
    assert labels.spent().guarantee == numbers.spent().guarantee
    assert labels.spent().guarantee.epsilon == pytest.approx(1.5)


def test_a_request_needs_no_value_iteration(monkeypatch):
    """G25 is computed when accounts open; an answer is then one more of a count."""
    account = AccountId(AccountScope.DATASET, "counted")
    interface = PredictionInterface(SOFT, Budget(4.0, 1e-6), dataset="counted")
    balance = interface.ledger.balance(account)
    assert balance.cap.method is Method.COUNT

    def refuse(*_):
        raise AssertionError("a value iteration on the path of a request")

    monkeypatch.setattr(bounded_range, "value_iteration", refuse)
    interface.predict(X[:15])
    balance = interface.ledger.balance(account)
    assert balance.spent.answers == 15
    by_rho = int(rho_within(4.0, 1e-6) / (0.2**2 / 8))
    assert balance.cap.answers > by_rho


def test_soft_votes_that_share_an_account_are_counted_by_rho(ledger):
    """G25's total of equal votes does not cover votes of several ranges."""
    other, budget = voting(0.1, rule="soft"), Budget(2.0, 1e-6)
    first = PredictionInterface(SOFT, budget, ledger)
    second = PredictionInterface(other, budget, ledger)
    cap = ledger.balance(DATA).cap
    assert cap.method is Method.EITHER
    assert first.capacity <= rho_within(2.0, 1e-6) / (0.2**2 / 8)
    first.predict(X[:12])
    second.predict(X[12:24])
    assert first.spent().rule.startswith("G22")
    alone = PredictionInterface(SOFT, budget, dataset="alone")
    assert alone.capacity > first.capacity


def opened(model, **settings):
    """Open an interface; return what that says."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        interface = PredictionInterface(model, Budget(1.0), **settings)
    found = [w for w in told if issubclass(w.category, SeparateBudgetsWarning)]
    assert all(each.filename == __file__ for each in found)
    return interface, [str(each.message) for each in found]


def test_a_second_model_with_a_budget_of_its_own_is_told(monkeypatch):
    monkeypatch.setattr(budgets, "_ledgers", {})
    first, second, third = voting(0.1), voting(0.1), voting(0.1)
    assert opened(first)[1] == []
    assert opened(first)[1] == []  # one model, one budget
    assert opened(second, dataset="others")[1] == []
    assert opened(second, ledger=MemoryLedger())[1] == []
    (said,) = opened(second)[1]
    assert "another model has a budget of its own for dataset 'data'" in said
    assert "MemoryLedger" in said
    assert opened(second)[1] == []  # once
    (said,) = opened(third)[1]
    assert "2 other models have" in said  # another text, so that Python shows it too


def test_a_model_that_no_budget_covers_is_not_counted(monkeypatch):
    monkeypatch.setattr(budgets, "_ledgers", {})
    with pytest.raises(BudgetExhaustedError):
        PredictionInterface(voting(0.1), Budget(0.05))
    assert opened(voting(0.1))[1] == []


def test_lasting_models_are_told_of_too(monkeypatch):
    monkeypatch.setattr(budgets, "_ledgers", {})
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    lasting = PrivateNeighborsClassifier(1.0, classes=[False, True])
    lasting.fit(rows, rows[:, 0] > 0)
    assert opened(voting(0.1))[1] == []
    with pytest.warns(SeparateBudgetsWarning, match="another model"):
        PredictionInterface(lasting, Budget(1.0, 1e-6))
