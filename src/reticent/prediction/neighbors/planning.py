"""The noise of questions and the shares of the budget, from public facts."""

from __future__ import annotations

import math
from typing import Any

from reticent._search import last_whole_that_holds
from reticent.estimators import SPREAD_SHARE, RoundBudget
from reticent.prediction.neighbors.fallback import ERROR_SHARE
from reticent.prediction.neighbors.local_units import QuestionPlan
from reticent.prediction.neighbors.votes import LOUDEST, MEAN_WEIGHT, ONE

# Defaults, settled on parts of the training rows of two public tables; none depends on
# the rows that are fitted.
#: The share of a unit's budget for the metric.
METRIC_SHARE = 0.02
# The share that learning the prior may use, for replacing a unit. The units that it
# fits worst pay all of it, and must still be able to vote: minorities without a vote
# would bias all answers.
_PRIOR_SHARE = 0.3
# The largest share that being counted once may cost.
_COUNT = 0.06
# The share that a usual unit has left for all its votes.
_LEFT = 0.8
# The noise of votes, as a part of the weight of the units expected to vote.
_NOISE = 0.16
# A unit that is asked several times needs more noise by the root of their number. Far
# units say less, so a part of that is enough where noise is what limits answers.
_REPEATED = {"replace-one": 0.9, "zero-out": 1.2}
_FEWEST = 10.0
# With fewer units than this over mu, a vote of those near a question says less than a
# model on which all units spend their whole budget.
_FEWEST_LOCAL = 20_000.0
# Nor are units near if a question looks for more than this part of all.
_MOST_LOCAL = 0.002


def prior_share(budget: RoundBudget) -> float:
    """Return the share that learning the prior may use.

    Zeroing a unit changes sums half as much as replacing one, so a smaller share makes
    as good a model.
    """
    return _PRIOR_SHARE / (1 if budget.relation == "replace-one" else 2.5)


def _least_left(budget: RoundBudget) -> float:
    """Return the share that the worst fitted unit has left for its first vote."""
    released = SPREAD_SHARE + METRIC_SHARE + ERROR_SHARE + prior_share(budget)
    return 1 - released - _COUNT


def question_plan(
    n_units: int,
    budget: RoundBudget,
    questions: int,
    *,
    vote: float,
    acute: bool,
    client_share: float = 1.0,
) -> QuestionPlan:
    """Return the noise of a question, if about this many are asked in total.

    Parameters
    ----------
    n_units : int
        Number of units.
    budget : RoundBudget
        What a unit may spend.
    questions : int
        How many questions the noise is planned for. There may be more.
    vote : float
        The size of a usual vote.
    acute : bool
        Whether votes never point apart.
    client_share : float, default=1.0
        What one client may use of a unit's budget: enough to be counted and to vote.
    """
    steps = budget.cap / budget.weight(acute)
    most = max(n_units / 50, _FEWEST)
    wanted = _FEWEST
    often = _REPEATED[budget.relation] * vote / math.sqrt(_LEFT * steps)
    least = min(_least_left(budget), (1 - _COUNT) * client_share)
    while True:
        times = questions * wanted / n_units
        once = vote / math.sqrt(least * steps)
        noise = max(once, often * math.sqrt(times))
        if noise / (MEAN_WEIGHT * wanted) <= _NOISE or wanted >= most:
            break
        wanted = min(wanted * 1.1, most)
    count = wanted * min(max(0.3 * times**0.25, 0.2), 0.4)
    count = max(count, math.sqrt(1 / (_COUNT * client_share * budget.cap)))
    return QuestionPlan(
        wanted=wanted,
        vote_scale=math.ceil(noise * ONE * LOUDEST),
        count_scale=math.ceil(count * 16) / 16,
    )


def most_local_questions(
    n_units: int, budget: RoundBudget, questions: int, **usual: Any
) -> int:
    """Return how many questions, up to `questions`, units should vote on.

    The more questions there are, the more noise each has, and the more units it looks
    for. If those are not near, a model on which all units spend their whole budget
    says more than their votes. Everything here is public.
    """
    if n_units * budget.mu < _FEWEST_LOCAL:
        return 0

    def near(count: int) -> bool:
        plan = question_plan(n_units, budget, count, **usual)
        return plan.wanted <= _MOST_LOCAL * n_units

    if near(questions):
        return questions
    return last_whole_that_holds(near, 0, questions)
