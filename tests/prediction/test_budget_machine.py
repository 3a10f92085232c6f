"""Any order of fits, refits, parameters, models, clients and caps keeps its word."""

import contextlib
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sklearn.tree import DecisionTreeClassifier

from reticent import Budget, BudgetExhaustedError
from reticent._numbers import exact
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    PureDP,
    recheck,
    zcdp_epsilon,
)
from reticent.guarantees.compose import step_rho
from reticent.guarantees.convert import epsilon_delta
from reticent.ledger import AccountId, AccountScope, Cap, MemoryLedger, SQLLedger
from reticent.prediction import PredictionInterface, PrivateVotingClassifier
from tests.prediction.stated import stated

ROWS = np.arange(24.0).reshape(-1, 1)
LABELS = (ROWS[:, 0] > 11).astype(int)
BUDGETS = (Budget(2.0), Budget(1.5, 1e-6), Budget(4.0, 1e-6))
EPSILONS = st.sampled_from([0.05, 0.2, 0.5, 1.0])


class Overheard:
    """A law that writes down what it is asked."""

    def __init__(self, law, drawn):
        self.law = getattr(law, "law", law)
        self.drawn = drawn

    def __getattr__(self, name):
        return getattr(self.law, name)

    def draw(self, X):
        self.drawn.extend(X[:, 0])
        return self.law.draw(X)


class Losses:
    """What answers truly cost those behind an account, in the worst case."""

    def __init__(self):
        self.epsilon, self.delta, self.rho = Fraction(0), Fraction(0), Fraction(0)

    def add(self, guarantee, times):
        if isinstance(guarantee, ZCDP):
            self.epsilon = None
        elif self.epsilon is not None:
            self.epsilon += times * exact(epsilon_delta(guarantee)[0])
        if isinstance(guarantee, ApproxDP):
            self.delta += times * exact(guarantee.delta)
        self.rho += times * exact(step_rho(guarantee))

    def within(self, epsilon, delta):
        """Return whether some theorem bounds these losses so."""
        if self.delta > exact(delta):
            return False
        if self.epsilon is not None and self.epsilon <= exact(epsilon):
            return True
        left = float(exact(delta) - self.delta)
        return left > 0 and zcdp_epsilon(float(self.rho), left) <= epsilon * (1 + 1e-9)


