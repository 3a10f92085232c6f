"""Shards, groups, subsamples, disjoint parts: G6 to G9, and changes of relation."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scipy.special import ndtr, ndtri

from reticent._numbers import ceil_float, down_nonnegative, exact, real, up, whole
from reticent._search import doubled_until, last_whole_that_holds
from reticent.errors import RelationMismatchError, RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import (
    NEIGHBOURS,
    epsilon_delta,
    exponential_sum,
    sigmoid,
)
from reticent.guarantees.premises import joint_scope
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import AddRemove, ReplaceOne, Scope
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    Guarantee,
    PureDP,
    Sensitivity,
    UniformStability,
)

# No dataset has more units.
_MOST_UNITS = 10**12


@rule(
    "G6",
    name="average over shards",
    statement="the mean of r models on disjoint shards moves by gamma / r",
    source="S1 Lemma 4.6",
    takes=(UniformStability, Sensitivity),
    gives=(UniformStability, Sensitivity),
    same_kind=True,
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
        moved = UniformStability(ceil_float(exact(guarantee.gamma) / shards))
    else:
        moved = Sensitivity(
            ceil_float(exact(guarantee.l1) / shards),
            ceil_float(exact(guarantee.l2) / shards),
        )
    return Conclusion(moved, ReplaceOne(n), premise.scope)


def for_group(rule_id: str, guarantee: Any, size: int) -> Guarantee:
    """Return what a guarantee for one unit says about `size` units (G7)."""
    if isinstance(guarantee, ZCDP):
        return ZCDP(ceil_float(exact(guarantee.rho) * size * size))
    if isinstance(guarantee, GaussianDP):
        return GaussianDP(ceil_float(exact(guarantee.mu) * size))
    epsilon, delta = epsilon_delta(guarantee)
    total = ceil_float(exact(epsilon) * size)
    if isinstance(guarantee, (PureDP, BoundedRange)):
        # The log-ratios along a chain of neighbours add up, output by output, and so do
        # the ranges that they lie in.
        return type(guarantee)(total)
    slack = up(delta * exponential_sum(epsilon, size)) if delta > 0 else 0.0
    if not slack < 1:
        raise RuleError(
            f"rule {rule_id} gives delta={slack:.3g} >= 1 for a group of size={size}, "
            "which promises nothing. Ask for a smaller group or a smaller delta."
        )
    return ApproxDP(total, slack)


@rule(
    "G7",
    name="group privacy",
    statement="(k eps, delta (e^{k eps} - 1)/(e^eps - 1)); k^2 rho; k mu",
    source="S1 Lemma 3.1; BunSteinke2016, Prop. 1.9; DongRothSu2022, Thm 3",
    paper="k e^{(k-1) eps} delta",
    takes=(PureDP, BoundedRange, ApproxDP, ZCDP, GaussianDP),
    gives=(PureDP, BoundedRange, ApproxDP, ZCDP, GaussianDP),
    same_kind=True,
    relations=NEIGHBOURS,
)
def group(premise: Certificate[Any], *, size: int) -> Conclusion[Any]:
    """Say what is promised to `size` units together."""
    size = whole("rule G7", "size", size)
    relation: Any = premise.relation
    together = relation.group * size
    if not isinstance(relation, AddRemove) and not together <= relation.n:
        raise RuleError(
            f"rule G7 needs a group of at most n={relation.n} units; got {together}."
        )
    wider = replace(relation, group=together)
    return Conclusion(for_group("G7", premise.guarantee, size), wider, premise.scope)


def chance_after_poisoning(
    certificate: Certificate[Any], chance: float, units: int
) -> float:
    r"""Bound the probability of an answer after an attacker replaced some units (G7).

    Parameters
    ----------
    certificate : Certificate
        What the answer promises: pure, bounded-range, approximate or Gaussian DP.
    chance : float
        Probability of the answer on the clean data.
    units : int
        How many units the attacker controls.

    Returns
    -------
    float
        The answer is at least this probable on the poisoned data; rounded down. The
        clean data is a neighbour of the poisoned data in a group of that size; of
        twice that size if neighbours lack a unit instead of having another one.

    Guarantee
    ---------
    *Proof.* Let `(e, d)` be the group's promise. Its definition for the answer and for
    all others gives the larger of ``e^{-e} (p - d)`` and ``1 - e^e (1 - p) - d``. For
    bounded range the odds fall by at most `e^e`; for Gaussian DP the normal quantile
    falls by at most `mu`. []

    Examples
    --------
    >>> from reticent.guarantees import BoundedRange, ReplaceOne, Scope, claim
    >>> vote = claim(BoundedRange(0.5), ReplaceOne(900), Scope.ANSWER, statement="soft")
    >>> round(chance_after_poisoning(vote, 0.95, 4), 3)
    0.72
    """
    chance = real("poisoning", "chance", chance)
    units = whole("poisoning", "units", units, least=0)
    if not 0 <= chance <= 1:
        raise RuleError(f"chance={chance!r} must be a probability.")
    if units == 0 or chance == 0:
        return chance
    # Where neighbours lack a unit, replacing one takes two steps.
    steps = units if isinstance(certificate.relation, ReplaceOne) else 2 * units
    promise = group(certificate, size=steps).guarantee
    if isinstance(promise, ZCDP):
        raise RuleError(
            f"poisoning needs (epsilon, delta)- or Gaussian DP; got {promise}. Convert "
            "it with zcdp_to_approx."
        )
    if isinstance(promise, GaussianDP):
        return down_nonnegative(float(ndtr(ndtri(chance) - promise.mu)) * (1 - 1e-12))
    epsilon, delta = epsilon_delta(promise)
    if isinstance(promise, BoundedRange):
        odds = math.log(chance) - math.log1p(-chance) if chance < 1 else math.inf
        return down_nonnegative(sigmoid(odds - epsilon) * (1 - 1e-14))
    if epsilon > 700:
        return 0.0
    same = math.exp(-epsilon) * (chance - delta)
    others = 1 - math.exp(epsilon) * (1 - chance) - delta
    return down_nonnegative(max(same, others - 1e-15))


def poisoned_units(
    certificate: Certificate[Any], chance: float, *, least: float = 0.5
) -> int:
    """Return how many poisoned units an answer withstands (G7; S2 Sec. 1).

    Parameters
    ----------
    certificate : Certificate
        What one answer promises.
    chance : float
        Probability of the answer on the clean data. It is as secret as the data.
    least : float, default=0.5
        What the probability of the answer must not fall below.

    Returns
    -------
    int
        The largest number of units, whatever they are replaced by; 0 if not even one.

    Examples
    --------
    >>> from reticent.guarantees import PureDP, ReplaceOne, Scope, claim
    >>> one = claim(PureDP(0.1), ReplaceOne(900), Scope.ANSWER, statement="an answer")
    >>> poisoned_units(one, 0.95)
    23
    """
    least = real("poisoning", "least", least)
    if not 0 < least <= 1:
        raise RuleError(f"least={least!r} must be above 0 and at most 1.")

    def withstands(units: int) -> bool:
        try:
            return chance_after_poisoning(certificate, chance, units) >= least
        except RuleError:  # more than all units, or a delta above one
            return units == 0

    if not withstands(0) or not withstands(1):
        return 0
    _, high = doubled_until(
        lambda units: units > _MOST_UNITS or not withstands(units), 1
    )
    return last_whole_that_holds(withstands, high // 2, high)


@rule(
    "G7-replace",
    name="add/remove to replace-one",
    statement="replacing a unit is removing one and adding one: a group of two",
    source="S1 Lemma 3.1",
    takes=(PureDP, BoundedRange, ApproxDP, ZCDP),
    gives=(PureDP, BoundedRange, ApproxDP, ZCDP),
    same_kind=True,
    relations=(AddRemove,),
)
def to_replace_one(premise: Certificate[Any], *, n: int) -> Conclusion[Any]:
    """Turn an add/remove certificate into one for replacing one of `n` units."""
    if premise.relation != AddRemove():
        raise RuleError(f"rule G7-replace needs one unit; got {premise.relation}.")
    pair = for_group("G7-replace", premise.guarantee, 2)
    return Conclusion(pair, ReplaceOne(n), premise.scope)


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
    q = up(m / n)
    # exp overflows beyond 700; there ln(1 + q (e^eps - 1)) <= eps is all there is.
    if 0 < epsilon < 700:
        odds = up(q * up(math.expm1(up(epsilon))))
        epsilon = min(epsilon, up(math.log1p(odds)))
    result: Guarantee = PureDP(epsilon)
    if delta > 0:
        result = ApproxDP(epsilon, min(delta, ceil_float(exact(delta) * m / n)))
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
    share = ceil_float(Fraction(drawn, n))
    if not share < 1:
        raise RuleError(f"rule G9 gives delta={share!r}, which promises nothing.")
    return Conclusion(ApproxDP(0.0, share), ReplaceOne(n), Scope(scope))


def _drawn(rule_id: str, relation: Any, n: int) -> int:
    whole(f"rule {rule_id}", "n", n)
    if relation.group != 1 or not relation.n <= n:
        raise RuleError(
            f"rule {rule_id} needs a premise about one of at most n={n} units; got "
            f"{relation}."
        )
    return int(relation.n)


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
    relations: list[Any] = [premise.relation for premise in premises]
    kinds = {relation.name for relation in relations}
    if len(kinds) > 1 or any(relation.group != 1 for relation in relations):
        raise RelationMismatchError(
            "rule G22-parallel needs one relation about single units; got "
            + ", ".join(sorted({str(relation) for relation in relations}))
            + "."
        )
    losses = [epsilon_delta(premise.guarantee) for premise in premises]
    epsilon, delta = max(e for e, _ in losses), max(d for _, d in losses)
    relation = relations[0]
    if not isinstance(relation, AddRemove):
        relation = type(relation)(sum(each.n for each in relations))
    total: Any = ApproxDP(epsilon, delta) if delta > 0 else PureDP(epsilon)
    return Conclusion(total, relation, joint_scope(premises))
