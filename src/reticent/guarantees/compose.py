"""Composition (G22): what many answers cost together.

`compose` tries every method that fits and returns the smallest; the rule on the
result names the method. Basic composition and zCDP also hold when each step's
parameters are chosen after seeing earlier answers (see `Account`); the exact and the
PLD method need parameters fixed in advance, though the steps themselves may adapt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from reticent._rounding import up
from reticent.errors import RelationMismatchError, RuleError
from reticent.guarantees.budget import Budget
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import (
    NEIGHBOURS,
    epsilon_delta,
    zcdp_epsilon,
)
from reticent.guarantees.loss import pld_epsilon, pure_epsilon
from reticent.guarantees.numbers import ceil_float, exact, probability, whole
from reticent.guarantees.rule import Conclusion, rule, rules
from reticent.guarantees.subject import Scope
from reticent.guarantees.types import ZCDP, ApproxDP, BoundedRange, PureDP

_STEPS = (PureDP, BoundedRange, ApproxDP, ZCDP)
# PLD takes about a second here; beyond, the closed forms are used alone.
_PLD_STEPS = 10_000
_PLD_KINDS = 8
_MOST_ANSWERS = 10**12


def _joined(
    premises: Sequence[Certificate[Any]], counts: Sequence[int]
) -> tuple[list[int], Any, Scope]:
    """Check that premises belong together; return counts, relation and scope."""
    if not premises:
        raise RuleError("composition needs at least one certificate; got none.")
    if len(counts) != len(premises):
        raise RuleError(
            f"composition needs one count a premise; got {len(counts)} counts for "
            f"{len(premises)} premises."
        )
    first = premises[0].relation
    for premise in premises[1:]:
        if premise.relation != first:
            raise RelationMismatchError(
                f"cannot compose a certificate for '{first}' with one for "
                f"'{premise.relation}'. Convert an add/remove certificate with "
                "to_replace_one(), or refit on the same units."
            )
    numbers = [whole("composition", "count", count) for count in counts]
    models = all(premise.scope is Scope.MODEL for premise in premises)
    return numbers, first, Scope.MODEL if models else Scope.INTERFACE


def _slack(premises: Sequence[Certificate[Any]], counts: Sequence[int]) -> Fraction:
    """Sum the deltas that the steps bring themselves."""
    return sum(
        (
            exact(premise.guarantee.delta) * count
            for premise, count in zip(premises, counts, strict=True)
            if isinstance(premise.guarantee, ApproxDP)
        ),
        Fraction(0),
    )


def _left(rule_id: str, delta: float, slack: Fraction) -> float:
    """Return how much of `delta` a method may use beyond the steps' own deltas."""
    target = exact(probability(f"rule {rule_id}", "delta", delta))
    if not slack < target:
        raise RuleError(
            f"rule {rule_id} needs a delta above the {float(slack):.3g} that the steps "
            f"bring themselves; got delta={delta!r}."
        )
    return math.nextafter(float(target - slack), 0.0)


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
    numbers, relation, scope = _joined(premises, counts)
    epsilon = ceil_float(
        sum(
            (
                exact(epsilon_delta(premise.guarantee)[0]) * count
                for premise, count in zip(premises, numbers, strict=True)
            ),
            Fraction(0),
        )
    )
    slack = _slack(premises, numbers)
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
    """Compose equal steps, exactly as well as (epsilon, delta) allows."""
    (count,), relation, scope = _joined([premise], counts)
    step, slack = epsilon_delta(premise.guarantee)
    _left("G22-exact", delta, exact(slack) * count)
    # 1 - delta = (1 - slack)^count (1 - left), rounded against us.
    kept = math.exp(up(-count * math.log1p(-slack)))
    left = math.nextafter(1 - (1 - delta) * kept * (1 + 4e-16), 0.0)
    if not left > 0:
        raise RuleError(f"rule G22-exact has no delta left at delta={delta!r}.")
    total = ApproxDP(pure_epsilon(step, count, left), delta)
    return Conclusion(total, relation, scope)


def step_rho(guarantee: Any) -> float:
    """Return the zCDP cost of one step, apart from its own delta."""
    if isinstance(guarantee, ZCDP):
        return guarantee.rho
    epsilon = epsilon_delta(guarantee)[0]
    return up(epsilon**2 / (8 if isinstance(guarantee, BoundedRange) else 2))


