"""What stable selection promises: P5, P6 and the parameters that reach a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._numbers import positive, probability, up, whole
from reticent._search import last_that_holds, last_whole_that_holds
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    ROWWISE_QUERIES,
    Assumption,
    Certificate,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    UniformStability,
    noise_assumptions,
    rule,
)
from reticent.hypotheses import net_error

#: Every answer lists the candidates; more take longer than a tenth of a second.
MOST_CANDIDATES = 1_000_000


@rule(
    "P5",
    name="stable selection",
    statement="gamma = q + (1 - q) tanh(g / 4), q = subset / n",
    source="S2 Thm 1",
    paper="q + 2 g",
    gives=UniformStability,
    later=("own_functions",),
)
def stable_selection(
    *,
    n: int,
    subset: int,
    exponent: float,
    labels_from_data: bool,
    seeded: bool,
    own_functions: bool = False,
) -> Conclusion[UniformStability]:
    """Certify one answer of a hypothesis selected from the labelings of a subset.

    *Proof.* A replaced unit is in the subset with probability `q`. Otherwise both
    datasets give the same candidates, and the exponential mechanism with weights
    ``exp(-exponent * mistakes / 2)`` moves by at most ``tanh(exponent / 4)`` (G2).
    With `own_functions`, the caller's, this needs labels that depend on one row each.
    """
    n, subset = whole("rule P5", "n", n), whole("rule P5", "subset", subset)
    if not subset < n:
        raise RuleError(f"rule P5 needs subset < n; got subset={subset}, n={n}.")
    exponent = positive("rule P5", "exponent", exponent)
    q = subset / n
    gamma = up(q + (1 - q) * math.tanh(exponent / 4))
    return Conclusion(
        UniformStability(min(1.0, gamma)),
        ReplaceOne(n),
        Scope.ANSWER,
        noise_assumptions(seeded, labels_from_data=labels_from_data)
        | Assumption.collect((ROWWISE_QUERIES, own_functions)),
    )


def flipped_epsilon(q: float, exponent: float, p: float) -> float:
    r"""Return P6's epsilon for subset share `q`, `exponent` and flips `p`, rounded up.

    The largest of :math:`\ln\frac{p + r((1-q) g(x) + q)}{p + r(1-q)x}` over `x` in
    [0, 1], with :math:`r = 1 - 2p`, :math:`g(x) = x/(c + (1-c)x)`,
    :math:`c = e^{-\mathrm{exponent}}`. Setting the derivative to zero and multiplying
    by :math:`(c + (1-c)x)^2` leaves a quadratic, whose positive root is compared with
    both ends.
    """
    c, d = math.exp(-exponent), -math.expm1(-exponent)
    r, rest = 1 - 2 * p, 1 - q
    base = p + r * q
    if c == 0.0:
        # The selection is as good as certain: the worst x is just above zero.
        return up(math.log((base + r * rest) / p) + 1e-12) if p > 0 else math.inf

    def log_ratio(x: float) -> float:
        high = base + r * rest * x / (c + d * x)
        return math.log(high / (p + r * rest * x))

    square = base * d * d + r * rest * d
    linear = 2 * c * d * base
    constant = base * c * c - c * p
    candidates = [0.0, 1.0]
    if constant < 0 < square:
        # The stable form of the positive root.
        root = math.sqrt(linear * linear - 4 * square * constant)
        candidates.append(min(1.0, -2 * constant / (linear + root)))
    # At a maximum an error in x enters squared; 1e-12 covers it and the rounding.
    return up(max(map(log_ratio, candidates)) + 1e-12)


@rule(
    "P6",
    name="private from stable selection",
    statement="eps = max_x ln[(p + (1-2p)((1-q) g(x) + q)) / (p + (1-2p)(1-q) x)]",
    source="S2 Cor. 1",
    paper="needs gamma = eps p / 2",
    takes=UniformStability,
    gives=PureDP,
    relations=(ReplaceOne,),
    scopes=(Scope.ANSWER,),
)
def private_from_stable(
    premise: Certificate[UniformStability], *, p: float
) -> Conclusion[PureDP]:
    """Certify the answer after it was flipped with probability `p`.

    Much sharper than G3, because the premise's mechanism is known: outside the subset
    the odds move by at most ``exp(exponent)``.
    """
    if premise.rule != "P5":
        raise RuleError(
            f"rule P6 starts from a certificate of rule P5; got rule {premise.rule}. "
            "For other stable predictions use flip_stable (G3)."
        )
    p = probability("rule P6", "p", p)
    if not p < 0.5:
        raise RuleError(f"rule P6 needs p < 1/2; got p={p!r}.")
    facts: dict[str, Any] = dict(premise.details)
    q = up(facts["subset"] / facts["n"])
    epsilon = flipped_epsilon(q, facts["exponent"], p)
    return Conclusion(PureDP(epsilon), premise.relation, premise.scope)


@dataclass(frozen=True)
class SelectionPlan:
    """Size of the subset, exponent of the selection, and probability of a flip."""

    subset: int
    exponent: float
    flip: float


def plan_for_stability(n: int, stability: float) -> SelectionPlan:
    """Return parameters whose P5 certificate is at most `stability`.

    Half of it goes to the subset, the rest to the exponent: by S2 both terms of the
    error are then within a factor of two of the best split.
    """
    stability = probability("StableSelectionClassifier", "stability", stability)
    subset = _subset(n, stability / 2, f"stability={stability!r}")
    share = (stability - subset / n) / (1 - subset / n)
    exponent = _largest(
        lambda g: up(subset / n + (1 - subset / n) * math.tanh(g / 4)) <= stability,
        4 * math.atanh(min(share, 0.999)),
    )
    return SelectionPlan(subset, exponent, 0.0)


def selection_excess(hypotheses: Any, n: int, plan: SelectionPlan) -> float:
    """Return what S2's Lemma 7 adds to the smallest empirical error, before flips.

    The subset is a net for some error, except with a probability of that error; the
    exponential mechanism adds ``2 ln|H_T| / (exponent n)``.
    """
    net = 2 * net_error(hypotheses, plan.subset)
    chosen = 2 * math.log(hypotheses.growth(plan.subset)) / (plan.exponent * n)
    return net + chosen


def plan_for_privacy(
    n: int, epsilon: float, flip: float, hypotheses: Any = None
) -> SelectionPlan:
    """Return parameters whose P6 certificate is at most `epsilon`.

    Parameters
    ----------
    n : int
        Number of units.
    epsilon, flip : float
        Privacy of an answer, and the probability that it is flipped.
    hypotheses : HypothesisClass, default=None
        The class whose bound (`selection_excess`) splits epsilon between the subset and
        the exponent. None gives the subset half of it.
    """
    epsilon = positive("StableSelectionClassifier", "epsilon", epsilon)
    flip = probability("StableSelectionClassifier", "flip", flip)
    if not flip < 0.5:
        raise InvalidParameterError(f"flip={flip!r} must be below 1/2.")

    def plan(subset: int, *, halvings: int = 60) -> SelectionPlan:
        q = up(subset / n)
        exponent = _largest(
            lambda g: flipped_epsilon(q, g, flip) <= epsilon, 2 * epsilon, halvings
        )
        return SelectionPlan(subset, exponent, flip)

    def share(part: float) -> float:
        return _largest(lambda q: flipped_epsilon(q, 0.0, flip) <= part, 0.5)

    half = _subset(n, share(epsilon / 2), f"epsilon={epsilon!r} with flip={flip!r}")
    if hypotheses is None:
        return plan(half)

    def excess(size: int) -> float:
        return selection_excess(hypotheses, n, plan(size, halvings=16))

    most = math.floor(share(epsilon * (1 - 2.0**-10)) * n)
    listed = last_whole_that_holds(
        lambda size: bool(hypotheses.growth(size) <= MOST_CANDIDATES), 1, most + 1
    )
    best = _best_size(excess, listed)
    return plan(min((best, min(half, listed)), key=lambda size: (excess(size), size)))


def _best_size(excess: Callable[[int], float], most: int) -> int:
    """Return the size from 1 to `most` with about the smallest excess.

    A few sizes are tried, then sizes around the best of them.
    """
    low, high = 1, most
    for _ in range(3):
        sizes = sorted({round(s) for s in np.geomspace(low, high, 7).tolist()})
        place = min(range(len(sizes)), key=lambda at: (excess(sizes[at]), sizes[at]))
        low, high = sizes[max(0, place - 1)], sizes[min(len(sizes) - 1, place + 1)]
    return sizes[place]


def _subset(n: int, share: float, asked: str) -> int:
    subset = math.floor(share * n)
    if not 1 <= subset < n:
        raise InvalidParameterError(
            f"{asked} allows a subset of {share * n:.2g} of n={n} units; one is the "
            "least. Use more units, or ask for less."
        )
    return subset


def _largest(fits: Callable[[float], bool], high: float, halvings: int = 60) -> float:
    """Return the largest number up to `high` that fits, for a condition that ends."""
    if fits(high):
        return high
    found = last_that_holds(fits, 0.0, high, halvings=halvings)
    if found == 0.0:
        raise InvalidParameterError("no positive parameter reaches what was asked for.")
    return found
