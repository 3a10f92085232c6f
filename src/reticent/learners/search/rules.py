"""What the best of a random number of private runs promises (G26)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from reticent._numbers import (
    ceil_float,
    ceil_root,
    down,
    exact,
    nonnegative,
    probability,
    up,
    whole,
)
from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Certificate,
    Conclusion,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    noise_assumptions,
    rule,
)
from reticent.learners.search.profiles import profile
from reticent.mechanisms import Repetitions

_KINDS = (PureDP, BoundedRange, ApproxDP, ZCDP, GaussianDP)


@rule(
    "G26-run",
    name="every run within one promise",
    statement="a run draws a setting that does not depend on the data and trains on "
    "its part within this promise, whatever the setting",
    source="a mixture over public settings; the code refuses training beyond it",
    takes=_KINDS,
    gives=_KINDS,
    same_kind=True,
    relations=(ReplaceOne,),
)
def one_run(
    premise: Certificate[Any], *, level: float, slack: float = 0.0
) -> Conclusion[Any]:
    """Extend the promise of the run that is released to what all runs may cost.

    `level` is the epsilon, rho or mu of a run, `slack` its delta.
    """
    kind: Any = type(premise.guarantee)
    most = kind(level, slack) if kind is ApproxDP else kind(level)
    if not premise.guarantee.implies(most):
        raise RuleError(
            f"rule G26-run: the run promises {premise.guarantee}, which is not within "
            f"{most}."
        )
    return Conclusion(most, premise.relation, premise.scope)


@rule(
    "G26",
    name="the best of a random number of runs",
    statement="K runs, K truncated negative binomial with eta and gamma, and secret; "
    "the best by a private score is released. Pure runs: (2 + eta) eps. Otherwise "
    "eps1 + (1 + eta) eps2 with E[K] delta(eps1), if delta(eps2) <= gamma (e^eps2 - 1) "
    "/ (1 - gamma)",
    source="LiuTalwar2019; PapernotSteinke2022; KoskelaRedbergWang2024; proof in "
    "best_of_runs",
    takes=_KINDS,
    gives=(PureDP, ApproxDP),
    relations=(ReplaceOne,),
    adaptivity="adaptive",
)
def best_of_runs(
    train: Certificate[Any],
    score: Certificate[Any],
    *,
    eta: float,
    gamma: float,
    epsilon_one: float | None = None,
    epsilon_two: float | None = None,
    delta: float = 0.0,
    labels_from_data: bool = False,
    seeded: bool = False,
) -> Conclusion[Any]:
    r"""Certify the best of `K` runs; each trains on one part and scores on another.

    Parameters
    ----------
    train, score : Certificate
        What training promises to the units of one part, and the score to those of the
        other. One unit lies in one part, so a run promises the weaker of the two.
    eta, gamma : float
        The law of `K`, see `reticent.mechanisms.Repetitions`.
    epsilon_one, epsilon_two : float or None
        Where the profile of a run is evaluated; None for pure runs.
    delta : float
        The delta that is stated.

    Guarantee
    ---------
    *Proof.* Give each run a uniform tie-breaker, so that no two runs compare equal. Let
    a run have density :math:`q(y)` and let :math:`G(y)` be the probability that a run
    is not better than `y`. With :math:`F` the generating function of `K`, the best run
    has density :math:`q(y) F'(G(y))`, and :math:`F'(x) = c\,(1-(1-\gamma)x)^{-1-\eta}
    = c\,(\gamma + (1-\gamma)(1-x))^{-1-\eta}`. For a neighbour with :math:`q', G'`,
    let a run be :math:`(\epsilon_2, \delta_2)`-DP with :math:`(1-\gamma)\delta_2 \le
    \gamma (e^{\epsilon_2}-1)`. Then :math:`1-G' \le e^{\epsilon_2}(1-G) + \delta_2`
    gives :math:`\gamma + (1-\gamma)(1-G') \le e^{\epsilon_2}(\gamma +
    (1-\gamma)(1-G))`, hence :math:`F'(G) \le e^{(1+\eta)\epsilon_2} F'(G')`. So
    :math:`q F'(G) - e^{\epsilon_1 + (1+\eta)\epsilon_2} q' F'(G') \le
    (q - e^{\epsilon_1} q') F'(G)`, whose positive part integrates to at most
    :math:`F'(1)\,\delta(\epsilon_1) = E[K]\,\delta(\epsilon_1)`. For pure runs both
    epsilons are that of a run and both deltas 0. `K` must stay secret: given `K = k`
    it is the best of `k`, which costs more.
    """
    repetitions = Repetitions(eta, gamma)
    relations: list[Any] = [train.relation, score.relation]
    if any(relation.group != 1 for relation in relations):
        raise RuleError("rule G26 is about one replaced unit.")
    parts = (train.guarantee, score.guarantee)
    total: Any
    if epsilon_one is None or epsilon_two is None:
        if not all(isinstance(part, (PureDP, BoundedRange)) for part in parts):
            raise RuleError("rule G26 needs epsilon_one and epsilon_two, or pure runs.")
        most = max(exact(part.epsilon) for part in parts)
        total = PureDP(ceil_float((2 + exact(repetitions.eta)) * most))
    else:
        total = _approximate(repetitions, parts, epsilon_one, epsilon_two, delta)
    return Conclusion(
        total,
        ReplaceOne(sum(relation.n for relation in relations)),
        Scope.MODEL if train.scope is Scope.MODEL else Scope.CHOICE,
        noise_assumptions(seeded, labels_from_data=labels_from_data),
    )


def _approximate(
    repetitions: Repetitions, parts: Any, one: float, two: float, delta: float
) -> ApproxDP:
    one = nonnegative("rule G26", "epsilon_one", one)
    two = nonnegative("rule G26", "epsilon_two", two)
    delta = probability("rule G26", "delta", delta)
    if not all(allowed(part, repetitions, two) for part in parts):
        raise RuleError(f"rule G26: epsilon_two={two!r} is too small for these runs.")
    reached = max(up(repetitions.mean * profile(part, one)) for part in parts)
    if not reached <= delta:
        raise RuleError(
            f"rule G26: the runs reach delta={reached!r} at epsilon_one={one!r}, not "
            f"delta={delta!r}."
        )
    total = exact(one) + (1 + exact(repetitions.eta)) * exact(two)
    return ApproxDP(ceil_float(total), delta)


@rule(
    "G26-scores",
    name="scores of several models",
    statement="each of n held-out units adds a whole number from 0 to s to each of k "
    "sums, so replacing one moves them by at most s sqrt(k) in l2",
    source="triangle inequality; sums in whole numbers",
    gives=Sensitivity,
)
def trial_scores(*, n: int, steps: int, trials: int) -> Conclusion[Sensitivity]:
    """Bound how far one replaced unit moves the scores of `trials` models."""
    steps = whole("rule G26-scores", "steps", steps)
    trials = whole("rule G26-scores", "trials", trials)
    moved = Sensitivity(float(steps * trials), ceil_root(Fraction(steps**2 * trials)))
    return Conclusion(moved, ReplaceOne(n), Scope.ANSWER)


@rule(
    "G26-fit",
    name="choose on parts, then fit on all",
    statement="mu^2 is the larger of mu^2 of all trials and mu^2 of all scores, plus "
    "mu^2 of the fit",
    source="DongRothSu2022, Thm 4; proof in choose_then_fit",
    takes=GaussianDP,
    gives=GaussianDP,
    relations=(ReplaceOne,),
    adaptivity="adaptive",
)
def choose_then_fit(
    trials: Certificate[GaussianDP],
    scores: Certificate[GaussianDP],
    fit: Certificate[GaussianDP],
    *,
    labels_from_data: bool = False,
    seeded: bool = False,
) -> Conclusion[GaussianDP]:
    r"""Certify trials on one part, their scores on the other, and a fit on all units.

    Parameters
    ----------
    trials, scores : Certificate
        What all trials promise to the units of one part, and all scores to those of the
        other.
    fit : Certificate
        What the fit at the end promises to all units, whatever was chosen.

    Guarantee
    ---------
    Everything together: all models, all scores, the choice and the fit. *Proof.* Parts
    are dealt by position, so neighbours differ in one known part. If it is that of
    training, then given the models the scores have the same law for both. If it is
    that of scoring, the models have the same law. Either way choosing is Gaussian DP
    with the larger of the two. The fit sees all units and follows what was released
    before: adaptive composition adds the squares.
    """
    relations: list[Any] = [trials.relation, scores.relation, fit.relation]
    if any(relation.group != 1 for relation in relations):
        raise RuleError("rule G26-fit is about one replaced unit.")
    if relations[0].n + relations[1].n != relations[2].n:
        raise RuleError(
            "rule G26-fit: trials and scores need disjoint parts of the fit's "
            f"{relations[2].n} units; got {relations[0].n} and {relations[1].n}."
        )
    if fit.scope is not Scope.MODEL:
        raise RuleError("rule G26-fit is about a model that is released.")
    choosing = max(exact(part.guarantee.mu) for part in (trials, scores))
    total = choosing**2 + exact(fit.guarantee.mu) ** 2
    return Conclusion(
        GaussianDP(ceil_root(total)),
        relations[2],
        Scope.MODEL,
        noise_assumptions(seeded, labels_from_data=labels_from_data),
    )


def allowed(guarantee: Any, repetitions: Repetitions, epsilon: float) -> bool:
    """Whether delta(epsilon) is small enough for the second epsilon of G26."""
    gamma = repetitions.gamma
    # Both sides times e^-epsilon, which cannot overflow.
    reached = up(profile(guarantee, epsilon) * up(math.exp(-epsilon)))
    return up(reached * up(1 - gamma)) <= down(gamma * down(-math.expm1(-epsilon)))
