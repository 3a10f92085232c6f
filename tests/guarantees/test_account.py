"""A running account: cheap, exact, and never above its budget."""

from __future__ import annotations

import threading
from itertools import cycle, islice

import numpy as np
import pytest

from reticent.errors import (
    BudgetExhaustedError,
    InvalidGuaranteeError,
    InvalidParameterError,
    RelationMismatchError,
    RuleError,
)
from reticent.guarantees import (
    ZCDP,
    Account,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Budget,
    PureDP,
    RobustGeneralization,
    Sample,
    answers_within,
    compose,
    rho_within,
    zcdp_epsilon,
)
from tests.guarantees.cases import answer, given


def exhaust(account, step):
    """Charge one by one until the budget refuses; return how many went through."""
    charged = 0
    while True:
        try:
            account.charge(step)
        except BudgetExhaustedError:
            return charged
        charged += 1


def test_ten_tenths_fit_one_exactly():
    account, step = Account(Budget(1.0)), answer(PureDP(0.1))
    assert account.affords(step) == 10
    assert exhaust(account, step) == 10
    assert account.affords(step) == 0
    assert account.spent().guarantee == PureDP(1.0)
    assert account.spent().answer_count() == 10


@pytest.mark.parametrize(
    ("budget", "kind"),
    [
        (Budget(1.0), PureDP(0.013)),
        (Budget(1.0), BoundedRange(0.013)),
        (Budget(1.0, 1e-6), ApproxDP(0.05, 1e-8)),
        (Budget(1.0, 1e-6), PureDP(0.05)),
        (Budget(1.0, 1e-6), BoundedRange(0.05)),
        (Budget(1.0, 1e-6), ZCDP(3e-4)),
        (Budget(0.01, 1e-3), PureDP(1e-4)),
        (Budget(30.0, 0.5), PureDP(1.0)),
    ],
)
@pytest.mark.parametrize("method", ["basic", "auto"])
def test_the_budget_is_used_up_and_never_exceeded(budget, kind, method):
    if isinstance(kind, ZCDP):
        method = "auto"  # concentrated losses have no epsilon to add
    account, step = Account(budget, method=method), answer(kind)
    expected = account.affords(step)
    charged = exhaust(account, step)
    assert charged == expected > 0
    spent = account.spent()
    assert budget.covers(spent.guarantee)
    assert spent.answer_count() == charged
    # One more would be too much: nothing is left over for no reason.
    over = compose([step] * (charged + 2), delta=budget.delta, methods=[account.method])
    assert not budget.covers(over.guarantee)


def test_two_hundred_votes_at_a_fifth():
    """Adaptive accounting of the sheet's example: 7.8 for soft votes."""
    soft = answer(BoundedRange(0.2))
    assert Account(Budget(7.8, 1e-6)).affords(soft) >= 200
    assert Account(Budget(7.7, 1e-6)).affords(soft) < 200
    assert answers_within(answer(PureDP(0.2)), Budget(16.6, 1e-6)) >= 200
    assert answers_within(answer(PureDP(0.2)), Budget(16.4, 1e-6)) < 200


