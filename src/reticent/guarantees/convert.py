"""Conversions between guarantees of one mechanism: G1 to G5, and definitions."""

from __future__ import annotations

import math
from typing import Any

from scipy.optimize import minimize_scalar

from reticent._rounding import down, up
from reticent.errors import RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.numbers import positive, probability, whole
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import (
    AddRemove,
    Assumption,
    Relation,
    ReplaceOne,
    Scope,
)
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Guarantee,
    PureDP,
    Sensitivity,
    UniformStability,
)

NEIGHBOURS = (ReplaceOne, AddRemove)
ANSWER = (Scope.ANSWER,)


def sigmoid(x: float) -> float:
    """Return 1/(1+exp(-x)) without overflow."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def keep(premise: Certificate[Any], guarantee: Any) -> Conclusion[Any]:
    """Conclude `guarantee` about the same release and relation."""
    return Conclusion(guarantee, premise.relation, premise.scope)


def epsilon_delta(guarantee: Guarantee) -> tuple[float, float]:
    """Read any kind of (epsilon, delta)-DP as two numbers."""
    if isinstance(guarantee, (PureDP, BoundedRange)):
        return guarantee.epsilon, 0.0
    if isinstance(guarantee, ApproxDP):
        return guarantee.epsilon, guarantee.delta
    raise RuleError(
        f"{guarantee!r} has no epsilon and delta; convert it with zcdp_to_approx."
    )


@rule(
    "assumed",
    name="taken on trust",
    statement="A claim from outside, recorded as an assumption.",
    source="the caller",
    gives=Guarantee,
)
def assume(
    *, guarantee: str, relation: str, scope: str, statement: str
) -> Conclusion[Any]:
    """Record a claim that reticent did not derive; it stays an assumption."""
    import json

    from reticent.guarantees.subject import relation_from_dict

    return Conclusion(
        Guarantee.from_dict(json.loads(guarantee)),
        relation_from_dict(json.loads(relation)),
        Scope(scope),
        frozenset({Assumption("CLAIMED", statement)}),
    )


def claim(
    guarantee: Guarantee, relation: Relation, scope: Scope, *, statement: str
) -> Certificate[Any]:
    """Return a conditional certificate for something reticent did not derive.

    Parameters
    ----------
    guarantee, relation, scope
        What is claimed.
    statement : str
        Why it is believed; printed among the assumptions.
    """
    import json

    from reticent.guarantees.subject import relation_as_dict

    return assume(
        guarantee=json.dumps(guarantee.as_dict(), sort_keys=True),
        relation=json.dumps(relation_as_dict(relation), sort_keys=True),
        scope=scope.value,
        statement=statement,
    )


@rule(
    "G1",
    name="privacy to stability",
    statement="gamma = (e^eps - 1 + 2 delta) / (e^eps + 1), tanh(eps/2) if pure",
    source="S0 Lemmas 8 and 23",
    paper="e^eps - 1 + delta",
    takes=(PureDP, ApproxDP),
    gives=UniformStability,
    relations=NEIGHBOURS,
)
def dp_to_stability(premise: Certificate[Any]) -> Conclusion[UniformStability]:
    """Bound how far one unit moves the law of any prediction or bounded loss."""
    epsilon, delta = epsilon_delta(premise.guarantee)
    gamma = up(math.tanh(epsilon / 2) + 2 * delta * sigmoid(-epsilon))
    return keep(premise, UniformStability(min(1.0, gamma)))


@rule(
    "G2-stability",
    name="bounded range to stability",
    statement="gamma = tanh(eps/4)",
    source="S2, exponential mechanism",
    paper="2 eps",
    takes=BoundedRange,
    gives=UniformStability,
    relations=NEIGHBOURS,
)
def bounded_range_to_stability(
    premise: Certificate[BoundedRange],
) -> Conclusion[UniformStability]:
    """Bound how far one unit moves the law of an exponential mechanism."""
    gamma = up(math.tanh(premise.guarantee.epsilon / 4))
    return keep(premise, UniformStability(min(1.0, gamma)))


@rule(
    "G2-zcdp",
    name="bounded range to zCDP",
    statement="rho = eps^2 / 8",
    source="CesarBun2021, Lemma 3.2; DongDurfeeRogers2020",
    takes=BoundedRange,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def bounded_range_to_zcdp(premise: Certificate[BoundedRange]) -> Conclusion[ZCDP]:
    """Derive concentrated DP; four times better than from pure DP."""
    return keep(premise, ZCDP(up(premise.guarantee.epsilon**2 / 8)))


@rule(
    "G2-pure",
    name="bounded range to pure DP",
    statement="an interval of length eps that holds 0 lies in [-eps, eps]",
    source="DongDurfeeRogers2020",
    takes=BoundedRange,
    gives=PureDP,
    relations=NEIGHBOURS,
)
def bounded_range_to_pure(premise: Certificate[BoundedRange]) -> Conclusion[PureDP]:
    """Forget that the range is bounded."""
    return keep(premise, PureDP(premise.guarantee.epsilon))


@rule(
    "G22-approx",
    name="pure to approximate DP",
    statement="eps-DP is (eps, 0)-DP",
    source="definition",
    takes=(PureDP, BoundedRange),
    gives=ApproxDP,
    relations=NEIGHBOURS,
)
def pure_to_approx(premise: Certificate[Any]) -> Conclusion[ApproxDP]:
    """Read pure DP as approximate DP with delta 0."""
    return keep(premise, ApproxDP(premise.guarantee.epsilon, 0.0))


@rule(
    "G22-pure-zcdp",
    name="pure DP to zCDP",
    statement="rho = eps^2 / 2",
    source="BunSteinke2016, Prop. 1.4",
    takes=PureDP,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def pure_to_zcdp(premise: Certificate[PureDP]) -> Conclusion[ZCDP]:
    """Derive concentrated DP from pure DP."""
    return keep(premise, ZCDP(up(premise.guarantee.epsilon**2 / 2)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon such that rho-zCDP is (epsilon, delta)-DP, rounded up."""
    if rho == 0:
        return 0.0

    def bound(log_excess: float) -> float:
        # Canonne, Kamath, Steinke 2020, Prop. 12; any order > 1 is valid.
        excess = math.exp(log_excess)
        order = 1 + excess
        return (
            order * rho
            - math.log(delta) / excess
            - math.log1p(excess) / excess
            + log_excess
            - math.log1p(excess)
        )

    guess = math.log(math.sqrt(-math.log(delta) / rho))
    best = minimize_scalar(bound, bounds=(guess - 6, guess + 6), method="bounded")
    value = min(bound(float(best.x)), bound(guess))
    # The terms are at most |ln delta| + rho * order in size; cover their rounding.
    return max(0.0, value + 1e-12 * (1 + abs(value)))


