"""How much of a budget each run of a search may cost (G26)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtr

from reticent._numbers import down, exact
from reticent._search import last_that_holds
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    Budget,
    GaussianDP,
    PureDP,
    gaussian_epsilon,
    zcdp_epsilon,
)
from reticent.learners.search.profiles import profile
from reticent.learners.search.rules import allowed
from reticent.mechanisms import Repetitions

#: How training can state its promise, best first.
KINDS = ("pure", "gaussian", "zcdp", "approximate")
# Searches end when they are this close, relatively.
_CLOSE = 1e-4


@dataclass(frozen=True)
class RunPrice:
    """What training in one run may cost."""

    promise: Any  # what it must promise
    # The same as two numbers: what a learner is asked for.
    epsilon: float
    delta: float


@dataclass(frozen=True)
class RunPlan:
    """What one run may cost, so that the best of all runs is within a budget."""

    repetitions: Repetitions  # the law of the number of runs
    price: RunPrice  # for training
    score_epsilon: float  # for the score
    # Where rule G26 evaluates the profile of a run; None for pure runs.
    epsilon_one: float | None = None
    epsilon_two: float | None = None


def plan_runs(kind: str, budget: Budget, repetitions: Repetitions) -> RunPlan:
    """Return the most that one run may cost.

    Parameters
    ----------
    kind : {"pure", "gaussian", "zcdp", "approximate"}
        How training states its promise.
    budget : Budget
        What choosing and the released run may cost together.
    repetitions : Repetitions
        The law of the number of runs.
    """
    if kind == "pure":
        share = exact(budget.epsilon) / (2 + exact(repetitions.eta))
        step = math.nextafter(float(share), 0.0)
        return RunPlan(repetitions, RunPrice(PureDP(step), step, 0.0), step)
    if not budget.delta > 0:
        raise InvalidParameterError(
            f"budget={budget} has no delta, and training promises none without one. "
            "Give a delta, or a learner that is pure without it."
        )
    slack = down(budget.delta / repetitions.mean) * (1 - 1e-6)

    def epsilons(level: float) -> tuple[float, float]:
        promise = _promise(kind, level, slack)
        one = _first(promise, slack)
        return one, _second(promise, one, repetitions)

    def fits(level: float) -> bool:
        one, two = epsilons(level)
        return one + (1 + repetitions.eta) * two <= budget.epsilon * (1 - 1e-9)

    # From above, in a few exact steps: the exact functions take milliseconds.
    level = _upper_level(kind, budget, repetitions, slack)
    while not fits(level):
        level *= 1 - _CLOSE
    one, two = epsilons(level)
    # Learners round on their own; a hair less keeps them within the promise.
    asked = _first(_promise(kind, level * (1 - 1e-6), slack), slack)
    return RunPlan(
        repetitions,
        RunPrice(_promise(kind, level, slack), asked, slack),
        _score_epsilon(one, two, repetitions),
        one,
        two,
    )


def _upper_level(
    kind: str, budget: Budget, repetitions: Repetitions, slack: float
) -> float:
    """Return a level by floats: about the largest that fits."""
    eta, gamma = repetitions.eta, repetitions.gamma

    def delta(level: float, epsilon: float) -> float:
        if kind == "gaussian":
            # An absolute error of 1e-16 does not matter here.
            cut = epsilon / level
            below = math.exp(min(epsilon, 700.0)) * ndtr(-cut - level / 2)
            return float(ndtr(-cut + level / 2) - below)
        return profile(_promise(kind, level, slack), epsilon)

    def smallest(holds: Callable[[float], bool]) -> float:
        return last_that_holds(holds, 100.0, 0.0, relative=1e-6)

    def fits(level: float) -> bool:
        if kind == "gaussian":
            one = smallest(lambda e: delta(level, e) <= slack)
        else:
            one = _first(_promise(kind, level, slack), slack) if level else 0.0
        two = smallest(lambda e: delta(level, e) * (1 - gamma) <= gamma * math.expm1(e))
        return one + (1 + eta) * two <= budget.epsilon

    return last_that_holds(fits, 0.0, 2 * budget.epsilon + 2, relative=1e-5)


def _promise(kind: str, level: float, slack: float) -> Any:
    if kind == "gaussian":
        return GaussianDP(level)
    return ZCDP(level) if kind == "zcdp" else ApproxDP(level, slack)


def _first(promise: Any, slack: float) -> float:
    """Return the epsilon at which a run has delta `slack`."""
    if isinstance(promise, GaussianDP):
        return float(gaussian_epsilon(promise.mu, slack))
    if isinstance(promise, ZCDP):
        return zcdp_epsilon(promise.rho, slack) * (1 + 1e-9)
    return float(promise.epsilon)


def _second(promise: Any, one: float, repetitions: Repetitions) -> float:
    """Return the smallest epsilon that rule G26 takes as the second."""

    def holds(epsilon: float) -> bool:
        return allowed(promise, repetitions, epsilon)

    start = one if holds(one) else 100.0
    return last_that_holds(holds, start, 0.0, relative=_CLOSE)


def _score_epsilon(one: float, two: float, repetitions: Repetitions) -> float:
    """Return the largest epsilon of a pure score that adds nothing to the total."""
    gamma = repetitions.gamma
    share = gamma * math.expm1(two) / (1 - gamma)
    if share >= 1:
        return one
    # Randomized response has delta(two) = (e^s - e^two) / (1 + e^s).
    largest = math.log((math.exp(two) + share) / (1 - share))
    return down(min(one, largest)) * (1 - 1e-9)