@rule(
    "G22-zcdp",
    name="zCDP composition",
    statement="rho adds up: eps^2/8 for bounded range, eps^2/2 for pure DP",
    source="BunSteinke2016, Lemma 1.7; CesarBun2021; WhitehouseEtAl2023 for filters",
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

    A step that is only (epsilon, delta)-DP is pure but for its delta, which is added.
    """
    numbers, relation, scope = _joined(premises, counts)
    rho = ceil_float(
        sum(
            (
                exact(step_rho(premise.guarantee)) * count
                for premise, count in zip(premises, numbers, strict=True)
            ),
            Fraction(0),
        )
    )
    slack = _slack(premises, numbers)
    if delta is None:
        if slack > 0:
            raise RuleError("rule G22-zcdp needs delta= when a step has a delta.")
        return Conclusion(ZCDP(rho), relation, scope)
    left = _left("G22-zcdp", delta, slack)
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
    numbers, relation, scope = _joined(premises, counts)
    probability("rule G22-pld", "delta", delta)
    steps = tuple(
        (
            "range" if isinstance(premise.guarantee, BoundedRange) else "pure",
            *epsilon_delta(premise.guarantee),
            count,
        )
        for premise, count in zip(premises, numbers, strict=True)
    )
    epsilon = pld_epsilon(steps, delta)
    if not math.isfinite(epsilon):
        raise RuleError(f"rule G22-pld cannot reach delta={delta!r} for these steps.")
    return Conclusion(ApproxDP(epsilon, delta), relation, scope)


def compose(
    certificates: Iterable[Certificate[Any]],
    *,
    delta: float = 0.0,
    methods: Sequence[str] = ("basic", "exact", "zcdp", "pld"),
) -> Certificate[Any]:
    """Return the smallest certificate for several uses of the same data.

    Parameters
    ----------
    certificates : iterable of Certificate
        One for each use, in any order; equal ones are counted together.
    delta : float, default=0.0
        Total slack to aim for. With 0 the epsilons (and deltas) are added up, or the
        rhos if a step is known by its zCDP alone.
    methods : sequence of {"basic", "exact", "zcdp", "pld"}
        What to try. "exact" takes equal steps; "pld" at most 10,000 steps.

    Returns
    -------
    Certificate
        Its `rule` names the method: "G22-basic", "G22-exact", "G22-zcdp", "G22-pld".
    """
    tally: dict[Certificate[Any], int] = {}
    for certificate in certificates:
        tally[certificate] = tally.get(certificate, 0) + 1
    return _compose(tally, delta, methods)


def repeat(
    certificate: Certificate[Any],
    times: int,
    *,
    delta: float = 0.0,
    methods: Sequence[str] = ("basic", "exact", "zcdp", "pld"),
) -> Certificate[Any]:
    """Return what `times` uses of one mechanism cost, each with fresh randomness."""
    return _compose({certificate: whole("repeat", "times", times)}, delta, methods)


def _compose(
    tally: dict[Certificate[Any], int], delta: float, methods: Sequence[str]
) -> Certificate[Any]:
    premises, counts = tuple(tally), tuple(tally.values())
    unknown = set(methods) - {"basic", "exact", "zcdp", "pld"}
    if unknown:
        raise RuleError(f"methods={sorted(unknown)} are not known to compose().")
    concentrated = any(isinstance(p.guarantee, ZCDP) for p in premises)
    answers = sum(counts)
    if delta == 0:
        method = "G22-zcdp" if concentrated else "G22-basic"
        return rules[method].apply(*premises, counts=counts, answers=answers)
    probability("compose", "delta", delta)
    found = [
        rules[f"G22-{method}"].apply(
            *premises, counts=counts, answers=answers, **_target(method, delta)
        )
        for method in methods
        if _fits(method, premises, counts, delta)
    ]
    if not found:
        raise RuleError(
            f"no method composes these steps to delta={delta!r}; the steps bring "
            f"delta={float(_slack(premises, counts)):.3g} themselves. Ask for more."
        )
    return min(found, key=lambda c: (c.guarantee.epsilon, epsilon_delta(c.guarantee)))


def _target(method: str, delta: float) -> dict[str, float]:
    return {} if method == "basic" else {"delta": delta}


def _fits(
    method: str,
    premises: Sequence[Certificate[Any]],
    counts: Sequence[int],
    delta: float,
) -> bool:
    concentrated = any(isinstance(p.guarantee, ZCDP) for p in premises)
    slack = _slack(premises, counts)
    if method == "basic":
        return bool(premises) and not concentrated and slack <= exact(delta)
    if not slack < exact(delta):
        return False
    if method == "exact":
        return len(premises) == 1 and not concentrated
    if method == "pld":
        small = sum(counts) <= _PLD_STEPS and len(premises) <= _PLD_KINDS
        return small and not concentrated and sum(counts) > 1
    return True


@rule(
    "G22-parallel",
    name="disjoint parts",
    statement="one replaced unit lies in one part: the largest loss counts",
    source="S0 Thm 18; McSherry2009",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=(PureDP, ApproxDP),
    relations=NEIGHBOURS,
    adaptivity="adaptive",
)
def parallel_composition(*premises: Certificate[Any]) -> Conclusion[Any]:
    """Join mechanisms on disjoint parts that were cut without looking at the data."""
    if not premises:
        raise RuleError("rule G22-parallel needs at least one certificate.")
    kinds = {premise.relation.name for premise in premises}
    grouped = any(getattr(p.relation, "group", 1) != 1 for p in premises)
    if len(kinds) > 1 or grouped:
        raise RelationMismatchError(
            "rule G22-parallel needs one relation about single units; got "
            + ", ".join(sorted({str(premise.relation) for premise in premises}))
        )
    losses = [epsilon_delta(premise.guarantee) for premise in premises]
    epsilon, delta = max(e for e, _ in losses), max(d for _, d in losses)
    relation: Any = premises[0].relation
    if kinds == {"replace-one"}:
        relation = type(relation)(
            sum(int(getattr(p.relation, "n", 0)) for p in premises)
        )
    models = all(premise.scope is Scope.MODEL for premise in premises)
    total: Any = ApproxDP(epsilon, delta) if delta > 0 else PureDP(epsilon)
    return Conclusion(total, relation, Scope.MODEL if models else Scope.INTERFACE)


def answers_within(certificate: Certificate[Any], budget: Budget) -> int:
    """Return how many answers of one mechanism a budget covers.

    The best of the closed forms (basic, exact, zCDP) is used, so this is fast enough
    for the path of a request; a plan may gain a little more from PLD.
    """

    def fits(times: int) -> bool:
        try:
            total = repeat(
                certificate,
                times,
                delta=budget.delta,
                methods=("basic", "exact", "zcdp"),
            )
        except RuleError:
            return False
        return budget.covers(total.guarantee)

    if not fits(1):
        return 0
    low, high = 1, 2
    while high < _MOST_ANSWERS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