@rule(
    "G22-zcdp-approx",
    name="zCDP to approximate DP",
    statement="best Renyi order of the conversion",
    source="CanonneKamathSteinke2020, Prop. 12",
    takes=ZCDP,
    gives=ApproxDP,
    relations=NEIGHBOURS,
)
def zcdp_to_approx(premise: Certificate[ZCDP], *, delta: float) -> Conclusion[ApproxDP]:
    """Derive (epsilon, delta)-DP for a chosen delta."""
    delta = probability("rule G22-zcdp-approx", "delta", delta)
    return keep(premise, ApproxDP(zcdp_epsilon(premise.guarantee.rho, delta), delta))


def rho_within(epsilon: float, delta: float) -> float:
    """Return the largest rho that `zcdp_epsilon` keeps within (epsilon, delta)."""
    epsilon = positive("rho_within", "epsilon", epsilon)
    delta = probability("rho_within", "delta", delta)
    low, high = 0.0, epsilon
    for _ in range(80):
        middle = (low + high) / 2
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


@rule(
    "G3",
    name="flip a stable label",
    statement="eps = ln(1 + (1 - 2p) gamma / p)",
    source="S2 Cor. 1",
    paper="needs gamma = eps p / 2",
    takes=UniformStability,
    gives=PureDP,
    relations=NEIGHBOURS,
    scopes=ANSWER,
)
def flip_stable(
    premise: Certificate[UniformStability], *, p: float
) -> Conclusion[PureDP]:
    """Make a stable binary prediction private by flipping it with probability `p`."""
    p = _flip_probability("G3", p)
    gamma = premise.guarantee.gamma
    return keep(premise, PureDP(up(math.log1p(up((1 - 2 * p) * gamma / p)))))


