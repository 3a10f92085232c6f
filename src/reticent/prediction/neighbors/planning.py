"""The noise of questions and the shares of the budget, from public facts."""

from __future__ import annotations

import math

from reticent.estimators import RoundBudget
from reticent.prediction.neighbors.crowd import QuestionPlan
from reticent.prediction.neighbors.votes import LOUDEST, MEAN_WEIGHT, ONE

# Defaults, settled on public tables; none depends on the rows.
#: Shares of a unit's budget for the spread of columns, and for the metric.
SPREAD_SHARE, METRIC_SHARE = 0.03, 0.02
# The share that a unit, fitted as usual, has left for questions.
_LEFT = 0.75
# The noise of votes, as a part of the weight of who is expected to speak.
_NOISE = 0.16
# A unit that is asked several times needs more noise by the root of their number. Far
# units say less, so a part of that is enough.
_REPEATED = 0.85
_FEWEST = 10.0


def prior_share(n_units: int, mu: float) -> float:
    """Return the share of a unit's budget that learning a prior may use at most."""
    return min(max(math.sqrt(6_000 / (n_units * mu)), 0.3), 0.9)


def question_plan(
    n_units: int,
    budget: RoundBudget,
    questions: int,
    *,
    vote: float,
    acute: bool,
) -> QuestionPlan:
    """Return the noise of a question, if about this many are asked in all.

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
    """
    left = math.sqrt(_LEFT * budget.cap / budget.weight(acute))
    most = max(n_units / 50, _FEWEST)
    wanted = _FEWEST
    while True:
        times = questions * wanted / n_units
        noise = max(1.1, _REPEATED * math.sqrt(times)) * vote / left
        if noise / (MEAN_WEIGHT * wanted) <= _NOISE or wanted >= most:
            break
        wanted = min(wanted * 1.1, most)
    count = wanted * min(max(0.3 * times**0.25, 0.2), 0.4)
    return QuestionPlan(
        wanted=wanted,
        vote_scale=math.ceil(noise * ONE * LOUDEST),
        count_scale=math.ceil(count * 16) / 16,
    )
