"""What relabeling promises: P7, and the subset that reaches a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent._numbers import down, positive, probability, up, whole
from reticent._search import last_whole_that_holds
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    ROWWISE_QUERIES,
    ApproxDP,
    Assumption,
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    flip_private,
    noise_assumptions,
    rule,
)
from reticent.hypotheses import net_error, runs_own_functions
from reticent.prediction.selection.stable_selection_rules import MOST_CANDIDATES

# Parts of epsilon for selection and vote together; the rest pays for the subset.
_SHARES = (0.25, 0.5, 0.75, 0.9)
# How many values of eta, and sizes of the subset, are tried.
_ETAS, _SIZES = 24, 40


def net_failure(n: int, subset: int, eta: float, growth: tuple[int, int]) -> float:
    """Return the chance that a subset is not an `eta`-net, rounded up.

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
    later=("own_functions",),
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
    own_functions: bool = False,
) -> Conclusion[ApproxDP]:
    """Certify one answer of a vote over data relabeled by a selected hypothesis.

    `own_functions` says that the caller's functions label the rows.
    """
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
        noise_assumptions(seeded, labels_from_data=labels_from_data)
        | Assumption.collect((ROWWISE_QUERIES, own_functions)),
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
    """Return the plan with the smallest error whose flipped certificate fits `epsilon`.

    `eta` is chosen together with the subset, because a subset of a given size is an
    `eta`-net only for a large `eta`. The error is that of S2's Lemma 8 before the vote:
    twice the net's error, and ``eta ln|H_T|`` for the selection.
    """
    epsilon = positive("RelabelingClassifier", "epsilon", epsilon)
    flip = probability("RelabelingClassifier", "flip", flip)

    def certify(plan: RelabelingPlan) -> Certificate[Any]:
        premise = relabeled(
            n=n,
            subset=plan.subset,
            eta=plan.eta,
            growth=_growth(family, n, plan),
            net=plan.net,
            labels_from_data=labels_from_data,
            seeded=seeded,
            own_functions=runs_own_functions(family),
        )
        return flip_private(premise, p=flip)

    def fits(plan: RelabelingPlan) -> bool:
        try:
            return bool(certify(plan).guarantee.epsilon <= epsilon)
        except RuleError:
            return False

    found = _without_net(n, epsilon, family, fits)
    found += _with_net(n, epsilon, family, fits)
    if not found:
        raise InvalidParameterError(
            f"epsilon={epsilon!r} with flip={flip!r} leaves no subset of n={n} units. "
            "Use more units, a larger epsilon or a larger flip."
        )
    best = min(found, key=lambda plan: (relabeling_excess(family, plan), plan.subset))
    return best, certify(best)


def relabeling_excess(hypotheses: Any, plan: RelabelingPlan) -> float:
    """Return what subset and selection add to the smallest empirical error (P7)."""
    chosen = plan.eta * math.log(hypotheses.growth(plan.subset))
    return 2 * net_error(hypotheses, plan.subset) + chosen


def _growth(family: Any, n: int, plan: RelabelingPlan) -> tuple[int, int]:
    if not plan.net:
        return 1, 1
    return family.growth(max(1, 2 * (plan.subset - 1))), family.growth(max(1, n - 1))


def _without_net(
    n: int, epsilon: float, family: Any, fits: Callable[[RelabelingPlan], bool]
) -> list[RelabelingPlan]:
    """Return the largest subset for each of a few splits of epsilon."""

    def largest(eta: float) -> int:
        def allowed(size: int) -> bool:
            listed = family.growth(size) <= MOST_CANDIDATES
            return listed and fits(RelabelingPlan(size, eta, False))

        return last_whole_that_holds(allowed, 0, n)

    etas = [3 / (share * epsilon * n) for share in _SHARES]
    return [RelabelingPlan(size, eta, False) for eta in etas if (size := largest(eta))]


def _with_net(
    n: int, epsilon: float, family: Any, fits: Callable[[RelabelingPlan], bool]
) -> list[RelabelingPlan]:
    """Return the largest subset that is a net for each of many values of `eta`.

    The net compares subsets with and without a unit, so all of them must have
    candidates. The growth function says so, whatever their points are.
    """
    sizes = sorted({int(size) for size in np.geomspace(2, max(2, n // 4), _SIZES)})
    sizes = [size for size in sizes if family.growth(size) <= MOST_CANDIDATES]
    plans = []
    for eta in np.geomspace(3 / (epsilon * n), 0.5, _ETAS).tolist():
        for subset in reversed(sizes):
            plan = RelabelingPlan(subset, eta, True)
            if net_failure(n, subset, eta, _growth(family, n, plan)) == 1:
                plan = RelabelingPlan(subset, eta, False)  # what is certain anyway
            if fits(plan):
                plans.append(plan)
                break
    return plans