@rule(
    "G3k",
    name="replace a stable label",
    statement="eps = ln(1 + (1 - p) gamma K / p)",
    source="S2 Cor. 1, K labels",
    takes=UniformStability,
    gives=PureDP,
    relations=NEIGHBOURS,
    scopes=ANSWER,
)
def replace_stable(
    premise: Certificate[UniformStability], *, p: float, labels: int
) -> Conclusion[PureDP]:
    """Make a stable prediction private: a uniform label with probability `p`."""
    p = probability("rule G3k", "p", p)
    labels = whole("rule G3k", "labels", labels, least=2)
    gamma = premise.guarantee.gamma
    return keep(premise, PureDP(up(math.log1p(up((1 - p) * gamma * labels / p)))))


@rule(
    "G4",
    name="flip a private label",
    statement="eps' = max{ln(1 + (1-2p) delta/p), ln[(p+(1-2p)a)/(p+(1-2p)b)]}",
    source="S2 after Lemma 8",
    takes=(PureDP, ApproxDP),
    gives=PureDP,
    relations=NEIGHBOURS,
    scopes=ANSWER,
)
def flip_private(premise: Certificate[Any], *, p: float) -> Conclusion[PureDP]:
    """Make an (epsilon, delta) private binary prediction purely private."""
    p = _flip_probability("G4", p)
    epsilon, delta = epsilon_delta(premise.guarantee)
    # Corners of the region of (Pr[1|S], Pr[1|S']) that (epsilon, delta)-DP allows.
    high = up(sigmoid(epsilon) + delta * sigmoid(-epsilon))
    low = down((1 - delta) * sigmoid(-epsilon))
    rest = 1 - 2 * p
    flipped = max(
        math.log1p(up(rest * delta / p)),
        math.log(up((p + rest * high) / (p + rest * low))),
    )
    return keep(premise, PureDP(up(flipped)))


def _flip_probability(rule_id: str, p: float) -> float:
    p = probability(f"rule {rule_id}", "p", p)
    if not p < 0.5:
        raise RuleError(f"rule {rule_id} needs p < 1/2; got p={p!r}.")
    return p


@rule(
    "G5-laplace",
    name="Laplace noise",
    statement="eps = l1 sensitivity / scale",
    source="S1 Lemma 4.5; DworkRoth2014, Thm 3.6",
    paper="the scale inverted",
    takes=Sensitivity,
    gives=PureDP,
    relations=NEIGHBOURS,
)
def laplace_noise(
    premise: Certificate[Sensitivity], *, scale: float
) -> Conclusion[PureDP]:
    """Add Laplace noise of this scale to every coordinate."""
    scale = positive("rule G5-laplace", "scale", scale)
    return keep(premise, PureDP(up(premise.guarantee.l1 / scale)))


@rule(
    "G5-gaussian",
    name="Gaussian noise",
    statement="rho = (l2 sensitivity / scale)^2 / 2, continuous or discrete noise",
    source="BunSteinke2016, Prop. 1.6; CanonneKamathSteinke2020, Thm 4",
    takes=Sensitivity,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def gaussian_noise(
    premise: Certificate[Sensitivity], *, scale: float
) -> Conclusion[ZCDP]:
    """Add Gaussian noise of this standard deviation to every coordinate."""
    scale = positive("rule G5-gaussian", "scale", scale)
    return keep(premise, ZCDP(up((premise.guarantee.l2 / scale) ** 2 / 2)))