def test_random_sequences_never_exceed_the_budget(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        budget = Budget(
            float(10 ** rng.uniform(-2, 1.5)), float(10 ** rng.uniform(-9, -2))
        )
        steps = [
            answer(PureDP(budget.epsilon * float(rng.uniform(0.001, 0.2)))),
            answer(BoundedRange(budget.epsilon * float(rng.uniform(0.001, 0.3)))),
            answer(ZCDP(budget.epsilon**2 * float(rng.uniform(1e-4, 1e-2)))),
            answer(
                ApproxDP(
                    budget.epsilon * 0.01, budget.delta * float(rng.uniform(0, 0.2))
                )
            ),
        ]
        account = Account(budget, reserve=float(rng.choice([0.0, 0.3, 0.5, 0.9])))
        refused = 0
        for _ in range(400):
            step = steps[int(rng.integers(4))]
            times = int(rng.integers(1, 5))
            fits = account.affords(step) >= times
            try:
                account.charge(step, times)
            except BudgetExhaustedError:
                refused += 1
                assert not fits
            else:
                assert fits
        assert refused > 0
        spent = account.spent()
        assert spent is None or budget.covers(spent.guarantee)


def test_a_refused_step_is_not_charged():
    account, step = Account(Budget(1.0)), answer(PureDP(0.4))
    account.charge(step)
    with pytest.raises(
        BudgetExhaustedError, match=r"2 x 0.4-DP .* 40 % .* at most 1 more"
    ):
        account.charge(step, 2)
    assert account.spent().guarantee == PureDP(0.4)
    account.charge(step)
    assert account.spent().guarantee == PureDP(0.8)


def test_refusal_depends_on_the_charges_alone():
    """Two transcripts with the same charges in any order end the same way."""
    small, large = answer(PureDP(0.1)), answer(PureDP(0.35))

    def outcome(order):
        account = Account(Budget(1.0))
        for step in order:
            account.charge(step)
        return account.affords(small), account.affords(large), account.spent().guarantee

    assert outcome([small, large, small]) == outcome([large, small, small])


def test_nothing_spent_is_none():
    account = Account(Budget(1.0))
    assert account.spent() is None
    account.affords(answer(PureDP(0.1)))
    assert account.spent() is None


@pytest.mark.parametrize("workers", [64])
def test_the_last_slots_go_to_as_many_workers_and_no_more(workers):
    """Sixty-four threads race for twenty-five slots, over two certificates."""
    account = Account(Budget(1.0))
    steps = [answer(PureDP(0.01)), answer(BoundedRange(0.01))]
    account.charge(steps[0], 75)
    start, outcomes = threading.Barrier(workers), []

    def work(step):
        start.wait()
        try:
            account.charge(step)
        except BudgetExhaustedError:
            outcomes.append(False)
        else:
            outcomes.append(True)

    crowd = [
        threading.Thread(target=work, args=(step,))
        for step in islice(cycle(steps), workers)
    ]
    for worker in crowd:
        worker.start()
    for worker in crowd:
        worker.join()
    assert len(outcomes) == workers
    assert sum(outcomes) == 25
    assert account.spent().guarantee == PureDP(1.0)


def test_conversion_takes_all_of_delta_unless_a_step_brings_its_own():
    budget, step = Budget(2.0, 1e-6), answer(BoundedRange(0.1))
    whole = Account(budget).affords(step)
    half = Account(budget, reserve=0.5).affords(step)
    assert whole == int(rho_within(2.0, 1e-6) * (1 - 1e-12) / (0.1**2 / 8))
    assert half == int(rho_within(2.0, 5e-7) * (1 - 1e-12) / (0.1**2 / 8))
    assert whole > half
    # Asking settles nothing; the first charge does.
    account = Account(budget)
    slack = answer(ApproxDP(0.1, 1e-8))
    assert account.affords(slack) > 0
    assert account.affords(step) == whole
    account.charge(step)
    assert account.affords(slack) == 0
    account = Account(budget)
    account.charge(slack)
    assert account.affords(slack) > 10
    with pytest.raises(BudgetExhaustedError):
        account.charge(slack, 50)
    assert budget.covers(account.spent().guarantee)


def test_a_reserve_is_settled_in_advance():
    budget = Budget(2.0, 1e-6)
    slack = answer(ApproxDP(0.01, 1e-7))
    assert Account(budget, reserve=0.0).affords(slack) == 0
    assert Account(budget, reserve=0.95).affords(slack) == 9
    for bad in (1.0, -0.1, float("nan"), "half", True):
        with pytest.raises(InvalidGuaranteeError, match="reserve"):
            Account(budget, reserve=bad)


def test_tiny_steps_are_not_rounded_up_to_much():
    """A step far below the budget costs what it says, within a thousandth."""
    account = Account(Budget(1.0, 1e-6))
    step = answer(PureDP(1e-9))
    expected = rho_within(1.0, 1e-6) / (1e-18 / 2)
    assert account.affords(step) == pytest.approx(expected, rel=1e-3)


def test_free_steps_are_always_affordable():
    account, free = Account(Budget(1.0)), answer(PureDP(0.0))
    account.charge(free, 10**15)
    assert account.affords(free) == 10**18
    assert account.spent().guarantee == PureDP(0.0)


def test_many_certificates_are_merged_by_value():
    """Equal certificates made anew for each answer count as one, in bounded memory."""
    account = Account(Budget(1000.0))
    for k in range(1200):
        account.charge(answer(PureDP(0.1 if k % 2 else 0.2)))
    spent = account.spent()
    assert spent.guarantee == PureDP(180.0)
    assert len(spent.premises) == 2
    assert spent.answer_count() == 1200
    assert len(account._prices) <= 256


def test_alternating_certificates_are_each_counted():
    account = Account(Budget(100.0))
    first, second = answer(PureDP(0.1)), answer(PureDP(0.25))
    for _ in range(20):
        account.charge(first)
        account.charge(second, 2)
    assert account.spent().guarantee == PureDP(12.0)


@pytest.mark.parametrize("times", [0, -3, 1.0, True, None, "2", float("nan")])
def test_charges_are_positive_whole_numbers(times):
    account = Account(Budget(1.0))
    with pytest.raises(InvalidGuaranteeError, match="times"):
        account.charge(answer(PureDP(0.1)), times)
    assert account.spent() is None


def test_numpy_counts_are_fine():
    account = Account(Budget(1.0))
    account.charge(answer(PureDP(0.1)), np.int64(3))
    assert account.spent().guarantee == PureDP(0.3)


def test_one_account_is_about_one_dataset():
    account = Account(Budget(1.0))
    account.affords(given(PureDP(0.1), relation=AddRemove()))  # asking binds nothing
    account.charge(answer(PureDP(0.1)))
    for other in (given(PureDP(0.1), relation=AddRemove()), answer(PureDP(0.1), n=7)):
        with pytest.raises(RelationMismatchError, match="replace one unit of 100"):
            account.charge(other)
    with pytest.raises(RelationMismatchError, match="independent units"):
        Account(Budget(1.0)).charge(given(PureDP(0.1), relation=Sample(5)))


def test_accounts_take_private_certificates_only():
    with pytest.raises(RuleError, match="takes certificates; got PureDP"):
        Account(Budget(1.0)).charge(PureDP(0.1))
    with pytest.raises(RuleError, match="no epsilon and delta"):
        Account(Budget(1.0)).charge(given(RobustGeneralization(0.1, 0.1)))
    with pytest.raises(RuleError, match="method='basic' cannot add"):
        Account(Budget(1.0)).charge(answer(ZCDP(0.1)))


def test_methods_are_chosen_in_advance():
    assert Account(Budget(1.0)).method == "basic"
    assert Account(Budget(1.0, 1e-6)).method == "zcdp"
    with pytest.raises(
        InvalidParameterError, match="method='zcdp' needs a budget with"
    ):
        Account(Budget(1.0), method="zcdp")
    with pytest.raises(InvalidParameterError, match="method='pld'"):
        Account(Budget(1.0), method="pld")
    with pytest.raises(InvalidParameterError, match="needs a Budget; got float"):
        Account(1.0)


def test_spending_of_an_approximate_step_is_within_the_budget_at_the_edge():
    """Slack used up to the last unit leaves the conversion a rounding short."""
    budget = Budget(1.0, 1e-6)
    account = Account(budget, reserve=0.5)
    account.charge(answer(ApproxDP(1e-9, 5e-7)))
    account.charge(answer(PureDP(1e-5)), account.affords(answer(PureDP(1e-5))))
    total = account.spent().guarantee
    assert budget.covers(total)
    assert total.epsilon == pytest.approx(1.0, rel=1e-6)
    assert zcdp_epsilon(rho_within(1.0, 5e-7), 5e-7) <= 1.0


def transcripts(budget, losses, history=(), first=1.0, second=1.0):
    """Yield both probabilities of every transcript of an adaptive analyst.

    The analyst asks for randomized responses, whose epsilons depend on the answers so
    far, until the account refuses.
    """
    account = Account(budget)
    for epsilon, _ in history:
        account.charge(answer(PureDP(epsilon)))
    epsilon = losses(history)
    if len(history) == 8 or account.affords(answer(PureDP(epsilon))) == 0:
        yield first, second
        return
    high = 1 / (1 + np.exp(-epsilon))
    for bit, (mine, theirs) in enumerate([(1 - high, high), (high, 1 - high)]):
        yield from transcripts(
            budget, losses, (*history, (epsilon, bit)), first * mine, second * theirs
        )


def bold_when_ahead(history):
    return 0.9 if history and history[-1][1] else 0.4


def bold_when_behind(history):
    return 0.4 if sum(bit for _, bit in history) * 2 > len(history) else 0.8


@pytest.mark.parametrize("losses", [bold_when_ahead, bold_when_behind])
@pytest.mark.parametrize("budget", [Budget(1.7), Budget(2.5, 0.05), Budget(2.0, 0.2)])
def test_steps_chosen_after_each_answer_stay_within_the_budget(losses, budget):
    pairs = np.array(list(transcripts(budget, losses)))
    assert pairs.sum(axis=0) == pytest.approx([1.0, 1.0])
    first, second = pairs.T
    slack = np.maximum(first - np.exp(budget.epsilon) * second, 0).sum()
    assert slack <= budget.delta + 1e-12
    # The control: a quarter of the budget would not have covered it.
    slack = np.maximum(first - np.exp(0.25 * budget.epsilon) * second, 0).sum()
    assert slack > budget.delta
