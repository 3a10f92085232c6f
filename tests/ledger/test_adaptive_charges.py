"""Charges chosen after each answer: all transcripts of small games, enumerated."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import BudgetExhaustedError
from reticent.guarantees import Budget, PureDP, ReplaceOne, Scope, claim
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    MemoryLedger,
    Request,
)

CLIENT = AccountId(AccountScope.CLIENT, "analyst")


def admits(budget, epsilons):
    """Return whether a ledger admits answers of these epsilons, one by one."""
    ledger = MemoryLedger()
    ledger.open_account(CLIENT, Cap.within(budget))
    try:
        for place, epsilon in enumerate(epsilons):
            step = claim(
                PureDP(epsilon), ReplaceOne(100), Scope.ANSWER, statement="test"
            )
            ledger.charge(
                Request(
                    key=f"answer-{place}",
                    accounts=(CLIENT,),
                    charge=Charge.of(step),
                    queries=(b"query",),
                )
            )
    except BudgetExhaustedError:
        return False
    return True


def transcripts(budget, losses, history=(), first=1.0, second=1.0):
    """Yield both probabilities of every transcript of an adaptive analyst.

    The analyst asks for randomized responses, whose epsilons depend on the answers so
    far, until the ledger refuses.
    """
    epsilon = losses(history)
    asked = [*(past for past, _ in history), epsilon]
    if len(history) == 8 or not admits(budget, asked):
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


def test_refusal_depends_on_the_charges_alone():
    """The same charges in any order are admitted or refused together."""
    for last, admitted in ((0.35, True), (0.36, False)):
        assert admits(Budget(1.0), [0.3, 0.35, last]) is admitted
        assert admits(Budget(1.0), [last, 0.35, 0.3]) is admitted