class Budgets(RuleBasedStateMachine):
    """Interfaces on one ledger, and what a careful reader knows about them."""

    models = Bundle("models")
    interfaces = Bundle("interfaces")

    def __init__(self):
        super().__init__()
        self.ledger = self.open_ledger()
        self.losses = defaultdict(Losses)
        self.seen = defaultdict(set)
        self.live = []

    def open_ledger(self):
        return MemoryLedger()

    @rule(target=models, epsilon=EPSILONS, kind=st.sampled_from(["soft", "geometric"]))
    def fit(self, epsilon, kind):
        base = DecisionTreeClassifier(max_depth=1)
        model = PrivateVotingClassifier(base, epsilon, [0, 1], 3, rule=kind)
        return model.fit(ROWS, LABELS)

    @rule(
        target=models,
        guarantee=st.sampled_from([ZCDP(0.003), ApproxDP(0.1, 1e-8), PureDP(0.3)]),
    )
    def state(self, guarantee):
        return stated(guarantee, len(ROWS))

    @rule(model=models, epsilon=EPSILONS, flip=st.booleans())
    def refit(self, model, epsilon, flip):
        if hasattr(model, "set_params"):
            model.set_params(epsilon=epsilon).fit(ROWS, LABELS ^ flip)

    @rule(model=models)
    def loosen(self, model):
        if hasattr(model, "set_params"):
            model.set_params(epsilon=50.0)

    @rule(
        target=interfaces,
        model=models,
        dataset=st.sampled_from(["a", "b"]),
        budget=st.sampled_from(BUDGETS),
        client_budget=st.sampled_from([None, Budget(0.4)]),
    )
    def open(self, model, dataset, budget, client_budget):
        account = AccountId(AccountScope.DATASET, dataset)
        try:
            interface = PredictionInterface(
                model,
                budget,
                self.ledger,
                dataset=dataset,
                client_budget=client_budget,
            )
        except (BudgetExhaustedError, InvalidParameterError):
            return None
        assert self.ledger.balance(account).cap.budget == budget
        self.live.append(interface)
        return interface

    @rule(
        interface=interfaces,
        start=st.integers(0, 20),
        count=st.integers(1, 3),
        client=st.sampled_from(["x", "y"]),
    )
    def ask(self, interface, start, count, client):
        if interface is None:
            return
        drawn = []
        interface.law = Overheard(interface.law, drawn)
        rows, identity = ROWS[start : start + count], interface._memory
        paid = [interface._dataset, AccountId(AccountScope.CLIENT, client)]
        try:
            interface.predict(rows, client=client)
        except (BudgetExhaustedError, InvalidParameterError):
            assert not drawn
            return
        new = {(identity, float(row[0])) for row in rows}
        assert {(identity, row) for row in drawn} == new - self.seen[str(paid[0])]
        guarantee = interface.certificate.guarantee
        for account in paid:
            name = str(account)
            times = len(new - self.seen[name])
            self.seen[name] |= new
            self.losses[name].add(guarantee, times)
            if times:
                cap = self.ledger.balance(account).cap
                assert self.losses[name].within(cap.budget.epsilon, cap.budget.delta)

    @rule(dataset=st.sampled_from(["a", "b"]), share=st.sampled_from([0.3, 1.0, 2.0]))
    def move_cap(self, dataset, share):
        account = AccountId(AccountScope.DATASET, dataset)
        with contextlib.suppress(InvalidParameterError):
            was = self.ledger.balance(account).cap.budget
            self.ledger.set_cap(
                account, Cap.within(Budget(was.epsilon * share, was.delta))
            )

    @rule(dataset=st.sampled_from(["a", "b"]), delta=st.sampled_from([0.0, 1e-6]))
    def move_delta(self, dataset, delta):
        account = AccountId(AccountScope.DATASET, dataset)
        with contextlib.suppress(InvalidParameterError):
            was = self.ledger.balance(account).cap.budget
            self.ledger.set_cap(account, Cap.within(Budget(was.epsilon, delta)))

    @invariant()
    def printed_totals_are_true(self):
        for interface in self.live[-3:]:
            for account, client in (
                (interface._dataset, None),
                (AccountId(AccountScope.CLIENT, "x"), "x"),
            ):
                if not self.seen[str(account)]:
                    continue
                total = interface.spent(client=client)
                delta = epsilon_delta(total.guarantee)[1]
                losses = self.losses[str(account)]
                assert losses.within(total.guarantee.epsilon, delta)
                assert total.answer_count() in (None, len(self.seen[str(account)]))
                recheck(total)

    def teardown(self):
        self.ledger.verify()
        self.ledger.close()


def run(machine, examples, steps=30):
    """Run a machine on the same sequences every time; a failure is not made smaller."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
        ),
    )


@pytest.mark.parametrize("examples", [12, pytest.param(400, marks=pytest.mark.long)])
def test_printed_totals_are_true_in_memory(examples):
    run(Budgets, examples)


@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=pytest.mark.long)])
def test_printed_totals_are_true_on_disk(examples, tmp_path):
    class OnDisk(Budgets):
        made = 0

        def open_ledger(self):
            OnDisk.made += 1
            return SQLLedger(f"sqlite:///{tmp_path / f'{OnDisk.made}.db'}")

    run(OnDisk, examples, steps=20)


def test_an_account_that_counts_half_is_caught(monkeypatch):
    honest = Cap.cost
    monkeypatch.setattr(
        Cap, "cost", lambda cap, charge, answers: honest(cap, charge, answers // 2)
    )
    with pytest.raises(AssertionError):
        run(Budgets, 100)
