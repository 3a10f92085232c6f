"""Composition (G22): what many answers cost together.

`compose` tries every method that fits and returns the smallest; the rule on the
result names the method. Basic composition and zCDP also hold when each step's
parameters are chosen after seeing earlier answers (see `totals`). The others need
parameters fixed in advance, though the steps themselves may adapt; value iteration over
bounded-range steps (see `bounded_range`) needs only their number and largest range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from reticent._numbers import ceil_float, exact, probability, whole
from reticent._search import doubled_until, last_whole_that_holds
from reticent.errors import RuleError
from reticent.guarantees.bounded_range import affordable, range_answers
from reticent.guarantees.budget import Budget
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.concentrated import step_rho as step_rho
from reticent.guarantees.concentrated import zcdp_epsilon
from reticent.guarantees.convert import NEIGHBOURS, epsilon_delta
from reticent.guarantees.loss import Step, delta_left, pld_epsilon, pure_epsilon
from reticent.guarantees.premises import (
    answers_in,
    delta_beyond,
    joined,
    no_delta_left,
    own_slack,
)
from reticent.guarantees.rule import Conclusion, rule, rules
from reticent.guarantees.types import ZCDP, ApproxDP, BoundedRange, PureDP

_STEPS = (PureDP, BoundedRange, ApproxDP, ZCDP)
# PLD takes about a second for this many; beyond, only closed forms are used.
_PLD_STEPS = 10_000
_PLD_KINDS = 8
_MOST_ANSWERS = 10**12

#: Methods of composition that are fast enough for the path of a request.
CLOSED_FORMS = ("basic", "exact", "zcdp")
#: With value iteration (G25), which takes a fraction of a second and is cached.
QUICK_METHODS = (*CLOSED_FORMS, "range")
_METHODS = (*QUICK_METHODS, "pld")
_RULES = {method: f"G22-{method}" for method in _METHODS} | {"range": "G25"}


@rule(
    "G22-basic",
    name="basic composition",
    statement="epsilons and deltas add up",
    source="DworkRoth2014, Thm 3.16; RogersEtAl2016 for adaptive parameters",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=(PureDP, ApproxDP),
    relations=NEIGHBOURS,
    adaptivity="fully adaptive",
)
def basic_composition(
    *premises: Certificate[Any], counts: Sequence[int], answers: int | None = None
) -> Conclusion[Any]:
    """Add up; the only method without a delta."""
    numbers, relation, scope = joined("G22-basic", premises, counts, answers)
    epsilon = ceil_float(
        sum(
            (
                exact(epsilon_delta(premise.guarantee)[0]) * count
                for premise, count in zip(premises, numbers, strict=True)
            ),
            Fraction(0),
        )
    )
    slack = own_slack(premises, numbers)
    total: Any = PureDP(epsilon)
    if slack > 0:
        if not slack < 1:
            raise RuleError(f"rule G22-basic gives delta={float(slack):.3g} >= 1.")
        total = ApproxDP(epsilon, ceil_float(slack))
    return Conclusion(total, relation, scope)


@rule(
    "G22-exact",
    name="optimal composition of equal pure steps",
    statement="the loss of k steps is that of k randomized responses",
    source="KairouzOhViswanath2015, Thm 3.3",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=ApproxDP,
    relations=NEIGHBOURS,
    adaptivity="adaptive",
)
def exact_composition(
    premise: Certificate[Any],
    *,
    counts: Sequence[int],
    delta: float,
    answers: int | None = None,
) -> Conclusion[ApproxDP]:
    """Compose equal steps to the smallest epsilon that is possible at `delta`."""
    (count,), relation, scope = joined("G22-exact", [premise], counts, answers)
    step, slack = epsilon_delta(premise.guarantee)
    probability("rule G22-exact", "delta", delta)
    left = delta_left(delta, slack, count)
    if not left > 0:
        raise no_delta_left("G22-exact", delta, exact(slack) * count)
    total = ApproxDP(pure_epsilon(step, count, left), delta)
    return Conclusion(total, relation, scope)


@rule(
    "G22-zcdp",
    name="zCDP composition",
    statement="rho adds up: eps^2/8 for bounded range, eps^2/2 for pure DP",
    source="BunSteinke2016, Lemma 1.7; CesarRogers2021; WhitehouseEtAl2023 for filters",
    takes=_STEPS,
    gives=(ZCDP, ApproxDP),
    relations=NEIGHBOURS,
    adaptivity="fully adaptive",
)
def zcdp_composition(
    *premises: Certificate[Any],
    counts: Sequence[int],
    delta: float | None = None,
    answers: int | None = None,
) -> Conclusion[Any]:
    """Add up rho; with a `delta`, convert the total to (epsilon, delta)-DP.

    A step that is only (epsilon, delta)-DP counts as pure; its delta is added.
    """
    numbers, relation, scope = joined("G22-zcdp", premises, counts, answers)
    rho = ceil_float(
        sum(
            (
                exact(step_rho(premise.guarantee)) * count
                for premise, count in zip(premises, numbers, strict=True)
            ),
            Fraction(0),
        )
    )
    slack = own_slack(premises, numbers)
    if delta is None:
        if slack > 0:
            raise RuleError("rule G22-zcdp needs delta= when a step has a delta.")
        return Conclusion(ZCDP(rho), relation, scope)
    left = delta_beyond("G22-zcdp", delta, slack)
    return Conclusion(ApproxDP(zcdp_epsilon(rho, left), delta), relation, scope)


@rule(
    "G22-pld",
    name="composition by privacy loss distributions",
    statement="convolve worst-case loss distributions, rounded up to a grid",
    source="DoroshenkoEtAl2022; dp_accounting",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=ApproxDP,
    relations=NEIGHBOURS,
    adaptivity="adaptive",
)
def pld_composition(
    *premises: Certificate[Any],
    counts: Sequence[int],
    delta: float,
    answers: int | None = None,
) -> Conclusion[ApproxDP]:
    """Convolve the worst-case losses: randomized response, or the odds pair."""
    numbers, relation, scope = joined("G22-pld", premises, counts, answers)
    probability("rule G22-pld", "delta", delta)
    epsilon = pld_epsilon(_steps(premises, numbers), delta)
    if not math.isfinite(epsilon):
        raise RuleError(
            f"rule G22-pld cannot reach delta={delta!r}; the steps bring "
            f"{float(own_slack(premises, numbers)):.3g} themselves, and rounding needs "
            "a little."
        )
    return Conclusion(ApproxDP(epsilon, delta), relation, scope)


def _steps(
    premises: Sequence[Certificate[Any]], counts: Sequence[int]
) -> tuple[Step, ...]:
    return tuple(
        (
            "range" if isinstance(premise.guarantee, BoundedRange) else "pure",
            *epsilon_delta(premise.guarantee),
            count,
        )
        for premise, count in zip(premises, counts, strict=True)
    )


def compose(
    certificates: Iterable[Certificate[Any]],
    *,
    delta: float = 0.0,
    methods: Sequence[str] = _METHODS,
) -> Certificate[Any]:
    """Return the smallest certificate for several uses of the same data.

    Parameters
    ----------
    certificates : iterable of Certificate
        One for each use, in any order; equal ones are counted together.
    delta : float, default=0.0
        Total slack to aim for. With 0 the epsilons (and deltas) are added up, or the
        rhos if a step is known by its zCDP alone.
    methods : sequence of {"basic", "exact", "zcdp", "range", "pld"}
        What to try. "exact" takes equal steps. "range" takes up to some thousands of
        bounded-range steps. "pld" takes at most 10,000 steps, and is skipped where
        "range" applies, which is better.

    Returns
    -------
    Certificate
        Its `rule` names the method: "G22-basic", "G22-exact", "G22-zcdp", "G25" (value
        iteration) or "G22-pld".
    """
    tally: dict[Certificate[Any], int] = {}
    for certificate, run in groupby(certificates, key=_Same):
        whose = _certificate(certificate.value)
        tally[whose] = tally.get(whose, 0) + sum(1 for _ in run)
    return _compose(tally, delta, methods)


class _Same:
    """Equal when identical: comparing two derivations in full takes longer."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _certificate(value: Any) -> Certificate[Any]:
    if not isinstance(value, Certificate):
        raise RuleError(
            f"composition takes certificates; got {type(value).__name__}. Wrap a claim "
            "from outside with claim()."
        )
    return value


