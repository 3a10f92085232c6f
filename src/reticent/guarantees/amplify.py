"""Shards, groups and subsamples: G6 to G9, and from one relation to another."""

from __future__ import annotations

import math
from typing import Any

from reticent._rounding import up
from reticent.errors import RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import NEIGHBOURS, epsilon_delta
from reticent.guarantees.numbers import whole
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import AddRemove, ReplaceOne, Scope
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Guarantee,
    PureDP,
    Sensitivity,
    UniformStability,
)


@rule(
    "G6",
    name="average over shards",
    statement="the mean of r models on disjoint shards moves by gamma / r",
    source="S1 Lemma 4.6",
    takes=(UniformStability, Sensitivity),
    gives=(UniformStability, Sensitivity),
    relations=(ReplaceOne,),
)
def average_of_shards(
    premise: Certificate[Any], *, shards: int, n: int
) -> Conclusion[Any]:
    """Average `shards` models, each trained on its own part of `n` units.

    The premise bounds one model under replacement of one unit of its own shard; the
    assignment of units to shards must not depend on their content.
    """
    shards = whole("rule G6", "shards", shards)
    n = whole("rule G6", "n", n)
    if not shards <= n:
        raise RuleError(f"rule G6 needs shards <= n; got shards={shards}, n={n}.")
    guarantee = premise.guarantee
    moved: Guarantee
    if isinstance(guarantee, UniformStability):
        moved = UniformStability(up(guarantee.gamma / shards))
    else:
        moved = Sensitivity(up(guarantee.l1 / shards), up(guarantee.l2 / shards))
    return Conclusion(moved, ReplaceOne(n), premise.scope)


def _group(guarantee: Any, size: int) -> Guarantee:
    """Return what a guarantee for one unit says about `size` units (G7)."""
    if isinstance(guarantee, (PureDP, BoundedRange)):
        return guarantee.times(size)
    if isinstance(guarantee, ZCDP):
        return ZCDP(up(guarantee.rho * size * size))
    epsilon, delta = epsilon_delta(guarantee)
    # (e^{k eps} - 1)/(e^eps - 1) = sum of e^{i eps}, i < k; k if epsilon is 0.
    growth = math.expm1(size * epsilon) / math.expm1(epsilon) if epsilon > 0 else size
    total = up(delta * growth)
    if not total < 1:
        raise RuleError(
            f"rule G7 gives delta={total:.3g} >= 1 for a group of size={size}, which "
            "promises nothing. Ask for a smaller group or a smaller delta."
        )
    return ApproxDP(PureDP(epsilon).times(size).epsilon, total)


@rule(
    "G7",
    name="group privacy",
    statement="(k eps, delta (e^{k eps} - 1)/(e^eps - 1)); k^2 rho",
    source="S1 Lemma 3.1; BunSteinke2016, Prop. 1.9",
    paper="k e^{(k-1) eps} delta",
    takes=(PureDP, BoundedRange, ApproxDP, ZCDP),
    gives=(PureDP, BoundedRange, ApproxDP, ZCDP),
    relations=NEIGHBOURS,
)
def group(premise: Certificate[Any], *, size: int) -> Conclusion[Any]:
    """Say what is promised to `size` units together."""
    size = whole("rule G7", "size", size)
    relation = premise.relation
    if isinstance(relation, ReplaceOne):
        wider: Any = ReplaceOne(relation.n, relation.group * size)
    else:
        wider = AddRemove(relation.group * size)  # type: ignore[union-attr]
    return Conclusion(_group(premise.guarantee, size), wider, premise.scope)


@rule(
    "G7-replace",
    name="add/remove to replace-one",
    statement="replacing a unit is removing one and adding one: a group of two",
    source="S1 Lemma 3.1",
    takes=(PureDP, BoundedRange, ApproxDP, ZCDP),
    gives=(PureDP, BoundedRange, ApproxDP, ZCDP),
    relations=(AddRemove,),
)
def to_replace_one(premise: Certificate[Any], *, n: int) -> Conclusion[Any]:
    """Turn an add/remove certificate into one for replacing one of `n` units."""
    if premise.relation != AddRemove():
        raise RuleError(f"rule G7-replace needs one unit; got {premise.relation}.")
    return Conclusion(_group(premise.guarantee, 2), ReplaceOne(n), premise.scope)


@rule(
    "G8",
    name="amplification by subsampling",
    statement="(ln(1 + q (e^eps - 1)), q delta), q = m / n",
    source="S0 Lemmas 24 and 27; S2 Lemma 5",
    paper="looser; false for order-sensitive bases",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=(PureDP, ApproxDP),
    relations=(ReplaceOne,),
)
def subsample(premise: Certificate[Any], *, n: int, order: str) -> Conclusion[Any]:
    """Run the premise's mechanism on a uniform subsample of `n` units.

    The premise is about the subsample's `m` units, drawn without replacement.

    Parameters
    ----------
    premise : Certificate
        Of the mechanism on `m` units.
    n : int
        Units the subsample is drawn from.
    order : {"symmetric", "shuffled"}
        Why the order of units cannot matter: the mechanism ignores it, or the
        subsample arrives in fresh random order. The caller's code must enforce it.
    """
    m = _drawn("G8", premise.relation, n)
    if order not in ("symmetric", "shuffled"):
        raise RuleError(
            "rule G8 is false for mechanisms that depend on the order of their units; "
            f"it needs order='symmetric' or order='shuffled', got order={order!r}."
        )
    epsilon, delta = epsilon_delta(premise.guarantee)
    q = m / n
    # exp overflows beyond 700; there ln(1 + q (e^eps - 1)) <= eps is all there is.
    amplified = up(math.log1p(q * math.expm1(epsilon))) if epsilon < 700 else epsilon
    amplified = min(epsilon, amplified)
    result: Guarantee = PureDP(amplified)
    if delta > 0:
        result = ApproxDP(amplified, min(delta, up(q * delta)))
    return Conclusion(result, ReplaceOne(n), premise.scope)


@rule(
    "G9",
    name="any algorithm on a subsample",
    statement="(0, m/n)-DP",
    source="S0 Lemma 22",
    gives=ApproxDP,
)
def any_on_subsample(*, drawn: int, n: int, scope: str) -> Conclusion[ApproxDP]:
    """Run anything at all on a uniform subsample of `drawn` of `n` units."""
    drawn, n = whole("rule G9", "drawn", drawn), whole("rule G9", "n", n)
    if not drawn < n:
        raise RuleError(f"rule G9 needs drawn < n; got drawn={drawn}, n={n}.")
    return Conclusion(ApproxDP(0.0, up(drawn / n)), ReplaceOne(n), Scope(scope))


def _drawn(rule_id: str, relation: Any, n: int) -> int:
    whole(f"rule {rule_id}", "n", n)
    if relation.group != 1 or not relation.n <= n:
        raise RuleError(
            f"rule {rule_id} needs a premise about one of at most n={n} units; got "
            f"{relation}."
        )
    return int(relation.n)
