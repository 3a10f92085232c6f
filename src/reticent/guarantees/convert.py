"""Conversions between guarantees of one mechanism: G1 to G5, and definitions."""

from __future__ import annotations

import json
import math
from typing import Any

from reticent._numbers import down, positive, probability, up, whole
from reticent.errors import CertificateError, InvalidParameterError, RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import (
    AddRemove,
    Assumption,
    Relation,
    ReplaceOne,
    Scope,
    ZeroOut,
    relation_as_dict,
    relation_from_dict,
)
from reticent.guarantees.types import (
    ApproxDP,
    BoundedRange,
    Guarantee,
    PureDP,
    Sensitivity,
    UniformStability,
)

NEIGHBOURS = (ReplaceOne, AddRemove, ZeroOut)
ANSWER = (Scope.ANSWER,)


def sigmoid(x: float) -> float:
    """Return 1/(1+exp(-x)) without overflow."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def exponential_sum(epsilon: float, terms: int) -> float:
    """Return ``1 + e^epsilon + ... + e^{(terms-1) epsilon}``, rounded up.

    The slack of a chain: each link adds a delta and stretches those before it.
    """
    reach = up(epsilon * terms)
    if reach < 1e-16:
        return up(terms * (1 + 1e-15))
    return up(up(math.expm1(reach)) / down(math.expm1(epsilon)))


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
    if not (isinstance(statement, str) and statement.strip()):
        raise InvalidParameterError(
            "a claim needs a statement of why it is believed; got "
            f"statement={statement!r}."
        )
    try:
        claimed = Guarantee.from_dict(dict(json.loads(guarantee)))
        about = relation_from_dict(dict(json.loads(relation)))
    except (TypeError, json.JSONDecodeError):
        raise CertificateError(
            "a claim records its guarantee and relation as JSON; use claim()."
        ) from None
    return Conclusion(
        claimed, about, Scope(scope), frozenset({Assumption("CLAIMED", statement)})
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
    if not isinstance(guarantee, Guarantee) or not isinstance(relation, Relation):
        raise InvalidParameterError(
            "a claim is about a Guarantee and a relation; got "
            f"{type(guarantee).__name__} and {type(relation).__name__}."
        )
    return assume(
        guarantee=json.dumps(guarantee.as_dict(), sort_keys=True),
        relation=json.dumps(relation_as_dict(relation), sort_keys=True),
        scope=Scope(scope).value,
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
    return keep(premise, UniformStability(stability(premise.guarantee)))


def stability(guarantee: Any) -> float:
    """Return how far (epsilon, delta)-DP lets a probability move, rounded up."""
    epsilon, delta = epsilon_delta(guarantee)
    if epsilon == delta == 0:
        return 0.0
    gamma = math.tanh(epsilon / 2) + 2 * delta * sigmoid(-epsilon)
    return min(1.0, up(gamma))


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
    return keep(premise, UniformStability(range_stability(premise.guarantee.epsilon)))


def range_stability(epsilon: float) -> float:
    """Return how far a bounded range lets a probability move, rounded up."""
    return min(1.0, up(math.tanh(epsilon / 4))) if epsilon > 0 else 0.0


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
    return keep(premise, PureDP(_log_odds((1 - 2 * p) * gamma / p, gamma)))


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
    return keep(premise, PureDP(_log_odds((1 - p) * gamma * labels / p, gamma)))


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
    # Corners of the region of (Pr[1|S], Pr[1|S']) that (epsilon, delta)-DP allows:
    # (delta, 0), and the one where both inequalities bind; there the probabilities
    # differ by the stability (G1), and the smaller is (1 - delta)/(1 + e^epsilon).
    rest = 1 - 2 * p
    low = down((1 - delta) * sigmoid(-epsilon))
    gamma = stability(premise.guarantee)
    excess = max(rest * delta / p, rest * gamma / (p + rest * low))
    return keep(premise, PureDP(_log_odds(excess, gamma)))


def _log_odds(excess: float, gamma: float) -> float:
    """Return ln(1 + excess), rounded up; a label that never moves costs nothing."""
    return up(math.log1p(up(excess))) if gamma > 0 else 0.0


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
    moved = premise.guarantee.l1
    return keep(premise, PureDP(up(moved / scale) if moved > 0 else 0.0))