def repeat(
    certificate: Certificate[Any],
    times: int,
    *,
    delta: float = 0.0,
    methods: Sequence[str] = _METHODS,
) -> Certificate[Any]:
    """Return what `times` uses of one mechanism cost, each with fresh randomness."""
    times = whole("repeat", "times", times)
    return _compose({_certificate(certificate): times}, delta, methods)


def _compose(
    tally: dict[Certificate[Any], int], delta: float, methods: Sequence[str]
) -> Certificate[Any]:
    premises, counts = tuple(tally), tuple(tally.values())
    unknown = set(methods) - set(_METHODS)
    if unknown:
        raise RuleError(f"methods={sorted(unknown)} are not known to compose().")
    concentrated = any(isinstance(p.guarantee, ZCDP) for p in premises)
    answers = answers_in(premises, counts)
    if delta == 0:
        method = "G22-zcdp" if concentrated else "G22-basic"
        return rules[method].apply(*premises, counts=counts, answers=answers)
    probability("compose", "delta", delta)
    found = [
        rules[_RULES[method]].apply(
            *premises, counts=counts, answers=answers, **_target(method, delta)
        )
        for method in _of_use(methods, premises, counts, delta)
    ]
    if not found:
        raise RuleError(
            f"no method composes these steps to delta={delta!r}; the steps bring "
            f"delta={float(own_slack(premises, counts)):.3g} themselves. Ask for more."
        )
    return min(found, key=lambda c: (c.guarantee.epsilon, epsilon_delta(c.guarantee)))


