"""What relabeling promises: P7, and the subset that reaches a target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reticent._numbers import down, positive, probability, up, whole
from reticent._search import last_whole_that_holds
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ApproxDP,
    Assumption,
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    flip_private,
    rule,
)
from reticent.hypotheses import MAX_LABELINGS

# Part of epsilon for selection and vote together; the rest pays for the subset.
_SHARE = 0.5


def net_failure(n: int, subset: int, eta: float, growth: tuple[int, int]) -> float:
    """Return the chance that a subset is no `eta`-net, rounded up.

    `growth` bounds the labelings of ``2 (subset - 1)`` and of ``n - 1`` points.
    """
    m = subset - 1
    if m < 1:
        return 1.0
    log_vc = math.log(2) + 2 * math.log(growth[0]) - eta * m / 2 * math.log(2)
    others, marked = n - 1, math.floor(down(eta * (n - 1))) + 1
    if others - marked < m:
        return 0.0
    pairs = math.log(growth[1]) + math.log(max(1, growth[1] - 1)) - math.log(2)
    missed = (
        math.lgamma(others - marked + 1)
        - math.lgamma(others - marked - m + 1)
        - math.lgamma(others + 1)
        + math.lgamma(others - m + 1)
    )
    # lgamma is good to about 1e-14 of its size, here at most n ln n.
    doubt = 1e-13 * others * math.log(others + 2)
    return min(1.0, up(math.exp(min(0.0, min(log_vc, pairs + missed) + doubt))))


@rule(
    "P7",
    name="relabel and re-learn",
    statement="(3/(eta n) + ln(1 + 4 e^{3c} n'/(n - n')), (n'/n) beta_net), or "
    "(3/(eta n), n'/n) without a net",
    source="S2 Thm 2",
    paper="c = 2",
    gives=ApproxDP,
)
def relabeled(
    *,
    n: int,
    subset: int,
    eta: float,
    growth: tuple[int, int],
    net: bool,
    labels_from_data: bool,
    seeded: bool,
) -> Conclusion[ApproxDP]:
    """Certify one answer of a vote over data relabeled by a selected hypothesis."""
    n, subset = whole("rule P7", "n", n), whole("rule P7", "subset", subset)
    eta = positive("rule P7", "eta", eta)
    if not subset < n:
        raise RuleError(f"rule P7 needs subset < n; got subset={subset}, n={n}.")
    epsilon, delta = 3 / (eta * n), subset / n
    if net:
        c = (eta * (n - 1) + 1) / (eta * n)
        if c > 200:
            raise RuleError(f"rule P7 says nothing with a net at eta={eta!r}, n={n}.")
        epsilon += math.log1p(4 * math.exp(3 * c) * subset / (n - subset))
        first, second = (whole("rule P7", "growth", count) for count in growth)
        delta *= net_failure(n, subset, eta, (first, second))
    return Conclusion(
        ApproxDP(up(epsilon), up(delta)),
        ReplaceOne(n),
        Scope.ANSWER,
        Assumption.collect((PUBLIC_LABELS, labels_from_data), (SEEDED_NOISE, seeded)),
    )


@dataclass(frozen=True)
class RelabelingPlan:
    """Size of the subset, `eta`, and whether the certificate uses the net."""

    subset: int
    eta: float
    net: bool


def plan_relabeling(
    n: int,
    epsilon: float,
    flip: float,
    family: Any,
    *,
    labels_from_data: bool,
    seeded: bool,
) -> tuple[RelabelingPlan, Certificate[Any]]:
    """Return the largest subset whose flipped certificate is at most `epsilon`."""
    epsilon = positive("RelabelingClassifier", "epsilon", epsilon)
    flip = probability("RelabelingClassifier", "flip", flip)
    eta = 3 / (_SHARE * epsilon * n)

    def certify(subset: int, net: bool) -> Certificate[Any]:
        growth = (
            (family.growth(max(1, 2 * (subset - 1))), family.growth(max(1, n - 1)))
            if net
            else (1, 1)
        )
        premise = relabeled(
            n=n,
            subset=subset,
            eta=eta,
            growth=growth,
            net=net,
            labels_from_data=labels_from_data,
            seeded=seeded,
        )
        return flip_private(premise, p=flip)

    def largest(net: bool) -> int:
        def fits(subset: int) -> bool:
            try:
                return bool(certify(subset, net).guarantee.epsilon <= epsilon)
            except RuleError:
                return False

        return last_whole_that_holds(fits, 0, n)

    # With a net the promise first improves with the subset, so the search finds a
    # subset that fits, not always the largest; without, it is monotone.
    options = [(largest(False), False), (largest(True), True)]
    # The net compares subsets with and without a unit, so all of them must have
    # candidates. The growth function says so, whatever their points are.
    if family.growth(options[1][0]) > MAX_LABELINGS:
        options.pop()
    best = max(options, key=lambda pair: pair[0])
    if best[0] < 1:
        raise InvalidParameterError(
            f"epsilon={epsilon!r} with flip={flip!r} leaves no subset of n={n} units. "
            "Use more units, a larger epsilon or a larger flip."
        )
    subset, net = best
    return RelabelingPlan(subset, eta, net), certify(subset, net)