def _target(method: str, delta: float) -> dict[str, float]:
    return {} if method == "basic" else {"delta": delta}


def _of_use(
    methods: Sequence[str],
    premises: Sequence[Certificate[Any]],
    counts: Sequence[int],
    delta: float,
) -> list[str]:
    """Return the methods that fit, without those that another always beats."""
    if "range" in methods and _fits("range", premises, counts, delta):
        methods = [method for method in methods if method != "pld"]
    return [m for m in methods if _fits(m, premises, counts, delta)]


def _fits(
    method: str,
    premises: Sequence[Certificate[Any]],
    counts: Sequence[int],
    delta: float,
) -> bool:
    concentrated = any(isinstance(p.guarantee, ZCDP) for p in premises)
    slack = own_slack(premises, counts)
    if method == "basic":
        return bool(premises) and not concentrated and slack <= exact(delta)
    if not slack < exact(delta):
        return False
    if method == "exact":
        return len(premises) == 1 and not concentrated
    if method == "range":
        losses = [p.guarantee for p in premises]
        if not losses or not all(isinstance(loss, BoundedRange) for loss in losses):
            return False
        return affordable(max(loss.epsilon for loss in losses), sum(counts), delta)
    if method == "pld":
        small = sum(counts) <= _PLD_STEPS and len(premises) <= _PLD_KINDS
        if not small or concentrated or sum(counts) == 1:
            return False
        return math.isfinite(pld_epsilon(_steps(premises, counts), delta))
    return True


def answers_within(certificate: Certificate[Any], budget: Budget) -> int:
    """Return how many answers of one mechanism a budget covers.

    The best of the closed forms (basic, exact, zCDP) is used, and value iteration for
    steps of bounded range, a fraction of a second; a plan may gain a little more from
    PLD.
    """

    def fits(times: int, methods: Sequence[str] = CLOSED_FORMS) -> bool:
        try:
            total = repeat(certificate, times, delta=budget.delta, methods=methods)
        except RuleError:
            return False
        return budget.covers(total.guarantee)

    low, high = doubled_until(lambda times: times > _MOST_ANSWERS or not fits(times), 1)
    if high > _MOST_ANSWERS and fits(_MOST_ANSWERS):
        return _MOST_ANSWERS
    number = last_whole_that_holds(fits, low, min(high, _MOST_ANSWERS))
    loss = certificate.guarantee
    if isinstance(loss, BoundedRange) and budget.delta > 0 and loss.epsilon > 0:
        # Found on one grid, checked on that of the total.
        more = range_answers(loss.epsilon, budget.epsilon, budget.delta)
        return _last_near(lambda times: fits(times, QUICK_METHODS), more, number)
    return number


def _last_near(fits: Callable[[int], bool], guess: int, known: int) -> int:
    """Return the last number that fits, near a guess; `known` is one that fits."""
    inside, outside = max(guess, known), max(guess, known) + 1
    gap = 1
    while inside > known and not fits(inside):
        inside, outside, gap = max(known, inside - gap), inside, 2 * gap
    while outside - inside == 1 and fits(outside):
        inside, outside = outside, outside + 1
    return last_whole_that_holds(fits, inside, outside)
